//! [`SocketFile`]: a Unix socket to which only the user of this process can connect, from the moment the file
//! exists.

use anyhow::{Context, anyhow, bail};
use parking_lot::Mutex;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Number of names tried for the private directory. One name may be left from a killed process; many cannot.
const TRIES: u32 = 16;

/// A socket file at a path, removed on drop.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode of the last file that this value created.
    made: Mutex<Option<(u64, u64)>>,
}

impl SocketFile {
    /// A socket file that is created by [`SocketFile::bind`].
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), made: Mutex::default() }
    }

    /// Removes the file, unless another process has replaced it.
    pub(crate) fn remove(&self) {
        let Some(made) = self.made.lock().take() else { return };
        let is_ours = |metadata: fs::Metadata| (metadata.dev(), metadata.ino()) == made;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the socket could not be removed");
        }
    }

    /// Listens at the path. An existing socket without a listener is replaced.
    ///
    /// The socket is created in a directory with owner-only access, and is linked to its final name after its
    /// mode is set. Setting the mode of a visible socket, or a umask, which all threads share, would admit
    /// other users for a moment.
    pub(crate) fn bind(&self) -> anyhow::Result<UnixListener> {
        let path = &self.path;
        let parent = path.parent().context("a socket has a directory")?;
        let private = PrivateDir::make(parent)
            .with_context(|| format!("cannot create a socket in the directory {}", parent.display()))?;
        let (socket, old) = (private.0.join("s"), private.0.join("o"));
        let listener = UnixListener::bind(&socket).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => anyhow!("the path {} is too long for a socket", path.display()),
            _ => anyhow!(error).context(format!("cannot listen on {}", path.display())),
        })?;
        fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let metadata = fs::metadata(&socket)?;
        // A link and not a rename: a rename would replace a socket that another process has just created.
        while let Err(error) = fs::hard_link(&socket, path) {
            if error.kind() != ErrorKind::AlreadyExists {
                return Err(error).with_context(|| format!("cannot create the socket {}", path.display()));
            }
            replace_unused(path, &old)?;
        }
        *self.made.lock() = Some((metadata.dev(), metadata.ino()));
        Ok(listener)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes a socket without a listener. It is first moved to `old` and checked again there, so that the
/// removed file is the checked one and not the socket that another process has created meanwhile.
fn replace_unused(path: &Path, old: &Path) -> anyhow::Result<()> {
    refuse_if_in_use(path, path)?;
    match fs::rename(path, old) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot replace the unused socket {}", path.display()));
        }
    }
    if let Err(refusal) = refuse_if_in_use(old, path) {
        fs::hard_link(old, path).with_context(|| format!("{refusal}, and could not be put back"))?;
        return Err(refusal);
    }
    tracing::info!(path = %path.display(), "replaced a socket without a listener");
    fs::remove_file(old).with_context(|| format!("cannot remove {}", old.display()))
}

/// Fails if the file is not a socket, or a process listens on it. `shown` is the path in error messages.
fn refuse_if_in_use(path: &Path, shown: &Path) -> anyhow::Result<()> {
    let shown = shown.display();
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => bail!("{shown} exists and is not a socket; choose another path"),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot stat {shown}")),
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!("another process listens on {shown}; stop it or choose another path"),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        // A listener with a full queue is alive, and a socket without permission belongs to another user.
        Err(error) => Err(error).with_context(|| format!("cannot determine whether {shown} is in use")),
    }
}

/// A directory with owner-only access, removed with its contents on drop. Its name is short, since the length
/// of socket paths is limited.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn make(parent: &Path) -> io::Result<Self> {
        let mut attempt = 0;
        loop {
            let path = parent.join(format!(".{}.{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < TRIES => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a directory could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_socket_is_accessible_to_its_owner_only_and_removed_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        let file = SocketFile::new(&dir.path().join("etcd.sock"));
        let listener = file.bind().unwrap();
        assert_eq!(fs::metadata(&file.path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(names(dir.path()), ["etcd.sock"], "the private directory is gone");
        UnixStream::connect(&file.path).unwrap();
        drop((listener, file));
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn an_unused_socket_is_replaced_and_one_in_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a dead socket stays");
        let first = SocketFile::new(&path);
        let listener = first.bind().unwrap();
        let second = SocketFile::new(&path);
        let refusal = format!("{:#}", second.bind().unwrap_err());
        assert!(refusal.contains("another process listens on"), "{refusal}");
        drop(second);
        UnixStream::connect(&path).unwrap();
        // A restarted server binds the path again.
        drop(listener);
        let again = first.bind().unwrap();
        UnixStream::connect(&path).unwrap();
        drop((again, first));
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn other_files_are_not_replaced_and_a_successors_socket_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.sock");
        fs::write(&path, "precious").unwrap();
        let file = SocketFile::new(&path);
        assert!(file.bind().unwrap_err().to_string().contains("is not a socket"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        drop(file.bind().unwrap());
        let successor = SocketFile::new(&path);
        let _listener = successor.bind().unwrap();
        drop(file);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn an_unusable_socket_path_reports_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let none = SocketFile::new(&dir.path().join("none/etcd.sock")).bind().unwrap_err();
        assert!(format!("{none:#}").contains("cannot create a socket in the directory"), "{none:#}");
        let long = dir.path().join("d".repeat(100));
        fs::create_dir(&long).unwrap();
        let long = SocketFile::new(&long.join("etcd.sock")).bind().unwrap_err();
        assert!(format!("{long:#}").contains("too long for a socket"), "{long:#}");
    }
}
