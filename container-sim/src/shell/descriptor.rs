//! Open descriptors: channels of the client, pipes, files and texts. A descriptor is open while a copy of it exists.

use super::env::Env;
use super::files::FileError;
use super::memory::{Bounds, Buffer, Reservation};
use crate::limits::PIPE_BYTES;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open descriptor. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) enum Descriptor {
    /// The input of the whole command.
    Input,
    /// An output of the whole command: 1 or 2.
    Channel(u32),
    /// `/dev/null`.
    Null,
    /// An endless source: zeros or, with the flag, random bytes.
    Endless(bool),
    /// `/dev/full`.
    Full,
    Reader(Arc<PipeReader>),
    Writer(Arc<PipeWriter>),
    File(Arc<OpenFile>),
    /// A here-document, or other bytes that are there already.
    Text(Arc<Mutex<Text>>),
    /// Collects what a substitution prints.
    Capture(Arc<Mutex<Buffer>>),
}

/// The bytes of a here-document that are not read yet.
#[derive(Debug)]
pub(super) struct Text {
    bytes: Buffer,
    at: usize,
}

/// A file with a place in it, which all copies of the descriptor share.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) path: String,
    appends: bool,
    writes: bool,
    at: AtomicUsize,
}

#[derive(Debug)]
struct Pipe {
    state: Mutex<PipeState>,
}

#[derive(Debug)]
struct PipeState {
    bytes: VecDeque<u8>,
    room: Reservation,
    has_reader: bool,
    has_writer: bool,
}

/// The end of a pipe that is read.
#[derive(Debug)]
pub(super) struct PipeReader(Arc<Pipe>);

/// The end of a pipe that is written.
#[derive(Debug)]
pub(super) struct PipeWriter(Arc<Pipe>);

impl Pipe {
    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_reader = false;
        state.bytes = VecDeque::new();
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.state().has_writer = false;
    }
}

/// A new pipe.
pub(super) fn pipe(bounds: &Bounds) -> (Descriptor, Descriptor) {
    let room = Reservation::new(&bounds.allowance);
    let state = PipeState { bytes: VecDeque::new(), room, has_reader: true, has_writer: true };
    let pipe = Arc::new(Pipe { state: Mutex::new(state) });
    (
        Descriptor::Reader(Arc::new(PipeReader(Arc::clone(&pipe)))),
        Descriptor::Writer(Arc::new(PipeWriter(pipe))),
    )
}

/// A descriptor that reads these bytes.
pub(super) fn text(bytes: Buffer) -> Descriptor {
    Descriptor::Text(Arc::new(Mutex::new(Text { bytes, at: 0 })))
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMode {
    Read,
    Write,
    Append,
    ReadWrite,
}

/// Opens a path.
///
/// # Errors
/// When the file system refuses it.
pub(super) fn open(env: &Env, given: &str, mode: OpenMode) -> Result<Descriptor, FileError> {
    let path = env.resolved(&env.path(given));
    match path.as_str() {
        "/dev/null" => return Ok(Descriptor::Null),
        "/dev/zero" => return Ok(Descriptor::Endless(false)),
        "/dev/random" | "/dev/urandom" => return Ok(Descriptor::Endless(true)),
        "/dev/full" => return Ok(Descriptor::Full),
        _ => {}
    }
    match mode {
        OpenMode::Read => {
            if env.is_folder(&path) {
                return Err(FileError::Folder);
            }
            env.read(&path)?;
        }
        OpenMode::Write => env.write(&path, b"")?,
        OpenMode::Append | OpenMode::ReadWrite => {
            if env.is_folder(&path) {
                return Err(FileError::Folder);
            }
            if !env.is_file(&path) {
                env.write(&path, b"")?;
            } else if mode == OpenMode::Append {
                env.writable(&path)?;
            }
        }
    }
    let file = OpenFile {
        path,
        appends: mode == OpenMode::Append,
        writes: mode != OpenMode::Read,
        at: AtomicUsize::new(0),
    };
    Ok(Descriptor::File(Arc::new(file)))
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadResult {
    /// Some bytes were passed on.
    Some,
    End,
    /// There are none now.
    Wait,
    /// The descriptor cannot be read.
    Bad,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// So many bytes were written; the rest must wait.
    Written(usize),
    /// The pipe has no open reading end: a write to it fails with SIGPIPE.
    Broken,
    /// The text of the error.
    Failed(String),
    /// The bytes go to this channel of the client.
    Channel(u32),
}

impl Descriptor {
    /// Passes bytes that are there to `take`, which returns how many of them it takes. [`Descriptor::Input`] is read elsewhere.
    pub(super) fn read(&self, env: &Env, take: &mut dyn FnMut(&[u8]) -> usize) -> ReadResult {
        match self {
            Self::Null => ReadResult::End,
            Self::Endless(random) => {
                let mut block = [0u8; 4096];
                if *random {
                    let mut seed = env.work.total();
                    block.iter_mut().for_each(|byte| *byte = next_random(&mut seed));
                }
                env.work.spend(block.len());
                take(&block);
                ReadResult::Some
            }
            Self::Reader(reader) => {
                let mut state = reader.0.state();
                if state.bytes.is_empty() {
                    return if state.has_writer { ReadResult::Wait } else { ReadResult::End };
                }
                env.work.spend(state.bytes.len() + 32);
                let taken = take(state.bytes.make_contiguous());
                state.bytes.drain(..taken);
                state.room.shrink(taken);
                ReadResult::Some
            }
            Self::File(file) => {
                let bytes = env.read(&file.path).unwrap_or_default();
                let at = file.at.load(Ordering::Relaxed).min(bytes.len());
                if at == bytes.len() {
                    return ReadResult::End;
                }
                let end = bytes.len().min(at + PIPE_BYTES);
                env.work.spend(end - at);
                file.at.store(at + take(&bytes[at..end]), Ordering::Relaxed);
                ReadResult::Some
            }
            Self::Text(text) => {
                let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
                let at = text.at;
                if at == text.bytes.len() {
                    return ReadResult::End;
                }
                env.work.spend(text.bytes.len() - at);
                text.at = at + take(&text.bytes.as_ref()[at..]);
                ReadResult::Some
            }
            Self::Input | Self::Channel(_) | Self::Full | Self::Writer(_) | Self::Capture(_) => {
                ReadResult::Bad
            }
        }
    }

    /// Writes bytes as far as there is space.
    pub(super) fn write(&self, env: &Env, bytes: &[u8]) -> WriteResult {
        match self {
            Self::Channel(channel) => WriteResult::Channel(*channel),
            Self::Null | Self::Endless(_) => WriteResult::Written(bytes.len()),
            Self::Full => WriteResult::Failed("No space left on device".to_owned()),
            Self::Writer(writer) => {
                let mut state = writer.0.state();
                if !state.has_reader {
                    return WriteResult::Broken;
                }
                let count = bytes.len().min(PIPE_BYTES - state.bytes.len());
                if !env.bounds().grow(&mut state.room, count) {
                    return WriteResult::Written(bytes.len());
                }
                env.work.spend(count + 32);
                state.bytes.extend(&bytes[..count]);
                WriteResult::Written(count)
            }
            Self::File(file) if file.writes => match write_file(env, file, bytes) {
                Ok(()) => WriteResult::Written(bytes.len()),
                Err(why) => WriteResult::Failed(why.to_string()),
            },
            Self::Capture(buffer) => {
                buffer.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
                WriteResult::Written(bytes.len())
            }
            Self::Input | Self::File(_) | Self::Reader(_) | Self::Text(_) => {
                WriteResult::Failed("Bad file descriptor".to_owned())
            }
        }
    }

    /// Whether it is a terminal.
    pub(super) fn is_terminal(&self, env: &Env) -> bool {
        matches!(self, Self::Input | Self::Channel(_)) && env.terminal.is_some()
    }
}

fn write_file(env: &Env, file: &OpenFile, bytes: &[u8]) -> Result<(), FileError> {
    let before = env.read(&file.path).unwrap_or_default();
    let at = if file.appends { before.len() } else { file.at.load(Ordering::Relaxed) };
    file.at.store(at + bytes.len(), Ordering::Relaxed);
    if at == before.len() {
        return env.append(&file.path, bytes);
    }
    // Another writer has changed the file: what is before the place is kept, or filled with zeros.
    let end = (at + bytes.len()).max(before.len());
    if end > crate::limits::DISK_BYTES || !env.work.spend(2 * end) {
        return Err(FileError::Full(super::disk::DiskFull));
    }
    let mut whole = before[..at.min(before.len())].to_vec();
    whole.resize(at, 0);
    whole.extend_from_slice(bytes);
    whole.extend_from_slice(before.get(at + bytes.len()..).unwrap_or_default());
    env.write(&file.path, &whole)
}

/// The next byte of a generator, which `seed` keeps.
pub(super) fn next_random(seed: &mut u64) -> u8 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 56).to_le_bytes()[0]
}
