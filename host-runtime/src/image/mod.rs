//! Images of containers as files of this machine: layouts and archives of the Open Container Initiative, and archives of `docker save`.
//! Each is unpacked once, into a folder by its digest.

mod manifest;
mod resolve;
mod source;
mod unpack;
mod user;
mod zstd;

pub use manifest::ImageConfig;
use resolve::resolve;
use source::ImageSource;
use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use unpack::Unpacker;
pub(crate) use unpack::{Owner, copy_tree, remove};

/// An image whose files are unpacked.
#[derive(Debug)]
pub struct UnpackedImage {
    /// The folder of its files.
    root: PathBuf,
    config: ImageConfig,
}

impl UnpackedImage {
    /// The folder of its files, which containers get a copy of.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What its containers run unless their pods say otherwise.
    pub fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// Where a path of a container of the image leads, by the links of the image. A path with too many links stays as it is.
    pub(crate) fn place(&self, path: &str) -> String {
        let found = resolve(&self.root, Path::new(path)).ok();
        let below = found.as_ref().and_then(|found| found.strip_prefix(&self.root).ok());
        below.map_or_else(|| path.to_owned(), |below| format!("/{}", below.display()))
    }

    /// The user and the group that the image names for its processes, root by default.
    ///
    /// # Errors
    /// The image has no such user.
    pub fn user(&self) -> Result<(u32, u32)> {
        let read = |path: &str| {
            let path = resolve(&self.root, Path::new(path))?;
            match std::fs::read(path) {
                Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
                Err(error) => Err(error),
            }
        };
        let found = user::find(&self.config.user, &read("etc/passwd")?, &read("etc/group")?);
        found.ok_or_else(|| Error::other(format!("its image has no user {:?}", self.config.user)))
    }
}

/// A file of this machine in one state: another one has another length or time.
type FileState = (PathBuf, u64, Option<SystemTime>);

/// The images that this process has unpacked.
#[derive(Debug, Default)]
pub(crate) struct ImageStore(Mutex<BTreeMap<FileState, Arc<UnpackedImage>>>);

impl ImageStore {
    /// The image at a path, unpacked into a folder in `parent`, whose files belong to users as `owner` says. Blocks while it is unpacked;
    /// others wait meanwhile.
    ///
    /// # Errors
    /// It is no image, or cannot be unpacked.
    pub(crate) fn unpacked(
        &self,
        path: &Path,
        parent: &Path,
        owner: &Owner<'_>,
    ) -> Result<Arc<UnpackedImage>> {
        let state = state_of(path)?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&state) {
            return Ok(Arc::clone(known));
        }
        let source = ImageSource::open(path)?;
        let image = manifest::read(&source)?;
        let root = parent.join(&image.digest);
        if !root.exists() {
            // A folder with this name has all files of the image: it gets the name at the end.
            let partial = parent.join(format!("{}.partial", image.digest));
            remove(&partial)?;
            let mut unpacker = Unpacker::new(&partial, owner)?;
            for layer in &image.layers {
                unpacker.layer(source.reader(&layer.name)?, &layer.digest).map_err(|error| {
                    Error::new(error.kind(), format!("{}: layer {}: {error}", path.display(), layer.name))
                })?;
            }
            unpacker.finish()?;
            std::fs::rename(&partial, &root)?;
        }
        let unpacked = Arc::new(UnpackedImage { root, config: image.config });
        all.insert(state, Arc::clone(&unpacked));
        Ok(unpacked)
    }
}

/// The state of the file that says what is in an image.
fn state_of(path: &Path) -> Result<FileState> {
    let file = if path.is_dir() { path.join(source::INDEX) } else { path.to_owned() };
    let metadata = std::fs::metadata(&file)
        .map_err(|error| Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    Ok((file, metadata.len(), metadata.modified().ok()))
}

#[cfg(test)]
mod tests;
