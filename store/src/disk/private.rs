//! Permissions of the data directory: only its owner may read the store's files, independent of the umask of the process that
//! created them. New files and directories get these modes; [`protect`] applies them to files of an older version or
//! another program.

use crate::disk::own_files;
use crate::types::error::OpenError;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Mode of every file that the store creates.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Mode of every directory that the store creates.
pub(crate) const DIR_MODE: u32 = 0o700;

/// Mode bits that grant any access to group and others.
const OTHERS: u32 = 0o077;
/// Mode bits that let group and others add and remove names.
const OTHERS_WRITE: u32 = 0o022;
/// The sticky bit of a directory that several users share, such as `/tmp`.
const SHARED: u32 = 0o1000;

/// Subdirectories of a data directory. A directory with any other subdirectory is used by other programs too.
const OWN_DIRECTORIES: [&str; 4] = ["wal", "engine", "pki", "lost+found"];

/// Sets the mode of a file that was just opened or created: the umask may have removed bits, and an older file may have
/// more.
pub(crate) fn protect_file(file: &File) -> io::Result<()> {
    if mode(&file.metadata()?) == FILE_MODE {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(FILE_MODE))
}

/// Creates one directory with its mode.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(DIR_MODE).create(dir)?;
    // The umask may have removed bits of the owner too.
    fs::set_permissions(dir, Permissions::from_mode(DIR_MODE))
}

/// Removes other users' access to a data directory and to the store's files in it. Files of others stay as they are.
///
/// # Errors
///
/// [`OpenError::Exposed`] if several users share the directory, or if the modes cannot be changed.
pub(crate) fn protect(dir: &Path) -> Result<(), OpenError> {
    let found = read_metadata(dir)?;
    if found.mode() & SHARED != 0 {
        return Err(exposed(dir, &found, "several users share it".to_owned()));
    }
    if !serves_others(dir)? {
        tighten(dir, DIR_MODE)?;
    } else if found.mode() & OTHERS_WRITE != 0 {
        return Err(exposed(dir, &found, "it holds directories that are not the store's".to_owned()));
    }
    for directory in [own_files::LOG, own_files::ENGINE] {
        let below = dir.join(directory);
        if below.is_dir() {
            protect_directory(&below, directory)?;
        }
    }
    protect_files(dir, &own_files::is_own_file)
}

/// Removes other users' access to the log's or engine's directory and to the store's files in it.
fn protect_directory(dir: &Path, directory: &str) -> Result<(), OpenError> {
    let entries = read_dir(dir)?;
    let is_shared = entries.iter().any(|entry| match entry.is_dir {
        true => !own_files::is_sled(&entry.name),
        false => !own_files::is_own_file_below(directory, &entry.name),
    });
    if !is_shared {
        tighten(dir, DIR_MODE)?;
    }
    protect_files(dir, &|name| own_files::is_own_file_below(directory, name))?;
    let sled = entries.iter().filter(|entry| entry.is_dir && own_files::is_sled(&entry.name));
    sled.into_iter().try_for_each(|entry| protect_tree(&entry.path))
}

/// Removes other users' access to a directory and everything below it.
pub(crate) fn protect_tree(dir: &Path) -> Result<(), OpenError> {
    tighten(dir, DIR_MODE)?;
    protect_files(dir, &|_| true)?;
    for entry in read_dir(dir)? {
        if entry.is_dir {
            protect_tree(&entry.path)?;
        }
    }
    Ok(())
}

/// Sets the store's modes on a directory and everything below it. Used for files that a library creates with the
/// umask's modes.
pub(crate) fn set_modes(dir: &Path) -> io::Result<()> {
    set_mode(dir, DIR_MODE)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            set_modes(&entry.path())?;
        } else if kind.is_file() {
            set_mode(&entry.path(), FILE_MODE)?;
        }
    }
    Ok(())
}

/// Makes the system give files that are created in this directory, or below it, the store's modes, whatever the umask.
/// For a library that creates files itself. A file system without access control lists leaves that to [`set_modes`].
#[cfg(target_os = "linux")]
pub(crate) fn restrict_new_files(dir: &Path) -> io::Result<()> {
    use rustix::fs::{XattrFlags, setxattr};
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    const OWNER: u16 = 0x01;
    const GROUP: u16 = 0x04;
    const OTHER: u16 = 0x20;
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions) in [(OWNER, 7_u16), (GROUP, 0), (OTHER, 0)] {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&permissions.to_le_bytes());
        list.extend_from_slice(&NOBODY.to_le_bytes());
    }
    if let Err(error) = setxattr(dir, "system.posix_acl_default", &list, XattrFlags::empty()) {
        tracing::debug!(%error, dir = %dir.display(), "the file system has no access control lists");
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            restrict_new_files(&entry.path())?;
        }
    }
    Ok(())
}

/// Leaves the modes of new files to [`set_modes`].
#[cfg(not(target_os = "linux"))]
pub(crate) fn restrict_new_files(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Sets a mode. Succeeds if the file was removed meanwhile.
fn set_mode(path: &Path, wanted: u32) -> io::Result<()> {
    let set = || {
        if mode(&fs::metadata(path)?) == wanted {
            return Ok(());
        }
        fs::set_permissions(path, Permissions::from_mode(wanted))
    };
    match set() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Protects the store's files in a directory, except links, whose targets may belong to other programs.
fn protect_files(dir: &Path, is_own: &dyn Fn(&str) -> bool) -> Result<(), OpenError> {
    read_dir(dir)?
        .into_iter()
        .filter(|entry| entry.is_file && is_own(&entry.name))
        .try_for_each(|entry| tighten(&entry.path, FILE_MODE))
}

/// Sets the mode if group or others have any access.
fn tighten(path: &Path, wanted: u32) -> Result<(), OpenError> {
    let found = read_metadata(path)?;
    if found.mode() & OTHERS == 0 {
        return Ok(());
    }
    let before = format!("{:04o}", mode(&found));
    tracing::warn!(path = %path.display(), before, "other users had access to stored data; access removed");
    fs::set_permissions(path, Permissions::from_mode(wanted))
        .map_err(|error| exposed(path, &found, format!("that cannot be changed ({error})")))
}

/// Whether the directory contains subdirectories that do not belong to a store.
fn serves_others(dir: &Path) -> Result<bool, OpenError> {
    let is_foreign =
        |entry: DirEntry| entry.is_dir && !OWN_DIRECTORIES.iter().any(|own| entry.path.ends_with(own));
    Ok(read_dir(dir)?.into_iter().any(is_foreign))
}

struct DirEntry {
    name: String,
    path: std::path::PathBuf,
    is_dir: bool,
    is_file: bool,
}

fn read_dir(dir: &Path) -> Result<Vec<DirEntry>, OpenError> {
    let read = || {
        fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                let kind = entry.file_type()?;
                let name = entry.file_name().to_string_lossy().into_owned();
                Ok(DirEntry { name, path: entry.path(), is_dir: kind.is_dir(), is_file: kind.is_file() })
            })
            .collect::<io::Result<_>>()
    };
    read().map_err(|source| OpenError::Io { path: dir.to_owned(), source })
}

fn read_metadata(path: &Path) -> Result<Metadata, OpenError> {
    fs::metadata(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })
}

fn mode(found: &Metadata) -> u32 {
    found.mode() & 0o7777
}

fn exposed(path: &Path, found: &Metadata, detail: String) -> OpenError {
    OpenError::Exposed { path: path.to_owned(), mode: mode(found), detail }
}
