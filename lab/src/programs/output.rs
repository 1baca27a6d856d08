//! The output of a program: standard output and standard error go through a pipe into one file with a bound, and the end stays in memory
//! for reports.

use crate::limits;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeWriter, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio_util::task::AbortOnDropHandle;

/// Written once at the bound.
const CUT: &[u8] = b"\n[the lab keeps no more output of this program]\n";

/// The output of a program over all its starts.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    state: Mutex<OutputState>,
    most: u64,
}

#[derive(Debug)]
struct OutputState {
    file: File,
    written: u64,
    tail: VecDeque<u8>,
}

impl ProgramOutput {
    /// Output into a new file, or an existing one that is emptied.
    pub(super) fn create(path: &Path, most: u64) -> io::Result<Arc<Self>> {
        let file = File::create(path)?;
        let state = OutputState { file, written: 0, tail: VecDeque::new() };
        Ok(Arc::new(Self { state: Mutex::new(state), most }))
    }

    /// The end of a pipe for a process, and the task that reads the other one until all its writers are gone. Must be called inside a tokio
    /// runtime.
    pub(super) fn pipe(self: &Arc<Self>) -> io::Result<(PipeWriter, AbortOnDropHandle<()>)> {
        let (reader, writer) = io::pipe()?;
        let mut reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let output = self.clone();
        let task = tokio::spawn(async move {
            let mut piece = vec![0; 16 * 1024];
            while let Ok(read) = reader.read(&mut piece).await {
                if read == 0 {
                    return;
                }
                output.write(&piece[..read]);
            }
        });
        Ok((writer, AbortOnDropHandle::new(task)))
    }

    /// Keeps bytes. A full disk loses them: the program must not fail for it.
    fn write(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        let left = usize::try_from(self.most.saturating_sub(state.written)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(left)];
        let is_cut = kept.len() < bytes.len() && left > 0;
        let _ = state.file.write_all(kept);
        if is_cut {
            let _ = state.file.write_all(CUT);
        }
        // At the bound, so that the note is written once.
        state.written = if is_cut { self.most } else { state.written + kept.len() as u64 };
        state.tail.extend(bytes);
        let surplus = state.tail.len().saturating_sub(limits::PROGRAM_TAIL);
        state.tail.drain(..surplus);
    }

    /// Whether output was dropped.
    pub(super) fn is_cut(&self) -> bool {
        self.state.lock().written >= self.most
    }

    /// The end of the output, from the beginning of a line if more was dropped.
    pub(super) fn tail(&self) -> String {
        let state = self.state.lock();
        let bytes: Vec<u8> = state.tail.iter().copied().collect();
        let is_whole = bytes.len() < limits::PROGRAM_TAIL;
        let begin = bytes.iter().position(|byte| *byte == b'\n').filter(|_| !is_whole);
        String::from_utf8_lossy(&bytes[begin.map_or(0, |begin| begin + 1)..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_up_to_its_bound_and_its_end_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let output = ProgramOutput::create(&path, 10).unwrap();
        output.write(b"12345\n");
        assert!(!output.is_cut());
        output.write(b"6789abc\n");
        output.write(b"more\n");
        assert!(output.is_cut());
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written, [b"12345\n6789".as_slice(), CUT].concat());
        assert_eq!(output.tail(), "12345\n6789abc\nmore\n");
        output.write(&vec![b'x'; limits::PROGRAM_TAIL - 4]);
        output.write(b"\nend");
        assert_eq!(output.tail(), "end");
    }
}
