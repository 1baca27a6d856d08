//! Starts the command of `run` so that it does not outlive this process.
//! On Linux the command is started through this binary's hidden `exec-guarded`. That process asks the kernel
//! to be killed with its parent, then executes the command. It needs no unsafe code and also works when this
//! process is killed. On other systems the command is started directly, and only an orderly end of this
//! process ends it.

use crate::args::ExecArgs;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use tokio::process::Command;

/// The command to spawn, guarded.
#[cfg(target_os = "linux")]
pub(crate) fn command(command: &[OsString]) -> Command {
    // Not `current_exe`: this link stays valid after the file was replaced by a newer build.
    let mut guarded = Command::new("/proc/self/exe");
    guarded.args(["exec-guarded", "--parent", &std::process::id().to_string(), "--"]).args(command);
    guarded
}

/// The command to spawn.
#[cfg(not(target_os = "linux"))]
pub(crate) fn command(command: &[OsString]) -> Command {
    let mut plain = Command::new(&command[0]);
    plain.args(&command[1..]);
    plain
}

/// Executes `exec-guarded` with the arguments of [`command`]; `None` if they have another form.
pub(crate) fn exec_with(arguments: Vec<OsString>) -> Option<ExitCode> {
    let [flag, parent, separator, command @ ..] = arguments.as_slice() else { return None };
    let parent = parent.to_str()?.parse().ok()?;
    let has_form = flag == "--parent" && separator == "--" && !command.is_empty();
    has_form.then(|| exec(&ExecArgs { parent, command: command.to_vec() }))
}

/// Executes the command in place of this process. Returns only on failure, with the exit code that shells
/// use.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_forms_of_the_arguments_are_left_to_the_parser() {
        let exec = |line: &str| exec_with(line.split(' ').map(OsString::from).collect());
        for line in ["", "--help", "--parent 1", "--parent 1 --", "--parent x -- true", "true -- --parent 1"]
        {
            assert!(exec(line).is_none(), "{line}");
        }
    }
}
