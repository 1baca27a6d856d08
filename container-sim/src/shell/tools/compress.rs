//! `gzip`, `gunzip` and `zcat`.

use super::{Outcome, Output, Parsed, Tool, ToolCall, whole};
use crate::shell::memory::Buffer;
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read as _, Write as _};

pub(super) const TOOLS: &[Tool] = &[
    whole("gzip", |arguments| super::reads(arguments, FLAGS), |call| run(call, Task::Compress)),
    whole("gunzip", |arguments| super::reads(arguments, FLAGS), |call| run(call, Task::Decompress)),
    whole("zcat", |arguments| super::reads(arguments, FLAGS), |call| run(call, Task::Print)),
];

const FLAGS: &str = "cfkdtqv123456789n";
/// Work of compression beside that of a copy, in units a byte.
const COMPRESSION_WORK: usize = 40;
/// Work of decompression, in units a byte of the result.
const DECOMPRESSION_WORK: usize = 8;
/// Bytes that are decompressed at a time.
const PIECE: usize = 16 * 1024;

/// The first bytes of each compressed text.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What a program of this file does by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Compress,
    Decompress,
    /// Decompresses to standard output.
    Print,
}

/// Compresses bytes. `None` if the command is killed.
pub(super) fn compress(call: &ToolCall<'_>, bytes: &[u8]) -> Option<Buffer> {
    if !call.env.work.spend(COMPRESSION_WORK * bytes.len()) {
        return None;
    }
    let mut encoder = GzEncoder::new(Buffer::new(&call.env.bounds()), Compression::new(6));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// Decompresses bytes. The result counts against the memory of the command, so that a bomb ends it.
///
/// # Errors
/// The text for what is not compressed, or cut off; empty if the command is killed.
pub(super) fn decompress(call: &ToolCall<'_>, bytes: &[u8]) -> Result<Buffer, &'static str> {
    if !bytes.starts_with(&MAGIC) {
        return Err(if bytes.len() < 2 { "short read" } else { "invalid magic" });
    }
    let mut decoder = MultiGzDecoder::new(bytes);
    let mut out = Buffer::new(&call.env.bounds());
    let mut piece = [0; PIECE];
    loop {
        match decoder.read(&mut piece) {
            Ok(0) => return Ok(out),
            Ok(read) if out.push(&piece[..read]) && call.env.work.spend(DECOMPRESSION_WORK * read) => {}
            Ok(_) => return Err(""),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err("unexpected end of file");
            }
            Err(_) => return Err("corrupted data"),
        }
    }
}

fn run(call: &ToolCall<'_>, task: Task) -> Outcome {
    let name = &call.argv[0];
    let parsed = match super::parse(call.arguments(), FLAGS, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("{name}: {why}\n")),
    };
    let decompresses = task != Task::Compress || parsed.has('d') || parsed.has('t');
    let prints = task == Task::Print || parsed.has('c');
    let input = ["-".to_owned()];
    let files = if parsed.operands.is_empty() { &input[..] } else { &parsed.operands };
    let mut out = Buffer::new(&call.env.bounds());
    let mut err = String::new();
    for file in files.iter().take_while(|_| call.env.runs()) {
        if let Err(why) = one(call, &parsed, file, (decompresses, prints), &mut out)
            && !why.is_empty()
        {
            err.push_str(&format!("{name}: {why}\n"));
        }
    }
    Outcome { out: Output::Reserved(out), code: u8::from(!err.is_empty()), err, ..Outcome::default() }
}

/// Processes one file; `-` is the input.
fn one(
    call: &ToolCall<'_>,
    parsed: &Parsed,
    file: &str,
    (decompresses, prints): (bool, bool),
    out: &mut Buffer,
) -> Result<(), String> {
    let path = call.env.path(file);
    let read = match file {
        "-" => call.input.into(),
        file => call.env.read(&path).map_err(|why| format!("{file}: {why}"))?,
    };
    let target = match (file, decompresses) {
        _ if prints || file == "-" || parsed.has('t') => None,
        (file, false) => Some(format!("{file}.gz")),
        (file, true) => {
            let shorter = file.strip_suffix(".gz").map(str::to_owned);
            let shorter = shorter.or_else(|| file.strip_suffix(".tgz").map(|name| format!("{name}.tar")));
            Some(shorter.ok_or_else(|| format!("{file}: unknown suffix - ignored"))?)
        }
    };
    if let Some(target) = &target
        && call.env.entry(&call.env.path(target)).is_some()
        && !parsed.has('f')
    {
        return Err(format!("can't open '{target}': File exists"));
    }
    let made = match decompresses {
        true => decompress(call, &read).map_err(str::to_owned)?,
        false => compress(call, &read).ok_or_else(String::new)?,
    };
    let Some(target) = target else {
        if !parsed.has('t') {
            out.push(made.as_ref());
        }
        return Ok(());
    };
    call.env.write(&call.env.path(&target), made.as_ref()).map_err(|why| format!("{target}: {why}"))?;
    if !parsed.has('k') {
        call.env.remove(&path).map_err(|why| format!("{file}: {why}"))?;
    }
    Ok(())
}
