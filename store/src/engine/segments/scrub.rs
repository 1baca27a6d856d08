//! The scrub: reads the engine's files in the background, to find damage before a reader does, while a copy may still
//! exist.

use super::files::Tail;
use super::{EngineError, Inner};
use crate::codec::history::{self, FILE_HEADER};
use crate::disk::read_full;
use crate::engine::ScrubOutcome;
use parking_lot::RwLock;

/// Progress of a scrub pass: the file, and the offset in it.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    file: u32,
    offset: u64,
}

/// Checks the entries of about `bytes` bytes from the cursor on, at least one entry. A file with damage is marked and
/// skipped; defragmentation finds the rest of its damage. If it is the file being written, it is finished, so that it
/// can be copied.
pub(super) fn step(
    inner: &RwLock<Inner>,
    tail: &mut Tail,
    cursor: &mut Cursor,
    mut bytes: u64,
) -> Result<ScrubOutcome, EngineError> {
    let mut scrubbed = ScrubOutcome::default();
    while bytes > 0 {
        let Some(file) = next(&inner.read(), cursor) else {
            *cursor = Cursor::default();
            return Ok(ScrubOutcome { complete: true, ..scrubbed });
        };
        let checked = check(inner, file, cursor.offset, bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, file, "cannot scrub an engine file; the next pass tries again");
            CheckResult::Unreadable
        });
        match checked {
            CheckResult::Unreadable => *cursor = Cursor { file: file + 1, offset: 0 },
            CheckResult::Whole { read, at_end } => {
                bytes = bytes.saturating_sub(read);
                *cursor = Cursor { file, offset: cursor.offset + read };
                if at_end {
                    inner.write().blocked.remove(&file);
                    *cursor = Cursor { file: file + 1, offset: 0 };
                }
            }
            CheckResult::Damaged => {
                tail.leave(file, inner)?;
                inner.write().damaged.insert(file);
                scrubbed.damaged = true;
                *cursor = Cursor { file: file + 1, offset: 0 };
                return Ok(scrubbed);
            }
        }
    }
    Ok(scrubbed)
}

/// The file to read next; moves the cursor into it.
fn next(inner: &Inner, cursor: &mut Cursor) -> Option<u32> {
    let mut finished = inner.files.finished(None).map(|file| file.number).filter(|file| {
        // Files with known damage are being copied or wait for it.
        *file >= cursor.file && !inner.damaged.contains(file)
    });
    let file = finished.next()?;
    if file > cursor.file {
        *cursor = Cursor { file, offset: 0 };
    }
    Some(file)
}

/// Result of checking a part of a file.
enum CheckResult {
    /// The entries are intact. `read` has their bytes, and `at_end` whether the file ends there.
    Whole {
        read: u64,
        at_end: bool,
    },
    Damaged,
    /// The disk cannot read the file.
    Unreadable,
}

/// Checks whole entries from `offset` on.
fn check(inner: &RwLock<Inner>, number: u32, offset: u64, bytes: u64) -> Result<CheckResult, EngineError> {
    let (file, len) = {
        let inner = inner.read();
        (inner.files.file(number), inner.files.len(number))
    };
    let mut wanted = bytes.max(FILE_HEADER.len() as u64).min(len - offset);
    loop {
        let mut part = vec![0; usize::try_from(wanted).map_err(std::io::Error::other)?];
        let read = read_full(&*file, offset, &mut part)?;
        if (read as u64) < wanted {
            return Ok(CheckResult::Damaged);
        }
        let mut at = 0;
        if offset == 0 {
            if !part.starts_with(FILE_HEADER) {
                return Ok(CheckResult::Damaged);
            }
            at = FILE_HEADER.len();
        }
        let begin = at;
        while let Some((_, len)) = history::read(&part[at..]) {
            at += len;
        }
        let at_end = offset + at as u64 == len;
        if at_end || at > begin {
            return Ok(CheckResult::Whole { read: at as u64, at_end });
        }
        // No entry is intact: the first one is longer than what was read, or damaged.
        if offset + wanted == len {
            return Ok(CheckResult::Damaged);
        }
        wanted = (wanted * 2).min(len - offset);
    }
}
