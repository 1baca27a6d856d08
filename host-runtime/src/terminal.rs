//! A terminal for a command in a container: a pair of a controlling and a controlled end.

#[cfg(target_os = "linux")]
pub use linux::Terminal;
#[cfg(not(target_os = "linux"))]
pub use none::Terminal;

/// Systems without containers have no terminals for them.
#[cfg(not(target_os = "linux"))]
mod none {
    use std::convert::Infallible;
    use std::fs::File;
    use std::io::{Error, ErrorKind, Result};

    /// The controlling end of a terminal. There is none.
    #[derive(Debug)]
    pub struct Terminal(Infallible);

    impl Terminal {
        /// No terminal.
        ///
        /// # Errors
        /// Always.
        pub fn open() -> Result<(Self, File)> {
            Err(Error::from(ErrorKind::Unsupported))
        }

        /// Reads what is printed.
        ///
        /// # Errors
        /// Never: there is no terminal.
        pub async fn read(&self, _: &mut [u8]) -> Result<usize> {
            match self.0 {}
        }

        /// Types bytes.
        ///
        /// # Errors
        /// Never: there is no terminal.
        pub async fn write_all(&self, _: &[u8]) -> Result<()> {
            match self.0 {}
        }

        /// Sets the size in characters.
        pub fn resize(&self, _: u16, _: u16) {
            match self.0 {}
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix_namespaces::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use rustix_namespaces::io::Errno;
    use rustix_namespaces::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix_namespaces::termios::{Winsize, tcsetwinsize};
    use std::fs::{File, OpenOptions};
    use std::io::{Error, ErrorKind, Result};
    use std::path::Path;
    use tokio::net::unix::pipe::{Receiver, Sender};

    /// The controlling end of a terminal, as the pipes of what is printed and of what is typed: those of the runtime serve every descriptor
    /// that can be waited for.
    #[derive(Debug)]
    pub struct Terminal {
        printed: Receiver,
        typed: Sender,
    }

    impl Terminal {
        /// A new terminal, and its controlled end. Must be called within a runtime.
        ///
        /// # Errors
        /// The machine has no terminal left.
        pub fn open() -> Result<(Self, File)> {
            let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
            grantpt(&own)?;
            unlockpt(&own)?;
            let name = ptsname(&own, Vec::new())?;
            let name = name.to_str().map_err(Error::other)?;
            // Opening it would give this process a controlling terminal if it led a session without one.
            let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or_default();
            let mut options = OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
            let other = options.read(true).write(true).open(Path::new(name))?;
            fcntl_setfl(&own, fcntl_getfl(&own)? | OFlags::NONBLOCK)?;
            let typed = Sender::from_owned_fd_unchecked(own.try_clone()?)?;
            Ok((Self { printed: Receiver::from_owned_fd_unchecked(own)?, typed }, other))
        }

        /// Reads what is printed; zero at the end, when the controlled end is closed everywhere. Cancel safe.
        ///
        /// # Errors
        /// The terminal cannot be read.
        pub async fn read(&self, buffer: &mut [u8]) -> Result<usize> {
            loop {
                self.printed.readable().await?;
                match self.printed.try_read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(0),
                    done => return done,
                }
            }
        }

        /// Types bytes.
        ///
        /// # Errors
        /// The terminal is closed.
        pub async fn write_all(&self, mut bytes: &[u8]) -> Result<()> {
            while !bytes.is_empty() {
                self.typed.writable().await?;
                match self.typed.try_write(bytes) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    done => bytes = &bytes[done?..],
                }
            }
            Ok(())
        }

        /// Sets the size in characters.
        pub fn resize(&self, rows: u16, columns: u16) {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            // A closed terminal has no size.
            let _ = tcsetwinsize(&self.printed, size);
        }
    }
}
