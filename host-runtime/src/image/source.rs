//! Where the documents and layers of an image are: in the folder of a layout, or in an archive with the same files.

use crate::limits::{IMAGE_DOCUMENT, IMAGE_ENTRIES};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use tar::{Archive, EntryType};

/// The list of the images of a layout.
pub(super) const INDEX: &str = "index.json";
/// The list of the images of an archive of `docker save`.
pub(super) const SAVED: &str = "manifest.json";
/// The first bytes of a file that gzip has compressed.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The files of an image.
pub(super) enum ImageSource {
    /// A layout in this folder.
    Folder(PathBuf),
    /// An archive, with the place and the length of each of its files.
    Archive(PathBuf, BTreeMap<String, (u64, u64)>),
}

impl ImageSource {
    /// Opens the image at a path.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let mut file = File::open(path)?;
        let mut first = [0; 2];
        if file.read_exact(&mut first).is_ok() && first == GZIP {
            return Err(Error::other("it is compressed: gunzip it"));
        }
        file.seek(SeekFrom::Start(0))?;
        let mut files = BTreeMap::new();
        let mut archive = Archive::new(file);
        for (count, entry) in archive.entries_with_seek()?.enumerate() {
            if count >= IMAGE_ENTRIES {
                return Err(Error::other("the archive has too many entries"));
            }
            let entry = entry?;
            if matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous) {
                let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
                files.insert(name, (entry.raw_file_position(), entry.size()));
            }
        }
        Ok(Self::Archive(path.to_owned(), files))
    }

    /// Whether there is a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Folder(folder) => folder.join(name).is_file(),
            Self::Archive(_, files) => files.contains_key(name),
        }
    }

    /// Reads a document, which is short.
    ///
    /// # Errors
    /// There is none of this name, or it is too long.
    pub(super) fn document(&self, name: &str) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.reader(name)?.take(IMAGE_DOCUMENT + 1).read_to_end(&mut text)?;
        match text.len() as u64 > IMAGE_DOCUMENT {
            true => Err(Error::other(format!("{name} is longer than {IMAGE_DOCUMENT} bytes"))),
            false => Ok(text),
        }
    }

    /// Reads a file of the image.
    ///
    /// # Errors
    /// There is none of this name.
    pub(super) fn reader(&self, name: &str) -> Result<Box<dyn Read>> {
        let missing = || Error::new(ErrorKind::NotFound, format!("it has no {name}"));
        match self {
            Self::Folder(folder) => {
                let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
                let file = File::open(folder.join(name)).ok().filter(|_| is_inside).ok_or_else(missing)?;
                Ok(Box::new(file))
            }
            Self::Archive(path, files) => {
                let (start, length) = files.get(name).copied().ok_or_else(missing)?;
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(start))?;
                Ok(Box::new(file.take(length)))
            }
        }
    }
}
