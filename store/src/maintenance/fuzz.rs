//! Entry point for fuzzing the restore of a snapshot.

use super::contents;
use super::snapshot_file::SnapshotFile;
use crate::disk::File;
use crate::engine::Engine;
use crate::engine::memory::MemoryEngine;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Reads `bytes` as a restore would, into memory. Returns for any bytes.
pub(crate) fn fuzz_restore(bytes: &[u8]) {
    let file = Arc::new(BytesFile(bytes.to_vec()));
    let Ok(snapshot) = SnapshotFile::of(Path::new("fuzz"), file) else { return };
    let engine = MemoryEngine::default();
    let _ = contents::read(&snapshot, &mut |record| engine.put(&[record]).map_err(|error| error.to_string()));
}

/// A read-only file in memory.
#[derive(Debug)]
pub(crate) struct BytesFile(pub(crate) Vec<u8>);

impl File for BytesFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
