//! `od`: bytes as numbers and characters.

use super::{Outcome, Parsed, Tool, ToolCall, whole};
use crate::shell::memory::Buffer;

pub(super) const TOOLS: &[Tool] = &[whole("od", |arguments| super::reads(arguments, FLAGS), octal_dump)];

const FLAGS: &str = "A:N:j:t:w:vabcdhilosx";

/// Bytes of a line.
const LINE: usize = 16;
/// The most bytes of a line with `-w`.
const WIDEST_LINE: usize = 4096;

/// How a line shows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Names of control characters.
    Named,
    /// Characters with escapes.
    Character,
    /// Numbers of so many bytes: `o`, `x`, `u` or `d`.
    Number(char, usize),
}

/// The names of the control characters of ASCII, and of the blank.
const NAMES: [&str; 33] = [
    "nul", "soh", "stx", "etx", "eot", "enq", "ack", "bel", "bs", "ht", "nl", "vt", "ff", "cr", "so", "si",
    "dle", "dc1", "dc2", "dc3", "dc4", "nak", "syn", "etb", "can", "em", "sub", "esc", "fs", "gs", "rs",
    "us", "sp",
];

/// A byte as `od -c` and `hexdump -c` show it.
pub(super) fn character(byte: u8) -> String {
    match byte {
        0 => "\\0".to_owned(),
        7 => "\\a".to_owned(),
        8 => "\\b".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        11 => "\\v".to_owned(),
        12 => "\\f".to_owned(),
        b'\r' => "\\r".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        byte => format!("{byte:03o}"),
    }
}

/// The number that bytes are on a machine with the lowest byte first; missing ones are zero.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Format {
    /// The format of a short flag.
    fn of_flag(flag: char) -> Option<Self> {
        Some(match flag {
            'a' => Self::Named,
            'b' => Self::Number('o', 1),
            'c' => Self::Character,
            'd' => Self::Number('u', 2),
            'h' | 'x' => Self::Number('x', 2),
            'i' | 's' => Self::Number('d', 2),
            'l' => Self::Number('d', 4),
            'o' => Self::Number('o', 2),
            _ => return None,
        })
    }

    /// The formats of a value of `-t`, such as `x1` or `cx2`.
    fn of_type(text: &str) -> Result<Vec<Self>, String> {
        let mut rest = text;
        let mut all = Vec::new();
        while let Some(kind) = rest.chars().next() {
            rest = &rest[kind.len_utf8()..];
            match kind {
                'a' => all.push(Self::Named),
                'c' => all.push(Self::Character),
                'o' | 'x' | 'u' | 'd' => {
                    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                    let (size, behind) = rest.split_at(digits);
                    let (size, behind) = match (size, behind.chars().next()) {
                        ("", Some('C')) => ("1", &behind[1..]),
                        ("", Some('S')) => ("2", &behind[1..]),
                        ("", Some('I')) => ("4", &behind[1..]),
                        ("", Some('L')) => ("8", &behind[1..]),
                        ("", _) => ("4", behind),
                        _ => (size, behind),
                    };
                    let size: usize = size.parse().unwrap_or(0);
                    if ![1, 2, 4, 8].contains(&size) {
                        return Err(format!(
                            "invalid type string '{text}'; {size}-byte integral type is not supported"
                        ));
                    }
                    rest = behind;
                    all.push(Self::Number(kind, size));
                }
                kind => return Err(format!("invalid character '{kind}' in type string '{text}'")),
            }
        }
        Ok(all)
    }

    /// One line of these bytes, without an address.
    fn line(self, bytes: &[u8]) -> String {
        match self {
            Self::Named => {
                let name = |byte: u8| match byte & 0x7f {
                    127 => "del".to_owned(),
                    low if low <= 32 => NAMES[usize::from(low)].to_owned(),
                    low => char::from(low).to_string(),
                };
                bytes.iter().map(|byte| format!(" {:>3}", name(*byte))).collect()
            }
            Self::Character => bytes.iter().map(|byte| format!(" {:>3}", character(*byte))).collect(),
            Self::Number(kind, size) => bytes
                .chunks(size)
                .map(|bytes| {
                    let value = number(bytes);
                    let bits = 8 * size;
                    match kind {
                        'o' => format!(" {value:0width$o}", width = bits.div_ceil(3)),
                        'x' => format!(" {value:0width$x}", width = 2 * size),
                        'u' => format!(" {value:width$}", width = [3, 5, 0, 10, 0, 0, 0, 20][size - 1]),
                        _ => {
                            let signed = (value << (64 - bits)).cast_signed() >> (64 - bits);
                            format!(" {signed:width$}", width = [4, 6, 0, 11, 0, 0, 0, 20][size - 1])
                        }
                    }
                })
                .collect(),
        }
    }
}

/// A count such as `16`, `0x10`, `020` or `1k`.
pub(super) fn count(text: &str) -> Option<usize> {
    let (digits, unit) = match text.chars().last()? {
        'b' if !text.starts_with("0x") => (&text[..text.len() - 1], 512),
        'k' => (&text[..text.len() - 1], 1024),
        'm' => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    let number = match digits.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => usize::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    };
    number?.checked_mul(unit)
}

/// The formats, in the order of the flags.
fn formats(parsed: &Parsed) -> Result<Vec<Format>, String> {
    let mut all = Vec::new();
    for (flag, value) in &parsed.flags {
        match flag {
            't' => all.extend(Format::of_type(value)?),
            flag => all.extend(Format::of_flag(*flag)),
        }
    }
    Ok(if all.is_empty() { vec![Format::Number('o', 2)] } else { all })
}

fn octal_dump(call: &ToolCall<'_>) -> Outcome {
    let fail = |why: String| Outcome::fail(1, format!("od: {why}\n"));
    let parsed = match super::parse(call.arguments(), FLAGS, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return fail(why),
    };
    let formats = match formats(&parsed) {
        Ok(formats) => formats,
        Err(why) => return fail(why),
    };
    let size = |flag, default: usize| match parsed.value(flag) {
        None => Ok(default),
        Some(text) => count(text).ok_or_else(|| format!("invalid number '{text}'")),
    };
    let (skip, most, width) = match (size('j', 0), size('N', usize::MAX), size('w', LINE)) {
        (Ok(skip), Ok(most), Ok(width)) => (skip, most, width.clamp(1, WIDEST_LINE)),
        (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => return fail(why),
    };
    let address = |at: usize| match parsed.value('A') {
        Some("n") => String::new(),
        Some("x") => format!("{at:06x}"),
        Some("d") => format!("{at:07}"),
        _ => format!("{at:07o}"),
    };
    let mut err = String::new();
    let Some(bytes) = super::contents(call, &parsed.operands, &mut err) else { return Outcome::code(1) };
    if !err.is_empty() && bytes.is_empty() {
        return Outcome::fail(1, err);
    }
    if skip > bytes.len() {
        return fail("can't skip past end of combined input".to_owned());
    }
    let shown = &bytes.as_ref()[skip..];
    let shown = &shown[..most.min(shown.len())];
    let mut out = Buffer::new(&call.env.bounds());
    let indent = format!("{:>width$}", "", width = address(0).len());
    dump(shown, width, parsed.has('v'), &mut out, &mut |at, bytes, out| {
        formats.iter().enumerate().all(|(number, format)| {
            let head = if number == 0 { address(skip + at) } else { indent.clone() };
            out.push(format!("{head}{}\n", format.line(bytes)).as_bytes())
        })
    });
    if parsed.value('A') != Some("n") {
        out.push(format!("{}\n", address(skip + shown.len())).as_bytes());
    }
    Outcome { code: u8::from(!err.is_empty()), err, ..Outcome::reserved(out) }
}

/// Prints each line of `width` bytes, and one `*` for those that equal the one before.
pub(super) fn dump(
    bytes: &[u8],
    width: usize,
    shows_all: bool,
    out: &mut Buffer,
    line: &mut dyn FnMut(usize, &[u8], &mut Buffer) -> bool,
) {
    let (mut before, mut starred): (Option<&[u8]>, bool) = (None, false);
    for (number, part) in bytes.chunks(width).enumerate() {
        let repeats = !shows_all && before == Some(part);
        let fits = match (repeats, starred) {
            (true, true) => true,
            (true, false) => out.push(b"*\n"),
            (false, _) => line(number * width, part, out),
        };
        if !fits {
            return;
        }
        (before, starred) = (Some(part), repeats);
    }
}
