//! [`MemoryFile`]: a file that other processes of this user can read by path and that does not outlive this
//! process. On Linux it is memory, reached through `/proc/<pid>/fd`, so that even SIGKILL leaves nothing.
//! Elsewhere it is a temporary file, removed on drop.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A readable file that disappears when the value is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    path: PathBuf,
    #[cfg(target_os = "linux")]
    _file: std::fs::File,
    #[cfg(not(target_os = "linux"))]
    _file: tempfile::NamedTempFile,
}

impl MemoryFile {
    /// Creates a file with this content.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(name: &str, content: &[u8]) -> io::Result<Self> {
        use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
        use std::os::fd::AsRawFd;
        let mut file = std::fs::File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        file.write_all(content)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
        Ok(Self { path, _file: file })
    }

    /// Creates a file with this content.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(name: &str, content: &[u8]) -> io::Result<Self> {
        let mut file = tempfile::Builder::new().prefix("kstore-").suffix(&format!("-{name}")).tempfile()?;
        file.write_all(content)?;
        Ok(Self { path: file.path().into(), _file: file })
    }

    /// The path for other processes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_file_is_readable_by_other_processes_until_it_is_dropped() {
        let file = MemoryFile::new("kubeconfig", b"content").unwrap();
        let read = std::process::Command::new("cat").arg(file.path()).output().unwrap();
        assert_eq!(read.stdout, b"content");
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
