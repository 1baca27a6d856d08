//! `base64`.

use super::{Outcome, Tool, ToolCall, whole};
use crate::shell::memory::Buffer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(super) const TOOLS: &[Tool] = &[whole("base64", |arguments| super::reads(arguments, FLAGS), run)];

const FLAGS: &str = "dw:";
/// Long flags, as those of coreutils.
const LONG: [(&str, char); 2] = [("decode", 'd'), ("wrap", 'w')];
/// Columns of a line.
const WIDTH: usize = 76;
/// Bytes that are encoded at a time: a multiple of 3.
const PIECE: usize = 3 * 4096;

fn run(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), FLAGS, &LONG) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("base64: {why}\n")),
    };
    let width = match parsed.value('w').map(str::parse::<usize>) {
        None => WIDTH,
        Some(Ok(width)) => width,
        Some(Err(_)) => {
            let text = parsed.value('w').unwrap_or_default();
            return Outcome::fail(1, format!("base64: invalid number '{text}'\n"));
        }
    };
    let read;
    let bytes = match parsed.operands.first().map(String::as_str) {
        None | Some("-") => call.input,
        Some(file) => match call.env.read(&call.env.path(file)) {
            Ok(bytes) => {
                read = bytes;
                &read
            }
            Err(why) => return Outcome::fail(1, format!("base64: {file}: {why}\n")),
        },
    };
    let mut out = Buffer::new(&call.env.bounds());
    if !call.env.work.spend(2 * bytes.len()) {
        return Outcome::fail(1, String::new());
    }
    match parsed.has('d') {
        true => decode(bytes, out),
        false if encode(bytes, width, &mut out) => Outcome::reserved(out),
        // The command is killed.
        false => Outcome::fail(1, String::new()),
    }
}

/// Adds the lines of a text; `false` if there is no memory for them.
fn encode(bytes: &[u8], width: usize, out: &mut Buffer) -> bool {
    let mut column = 0;
    for piece in bytes.chunks(PIECE) {
        let text = STANDARD.encode(piece);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let room = if width == 0 { rest.len() } else { (width - column).min(rest.len()) };
            let (line, after) = rest.split_at(room);
            (rest, column) = (after, column + room);
            let is_full = width > 0 && column == width;
            if !out.push(line) || (is_full && !out.push(b"\n")) {
                return false;
            }
            column = if is_full { 0 } else { column };
        }
    }
    column == 0 || width == 0 || out.push(b"\n")
}

/// What a text means; characters that it may not have are passed over.
fn decode(text: &[u8], mut out: Buffer) -> Outcome {
    let (mut group, mut count) = ([b'A'; 4], 0);
    for byte in text.iter().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
    {
        if *byte != b'=' {
            group[count] = *byte;
            count += 1;
        }
        if count == 4 || (*byte == b'=' && count > 1) {
            // Bits behind the last byte do not matter.
            let decoded = STANDARD.decode(group).unwrap_or_default();
            if !out.push(decoded.get(..count - 1).unwrap_or_default()) {
                return Outcome::fail(1, String::new());
            }
            (group, count) = ([b'A'; 4], 0);
        }
    }
    match count == 0 {
        true => Outcome::reserved(out),
        false => Outcome { code: 1, err: "base64: truncated input\n".to_owned(), ..Outcome::reserved(out) },
    }
}
