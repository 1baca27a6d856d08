//! `sort`: keys, numbers, versions.

use super::columns::held_lines;
use super::{Outcome, ToolCall};
use crate::shell::memory::Buffer;
use std::cmp::Ordering;

/// The flags of `sort`.
pub(super) const SORT: &str = "bcdfginrMst:k:uo:zhV";

/// A key of `sort`: fields and characters from 1.
#[derive(Debug, Default)]
pub(super) struct Key {
    pub(super) start: (usize, usize),
    pub(super) end: (usize, usize),
    pub(super) flags: String,
}

fn key(text: &str, all: &str) -> Option<Key> {
    let place = |text: &str| -> Option<((usize, usize), String)> {
        let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (place, flags) = text.split_at(digits);
        let (field, character) = place.split_once('.').unwrap_or((place, "0"));
        Some(((field.parse().ok()?, character.parse().ok()?), flags.to_owned()))
    };
    let (start, end) = text.split_once(',').map_or((text, None), |(start, end)| (start, Some(end)));
    let (start, flags) = place(start)?;
    let (end, more) = match end {
        Some(end) => place(end)?,
        None => ((usize::MAX, 0), String::new()),
    };
    let own = format!("{flags}{more}");
    Some(Key { start, end, flags: if own.is_empty() { all.to_owned() } else { own } })
}

/// The part of a line that a key names.
pub(super) fn key_part<'a>(line: &'a [u8], key: &Key, separator: Option<u8>) -> &'a [u8] {
    let field_start = |number: usize| -> usize {
        let (mut at, mut field) = (0, 1);
        while field < number && at < line.len() {
            match separator {
                Some(separator) => {
                    while at < line.len() && line[at] != separator {
                        at += 1;
                    }
                    at += 1;
                }
                None => {
                    while at < line.len() && line[at].is_ascii_whitespace() {
                        at += 1;
                    }
                    while at < line.len() && !line[at].is_ascii_whitespace() {
                        at += 1;
                    }
                }
            }
            field += 1;
        }
        at.min(line.len())
    };
    let start = (field_start(key.start.0) + key.start.1.saturating_sub(1)).min(line.len());
    let end = match key.end {
        (usize::MAX, _) => line.len(),
        (field, 0) => {
            let next = field_start(field + 1);
            if separator.is_some()
                && next > 0
                && next <= line.len()
                && line.get(next - 1) == separator.as_ref()
            {
                next - 1
            } else {
                next
            }
        }
        (field, character) => (field_start(field) + character).min(line.len()),
    };
    &line[start..end.max(start)]
}

fn numeric(text: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start();
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && matches!(c, '-' | '+'))))
        .map_or(text.len(), |(at, _)| at);
    text[..end].trim_start_matches('+').parse().unwrap_or(0.0)
}

fn human(text: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(text).trim().to_owned();
    let power =
        text.chars().last().and_then(|c| "KMGTPE".find(c.to_ascii_uppercase())).map_or(0, |at| at + 1);
    numeric(text.as_bytes()) * 1024f64.powi(i32::try_from(power).unwrap_or(0))
}

/// The order of versions: numbers in texts count as numbers.
fn version(one: &[u8], other: &[u8]) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let text = |bytes: &[u8]| bytes.iter().take_while(|byte| !byte.is_ascii_digit()).count();
        let (a, b) = (text(one), text(other));
        let order = one[..a].cmp(&other[..b]);
        if order.is_ne() {
            return order;
        }
        (one, other) = (&one[a..], &other[b..]);
        let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (a, b) = (digits(one), digits(other));
        let number = |bytes: &[u8]| String::from_utf8_lossy(bytes).parse::<u64>().unwrap_or(u64::MAX);
        let order = number(&one[..a]).cmp(&number(&other[..b]));
        if order.is_ne() || (a == 0 && b == 0) {
            return order;
        }
        (one, other) = (&one[a..], &other[b..]);
    }
}

fn by_key(one: &[u8], other: &[u8], flags: &str) -> Ordering {
    let has = |flag: char| flags.contains(flag);
    let order = match () {
        () if has('n') || has('g') => numeric(one).total_cmp(&numeric(other)),
        () if has('h') => human(one).total_cmp(&human(other)),
        () if has('V') => version(one, other),
        () if has('f') => one.to_ascii_uppercase().cmp(&other.to_ascii_uppercase()),
        () if has('b') => one.trim_ascii_start().cmp(other.trim_ascii_start()),
        () => one.cmp(other),
    };
    if has('r') { order.reverse() } else { order }
}

pub(super) fn sort(call: &ToolCall<'_>) -> Outcome {
    let fail = |why: &str| Outcome::fail(2, format!("sort: {why}\n"));
    let long = [
        ("reverse", 'r'),
        ("numeric-sort", 'n'),
        ("unique", 'u'),
        ("key", 'k'),
        ("field-separator", 't'),
        ("output", 'o'),
        ("ignore-case", 'f'),
        ("human-numeric-sort", 'h'),
        ("version-sort", 'V'),
    ];
    let parsed = match super::parse(call.arguments(), SORT, &long) {
        Ok(parsed) => parsed,
        Err(why) => return fail(&why),
    };
    let mut err = String::new();
    let Some(bytes) = super::contents(call, &parsed.operands, &mut err) else { return Outcome::code(2) };
    if !err.is_empty() {
        return Outcome::fail(2, err);
    }
    let Some((mut lines, _room)) = held_lines(call, bytes.as_ref()) else { return Outcome::code(2) };
    let all: String =
        parsed.flags.iter().map(|(flag, _)| *flag).filter(|flag| "bdfghinrV".contains(*flag)).collect();
    let keys: Option<Vec<Key>> =
        parsed.flags.iter().filter(|(flag, _)| *flag == 'k').map(|(_, text)| key(text, &all)).collect();
    let Some(keys) = keys else { return fail("bad field specification") };
    let separator = parsed.value('t').and_then(|text| text.bytes().next());
    let rounds = lines.len().max(2).ilog2() as usize;
    if !call.env.work.spend(bytes.len() * rounds * (keys.len() + 1)) {
        return Outcome::code(2);
    }
    let order = |one: &&[u8], other: &&[u8]| {
        if keys.is_empty() {
            return by_key(one, other, &all);
        }
        let orders = keys
            .iter()
            .map(|key| by_key(key_part(one, key, separator), key_part(other, key, separator), &key.flags));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let last = |one: &&[u8], other: &&[u8]| {
        let order = one.cmp(other);
        if parsed.has('r') { order.reverse() } else { order }
    };
    if parsed.has('c') {
        return Outcome::code(u8::from(!lines.is_sorted_by(|one, other| order(one, other).is_le())));
    }
    lines.sort_by(|one, other| {
        let first = order(one, other);
        if parsed.has('s') || parsed.has('u') { first } else { first.then_with(|| last(one, other)) }
    });
    if parsed.has('u') {
        lines.dedup_by(|one, other| order(one, other).is_eq());
    }
    let mut out = Buffer::new(&call.env.bounds());
    for line in lines {
        if !(out.push(line) && out.push(b"\n")) {
            break;
        }
    }
    if let Some(file) = parsed.value('o') {
        return match call.env.write(&call.env.path(file), out.as_ref()) {
            Ok(()) => Outcome::default(),
            Err(why) => fail(&format!("{file}: {why}")),
        };
    }
    Outcome::reserved(out)
}
