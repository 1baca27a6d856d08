//! The first process of a container, until it executes the container's program: it makes the mounts that need the container's processes,
//! leaves the machine's files, and gives up its rights.

use super::mounts;
use super::process;
use super::supervisor::{cannot, stdin_socket};
use crate::launch::{InitRequest, ProcessRequest, receive, receive_exactly, send};
use crate::limits::SHARED_MEMORY;
use rustix_namespaces::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use rustix_namespaces::process::pivot_root;
use std::io::{BufReader, Error, Result};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// Files of `/proc` that a container may read and not write.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// Files of `/proc` that a container does not see.
const HIDDEN: [&str; 4] = ["/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/timer_list"];

/// Becomes the container's program. Returns only if that fails, or if there is none.
pub(super) fn run() -> ExitCode {
    let Ok(mut control) = stdin_socket() else { return ExitCode::FAILURE };
    match become_program(&mut control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = send(&control, &error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn become_program(control: &mut UnixStream) -> Result<()> {
    let request: InitRequest = receive_exactly(&mut *control)?.ok_or_else(|| Error::other("no request"))?;
    // The working directory is the container's root; all paths are relative to it, because those above it may be closed to this user.
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "proc", "proc", safe, "").map_err(cannot("mount /proc"))?;
    let terminals = "newinstance,ptmxmode=0666,mode=0620";
    mount("devpts", "dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, terminals)
        .map_err(cannot("mount /dev/pts"))?;
    mount("shm", "dev/shm", "tmpfs", safe, SHARED_MEMORY).map_err(cannot("mount /dev/shm"))?;
    // The new root is mounted over the old one, which is then taken away.
    pivot_root(".", ".").map_err(cannot("pivot_root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(cannot("leave the machine's files"))?;
    std::env::set_current_dir("/")?;
    for path in READ_ONLY.into_iter().filter(|path| Path::new(path).exists()) {
        mount_bind(path, path).map_err(cannot(path))?;
        mounts::read_only(Path::new(path)).map_err(|error| cannot::<Error>(path)(error))?;
    }
    for path in HIDDEN.into_iter().filter(|path| Path::new(path).exists()) {
        mount_bind("/dev/null", path).map_err(cannot(path))?;
    }
    if !request.has_process {
        return Ok(());
    }
    if !request.is_foreign {
        return Err(process::become_user(request.user, None));
    }
    let process: Option<ProcessRequest> = receive(BufReader::new(control))?;
    let process = process.ok_or_else(|| Error::other("no request"))?;
    Err(process::become_program(request.user, &process, true))
}
