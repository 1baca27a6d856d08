//! Which files of a directory a store created. A store changes the permissions of no other file, and a program can refuse
//! a directory that belongs to something else.

use std::fs::{self, FileType};
use std::io;
use std::path::Path;

/// Files that a store creates in its directory.
const FILES: [&str; 7] =
    ["LOCK", "MANIFEST", "MANIFEST.damaged", "MANIFEST.old", "MANIFEST.tmp", "RESERVE", "RESTORING"];

/// Directories that a store creates in its directory.
pub(crate) const LOG: &str = "wal";
pub(crate) const ENGINE: &str = "engine";

/// Names that file systems and file managers leave in an empty directory.
const LITTER: [&str; 7] =
    [".DS_Store", ".Trashes", ".fseventsd", ".gitkeep", ".keep", ".snapshot", "lost+found"];

/// Whether a store creates a file of that name in its directory.
pub(crate) fn is_own_file(name: &str) -> bool {
    FILES.contains(&name)
}

/// Whether a store creates a file of that name in its log or engine directory. Below `engine/sled`, every file is one.
pub(crate) fn is_own_file_below(directory: &str, name: &str) -> bool {
    let number = |end: &str, digits: usize| {
        let number = name.strip_suffix(end);
        number.is_some_and(|number| number.len() == digits && number.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let is_temporary = || {
        let number = name.strip_suffix(".tmp");
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    match directory {
        LOG => number(".wal", 16) || is_temporary(),
        ENGINE => number(".seg", 8) || number(".seg.broken", 8),
        _ => false,
    }
}

/// Whether the engine's directory has a directory of that name for sled.
pub(crate) fn is_sled(name: &str) -> bool {
    name == "sled" || name == "sled.broken"
}

/// Names of entries because of which a directory is no data directory of a store, and not an empty one either; at most
/// `most`. None if it holds a store, also a damaged one, or the beginnings of one. `is_callers` recognises the entries
/// that the calling program creates beside the store's; it gets the name, and whether it is a directory.
///
/// # Errors
/// The operating system's, if the directory cannot be read.
pub fn foreign_entries(
    dir: &Path,
    most: usize,
    is_callers: &dyn Fn(&str, bool) -> bool,
) -> io::Result<Vec<String>> {
    let entries = match entries(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut foreign = Vec::new();
    for (name, kind) in &entries {
        let is_known = match (&name[..], kind.is_dir()) {
            (LOG, true) => is_own_directory(dir, LOG)?,
            (ENGINE, true) => is_own_directory(dir, ENGINE)?,
            (name, is_dir) => {
                (!is_dir && is_own_file(name)) || LITTER.contains(&name) || is_callers(name, is_dir)
            }
        };
        if !is_known {
            foreign.push(name.clone());
        }
    }
    if foreign.is_empty() || holds_store(dir)? {
        return Ok(Vec::new());
    }
    foreign.sort_unstable();
    foreign.truncate(most);
    Ok(foreign)
}

/// Whether there is a manifest, or a log or an engine with files of a store.
fn holds_store(dir: &Path) -> io::Result<bool> {
    for name in ["MANIFEST", "MANIFEST.old"] {
        match fs::read(dir.join(name)) {
            Ok(bytes) if crate::codec::manifest::is_manifest(&bytes) => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if dir.join(name).is_dir() => drop(error),
            Err(error) => return Err(error),
        }
    }
    for directory in [LOG, ENGINE] {
        let below = dir.join(directory);
        let is_file_of_store = |(name, kind): &(String, FileType)| {
            kind.is_file() && !name.ends_with(".tmp") && is_own_file_below(directory, name)
        };
        if below.is_dir() && entries(&below)?.iter().any(is_file_of_store) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the log's or engine's directory has nothing but files of a store.
fn is_own_directory(dir: &Path, directory: &str) -> io::Result<bool> {
    let is_own = |(name, kind): &(String, FileType)| match kind.is_dir() {
        true => directory == ENGINE && is_sled(name),
        false => is_own_file_below(directory, name),
    };
    Ok(entries(&dir.join(directory))?.iter().all(is_own))
}

fn entries(dir: &Path) -> io::Result<Vec<(String, FileType)>> {
    let read = fs::read_dir(dir)?.map(|entry| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?))
    });
    read.collect()
}
