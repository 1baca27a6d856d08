//! The snapshot file: a database followed by the checksum that `etcdctl snapshot save` appends. `contents` parses the
//! database.

use super::envelope::{self, EnvelopeError};
use crate::Revision;
use crate::codec::etcd::parse_key;
use crate::disk::real::RealDisk;
use crate::disk::{File, read_full};
use crate::read::hash::CASTAGNOLI;
use crate::snapshot::bbolt::read::{Image, ReadError};
use crate::snapshot::layout;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a snapshot file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFileError {
    /// The operating system returned an error.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file has no checksum, like a file copied from a data directory. If its origin is trusted, use it unchecked.
    #[error("{} has no checksum: it was not written by `snapshot save`, or is truncated", path.display())]
    NoChecksum {
        /// The file.
        path: PathBuf,
    },
    /// The checksum does not match the database: the file was damaged after it was saved. Use another one.
    #[error("{} is damaged: its checksum does not match its content", path.display())]
    WrongChecksum {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a database of etcd.
    #[error("{} is not a usable snapshot: {detail}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        detail: String,
    },
}

/// Status of a snapshot file, as `etcdutl snapshot status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// CRC-32C over all bucket names, keys and values, as etcd's tools compute it.
    pub hash: u32,
    /// The revision of the newest record.
    pub revision: Revision,
    /// Number of entries in all buckets.
    pub entries: u64,
    /// Length of the database in bytes.
    pub bytes: u64,
    /// Whether the file has a checksum, which matches.
    pub checked: bool,
}

/// Reads a whole snapshot file and returns its status.
pub fn snapshot_status(path: &Path) -> Result<SnapshotStatus, SnapshotFileError> {
    let io = |source| SnapshotFileError::Io { path: path.to_owned(), source };
    let file = SnapshotFile::of(path, RealDisk.open_read(path).map_err(io)?).map_err(io)?;
    file.check()?;
    let image = file.image()?;
    let mut status = SnapshotStatus {
        hash: 0,
        revision: Revision(0),
        entries: 0,
        bytes: image.bytes(),
        checked: file.has_checksum(),
    };
    let mut digest = CASTAGNOLI.digest();
    for bucket in image.buckets() {
        digest.update(bucket);
        let visited = image.visit(bucket, &mut |key, value| {
            digest.update(key);
            digest.update(value);
            status.entries += 1;
            if bucket == layout::KEY.as_bytes() {
                status.revision = parse_key(key).map_or(status.revision, |(key, _)| key.main);
            }
            Ok(())
        });
        visited.map_err(|error| file.malformed(error))?;
    }
    status.hash = digest.finalize();
    Ok(status)
}

/// Size of the checksum.
const CHECKSUM: u64 = 32;

/// The length of a database is a multiple of this, so a checksum after it can be detected.
const SECTOR: u64 = 512;

/// An opened snapshot file.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
    file: Arc<dyn File>,
    /// Length of the database.
    len: u64,
    checksum: Option<[u8; CHECKSUM as usize]>,
}

impl SnapshotFile {
    /// Opens a file, or the snapshot inside of an envelope; `path` is for messages.
    pub(super) fn of(path: &Path, file: Arc<dyn File>) -> io::Result<Self> {
        match envelope::head(&file) {
            Ok(None) => Self::plain(path, file),
            Ok(Some((_, part))) => Self::plain(path, Arc::new(part)),
            Err(EnvelopeError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    /// Opens the file at `path`, whose checksum must be right. A file without one is refused unless `unchecked`.
    pub(super) fn open(path: &Path, unchecked: bool) -> Result<Self, SnapshotFileError> {
        let io = |source| SnapshotFileError::Io { path: path.to_owned(), source };
        let file = Self::of(path, RealDisk.open_read(path).map_err(io)?).map_err(io)?;
        if !file.has_checksum() && !unchecked {
            return Err(SnapshotFileError::NoChecksum { path: path.to_owned() });
        }
        file.check()?;
        Ok(file)
    }

    /// Opens a file that is no envelope.
    pub(super) fn plain(path: &Path, file: Arc<dyn File>) -> io::Result<Self> {
        let mut len = file.len()?;
        let mut checksum = None;
        if len % SECTOR == CHECKSUM {
            len -= CHECKSUM;
            let mut bytes = [0; CHECKSUM as usize];
            read_full(&*file, len, &mut bytes)?;
            checksum = Some(bytes);
        }
        Ok(Self { path: path.to_owned(), file, len, checksum })
    }

    /// Length of the database.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn has_checksum(&self) -> bool {
        self.checksum.is_some()
    }

    /// Verifies the checksum, if there is one.
    pub(super) fn check(&self) -> Result<(), SnapshotFileError> {
        const PIECE: u64 = 1 << 20;
        let Some(expected) = self.checksum else { return Ok(()) };
        let mut digest = Sha256::new();
        let (mut at, mut piece) = (0, vec![0; PIECE as usize]);
        while at < self.len {
            let len = PIECE.min(self.len - at);
            let piece = &mut piece[..len as usize];
            let read = read_full(&*self.file, at, piece);
            read.map_err(|source| SnapshotFileError::Io { path: self.path.clone(), source })?;
            digest.update(piece);
            at += len;
        }
        if digest.finalize()[..] == expected {
            Ok(())
        } else {
            Err(SnapshotFileError::WrongChecksum { path: self.path.clone() })
        }
    }

    pub(super) fn image(&self) -> Result<Image<'_>, SnapshotFileError> {
        Image::open(&*self.file, self.len).map_err(|error| self.malformed(error))
    }

    pub(super) fn malformed(&self, error: ReadError) -> SnapshotFileError {
        let path = self.path.clone();
        match error {
            ReadError::Io(source) => SnapshotFileError::Io { path, source },
            ReadError::Foreign(_) | ReadError::Page { .. } | ReadError::Refused(_) => {
                SnapshotFileError::Malformed { path, detail: error.to_string() }
            }
        }
    }
}
