//! Snapshot files: images as files, to start clusters from them on other machines and later. `kstore_store::maintenance::envelope` has the
//! form of the file and its checksums; this module has the header: what an image has beside its store.

use crate::authority::{ClusterKeys, KeyParts};
use crate::clock::Mode;
use crate::cluster::LabImage;
use crate::host::{self, ComponentChoice, HostError};
use crate::limits;
use crate::template::Template;
use bincode::config::{Configuration, Limit};
use bincode::{Decode, Encode};
use jiff::Timestamp;
use kstore_cluster::{ControlPlaneImage, ImageError};
use kstore_nondet::{Clock, Nondet, Rng};
use kstore_store::maintenance::envelope::{self, Envelope, EnvelopeError};
use kstore_store::{LeaseId, Revision, SnapshotError};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Encoding of the header. Its bound is that of the envelope, so that a length in a file makes no larger one.
const ENCODING: Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    Limit<{ envelope::HEADER_BYTES }>,
> = bincode::config::standard().with_limit::<{ envelope::HEADER_BYTES }>();

/// An image cannot be written to a file.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Its objects, or the file.
    #[error("the snapshot file cannot be written: {0}")]
    Snapshot(#[from] SnapshotError),
    /// The file.
    #[error("the snapshot file cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The header.
    #[error("the header of the snapshot file cannot be written: {0}")]
    Header(#[from] bincode::error::EncodeError),
    /// The history cannot be left out.
    #[error("the history cannot be left out: {0}")]
    History(#[from] kstore_store::ImageError),
}

/// A file is no usable snapshot file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Its form, or a part of it.
    #[error("the snapshot file cannot be used: {0}")]
    Envelope(#[from] EnvelopeError),
    /// The header has another form than this version writes.
    #[error("the snapshot file cannot be used: its part `header` is malformed: {0}")]
    Header(String),
    /// No API server starts from its objects.
    #[error("the snapshot file cannot be used: {0}")]
    Start(#[from] HostError),
    /// Its namespaces have no new UIDs.
    #[error("the snapshot file cannot be used: {0}")]
    Identity(#[from] ImageError),
    /// The keys in it.
    #[error("the snapshot file cannot be used: its keys are malformed: {0}")]
    Keys(String),
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self::Envelope(error.into())
    }
}

/// What a snapshot file includes beside the newest objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// Whether it has the keys of certificates and tokens, so that the original's credentials are valid in clusters from the file.
    pub keys: bool,
    /// Whether it has older versions of objects.
    pub history: bool,
}

/// What an image has beside its store.
#[derive(Clone, PartialEq, Encode, Decode)]
struct FileHeader {
    /// Version of the program that wrote the file.
    kstore: String,
    /// Time of the image: seconds, and nanoseconds of the second.
    time: (i64, i32),
    /// Seed of the random values of clusters from the image.
    seed: Option<u64>,
    /// Number of images between the image and an original cluster.
    generation: u64,
    revision: i64,
    mode: FileMode,
    controllers: bool,
    scheduler: bool,
    nodes: u32,
    /// Whether the file has older versions of objects.
    history: bool,
    /// Number of objects.
    objects: u64,
    /// Remaining nanoseconds of the store's leases.
    leases: Vec<(i64, u64)>,
    keys: Option<FileKeys>,
}

/// A mode of a clock. Durations are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
enum FileMode {
    Real,
    Scaled(f64),
    Manual,
    Auto(u64),
}

/// Keys of certificates and tokens.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
struct FileKeys {
    authority: String,
    authority_key: String,
    token_key: Vec<u8>,
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl FileMode {
    fn of(mode: Mode) -> Self {
        match mode {
            Mode::Real => Self::Real,
            Mode::Scaled(factor) => Self::Scaled(factor),
            Mode::Manual => Self::Manual,
            Mode::Auto(up_to) => Self::Auto(milliseconds(up_to)),
        }
    }

    /// The mode; `None` if no clock can have it.
    fn mode(self) -> Option<Mode> {
        let [least, most] = limits::FACTORS;
        match self {
            Self::Real => Some(Mode::Real),
            Self::Scaled(factor) => (least..=most).contains(&factor).then_some(Mode::Scaled(factor)),
            Self::Manual => Some(Mode::Manual),
            Self::Auto(up_to) => Some(Mode::Auto(Duration::from_millis(up_to)))
                .filter(|_| up_to > 0 && up_to <= milliseconds(limits::ADVANCE)),
        }
    }
}

impl FileHeader {
    fn of(image: &LabImage, options: SaveOptions) -> Self {
        let (time, store) = (image.state.time(), image.state.store());
        let leases = store.leases_left();
        let keys = options.keys.then(|| image.keys.parts()).map(|parts| FileKeys {
            authority: parts.authority,
            authority_key: parts.authority_key,
            token_key: parts.token_key,
        });
        Self {
            kstore: env!("CARGO_PKG_VERSION").to_owned(),
            time: (time.as_second(), time.subsec_nanosecond()),
            seed: image.seed,
            generation: image.state.generation(),
            revision: store.revision().0,
            mode: FileMode::of(image.mode),
            controllers: image.components.controllers,
            scheduler: image.components.scheduler,
            nodes: u32::try_from(image.components.nodes).unwrap_or(u32::MAX),
            history: options.history,
            objects: image.objects,
            leases: leases.into_iter().map(|(id, left)| (id.0, nanoseconds(left))).collect(),
            keys,
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, LoadError> {
        let wrong = |error: &dyn std::fmt::Display| LoadError::Header(error.to_string());
        let (header, length) =
            bincode::decode_from_slice::<Self, _>(bytes, ENCODING).map_err(|error| wrong(&error))?;
        match length == bytes.len() {
            true => Ok(header),
            false => Err(wrong(&"it is longer than its members")),
        }
    }

    fn components(&self) -> Result<ComponentChoice, LoadError> {
        let nodes = usize::try_from(self.nodes).unwrap_or(usize::MAX);
        match nodes <= limits::NODES {
            true => Ok(ComponentChoice { controllers: self.controllers, scheduler: self.scheduler, nodes }),
            false => {
                Err(LoadError::Header(format!("it has {nodes} nodes, and {} are allowed", limits::NODES)))
            }
        }
    }
}

/// Writes an image into a temporary file that has no name and that nobody else can read.
///
/// # Errors
/// See [`SaveError`].
pub async fn save(image: &LabImage, options: SaveOptions) -> Result<File, SaveError> {
    let header = bincode::encode_to_vec(FileHeader::of(image, options), ENCODING)?;
    let store = match options.history {
        true => image.state.store().clone(),
        false => image.state.store().without_history().await?,
    };
    let writing = tokio::task::spawn_blocking(move || {
        let mut file = tempfile::tempfile()?;
        envelope::write(&mut file, &header, &store)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    });
    writing.await.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

/// The identity of clusters from a file: the UIDs of their namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// That of the original cluster.
    #[default]
    Kept,
    /// A new one for this load of the file.
    New,
}

/// Reads an image from a file; `path` is for messages. Clusters from it have the file's keys, or else `keys`.
///
/// # Errors
/// See [`LoadError`].
pub async fn load(
    file: File,
    path: &Path,
    (name, identity): (&str, Identity),
    (keys, template): (&Arc<ClusterKeys>, &Arc<dyn Template>),
) -> Result<LabImage, LoadError> {
    let (path, keys) = (path.to_owned(), keys.clone());
    let reading = tokio::task::spawn_blocking(move || read(file, &path, keys));
    let (header, mut state, keys, mut digest) = reading.await.map_err(io::Error::other)??;
    if identity == Identity::New {
        let nondet = Nondet { clock: Clock::real(), rng: Rng::from_os() };
        state = state.with_new_namespaces(&nondet).await?;
        // Another image than that of the file as it is.
        digest = Sha256::digest([&digest[..], b"identity=new"].concat()).into();
    }
    let (history, components) = (state.store().compacted().0, header.components()?);
    let mode = header.mode.mode().ok_or_else(|| LoadError::Header("no clock has its mode".to_owned()))?;
    let state = Arc::new(host::remember(state, &keys, template).await?);
    let (seed, objects) = (header.seed, header.objects);
    let digest = Some(digest);
    Ok(LabImage { name: name.to_owned(), objects, history, state, seed, components, mode, keys, digest })
}

/// The parts of a file: header, state, keys, and the checksum of all of it. It blocks.
type FileParts = (FileHeader, ControlPlaneImage, Arc<ClusterKeys>, [u8; 32]);

fn read(mut file: File, path: &Path, keys: Arc<ClusterKeys>) -> Result<FileParts, LoadError> {
    let digest = digest(&mut file)?;
    let envelope = Envelope::open(file, path)?;
    let header = FileHeader::read(&envelope.header)?;
    let time = Timestamp::new(header.time.0, header.time.1);
    let time = time.map_err(|error| LoadError::Header(error.to_string()))?;
    let leases: Vec<_> =
        header.leases.iter().map(|(id, left)| (LeaseId(*id), Duration::from_nanos(*left))).collect();
    let revision = Some(Revision(header.revision)).filter(|revision| *revision <= envelope::HIGHEST_REVISION);
    let revision = revision.ok_or_else(|| LoadError::Header("no store has its revision".to_owned()))?;
    let store = envelope.image()?.with_leases_left(&leases).with_revision(revision);
    let keys = match &header.keys {
        None => keys,
        Some(FileKeys { authority, authority_key, token_key }) => {
            let [authority, authority_key] = [authority, authority_key].map(Clone::clone);
            let token_key = token_key.clone();
            let parts = KeyParts { authority, authority_key, token_key };
            let of = ClusterKeys::of(parts, keys.authority.names());
            Arc::new(of.map_err(|error| LoadError::Keys(error.to_string()))?)
        }
    };
    let state = ControlPlaneImage::of_store(store, time, header.generation);
    Ok((header, state, keys, digest))
}

/// The SHA-256 of a whole file, which is positioned at its beginning afterwards.
fn digest(file: &mut File) -> io::Result<[u8; 32]> {
    let (mut digest, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    file.seek(SeekFrom::Start(0))?;
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => digest.update(&piece[..read]),
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        FileHeader {
            kstore: "1".to_owned(),
            time: (1, 2),
            seed: Some(7),
            generation: 3,
            revision: 4,
            mode: FileMode::Manual,
            controllers: true,
            scheduler: false,
            nodes: 2,
            history: true,
            objects: 5,
            leases: vec![(6, 7)],
            keys: None,
        }
    }

    #[test]
    fn headers_come_back_and_malformed_ones_are_refused() {
        let bytes = bincode::encode_to_vec(header(), ENCODING).unwrap();
        assert!(FileHeader::read(&bytes).is_ok_and(|read| read == header()));
        assert!(FileHeader::read(&bytes[..bytes.len() - 1]).is_err());
        assert!(FileHeader::read(&[&bytes[..], &[0]].concat()).is_err());
        assert_eq!(header().components().unwrap().nodes, 2);
        let nodes = u32::try_from(limits::NODES).unwrap() + 1;
        assert!(FileHeader { nodes, ..header() }.components().is_err());
        for wrong in
            [FileMode::Scaled(f64::NAN), FileMode::Scaled(0.0), FileMode::Auto(0), FileMode::Auto(u64::MAX)]
        {
            assert_eq!(wrong.mode(), None, "{wrong:?}");
        }
        for mode in [Mode::Real, Mode::Manual, Mode::Scaled(60.0), Mode::Auto(Duration::from_secs(9))] {
            assert_eq!(FileMode::of(mode).mode(), Some(mode));
        }
    }
}
