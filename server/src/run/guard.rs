//! A command that cannot outlive us. On Linux it is started through this binary's hidden `exec-guarded`, which asks the
//! kernel to be killed with its parent and then becomes the command: no unsafe code, and it holds even when we are killed.
//! Elsewhere the command is started directly and ends with an orderly end of ours only.

use crate::args::ExecArgs;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use tokio::process::Command;

/// The command, ready to be configured and spawned.
#[cfg(target_os = "linux")]
pub(crate) fn command(command: &[OsString]) -> Command {
    // Not `current_exe`: this link works even after the file was replaced by a newer build.
    let mut guarded = Command::new("/proc/self/exe");
    guarded.args(["exec-guarded", "--parent", &std::process::id().to_string(), "--"]).args(command);
    guarded
}

/// The command, ready to be configured and spawned.
#[cfg(not(target_os = "linux"))]
pub(crate) fn command(command: &[OsString]) -> Command {
    let mut plain = Command::new(&command[0]);
    plain.args(&command[1..]);
    plain
}

/// Becomes the command. Returns only if that fails, with the code by which shells say so.
pub(crate) fn exec(args: &ExecArgs) -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
        if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
            eprintln!("kstore-server run: cannot tie the command to this process");
            return ExitCode::FAILURE;
        }
        // The parent may have died before the line above took effect.
        if getppid() != Pid::from_raw(args.parent) {
            return ExitCode::from(137);
        }
    }
    let [program, arguments @ ..] = args.command.as_slice() else { return ExitCode::FAILURE };
    let error = std::process::Command::new(program).args(arguments).exec();
    eprintln!("kstore-server run: cannot run {}: {error}", program.display());
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}
