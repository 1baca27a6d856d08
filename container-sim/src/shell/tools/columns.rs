//! Programs on lines and columns: `uniq`, `cut`, `tr`, `paste`, `tac`, `rev`, `nl`, `fold`, `comm` and `split`.

use super::sort::{Key, SORT, key_part, sort};
use super::{Outcome, Parsed, Tool, ToolCall, always, reads, whole};
use crate::shell::escape::{Escapes, escape};
use crate::shell::memory::{Buffer, Reservation};
use crate::shell::pattern::Class;

pub(super) const TOOLS: &[Tool] = &[
    whole("sort", |arguments| reads(arguments, SORT), sort),
    whole("uniq", |arguments| reads(arguments, "cdui:f:s:w:"), uniq),
    whole("cut", |arguments| reads(arguments, CUT), cut),
    whole("tr", always, translate),
    whole("paste", |arguments| reads(arguments, "d:s"), paste),
    whole(
        "tac",
        |arguments| reads(arguments, ""),
        |call| {
            each_line(call, "", |_, lines, out| {
                lines.iter().rev().all(|line| out.push(line) && out.push(b"\n"))
            })
        },
    ),
    whole(
        "rev",
        |arguments| reads(arguments, ""),
        |call| {
            each_line(call, "", |_, lines, out| {
                lines.iter().all(|line| {
                    let text: String = String::from_utf8_lossy(line).chars().rev().collect();
                    out.push(text.as_bytes()) && out.push(b"\n")
                })
            })
        },
    ),
    whole("nl", |arguments| reads(arguments, "b:w:s:v:"), |call| each_line(call, "b:w:s:v:", number_lines)),
    whole("fold", |arguments| reads(arguments, "bsw:"), |call| each_line(call, "bsw:", fold)),
    whole("comm", |arguments| reads(arguments, "123"), compare),
    whole("split", |arguments| reads(arguments, "l:b:a:"), split),
];

const CUT: &str = "b:c:d:f:sn";

/// The flags of a program, the bytes of its files, and the errors of files.
struct Input {
    parsed: Parsed,
    bytes: Buffer,
    err: String,
}

impl Input {
    /// Reads the first `most` files that the arguments name, or the input without any.
    ///
    /// # Errors
    /// The result of a program that cannot go on.
    fn of(call: &ToolCall<'_>, known: &str, long: &[(&str, char)], most: usize) -> Result<Self, Outcome> {
        let parsed = super::parse(call.arguments(), known, long)
            .map_err(|why| Outcome::fail(1, format!("{}: {why}\n", call.argv[0])))?;
        let mut err = String::new();
        let files = &parsed.operands[..parsed.operands.len().min(most)];
        let bytes = super::contents(call, files, &mut err).ok_or_else(|| Outcome::code(1))?;
        // A program of a single file has nothing to do without it.
        if most == 1 && !err.is_empty() {
            Err(Outcome::fail(1, err))
        } else {
            Ok(Self { parsed, bytes, err })
        }
    }

    /// The result with this output.
    fn outcome(self, out: Buffer) -> Outcome {
        Outcome { code: u8::from(!self.err.is_empty()), err: self.err, ..Outcome::reserved(out) }
    }
}

/// Runs a program on all of its lines.
fn each_line(call: &ToolCall<'_>, known: &str, run: fn(&Parsed, &[&[u8]], &mut Buffer) -> bool) -> Outcome {
    let input = match Input::of(call, known, &[], usize::MAX) {
        Ok(input) => input,
        Err(outcome) => return outcome,
    };
    let mut out = Buffer::new(&call.env.bounds());
    let Some((lines, room)) = held_lines(call, input.bytes.as_ref()) else { return Outcome::code(1) };
    run(&input.parsed, &lines, &mut out);
    drop((lines, room));
    input.outcome(out)
}

/// The lines of a text with the memory of their list; `None` if the command is killed.
pub(super) fn held_lines<'a>(call: &ToolCall<'_>, bytes: &'a [u8]) -> Option<(Vec<&'a [u8]>, Reservation)> {
    // A list of lines takes more memory than the lines, and sorting passes over them some times.
    let count = super::lines(bytes).count();
    let bounds = call.env.bounds();
    let mut room = Reservation::new(&bounds.allowance);
    let fits =
        bounds.grow(&mut room, count * size_of::<&[u8]>()) && bounds.work.spend(64 * count + 4 * bytes.len());
    fits.then(|| (super::lines(bytes).collect(), room))
}

fn uniq(call: &ToolCall<'_>) -> Outcome {
    let long = [("count", 'c'), ("repeated", 'd'), ("unique", 'u')];
    let Input { parsed, bytes, .. } = match Input::of(call, "cduif:s:w:", &long, 1) {
        Ok(input) => input,
        Err(outcome) => return outcome,
    };
    let number = |flag| parsed.value(flag).and_then(|text| text.parse::<usize>().ok());
    let compared = |line: &[u8]| {
        let fields =
            Key { start: (number('f').unwrap_or(0) + 1, 0), end: (usize::MAX, 0), flags: String::new() };
        let rest = key_part(line, &fields, None);
        let rest = &rest[number('s').unwrap_or(0).min(rest.len())..];
        let rest = &rest[..number('w').unwrap_or(rest.len()).min(rest.len())];
        if parsed.has('i') { rest.to_ascii_lowercase() } else { rest.to_vec() }
    };
    let mut out = Buffer::new(&call.env.bounds());
    let mut lines = super::lines(bytes.as_ref()).peekable();
    while let Some(line) = lines.next() {
        let mut count = 1;
        while lines.next_if(|next| compared(next) == compared(line)).is_some() {
            count += 1;
        }
        let shown = if count == 1 { !parsed.has('d') } else { !parsed.has('u') };
        let head = if parsed.has('c') { format!("{count:>7} ") } else { String::new() };
        if shown && !(out.push(head.as_bytes()) && out.push(line) && out.push(b"\n")) {
            break;
        }
    }
    Outcome::reserved(out)
}

/// The ranges of a list such as `1,3-5,7-`.
fn ranges(text: &str) -> Option<Vec<(usize, usize)>> {
    let range = |part: &str| -> Option<(usize, usize)> {
        let (first, last) = match part.split_once('-') {
            None => (part.parse().ok()?, part.parse().ok()?),
            Some((first, last)) => (
                if first.is_empty() { 1 } else { first.parse().ok()? },
                if last.is_empty() { usize::MAX } else { last.parse().ok()? },
            ),
        };
        (first > 0 && last >= first).then_some((first, last))
    };
    text.split(',').map(range).collect()
}

fn cut(call: &ToolCall<'_>) -> Outcome {
    let fail = |why: &str| Outcome::fail(1, format!("cut: {why}\n"));
    let long =
        [("fields", 'f'), ("delimiter", 'd'), ("characters", 'c'), ("bytes", 'b'), ("only-delimited", 's')];
    let input = match Input::of(call, CUT, &long, usize::MAX) {
        Ok(input) => input,
        Err(outcome) => return outcome,
    };
    let Input { parsed, bytes, .. } = &input;
    let list = ['f', 'c', 'b'].into_iter().find_map(|flag| parsed.value(flag));
    let Some(list) = list else { return fail("expected a list of bytes, characters, or fields") };
    let Some(ranges) = ranges(list) else { return fail(&format!("invalid range {list}")) };
    let wanted = |number: usize| ranges.iter().any(|(first, last)| (*first..=*last).contains(&number));
    let delimiter = parsed.value('d').unwrap_or("\t").bytes().next().unwrap_or(b'\t');
    call.env.work.spend(bytes.len() * ranges.len());
    let mut out = Buffer::new(&call.env.bounds());
    for line in super::lines(bytes.as_ref()) {
        let shown: Vec<u8> = match () {
            () if parsed.has('b') => {
                let chosen = line.iter().enumerate().filter(|(at, _)| wanted(at + 1)).map(|(_, byte)| *byte);
                chosen.take(line.len()).collect()
            }
            () if parsed.has('c') => {
                let text = String::from_utf8_lossy(line).into_owned();
                text.chars()
                    .enumerate()
                    .filter(|(at, _)| wanted(at + 1))
                    .map(|(_, c)| c)
                    .collect::<String>()
                    .into_bytes()
            }
            () if !line.contains(&delimiter) => {
                if parsed.has('s') {
                    continue;
                }
                line.to_vec()
            }
            () => {
                let fields = line.split(|byte| *byte == delimiter).enumerate();
                let chosen: Vec<&[u8]> =
                    fields.filter(|(at, _)| wanted(at + 1)).map(|(_, field)| field).collect();
                chosen.join(&delimiter)
            }
        };
        if !(out.push(&shown) && out.push(b"\n")) {
            break;
        }
    }
    input.outcome(out)
}

/// The bytes of a set of `tr`: ranges, classes and escapes.
fn set(text: &str) -> Vec<u8> {
    let (mut all, mut rest) = (Vec::new(), text.as_bytes());
    while let Some(&byte) = rest.first() {
        if rest.starts_with(b"[:")
            && let Some(end) = rest.windows(2).position(|pair| pair == b":]")
            && let Some(class) = Class::of(&String::from_utf8_lossy(&rest[2..end]))
        {
            all.extend((0..=127u8).filter(|byte| class.has(char::from(*byte))));
            rest = &rest[end + 2..];
            continue;
        }
        let (first, length) = match byte {
            b'\\' => escape(&rest[1..], Escapes::Format)
                .map_or((rest.get(1).copied().unwrap_or(b'\\'), 2), |(bytes, length)| (bytes[0], 1 + length)),
            byte => (byte, 1),
        };
        rest = &rest[length.min(rest.len())..];
        if let [b'-', last, ..] = rest
            && *last >= first
        {
            all.extend(first..=*last);
            rest = &rest[2..];
            continue;
        }
        all.push(first);
    }
    all
}

fn translate(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(
        call.arguments(),
        "+cCds",
        &[("delete", 'd'), ("squeeze-repeats", 's'), ("complement", 'c')],
    ) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("tr: {why}\n")),
    };
    let Some(first) = parsed.operands.first() else {
        return Outcome::fail(1, "tr: missing operand\n".to_owned());
    };
    let mut from = set(first);
    if parsed.has('c') || parsed.has('C') {
        from = (0..=255u8).filter(|byte| !from.contains(byte)).collect();
    }
    let to = parsed.operands.get(1).map(|text| set(text));
    if to.is_none() && !parsed.has('d') && !parsed.has('s') {
        return Outcome::fail(1, "tr: missing operand\n".to_owned());
    }
    let squeezed = match (&to, parsed.has('s')) {
        (_, false) => Vec::new(),
        (Some(to), true) => to.clone(),
        (None, true) => from.clone(),
    };
    let mut table: Vec<Option<u8>> = (0..=255u8).map(Some).collect();
    for (at, byte) in from.iter().enumerate() {
        let place = &mut table[usize::from(*byte)];
        match &to {
            _ if parsed.has('d') => *place = None,
            Some(to) if !to.is_empty() => *place = to.get(at).or(to.last()).copied(),
            _ => {}
        }
    }
    let mut out = Buffer::new(&call.env.bounds());
    let mut before = None;
    for chunk in call.input.chunks(4096) {
        let mut piece = Vec::new();
        for byte in chunk {
            let Some(new) = table[usize::from(*byte)] else { continue };
            if before != Some(new) || !squeezed.contains(&new) {
                piece.push(new);
            }
            before = Some(new);
        }
        call.env.work.spend(8 * chunk.len());
        if !out.push(&piece) {
            break;
        }
    }
    Outcome::reserved(out)
}

fn paste(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), "d:s", &[("delimiters", 'd'), ("serial", 's')]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("paste: {why}\n")),
    };
    let delimiters = crate::shell::escape::replaced(parsed.value('d').unwrap_or("\t"), Escapes::Format).0;
    let delimiters = if delimiters.is_empty() { b"\t".to_vec() } else { delimiters };
    let here = ["-".to_owned()];
    let files = if parsed.operands.is_empty() { &here[..] } else { &parsed.operands };
    let mut all = Vec::new();
    for file in files {
        let mut err = String::new();
        let Some(bytes) = super::contents(call, std::slice::from_ref(file), &mut err) else {
            return Outcome::code(1);
        };
        if !err.is_empty() {
            return Outcome::fail(1, err);
        }
        all.push(bytes);
    }
    let inputs = files.iter().filter(|file| *file == "-").count().max(1);
    let mut taken = 0;
    let columns: Vec<Vec<&[u8]>> = all
        .iter()
        .zip(files)
        .map(|(bytes, file)| {
            let lines = super::lines(bytes.as_ref());
            // Several `-` share the lines of the input.
            if file == "-" && inputs > 1 {
                taken += 1;
                lines.skip(taken - 1).step_by(inputs).collect()
            } else {
                lines.collect()
            }
        })
        .collect();
    let mut out = Buffer::new(&call.env.bounds());
    let mut row = |cells: &[Option<&[u8]>]| -> bool {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 && !out.push(&delimiters[(at - 1) % delimiters.len()..][..1]) {
                return false;
            }
            if !out.push(cell.unwrap_or_default()) {
                return false;
            }
        }
        out.push(b"\n")
    };
    if parsed.has('s') {
        for column in &columns {
            let cells: Vec<Option<&[u8]>> = column.iter().map(|cell| Some(*cell)).collect();
            if !row(&cells) {
                break;
            }
        }
    } else {
        for at in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
            let cells: Vec<Option<&[u8]>> = columns.iter().map(|column| column.get(at).copied()).collect();
            if !row(&cells) {
                break;
            }
        }
    }
    Outcome::reserved(out)
}

fn number_lines(parsed: &Parsed, lines: &[&[u8]], out: &mut Buffer) -> bool {
    let number =
        |flag, default| parsed.value(flag).and_then(|text| text.parse::<usize>().ok()).unwrap_or(default);
    let width = number('w', 6).min(100);
    let mut next = number('v', 1);
    let all = parsed.value('b') == Some("a");
    lines.iter().all(|line| {
        let head = match line.is_empty() && !all {
            true => format!("{:width$} ", ""),
            false => {
                next += 1;
                format!("{:>width$}{}", next - 1, parsed.value('s').unwrap_or("\t"))
            }
        };
        out.push(head.as_bytes()) && out.push(line) && out.push(b"\n")
    })
}

fn fold(parsed: &Parsed, lines: &[&[u8]], out: &mut Buffer) -> bool {
    let width = parsed.value('w').and_then(|text| text.parse::<usize>().ok()).unwrap_or(80).max(1);
    lines.iter().all(|line| {
        let mut rest: &[u8] = line;
        while rest.len() > width {
            let cut = rest[..width]
                .iter()
                .rposition(|byte| *byte == b' ')
                .filter(|_| parsed.has('s'))
                .map_or(width, |at| at + 1);
            if !(out.push(&rest[..cut]) && out.push(b"\n")) {
                return false;
            }
            rest = &rest[cut..];
        }
        out.push(rest) && out.push(b"\n")
    })
}

fn compare(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), "123", &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("comm: {why}\n")),
    };
    let [one, other] = parsed.operands.as_slice() else {
        return Outcome::fail(1, "comm: needs two files\n".to_owned());
    };
    let mut err = String::new();
    let read = |file: &String, err: &mut String| super::contents(call, std::slice::from_ref(file), err);
    let (Some(one), Some(other)) = (read(one, &mut err), read(other, &mut err)) else {
        return Outcome::code(1);
    };
    if !err.is_empty() {
        return Outcome::fail(1, err);
    }
    let mut out = Buffer::new(&call.env.bounds());
    let (mut left, mut right) =
        (super::lines(one.as_ref()).peekable(), super::lines(other.as_ref()).peekable());
    loop {
        let (column, line) = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(line), None) => ('1', *line),
            (None, Some(line)) => ('2', *line),
            (Some(one), Some(other)) if one == other => ('3', *one),
            (Some(one), Some(other)) => {
                if one < other {
                    ('1', *one)
                } else {
                    ('2', *other)
                }
            }
        };
        if column != '2' {
            left.next();
        }
        if column != '1' {
            right.next();
        }
        if parsed.has(column) {
            continue;
        }
        let tabs = ['1', '2'].into_iter().filter(|before| *before < column && !parsed.has(*before)).count();
        let fits = (0..tabs).all(|_| out.push(b"\t")) && out.push(line) && out.push(b"\n");
        if !fits {
            break;
        }
    }
    Outcome::reserved(out)
}

fn split(call: &ToolCall<'_>) -> Outcome {
    let fail = |why: String| Outcome::fail(1, format!("split: {why}\n"));
    let long = [("lines", 'l'), ("bytes", 'b'), ("suffix-length", 'a')];
    let Input { parsed, bytes, .. } = match Input::of(call, "l:b:a:", &long, 1) {
        Ok(input) => input,
        Err(outcome) => return outcome,
    };
    let prefix = parsed.operands.get(1).map_or("x", String::as_str);
    let letters = parsed.value('a').and_then(|text| text.parse::<u32>().ok()).unwrap_or(2).clamp(1, 8);
    let size = |text: &str| -> Option<usize> {
        let (digits, unit) = match text.chars().last()? {
            'k' | 'K' => (&text[..text.len() - 1], 1024),
            'm' | 'M' => (&text[..text.len() - 1], 1024 * 1024),
            'b' => (&text[..text.len() - 1], 512),
            _ => (text, 1),
        };
        digits.parse::<usize>().ok()?.checked_mul(unit).filter(|size| *size > 0)
    };
    let mut rest = bytes.as_ref();
    let mut number = 0u64;
    while !rest.is_empty() {
        let length = match parsed.value('b') {
            Some(text) => match size(text) {
                Some(size) => size.min(rest.len()),
                None => return fail(format!("invalid number '{text}'")),
            },
            None => {
                let count = parsed.value('l').and_then(size).unwrap_or(1000);
                rest.split_inclusive(|byte| *byte == b'\n').take(count).map(<[u8]>::len).sum()
            }
        };
        if number >= 26u64.pow(letters) {
            return fail("suffixes exhausted".to_owned());
        }
        let suffix: String = (0..letters)
            .rev()
            .map(|place| {
                let digit = number / 26u64.pow(place) % 26;
                char::from(b'a' + u8::try_from(digit).unwrap_or(0))
            })
            .collect();
        if let Err(why) = call.env.write(&call.env.path(&format!("{prefix}{suffix}")), &rest[..length]) {
            return fail(format!("{prefix}{suffix}: {why}"));
        }
        rest = &rest[length..];
        number += 1;
    }
    Outcome::default()
}
