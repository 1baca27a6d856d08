//! A file that other processes of this user can read by path and that cannot outlive this process. On Linux it is memory,
//! reached through `/proc/<pid>/fd`, so that even SIGKILL leaves nothing. Elsewhere it is a temporary file, removed on drop.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file; gone when this value or the process is.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    path: PathBuf,
    #[cfg(target_os = "linux")]
    _file: std::fs::File,
    #[cfg(not(target_os = "linux"))]
    _file: tempfile::NamedTempFile,
}

impl MemoryFile {
    /// Makes the file with this content.
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

    /// Makes the file with this content.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(name: &str, content: &[u8]) -> io::Result<Self> {
        let mut file = tempfile::Builder::new().prefix("kstore-").suffix(&format!("-{name}")).tempfile()?;
        file.write_all(content)?;
        Ok(Self { path: file.path().into(), _file: file })
    }

    /// Where others read it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_reads_it_and_it_goes_with_its_value() {
        let file = MemoryFile::new("kubeconfig", b"content").unwrap();
        let read = std::process::Command::new("cat").arg(file.path()).output().unwrap();
        assert_eq!(read.stdout, b"content");
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }
}
