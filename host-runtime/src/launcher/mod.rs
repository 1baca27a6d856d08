//! The processes between this program and a container's: this program started again, with one thread, so that it may make namespaces. One
//! supervises the container from outside (`container-launch`), one is the container's first process until it executes the program
//! (`container-init`, `container-exec`). Others enter a container that runs, for another command in it (`container-join`,
//! `container-enter`), and one makes the network of a pod and ends (`container-link`). They are commands of this program that nothing but
//! [`crate::child`] and `link` start. On systems without namespaces there are none.

#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod join;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod supervisor;

use std::process::ExitCode;

/// Executes the command if it is one of a launcher, and returns the exit code; `None` for other commands. Must be called before the process
/// has a second thread.
pub fn run(command: &str) -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    match command {
        crate::launch::LAUNCH => return Some(supervisor::run()),
        crate::launch::INIT => return Some(init::run()),
        crate::launch::EXEC => return Some(process::run()),
        crate::launch::LINK => return Some(link::run()),
        crate::launch::JOIN => return Some(join::run()),
        crate::launch::ENTER => return Some(join::enter()),
        _ => {}
    }
    let _ = command;
    None
}
