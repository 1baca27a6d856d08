//! A container's process in its last two steps: it gives up its rights over the container's namespaces and becomes its user, by executing
//! this program once more (`container-exec`), which then executes the container's program. Among the files of an image this program cannot
//! be executed: there the process executes the container's program as its user at once.

use super::supervisor::{FIRST_OTHER, cannot, stdin_socket};
use crate::launch::{ENVIRONMENT, EXEC, ProcessRequest, receive, send};
use crate::limits::OPEN_FILES;
use crate::resources::ProcessLimits;
use close_fds::set_fds_cloexec;
use rustix_namespaces::process::{
    Resource, Rlimit, Signal, getrlimit, ioctl_tiocsctty, set_parent_process_death_signal, setrlimit, setsid,
};
use rustix_namespaces::thread::{CapabilitiesSecureBits, set_capabilities_secure_bits, set_no_new_privs};
use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Result};
use std::os::fd::{AsFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

/// Becomes the user and the group, if there are any but the container's root, without any capability, and goes on as [`run`]. The request
/// comes over standard input, or is in the file with this descriptor. Returns only the error.
pub(super) fn become_user(user: Option<(u32, u32)>, request: Option<RawFd>) -> Error {
    if let Err(error) = give_up_rights() {
        return error;
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg(EXEC).args(request.map(|file| file.to_string())).env_clear().envs(ENVIRONMENT);
    if let Some((user, group)) = user {
        // The standard library then also gives up all further groups.
        command.uid(user).gid(group);
    }
    cannot("become the container's user")(command.exec())
}

/// Becomes the container's program as the user and the group, if there are any but the container's root, without any capability. The
/// kernel forgets the parent-death signal of a process that changes its user, so commands of such containers end with the container, and
/// not with the process that started them. Returns only the error.
pub(super) fn become_program(user: Option<(u32, u32)>, process: &ProcessRequest, is_launched: bool) -> Error {
    match give_up_rights() {
        Ok(()) => execute(process, is_launched, user),
        Err(error) => error,
    }
}

/// Gives up all capabilities, also those that executing a program would give back.
fn give_up_rights() -> Result<()> {
    setsid().map_err(cannot("setsid"))?;
    set_no_new_privs(true).map_err(cannot("no_new_privs"))?;
    // A core file would be written where the machine says, outside of the container.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(cannot("no core files"))?;
    let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    set_capabilities_secure_bits(bits).map_err(cannot("no capabilities for root"))
}

/// Sets what the process may use by itself. Nothing is raised above what this process has.
fn set_limits(limits: ProcessLimits) -> Result<()> {
    let all = [
        (Resource::Nofile, Some(OPEN_FILES), "the limit on open files"),
        (Resource::Nproc, limits.processes, "the limit on processes"),
        (Resource::Fsize, limits.file_bytes, "the limit on sizes of files"),
    ];
    for (resource, most, what) in all {
        let Some(most) = most else { continue };
        let most = getrlimit(resource).maximum.map_or(most, |known| known.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).map_err(cannot(what))?;
    }
    Ok(())
}

/// Executes the program of the request: the one in the file whose descriptor is the argument, or without one on standard input. Returns
/// only if that fails.
pub(super) fn run() -> ExitCode {
    if let Some(file) = std::env::args().nth(2) {
        let error = match inherited(&file) {
            Ok(request) => execute(&request, false, None),
            Err(error) => error,
        };
        return failed(&error);
    }
    let Ok(mut control) = stdin_socket() else { return ExitCode::FAILURE };
    let request = receive(BufReader::new(&mut control));
    let error = match request {
        Ok(Some(request)) => execute(&request, true, None),
        Ok(None) => Error::other("no request"),
        Err(error) => error,
    };
    let _ = send(&control, &error.to_string());
    ExitCode::FAILURE
}

/// The request in the file with an inherited descriptor.
pub(super) fn inherited(file: &str) -> Result<ProcessRequest> {
    let request = File::open(format!("/proc/self/fd/{file}")).map_err(cannot("the request"))?;
    receive(BufReader::new(request))?.ok_or_else(|| Error::other("no request"))
}

/// Says on standard error why a command in a container is not run; the exit code is that of shells.
pub(super) fn failed(error: &Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}

/// The standard input of a container's program, which is not yet that of this process: the terminal that its output goes to, a pipe, or
/// nothing.
fn standard_input(process: &ProcessRequest) -> Result<Stdio> {
    if process.has_terminal {
        return Ok(std::io::stdout().as_fd().try_clone_to_owned()?.into());
    }
    let Some(pipe) = process.input else { return Ok(Stdio::null()) };
    // The pipe belongs to the container's user, so it can be opened again.
    let pipe = File::open(format!("/proc/self/fd/{pipe}")).map_err(cannot("standard input"))?;
    Ok(pipe.into())
}

/// Executes the program as a user that this process is not yet, if there is one, and with its own standard input if that of this process is
/// the socket of a launcher. Returns only the error.
fn execute(process: &ProcessRequest, is_launched: bool, user: Option<(u32, u32)>) -> Error {
    set_fds_cloexec(FIRST_OTHER, &[]);
    if process.has_terminal
        && let Err(error) = ioctl_tiocsctty(std::io::stdout())
    {
        return cannot("control the terminal")(error);
    }
    // A change of user would undo this, so it comes after it.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::Kill)) {
        return cannot("end with the supervisor")(error);
    }
    if let Err(error) = set_limits(process.limits) {
        return error;
    }
    if let Err(error) = std::env::set_current_dir(&process.workdir) {
        return cannot(&format!("working directory {}", process.workdir))(error);
    }
    let [name, arguments @ ..] = process.argv.as_slice() else { return Error::other("no command") };
    let mut command = Command::new(&process.program);
    command
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(process.env.iter().map(|(name, value)| (name, value)));
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    if is_launched {
        match standard_input(process) {
            Ok(input) => drop(command.stdin(input)),
            Err(error) => return error,
        }
    }
    let error = command.exec();
    let program = &process.program;
    match error.kind() {
        ErrorKind::NotFound if !program.contains('/') => {
            Error::new(error.kind(), format!("exec: \"{program}\": executable file not found in $PATH"))
        }
        _ => cannot(&format!("exec {program}"))(error),
    }
}
