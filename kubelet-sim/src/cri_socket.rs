//! [`CriSocket`]: the Unix socket at which the simulated runtime is served to clients of CRI, for its owner alone.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Only the owner connects: who does can read and write files of this machine with the rights of this process.
const OWNER_ONLY: u32 = 0o600;

/// A listening Unix socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct CriSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// The endpoint for clients of CRI: its socket, and the node whose pods it shows.
#[derive(Clone, Debug)]
pub struct CriEndpoint {
    /// Where it is served.
    pub socket: std::sync::Arc<CriSocket>,
    /// The node; `None`: the first simulated one.
    pub node: Option<String>,
}

impl CriSocket {
    /// Listens at `path`. The socket of a process that has ended is replaced.
    ///
    /// # Errors
    /// Another process listens there, there is a file of another kind, or no socket can be made.
    pub fn bind(path: &Path) -> Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    "there is a file that is no socket: remove it or name another path",
                ));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(Error::new(
                    ErrorKind::AddrInUse,
                    "another process listens there: name another path or stop it",
                ));
            }
            Ok(_) | Err(_) => {}
        }
        // Between bind and the change of its mode others could connect to the socket: until then it is in a folder of mode 0700.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let private = folder.join(format!(".kstore-cri-{}", std::process::id()));
        std::fs::create_dir(&private)?;
        let listener = Self::bind_in(&private, path);
        let removed = std::fs::remove_dir(&private);
        let listener = listener?;
        removed?;
        Ok(Self { listener, path: path.to_owned() })
    }

    fn bind_in(private: &Path, path: &Path) -> Result<UnixListener> {
        std::fs::set_permissions(private, std::fs::Permissions::from_mode(0o700))?;
        let made = private.join("s");
        let listener = UnixListener::bind(&made)?;
        listener.set_nonblocking(true)?;
        let named = std::fs::set_permissions(&made, std::fs::Permissions::from_mode(OWNER_ONLY));
        let named = named.and_then(|()| std::fs::rename(&made, path));
        if named.is_err() {
            // The error says more than a second one about the same path.
            let _ = std::fs::remove_file(&made);
        }
        named.map(|()| listener)
    }

    /// Another handle of the listener, for one run of the simulation.
    ///
    /// # Errors
    /// The process has no free descriptor.
    pub(crate) fn listener(&self) -> Result<UnixListener> {
        self.listener.try_clone()
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CriSocket {
    fn drop(&mut self) {
        // It may have been removed or replaced by hand.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kstore-cri-socket-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_socket_is_for_its_owner_and_ends_with_its_listener() {
        let folder = folder("owner");
        let path = folder.join("s.sock");
        let socket = CriSocket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, OWNER_ONLY);
        UnixStream::connect(&path).unwrap();
        let second = CriSocket::bind(&path).unwrap_err();
        assert_eq!(second.kind(), ErrorKind::AddrInUse, "{second}");
        drop(socket);
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing else is left");
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_socket_without_a_listener_is_replaced_and_other_files_are_not() {
        let folder = folder("stale");
        let path = folder.join("s.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the listener is gone and its file is there");
        drop(CriSocket::bind(&path).unwrap());
        std::fs::write(&path, "text").unwrap();
        assert_eq!(CriSocket::bind(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
