//! A command in a container that runs: this process enters the container's namespaces but that of mounts, so that it can still start this
//! program; its child enters that one, too, and becomes the command.

use super::process::{become_program, become_user, failed, inherited};
use super::supervisor::{FIRST_OTHER, cannot, code};
use crate::cgroup;
use crate::launch::{ENTER, ENVIRONMENT, JoinRequest};
use close_fds::set_fds_cloexec;
use rustix_namespaces::fs::{MemfdFlags, memfd_create};
use rustix_namespaces::io::{FdFlags, fcntl_setfd};
use rustix_namespaces::process::{Pid, PidfdFlags, pidfd_open};
use rustix_namespaces::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Runs the command of the request in the file that the argument names, and returns its exit code.
pub(super) fn run() -> ExitCode {
    // What the parent of kstore-server has left open is not for the container.
    set_fds_cloexec(FIRST_OTHER, &[]);
    match join() {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

fn join() -> Result<u8> {
    let path = std::env::args_os().nth(2).ok_or_else(|| Error::other("no request"))?;
    let text = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    let request: JoinRequest = serde_json::from_slice(&text)?;
    if let Some(group) = &request.group {
        cgroup::join(group).map_err(cannot("enter the control group"))?;
    }
    let first = Pid::from_raw(request.pid).ok_or_else(|| Error::other("no process"))?;
    let first = pidfd_open(first, PidfdFlags::empty()).map_err(cannot("the container"))?;
    let process = serde_json::to_vec(&request.process)?;
    // The child has other rights to files than this process: it gets its request as a file in memory, and only its descriptor by name.
    let mut file = File::from(memfd_create("request", MemfdFlags::CLOEXEC)?);
    file.write_all(&process)?;
    file.write_all(b"\n")?;
    fcntl_setfd(&file, FdFlags::empty())?;
    let mut namespaces = ThreadNameSpaceType::USER
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    if request.has_network {
        namespaces |= ThreadNameSpaceType::NETWORK;
    }
    move_into_thread_name_spaces(first.as_fd(), namespaces).map_err(cannot("enter the container"))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(ENTER).arg(file.as_raw_fd().to_string()).env_clear().envs(ENVIRONMENT);
    if request.has_ids {
        let (user, group) = request.process.user;
        command.args([user.to_string(), group.to_string()]).uid(0).gid(0);
    }
    let status = command.status().map_err(cannot("enter the container"))?;
    Ok(code(status))
}

/// Goes on to the container's files and becomes the command. The arguments are the descriptor of its request, and the user and group if
/// the container has any but its root.
pub(super) fn enter() -> ExitCode {
    failed(&entered())
}

fn entered() -> Error {
    let mut arguments = std::env::args().skip(2);
    let mut number = || arguments.next().and_then(|word| word.parse().ok());
    let (file, user, group) = (number(), number(), number());
    let Some(file) = file.and_then(|file: u32| i32::try_from(file).ok()) else {
        return Error::new(ErrorKind::InvalidInput, "no request");
    };
    // In the container's namespace of processes its first one has the number 1.
    let joined = pidfd_open(Pid::INIT, PidfdFlags::empty())
        .and_then(|first| move_into_thread_name_spaces(first.as_fd(), ThreadNameSpaceType::MOUNT));
    if let Err(error) = joined {
        return cannot("enter the container's files")(error);
    }
    match inherited(&file.to_string()) {
        Ok(process) if process.is_foreign => become_program(user.zip(group), &process, false),
        Ok(_) => become_user(user.zip(group), Some(file)),
        Err(error) => error,
    }
}
