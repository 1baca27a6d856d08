//! Ends the processes that the command of `run` has started, when `run` itself is killed with SIGKILL. The kernel then ends the
//! command (see `guard`), but not the command's children, such as the operator of `sh -c './operator & make test'`.
//!
//! A second process of this program waits for the end of a pipe that only `run` holds. If `run` ends in order, it says so first.
//! Otherwise the watcher ends every process whose environment has the mark that `run` gave to its command. A process that has
//! changed its environment is not found. Process groups would not do: the command shares that of the caller's shell, so that
//! Ctrl-C and job control work.

use crate::args::EndMarkedArgs;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The variable with the marks of a process, separated by commas: one for each `run` that it runs below.
pub(super) const VARIABLE: &str = "KSTORE_RUN";

/// A mark that no other `run` has, and the value of [`VARIABLE`] for the command.
pub(super) struct Mark {
    own: String,
    pub(super) value: String,
}

impl Mark {
    /// A mark beside those of the process itself.
    pub(super) fn new(outer: Option<String>) -> Self {
        let own = format!("{:016x}", kstore_nondet::Nondet::real().rng.next_u64());
        let value = match outer.filter(|outer| !outer.is_empty()) {
            Some(outer) => format!("{outer},{own}"),
            None => own.clone(),
        };
        Self { own, value }
    }

    /// The mark that no other `run` has.
    pub(super) fn own(&self) -> String {
        self.own.clone()
    }
}

/// The watcher of a `run`.
#[cfg(target_os = "linux")]
pub(super) struct Watcher(tokio::process::Child);

#[cfg(target_os = "linux")]
impl Watcher {
    /// Starts the watcher, in a process group of its own: Ctrl-C does not end it. It also removes `folder`.
    pub(super) fn start(mark: &str, folder: Option<&Path>) -> std::io::Result<Self> {
        use std::process::Stdio;
        let mut command = tokio::process::Command::new("/proc/self/exe");
        command.args(["end-marked", "--mark", mark]).env_remove(VARIABLE);
        if let Some(folder) = folder {
            command.arg("--remove").arg(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self)
    }

    /// Ends the watcher: `run` ends in order, and leaves alone what its command left running.
    pub(super) async fn dismiss(mut self) {
        // Its pipe stays open until it is gone.
        let _ = self.0.start_kill();
        let _ = self.0.wait().await;
    }
}

/// Systems without `/proc` have no watcher.
#[cfg(not(target_os = "linux"))]
pub(super) struct Watcher;

#[cfg(not(target_os = "linux"))]
impl Watcher {
    pub(super) fn start(_: &str, _: Option<&Path>) -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(super) async fn dismiss(self) {}
}

/// Executes `end-marked` with the arguments of [`Watcher::start`]; `None` if they have another form.
pub(crate) fn end_with(arguments: Vec<OsString>) -> Option<ExitCode> {
    let (mark, remove) = match arguments.as_slice() {
        [flag, mark] if flag == "--mark" => (mark, None),
        [flag, mark, second, folder] if flag == "--mark" && second == "--remove" => {
            (mark, Some(folder.into()))
        }
        _ => return None,
    };
    Some(end_marked(&EndMarkedArgs { mark: mark.to_str()?.to_owned(), remove }))
}

/// Carries out the hidden command `end-marked`: waits for the end of standard input, then ends all marked processes and removes
/// the folder of `run`.
pub(crate) fn end_marked(args: &EndMarkedArgs) -> ExitCode {
    // An error is an end, too.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    #[cfg(target_os = "linux")]
    linux::end_all(&args.mark);
    if let Some(folder) = &args.remove {
        // There is nobody left to tell.
        let _ = std::fs::remove_dir_all(folder);
    }
    ExitCode::SUCCESS
}

/// Whether the environment of a process, as `/proc` shows it, has the mark.
#[cfg(target_os = "linux")]
fn is_marked(environment: &[u8], mark: &str) -> bool {
    let variables = environment.split(|byte| *byte == 0);
    let mut marks =
        variables.filter_map(|variable| variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="));
    marks.any(|marks| marks.split(|byte| *byte == b',').any(|one| one == mark.as_bytes()))
}

#[cfg(target_os = "linux")]
mod linux {
    use super::is_marked;
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// Searches: a process may start another one during a search. Each search ends all that it finds, so a few suffice; a
    /// process is found until the system has ended it.
    const SEARCHES: usize = 100;

    /// Sends SIGKILL to all marked processes, until a search finds none.
    pub(super) fn end_all(mark: &str) {
        for _ in 0..SEARCHES {
            if end_found(mark) == 0 {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Ends what one search finds; returns how many these were.
    fn end_found(mark: &str) -> usize {
        let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
        let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter_map(Pid::from_raw).filter(|id| end(*id, mark)).count()
    }

    /// Ends a process if it has the mark; returns whether it had.
    fn end(id: Pid, mark: &str) -> bool {
        // A handle first: the number may belong to another process a moment later.
        let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return false };
        // Those of other users cannot be read, and a process that has ended has none.
        let environment = std::fs::read(format!("/proc/{}/environ", id.as_raw_nonzero()));
        let is_found = environment.is_ok_and(|environment| is_marked(&environment, mark));
        is_found && pidfd_send_signal(&process, Signal::KILL).is_ok()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_marks_of_all_runs_above_it() {
        let outer = Mark::new(None);
        let inner = Mark::new(Some(outer.value.clone()));
        assert_ne!(outer.own, inner.own);
        let environment = format!("PATH=/bin\0{VARIABLE}={}\0HOME=/\0", inner.value);
        for (mark, expected) in [(&outer.own, true), (&inner.own, true), (&"0".repeat(16), false)] {
            assert_eq!(is_marked(environment.as_bytes(), mark), expected, "{mark}");
        }
        assert!(!is_marked(format!("OTHER_{VARIABLE}={}\0", outer.own).as_bytes(), &outer.own));
        assert!(!is_marked(b"", &outer.own));
    }
}
