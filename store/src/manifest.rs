//! Manifest files: the newest manifest and the previous one. Each is replaced as a whole. A manifest names a durable
//! state of the engine, and the position in the log from which commits are missing in it.
//!
//! Promise: after a crash one of the two is intact. Never here: when a manifest is written (`background::worker`).

use crate::codec::manifest::{Manifest, decode, encode};
use crate::disk::{Disk, read_all};
use crate::types::error::OpenError;
use std::io;
use std::path::Path;

/// File name of the newest manifest.
pub(crate) const CURRENT: &str = "MANIFEST";
/// File name of the previous manifest.
pub(crate) const PREVIOUS: &str = "MANIFEST.old";
const NEXT: &str = "MANIFEST.tmp";

/// File name of the mark that a directory has while a restore into it is in progress. It has no manifest meanwhile, and
/// must not be taken for an empty directory.
pub(crate) const RESTORING: &str = "RESTORING";

/// Whether a file of that name shows that the directory holds a store.
pub(crate) fn is_manifest(name: &str) -> bool {
    name == CURRENT || name == PREVIOUS
}

/// The manifests found in a directory.
#[derive(Debug)]
pub(crate) struct FoundManifests {
    /// The newest intact manifest.
    pub(crate) newest: Manifest,
    /// The previous manifest, if there is one.
    pub(crate) previous: Option<Manifest>,
}

/// Reads the manifests of a directory; none if there never was one.
pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<FoundManifests>, OpenError> {
    let current = read(disk, dir, CURRENT)?;
    let previous = read(disk, dir, PREVIOUS)?;
    match (current, previous) {
        (ManifestFile::Absent, ManifestFile::Absent) => Ok(None),
        (ManifestFile::Whole(newest), ManifestFile::Whole(previous)) => {
            Ok(Some(FoundManifests { newest, previous: Some(previous) }))
        }
        (ManifestFile::Whole(newest), ManifestFile::Absent | ManifestFile::Broken) => {
            Ok(Some(FoundManifests { newest, previous: None }))
        }
        // A crash between the two renames, or damage. The log reaches back far enough for the previous manifest too.
        (ManifestFile::Absent | ManifestFile::Broken, ManifestFile::Whole(newest)) => {
            replace(disk, dir, &newest)
                .map_err(|source| OpenError::Io { path: dir.join(CURRENT), source })?;
            Ok(Some(FoundManifests { newest, previous: None }))
        }
        (ManifestFile::Broken, ManifestFile::Absent | ManifestFile::Broken)
        | (ManifestFile::Absent, ManifestFile::Broken) => {
            Err(OpenError::Damaged { file: dir.join(CURRENT), detail: "the manifest is damaged".to_owned() })
        }
    }
}

enum ManifestFile {
    Absent,
    Broken,
    Whole(Manifest),
}

fn read(disk: &dyn Disk, dir: &Path, name: &str) -> Result<ManifestFile, OpenError> {
    let path = dir.join(name);
    let file = match disk.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ManifestFile::Absent),
        Err(source) => return Err(OpenError::Io { path, source }),
    };
    let bytes = read_all(&*file).map_err(|source| OpenError::Io { path, source })?;
    match decode(&bytes) {
        None => Ok(ManifestFile::Broken),
        Some(Ok(manifest)) => Ok(ManifestFile::Whole(manifest)),
        Some(Err(error)) => {
            Err(OpenError::Foreign { dir: dir.to_owned(), detail: format!("{name}: {error}") })
        }
    }
}

/// Writes `manifest` to a temporary file. If that fails, nothing has changed.
pub(crate) fn draft(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> io::Result<()> {
    write_next(disk, dir, manifest).inspect_err(|_| {
        let _ = disk.remove(&dir.join(NEXT));
    })
}

/// Makes the drafted manifest the newest one and the current one the previous; durable on return.
pub(crate) fn adopt(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match disk.rename(&dir.join(CURRENT), &dir.join(PREVIOUS)) {
        // An earlier attempt was interrupted after this rename.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other?,
    }
    adopt_next(disk, dir)
}

/// Replaces the newest manifest and leaves the previous one as it is; durable on return.
pub(crate) fn replace(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> io::Result<()> {
    write_next(disk, dir, manifest)?;
    adopt_next(disk, dir)
}

fn write_next(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> io::Result<()> {
    let file = disk.create(&dir.join(NEXT))?;
    file.write_at(0, &encode(manifest))?;
    file.sync()
}

fn adopt_next(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.rename(&dir.join(NEXT), &dir.join(CURRENT))?;
    disk.sync_dir(dir)
}
