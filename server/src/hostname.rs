//! The name of this machine.

/// The host name of this machine.
#[cfg(unix)]
pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The host name of this machine, where the system offers no call for it.
#[cfg(not(unix))]
pub(crate) fn hostname() -> String {
    "localhost".to_owned()
}
