//! Small files: writes secret ones, such as keys and kubeconfigs, and words why a configuration cannot be used.
//! The store writes its files itself.

use kstore_access::reloaded::UnusableFiles;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why files cannot be used, with all causes.
pub(crate) fn unusable(error: &anyhow::Error) -> UnusableFiles {
    UnusableFiles::new(format!("{error:#}"))
}

/// Replaces the file at `path` by `content`, readable only by its owner, and creates missing directories with
/// owner-only access. A reader sees the old file or the complete new one, also after a crash.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    write(path, content, None)
}

/// As [`write_private`], but a file that exists keeps its permissions.
pub(crate) fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let permissions = fs::metadata(path).ok().map(|file| file.permissions());
    write(path, content, permissions)
}

fn write(path: &Path, content: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_private_directories(directory)?;
    let temporary = sibling(path);
    let mut file = create_private(&temporary)?;
    let permitted = permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions));
    let written = permitted.and_then(|()| file.write_all(content)).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| fs::rename(&temporary, path));
    if placed.is_err() {
        let _ = fs::remove_file(&temporary);
        return placed;
    }
    File::open(directory)?.sync_all()
}

/// Path of the temporary file: `admin.kubeconfig` → `.admin.kubeconfig.<pid>.new`, in the same directory so
/// that the rename is atomic.
fn sibling(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

/// Creates missing directories of the path with mode 0700, independent of the umask.
pub(crate) fn create_private_directories(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_whole_replaced_and_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/admin.kubeconfig");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
    }
}
