//! Braces of bash: `{a,b}` and `{1..9}`.

use super::Piece;
use crate::limits::BRACE_WORDS;
use crate::shell::syntax::{Word, WordPart};
use crate::shell::work::WorkMeter;
use std::borrow::Cow;

/// A character of unquoted text, or another part of the word by its index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Atom {
    Char(char),
    Part(usize),
}

/// The words that a word with braces becomes. `None` if the command is killed.
pub(super) fn expand<'a>(word: &'a Word, work: &WorkMeter) -> Option<Vec<Vec<Piece<'a>>>> {
    let atoms: Vec<Atom> = word
        .0
        .iter()
        .enumerate()
        .flat_map(|(at, part)| match part {
            WordPart::Text(text) => text.chars().map(Atom::Char).collect(),
            WordPart::Quoted(_) | WordPart::Expanded(..) => vec![Atom::Part(at)],
        })
        .collect();
    let mut done: Vec<Vec<Atom>> = Vec::new();
    let mut pending = vec![(atoms, 0)];
    while let Some((atoms, from)) = pending.pop() {
        if done.len() + pending.len() > BRACE_WORDS || !work.spend(16 * atoms.len() + 64) {
            work.kill(crate::shell::Killed::Work);
            return None;
        }
        match first_braces(&atoms, from) {
            Some((start, end, alternatives)) => {
                for alternative in alternatives.into_iter().rev() {
                    let next: Vec<Atom> = [&atoms[..start], alternative.as_slice(), &atoms[end..]].concat();
                    pending.push((next, start));
                }
            }
            None => done.push(atoms),
        }
    }
    Some(done.into_iter().map(|atoms| pieces(word, &atoms)).collect())
}

fn pieces<'a>(word: &'a Word, atoms: &[Atom]) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    for atom in atoms {
        match (atom, pieces.last_mut()) {
            (Atom::Char(c), Some(Piece::Text(text))) => text.to_mut().push(*c),
            (Atom::Char(c), _) => pieces.push(Piece::Text(Cow::Owned(c.to_string()))),
            (Atom::Part(at), _) => pieces.push(Piece::Part(&word.0[*at])),
        }
    }
    pieces
}

/// The first braces that expand, at or behind `from`: their place and their alternatives.
fn first_braces(atoms: &[Atom], from: usize) -> Option<(usize, usize, Vec<Vec<Atom>>)> {
    for start in from..atoms.len() {
        if atoms[start] != Atom::Char('{') {
            continue;
        }
        let (mut open, mut commas) = (0usize, vec![start]);
        for at in start + 1..atoms.len() {
            match atoms[at] {
                Atom::Char('{') => open += 1,
                Atom::Char('}') if open > 0 => open -= 1,
                Atom::Char(',') if open == 0 => commas.push(at),
                Atom::Char('}') => {
                    commas.push(at);
                    let inside = &atoms[start + 1..at];
                    let alternatives = match commas.len() {
                        2 => sequence(inside),
                        _ => {
                            Some(commas.windows(2).map(|ends| atoms[ends[0] + 1..ends[1]].to_vec()).collect())
                        }
                    };
                    if let Some(alternatives) = alternatives {
                        return Some((start, at + 1, alternatives));
                    }
                    break;
                }
                Atom::Char(_) | Atom::Part(_) => {}
            }
        }
    }
    None
}

/// The values of `1..9` or `a..e`, with an optional step.
fn sequence(inside: &[Atom]) -> Option<Vec<Vec<Atom>>> {
    let text: Option<String> = inside
        .iter()
        .map(|atom| match atom {
            Atom::Char(c) => Some(*c),
            Atom::Part(_) => None,
        })
        .collect();
    let text = text?;
    let parts: Vec<&str> = text.split("..").collect();
    let (first, last, step) = match parts.as_slice() {
        [first, last] => (*first, *last, 1),
        [first, last, step] => (*first, *last, step.parse::<i64>().ok()?.unsigned_abs().max(1)),
        _ => return None,
    };
    let letter = |text: &str| {
        let mut chars = text.chars();
        chars.next().filter(|c| c.is_ascii_alphabetic() && chars.next().is_none())
    };
    let (from, to, is_letter) = match (first.parse::<i64>(), last.parse::<i64>()) {
        (Ok(from), Ok(to)) => (from, to, false),
        _ => (i64::from(u32::from(letter(first)?)), i64::from(u32::from(letter(last)?)), true),
    };
    let padded = !is_letter
        && [first, last].iter().any(|text| text.trim_start_matches('-').starts_with('0') && text.len() > 1);
    let width = if padded { first.len().max(last.len()) } else { 0 };
    let count = from.abs_diff(to) / step;
    if count >= BRACE_WORDS as u64 {
        return None;
    }
    let value = |n: u64| {
        let n = i64::try_from(n * step).unwrap_or(i64::MAX);
        let value = if from <= to { from + n } else { from - n };
        let text = match is_letter {
            true => u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('?').to_string(),
            false => format!("{value:0width$}"),
        };
        text.chars().map(Atom::Char).collect()
    };
    Some((0..=count).map(value).collect())
}
