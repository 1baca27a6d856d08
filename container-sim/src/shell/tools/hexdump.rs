//! `hexdump`, `hd` and `xxd`: bytes as hexadecimal numbers.

use super::od::{character, count, dump, number};
use super::{Outcome, Parsed, Tool, ToolCall, whole};
use crate::shell::memory::Buffer;

pub(super) const TOOLS: &[Tool] = &[
    whole("hexdump", |arguments| super::reads(arguments, HEXDUMP), |call| hexdump(call, false)),
    whole("hd", |arguments| super::reads(arguments, HEXDUMP), |call| hexdump(call, true)),
    whole("xxd", |arguments| super::reads(arguments, XXD), xxd),
];

const HEXDUMP: &str = "bcdoxCvn:s:e:f:";
const XXD: &str = "pric:g:l:s:o:";

/// Bytes of a line.
const LINE: usize = 16;
/// The most bytes of a line of `xxd -c`.
const WIDEST_LINE: usize = 256;

fn printable(byte: u8) -> char {
    if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '.' }
}

/// A line of `hexdump -C` behind its address.
fn canonical(bytes: &[u8]) -> String {
    let mut line = String::new();
    for at in 0..LINE {
        if at % 8 == 0 {
            line.push(' ');
        }
        line.push_str(&bytes.get(at).map_or("   ".to_owned(), |byte| format!(" {byte:02x}")));
    }
    let text: String = bytes.iter().map(|byte| printable(*byte)).collect();
    format!("{line}  |{text}|")
}

/// A line of one of the other formats behind its address. Missing units are blank.
fn plain(format: char, bytes: &[u8]) -> String {
    let size = if matches!(format, 'b' | 'c') { 1 } else { 2 };
    let shown = |bytes: &[u8]| match format {
        'b' => format!("{:03o}", bytes[0]),
        'c' => format!("{:>3}", character(bytes[0])),
        'd' => format!("  {:05}", number(bytes)),
        'o' => format!(" {:06o}", number(bytes)),
        'x' => format!("   {:04x}", number(bytes)),
        _ => format!("{:04x}", number(bytes)),
    };
    let width = shown(&[0, 0]).len();
    let units = bytes.chunks(size).map(|bytes| format!(" {}", shown(bytes)));
    let missing = LINE / size - bytes.len().div_ceil(size);
    units.chain((0..missing).map(|_| format!("{:>width$}", "", width = width + 1))).collect()
}

fn hexdump(call: &ToolCall<'_>, is_canonical: bool) -> Outcome {
    let fail = |why: String| Outcome::fail(1, format!("{}: {why}\n", call.argv[0]));
    let parsed = match super::parse(call.arguments(), HEXDUMP, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return fail(why),
    };
    if parsed.has('e') || parsed.has('f') {
        return fail("formats of one's own are not simulated".to_owned());
    }
    let format = parsed.flags.iter().map(|(flag, _)| *flag).find(|flag| "bcdoxC".contains(*flag));
    let format = if is_canonical { 'C' } else { format.unwrap_or(' ') };
    let (shown, err) = match part(call, &parsed, &parsed.operands, 'n') {
        Ok(shown) => shown,
        Err(outcome) => return outcome,
    };
    let width = if format == 'C' { 8 } else { 7 };
    let mut out = Buffer::new(&call.env.bounds());
    dump(shown.bytes(), LINE, parsed.has('v'), &mut out, &mut |at, bytes, out| {
        let line = if format == 'C' { canonical(bytes) } else { plain(format, bytes) };
        out.push(format!("{:0width$x}{line}\n", shown.skipped + at).as_bytes())
    });
    let end = shown.skipped + shown.bytes().len();
    if end > 0 {
        out.push(format!("{end:0width$x}\n").as_bytes());
    }
    Outcome { code: u8::from(!err.is_empty()), err, ..Outcome::reserved(out) }
}

/// The part of a program's input that `-s` and a flag for the length choose.
struct InputPart {
    bytes: Buffer,
    skipped: usize,
    end: usize,
}

impl InputPart {
    fn bytes(&self) -> &[u8] {
        &self.bytes.as_ref()[self.skipped..self.end]
    }
}

/// The chosen part of the files, or of the input without any, and errors of files.
fn part(
    call: &ToolCall<'_>,
    parsed: &Parsed,
    files: &[String],
    length: char,
) -> Result<(InputPart, String), Outcome> {
    let size = |flag, default| match parsed.value(flag) {
        None => Ok(default),
        Some(text) => count(text)
            .ok_or_else(|| Outcome::fail(1, format!("{}: invalid number '{text}'\n", call.argv[0]))),
    };
    let (skip, most) = (size('s', 0)?, size(length, usize::MAX)?);
    let mut err = String::new();
    let bytes = super::contents(call, files, &mut err).ok_or_else(|| Outcome::code(1))?;
    let skipped = skip.min(bytes.len());
    let end = skipped.saturating_add(most).min(bytes.len());
    Ok((InputPart { bytes, skipped, end }, err))
}

fn xxd(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), XXD, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("xxd: {why}\n")),
    };
    let files = &parsed.operands[..parsed.operands.len().min(1)];
    let (shown, err) = match part(call, &parsed, files, 'l') {
        Ok(shown) => shown,
        Err(outcome) => return outcome,
    };
    if !err.is_empty() {
        return Outcome::fail(1, err);
    }
    let size = |flag, default| parsed.value(flag).and_then(count).unwrap_or(default);
    let mut out = Buffer::new(&call.env.bounds());
    let bytes = shown.bytes();
    match () {
        () if parsed.has('r') => reverse(bytes, parsed.has('p'), &mut out),
        () if parsed.has('i') => include(bytes, files.first(), &mut out),
        () if parsed.has('p') => {
            for line in bytes.chunks(size('c', 30).clamp(1, WIDEST_LINE)) {
                let line: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
                if !out.push(format!("{line}\n").as_bytes()) {
                    break;
                }
            }
        }
        () => {
            let (width, group) = (size('c', LINE).clamp(1, WIDEST_LINE), size('g', 2));
            let offset = shown.skipped.saturating_add(size('o', 0));
            dump(bytes, width, true, &mut out, &mut |at, bytes, out| {
                let line = grouped(bytes, width, group);
                out.push(format!("{:08x}: {line}\n", offset.saturating_add(at)).as_bytes())
            });
        }
    }
    Outcome::reserved(out)
}

/// A line of `xxd` behind its address.
fn grouped(bytes: &[u8], width: usize, group: usize) -> String {
    let mut line = String::new();
    for at in 0..width {
        line.push_str(&bytes.get(at).map_or("  ".to_owned(), |byte| format!("{byte:02x}")));
        if group > 0 && (at + 1) % group == 0 {
            line.push(' ');
        }
    }
    if group == 0 {
        line.push(' ');
    }
    let text: String = bytes.iter().map(|byte| printable(*byte)).collect();
    format!("{line} {text}")
}

/// `xxd -r`: the bytes of a dump. Without `is_plain` each line begins with an address, and two blanks end its numbers.
fn reverse(dump: &[u8], is_plain: bool, out: &mut Buffer) {
    for line in super::lines(dump) {
        let line = String::from_utf8_lossy(line);
        let numbers = match line.split_once(": ") {
            Some((_, rest)) if !is_plain => rest.split("  ").next().unwrap_or_default(),
            Some(_) | None => &line,
        };
        let digits: Vec<u32> = numbers.chars().filter_map(|c| c.to_digit(16)).collect();
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap_or(u8::MAX))
            .collect();
        if !out.push(&bytes) {
            return;
        }
    }
}

/// `xxd -i`: an array in C, with the name of the file if there is one.
fn include(bytes: &[u8], file: Option<&String>, out: &mut Buffer) {
    let name = file.map(|file| file.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    if let Some(name) = &name {
        out.push(format!("unsigned char {name}[] = {{\n").as_bytes());
    }
    for line in bytes.chunks(12) {
        let line: Vec<String> = line.iter().map(|byte| format!("0x{byte:02x},")).collect();
        if !out.push(format!("  {}\n", line.join(" ")).as_bytes()) {
            return;
        }
    }
    if let Some(name) = name {
        out.push(format!("}};\nunsigned int {name}_len = {};\n", bytes.len()).as_bytes());
    }
}
