//! The envelope: a file that has a snapshot inside, after a header of its writer's, as the lab's snapshot files are. Each part has a
//! checksum of its own, so that damage is reported by its part.
//!
//! In order: [`MAGIC`]; a byte with the version; the header's length in four bytes, the most significant first; the header; the SHA-256 of
//! everything so far; a snapshot file, that is a database and its SHA-256; the SHA-256 of everything before.

use super::snapshot_file::{SnapshotFile, SnapshotFileError};
use crate::disk::real::RealDisk;
use crate::disk::{File, read_full};
use crate::{Revision, SnapshotError, StoreImage};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

/// The first bytes of an envelope.
pub const MAGIC: &[u8; 9] = b"kstorelab";

/// The version that this program writes, and the only one that it reads.
pub const VERSION: u8 = 1;

/// Bytes of the longest header: a reader holds it in memory before it knows the file.
pub const HEADER_BYTES: usize = 4 * 1024 * 1024;

/// The highest revision in a snapshot.
pub const HIGHEST_REVISION: Revision = super::contents::HIGHEST;

/// Size of each checksum.
const CHECKSUM: usize = 32;

/// Bytes before the header: magic, version and length.
const PREFIX: usize = MAGIC.len() + 1 + 4;

/// Why a file is no usable envelope.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It does not begin with [`MAGIC`].
    #[error("it is not a snapshot file of the lab: it does not begin with `kstorelab`")]
    Foreign,
    /// Another version wrote it.
    #[error("it has version {found} of the format, and this program reads version {VERSION}")]
    Version {
        /// The version in the file.
        found: u8,
    },
    /// A part is damaged or missing.
    #[error("its part `{part}` is damaged: {detail}")]
    Damaged {
        /// The part: `header`, `objects` or `checksum`.
        part: &'static str,
        /// The defect.
        detail: String,
    },
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn damaged(part: &'static str, detail: impl Into<String>) -> EnvelopeError {
    EnvelopeError::Damaged { part, detail: detail.into() }
}

/// Writes an envelope with this header and the image's snapshot at the beginning of an empty file.
///
/// # Errors
/// The header is too long, or the file cannot be written.
pub fn write(
    to: &mut (impl Read + Write + Seek),
    header: &[u8],
    image: &StoreImage,
) -> Result<(), SnapshotError> {
    let length = u32::try_from(header.len()).ok().filter(|_| header.len() <= HEADER_BYTES);
    let length = length.ok_or_else(|| io::Error::other("the header of the snapshot file is too long"))?;
    let mut head = MAGIC.to_vec();
    head.push(VERSION);
    head.extend_from_slice(&length.to_be_bytes());
    head.extend_from_slice(header);
    to.write_all(&head)?;
    to.write_all(&Sha256::digest(&head))?;
    let begin = (head.len() + CHECKSUM) as u64;
    image.write(to)?;
    let database = digest(to, begin)?;
    to.write_all(&database)?;
    let all = digest(to, 0)?;
    to.write_all(&all)?;
    to.flush()?;
    Ok(())
}

/// The checksum of a file from a position to its end, where the file is positioned afterwards.
fn digest(file: &mut (impl Read + Seek), from: u64) -> io::Result<[u8; CHECKSUM]> {
    file.seek(SeekFrom::Start(from))?;
    let (mut digest, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(digest.finalize().into()),
            read => digest.update(&piece[..read]),
        }
    }
}

/// An envelope whose checksums are right.
#[derive(Debug)]
pub struct Envelope {
    /// The header.
    pub header: Vec<u8>,
    snapshot: SnapshotFile,
    path: std::path::PathBuf,
}

impl Envelope {
    /// Opens an envelope and verifies all of it; `path` is for messages.
    ///
    /// # Errors
    /// See [`EnvelopeError`].
    pub fn open(file: std::fs::File, path: &Path) -> Result<Self, EnvelopeError> {
        Self::of(RealDisk::reading(file), path)
    }

    fn of(file: Arc<dyn File>, path: &Path) -> Result<Self, EnvelopeError> {
        let (header, part) = head(&file)?.ok_or(EnvelopeError::Foreign)?;
        let len = file.len()?;
        let snapshot = SnapshotFile::plain(path, Arc::new(part))?;
        if !snapshot.has_checksum() {
            return Err(damaged("objects", "they end early"));
        }
        snapshot.check().map_err(|error| match error {
            SnapshotFileError::Io { source, .. } => source.into(),
            other => damaged("objects", other.to_string()),
        })?;
        let end = len - CHECKSUM as u64;
        let mut expected = [0; CHECKSUM];
        read_full(&*file, end, &mut expected)?;
        let (mut hash, mut at, mut piece) = (Sha256::new(), 0, vec![0; 1 << 20]);
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
            let read = read_full(&*file, at, &mut piece[..wanted])?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            hash.update(&piece[..read]);
            at += read as u64;
        }
        match hash.finalize()[..] == expected {
            true => Ok(Self { header, snapshot, path: path.to_owned() }),
            false => Err(damaged("checksum", "it does not match the file")),
        }
    }

    /// Reads the snapshot into an image.
    ///
    /// # Errors
    /// The snapshot has what no store writes.
    pub fn image(&self) -> Result<StoreImage, EnvelopeError> {
        super::image::read(&self.snapshot).map_err(|error| match error {
            SnapshotFileError::Io { source, .. } => source.into(),
            SnapshotFileError::Malformed { detail, .. } => damaged("objects", detail),
            other => damaged("objects", other.to_string().replace(&*self.path.to_string_lossy(), "the file")),
        })
    }
}

/// Reads and verifies the head of an envelope. Returns the header, and the part of the file with the snapshot. `None`: the file is none.
pub(super) fn head(file: &Arc<dyn File>) -> Result<Option<(Vec<u8>, PartOfFile)>, EnvelopeError> {
    let mut prefix = [0; PREFIX];
    let read = read_full(&**file, 0, &mut prefix)?;
    if read < MAGIC.len() || prefix[..MAGIC.len()] != MAGIC[..] {
        return Ok(None);
    }
    let early = || damaged("header", "the file ends in it");
    if read < PREFIX {
        return Err(early());
    }
    let version = prefix[MAGIC.len()];
    if version != VERSION {
        return Err(EnvelopeError::Version { found: version });
    }
    let length = prefix[MAGIC.len() + 1..].iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
    let begin = PREFIX + length + CHECKSUM;
    let rest = file.len()?.checked_sub((begin + CHECKSUM) as u64).ok_or_else(early)?;
    if length > HEADER_BYTES {
        return Err(damaged("header", "it is longer than any"));
    }
    let mut head = vec![0; begin];
    if read_full(&**file, 0, &mut head)? < begin {
        return Err(early());
    }
    let expected = head.split_off(PREFIX + length);
    if Sha256::digest(&head)[..] != expected {
        return Err(damaged("header", "its checksum does not match"));
    }
    let part = PartOfFile { file: file.clone(), begin: begin as u64, len: rest };
    Ok(Some((head.split_off(PREFIX), part)))
}

/// A part of a file, for reading.
#[derive(Debug)]
pub(super) struct PartOfFile {
    file: Arc<dyn File>,
    begin: u64,
    len: u64,
}

impl File for PartOfFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        self.file.read_at(self.begin + offset, &mut buffer[..wanted])
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintenance::fuzz::BytesFile;
    use crate::{Config, LeaseId, Op, Put, Store, Txn};
    use kstore_nondet::Nondet;
    use std::time::Duration;

    const HEADER: &[u8] = b"what the writer says";

    fn written(image: &StoreImage) -> Vec<u8> {
        let mut file = io::Cursor::new(Vec::new());
        write(&mut file, HEADER, image).unwrap();
        file.into_inner()
    }

    fn opened(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
        Envelope::of(Arc::new(BytesFile(bytes.to_vec())), Path::new("file"))
    }

    /// A store with history, notes, a lease, deleted keys and a compaction.
    async fn sample() -> Store {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let lease = store.lease_grant(60, LeaseId::NONE).await.unwrap().id;
        for nth in 0..60 {
            let put = Op::Put(Put { lease, ..Put::new(format!("key-{}", nth % 7), format!("value {nth}")) });
            let note = (nth % 3 == 0).then(|| "note".into());
            store.txn(Txn { note, ..Txn::of(vec![put]) }).await.unwrap();
        }
        store.delete("key-3").await.unwrap();
        store.compact(Revision(20)).await.unwrap();
        store
    }

    #[tokio::test(start_paused = true)]
    async fn an_image_comes_back_from_its_file_with_history_leases_and_revisions() {
        let store = sample().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let image = store.image().unwrap();
        let envelope = opened(&written(&image)).unwrap();
        assert_eq!(envelope.header, HEADER);
        let left = image.leases_left();
        assert_eq!(left.iter().map(|(_, left)| left.as_secs()).collect::<Vec<_>>(), [50]);
        let read = envelope.image().unwrap().with_leases_left(&left).with_revision(image.revision());
        assert_eq!((read.revision(), read.compacted()), (image.revision(), Revision(20)));
        assert_eq!(written(&read), written(&image), "the same bytes again");
        let [first, second] = [&image, &read].map(|image| Store::from_image(image, &Nondet::simulated(2)));
        for revision in [Revision(20), Revision(40), Revision::CURRENT] {
            assert_eq!(first.hash_kv(revision).unwrap(), second.hash_kv(revision).unwrap());
        }
        assert_eq!(second.lease_time_to_live(left[0].0, true).await.unwrap().keys.len(), 6);
        tokio::time::sleep(Duration::from_secs(52)).await;
        assert_eq!(second.metrics().keys, 0, "the remaining time of the lease is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_restore_reads_the_snapshot_inside() {
        use crate::EngineKind;
        use crate::maintenance::{Restore, restore, snapshot_status};
        let image = sample().await.image().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (snapshot, dir) = (folder.path().join("file"), folder.path().join("store"));
        std::fs::write(&snapshot, written(&image)).unwrap();
        assert!(snapshot_status(&snapshot).unwrap().checked);
        let engine = EngineKind::Segments;
        let request = Restore { snapshot: snapshot.clone(), dir, engine, unchecked: false, bump: 0 };
        let report = restore(&request, &kstore_nondet::Rng::seeded(1), &mut |_, _| {}).unwrap();
        assert_eq!((report.revision, report.compacted, report.leases), (image.revision(), Revision(20), 1));
        let mut newer = written(&image);
        newer[MAGIC.len()] = VERSION + 1;
        std::fs::write(&snapshot, newer).unwrap();
        let refused = snapshot_status(&snapshot).unwrap_err().to_string();
        assert!(refused.contains("version 2") && refused.contains("version 1"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_without_history_has_the_newest_versions_alone() {
        let store = sample().await;
        let image = store.image().unwrap();
        let small = image.without_history().await.unwrap();
        assert_eq!((small.revision(), small.compacted()), (image.revision(), image.revision()));
        assert!(written(&small).len() <= written(&image).len());
        let read = opened(&written(&small)).unwrap().image().unwrap();
        let read = Store::from_image(&read.with_revision(small.revision()), &Nondet::simulated(2));
        assert_eq!((read.metrics().keys, read.compacted()), (6, image.revision()));
        let all = crate::Range::new(crate::KeyRange::all());
        assert_eq!(read.range(&all).unwrap().kvs, store.range(&all).unwrap().kvs);
        assert_eq!(store.compacted(), Revision(20), "the store itself keeps its history");
    }

    #[tokio::test(start_paused = true)]
    async fn any_damaged_byte_is_refused_by_the_name_of_its_part() {
        let bytes = written(&sample().await.image().unwrap());
        let objects = PREFIX + HEADER.len() + CHECKSUM;
        let part = |at: usize| match at {
            0..9 => "kstorelab",
            9 => "version",
            10..14 => "header",
            _ if at < objects => "header",
            _ if at < bytes.len() - CHECKSUM => "objects",
            _ => "checksum",
        };
        let every = |at: &usize| *at < objects + 64 || at.is_multiple_of(97) || *at + 100 > bytes.len();
        for at in (0..bytes.len()).filter(every) {
            for bit in [0, 7] {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let refused = opened(&flipped).map(drop).unwrap_err().to_string();
                assert!(refused.contains(part(at)), "byte {at}: {refused}");
            }
        }
        for len in [0, 8, 9, 12, objects - 1, objects, objects + 31, bytes.len() - 33, bytes.len() - 1] {
            assert!(opened(&bytes[..len]).is_err(), "cut at {len}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(opened(&longer).is_err());
    }
}
