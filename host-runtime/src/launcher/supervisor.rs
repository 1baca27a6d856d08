//! The process outside of a container that makes its namespaces and mounts, starts its first process, and passes on signals and its end.
//! The container ends with it, and it ends with the process that started it.

use super::mounts;
use crate::cgroup;
use crate::launch::{
    ENVIRONMENT, INIT, InitRequest, LaunchRequest, LauncherOrder, LauncherReport, ProcessRequest, receive,
    receive_exactly, send,
};
use crate::namespace::NetworkEntry;
use close_fds::set_fds_cloexec;
use rustix_namespaces::event::{PollFd, PollFlags, poll};
use rustix_namespaces::io::{Errno, FdFlags, fcntl_setfd};
use rustix_namespaces::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, setsid};
use rustix_namespaces::system::sethostname;
use rustix_namespaces::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare};
use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Result};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

/// The exit code of a process that SIGKILL has ended.
const KILLED: u8 = 137;

/// The first descriptor that is not a standard one.
pub(super) const FIRST_OTHER: i32 = 3;

/// Supervises one container.
pub(super) fn run() -> ExitCode {
    // What the parent of kstore-server has left open is not for the container.
    set_fds_cloexec(FIRST_OTHER, &[]);
    let Ok(control) = stdin_socket() else { return ExitCode::FAILURE };
    let report = match start(&control) {
        Ok(child) => supervise(child, &control),
        Err(error) => LauncherReport::Failed(error.to_string()),
    };
    // The other end may be gone.
    let _ = send(&control, &report);
    ExitCode::SUCCESS
}

/// The socket that this process has as standard input.
pub(super) fn stdin_socket() -> Result<UnixStream> {
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    Ok(UnixStream::from(stdin))
}

/// An error with what could not be done.
pub(super) fn cannot<E: Into<Error>>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| {
        let error = error.into();
        Error::new(error.kind(), format!("{what}: {error}"))
    }
}

/// Makes the container and executes its program.
fn start(control: &UnixStream) -> Result<Child> {
    // Signals of the terminal are for the process that started this one, which decides what ends.
    setsid().map_err(cannot("setsid"))?;
    // Nothing follows the request before it is answered.
    let request: LaunchRequest =
        receive(BufReader::new(control))?.ok_or_else(|| Error::other("no request"))?;
    // Before it has other rights to the machine's files and processes. All processes of the container are then in the group.
    let input = request.input.as_deref().map(open_input).transpose()?;
    if let Some(group) = &request.group {
        cgroup::join(group).map_err(cannot("enter the control group"))?;
    }
    let has_user_namespace = request.network.as_ref().map_or(Ok(false), enter_network)?;
    if !has_user_namespace {
        unshare(UnshareFlags::NEWUSER).map_err(cannot("user namespaces"))?;
        send(control, &LauncherReport::Unshared)?;
        if receive_exactly(control)? != Some(LauncherOrder::Mapped) {
            return Err(Error::other("the ids of the user namespace are not mapped"));
        }
    }
    let others = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    unshare(others).map_err(cannot("namespaces of mounts, processes, IPC and names"))?;
    sethostname(request.hostname.as_bytes()).map_err(cannot("the host's name"))?;
    mounts::container(&request)?;
    std::env::set_current_dir(&request.root)?;
    let (mut own, inner) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(INIT).env_clear().envs(ENVIRONMENT).stdin(Stdio::from(OwnedFd::from(inner)));
    if request.ids.has_ids() {
        // This process has an id of the machine, which the container has not.
        command.uid(0).gid(0);
    }
    let mut child = command.spawn().map_err(cannot("the first process"))?;
    // The command has the other end of the socket, which would not be at its end as long as it is open here.
    drop(command);
    let user = request.process.as_ref().map(|process| process.user).filter(|_| request.ids.has_ids());
    let is_foreign = request.process.as_ref().is_some_and(|process| process.is_foreign);
    let init = InitRequest { user, is_foreign, has_process: request.process.is_some() };
    // A process that fails earlier does not read all of it, and says why.
    let _ = send(&own, &init);
    if let Some(process) = &request.process {
        let _ =
            send(&own, &ProcessRequest { input: input.as_ref().map(AsRawFd::as_raw_fd), ..process.clone() });
    }
    match receive(BufReader::new(&mut own))? {
        // Executing the program has closed the other end.
        None => Ok(child),
        Some(why) => {
            let why: String = why;
            let _ = child.wait();
            Err(Error::other(why))
        }
    }
}

/// Enters the network of a pod, and the user namespace that it belongs to. Returns whether there is such a one. Must come before this
/// process has another user namespace, in which it would have no right to the network.
fn enter_network(network: &NetworkEntry) -> Result<bool> {
    let open = |path: &Path| File::open(path).map_err(cannot("the network of the pod"));
    let net = open(&network.network)?;
    if let Some(user) = &network.user {
        let user = open(user)?;
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(cannot("enter the user namespace of the pod"))?;
    }
    move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(cannot("enter the network of the pod"))?;
    Ok(network.user.is_some())
}

/// Opens the pipe of a program's standard input, so that the processes which become the program inherit it.
fn open_input(path: &Path) -> Result<File> {
    let input = File::open(path).map_err(cannot("standard input"))?;
    fcntl_setfd(&input, FdFlags::empty())?;
    Ok(input)
}

/// Reports the start, passes signals on, and returns the report of the end. It has no second thread: a process whose children are in
/// another namespace of processes cannot have one.
fn supervise(mut child: Child, control: &UnixStream) -> LauncherReport {
    let number = i32::try_from(child.id()).unwrap_or_default();
    let Some(pid) = Pid::from_raw(number) else { return LauncherReport::Exited(KILLED) };
    let is_heard = send(control, &LauncherReport::Started(number)).is_ok();
    if !is_heard || follow(pid, control).is_err() {
        // The process that started this one has ended, or wants the container to.
        let _ = child.kill();
    }
    LauncherReport::Exited(child.wait().map_or(KILLED, code))
}

/// Passes signals on until the process ends.
///
/// # Errors
/// The other end of `control` is closed.
fn follow(pid: Pid, control: &UnixStream) -> Result<()> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let mut ready = [PollFd::new(control, PollFlags::IN), PollFd::new(&process, PollFlags::IN)];
        match poll(&mut ready, -1) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !ready[1].revents().is_empty() {
            return Ok(());
        }
        if ready[0].revents().is_empty() {
            continue;
        }
        match receive_exactly(control)?.ok_or(ErrorKind::UnexpectedEof)? {
            LauncherOrder::Mapped => {}
            LauncherOrder::Signal(signal) => {
                // Nothing has waited for the process yet, so its number is no other's.
                if let Some(signal) = Signal::from_raw(signal) {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// The exit code as shells have it.
pub(super) fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(KILLED)
}
