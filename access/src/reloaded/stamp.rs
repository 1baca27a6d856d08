//! [`FileStamp`]: tells whether a file was replaced or written since it was last looked at, without reading
//! it.

use std::path::Path;

/// Changes whenever a file is replaced or written.
#[derive(PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// `None` if there is no file.
#[cfg(unix)]
pub(super) fn stamp(file: &Path) -> Option<FileStamp> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(file).ok()?;
    let modified = (found.mtime(), found.mtime_nsec());
    Some(FileStamp { inode: found.ino(), bytes: found.size(), modified })
}

/// Always `None`: replaced files are not noticed.
#[cfg(not(unix))]
pub(super) fn stamp(_: &Path) -> Option<FileStamp> {
    None
}
