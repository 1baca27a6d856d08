//! [`ProgramProcess`]: one start of a program: a process group, its output, and how it ended.

use super::control::ProgramSignal;
use super::output::ProgramOutput;
use super::sentinel;
use super::spec::ProgramSpec;
use crate::client::process as system;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Real time after which a killed group counts as gone: one of its processes may wait for a disk.
const GONE: Duration = Duration::from_secs(2);
/// Real time between two looks at a killed group: of processes that are no children nothing tells when they are gone.
const LOOK: Duration = Duration::from_millis(1);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl From<ExitStatus> for ProgramEnd {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }
}

/// A process that was started, and what came of it. Dropping it kills its process group.
#[derive(Debug)]
pub(super) struct ProgramProcess {
    /// The process, which leads its group.
    pub(super) id: u32,
    end: Arc<EndState>,
    /// Reads the output until all processes with the pipe are gone.
    _output: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct EndState {
    end: Mutex<Option<ProgramEnd>>,
    changed: Notify,
}

impl ProgramProcess {
    /// Starts the command in a process group of its own. Must be called inside a tokio runtime.
    pub(super) fn start(
        spec: &ProgramSpec,
        kubeconfig: &Path,
        output: &Arc<ProgramOutput>,
    ) -> io::Result<Self> {
        let [program, arguments @ ..] = spec.command.as_slice() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (writer, reading) = output.pipe()?;
        let mut command = Command::new(program);
        command.args(arguments).env("KUBECONFIG", kubeconfig).envs(&spec.env);
        if let Some(folder) = &spec.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().ok_or(io::ErrorKind::NotFound)?;
        sentinel::watch(id)?;
        let end = Arc::new(EndState::default());
        // The task outlives this value: it waits for the process, so that no entry among the processes is left.
        tokio::spawn(wait(child, id, end.clone()));
        Ok(Self { id, end, _output: reading })
    }

    /// How the process ended; `None`: it runs.
    pub(super) fn end(&self) -> Option<ProgramEnd> {
        *self.end.end.lock()
    }

    /// Waits until the process has ended, and its group with it.
    pub(super) async fn ended(&self) {
        loop {
            let changed = self.end.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.end().is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Sends a signal to the process group, unless the process has ended.
    pub(super) fn signal(&self, signal: ProgramSignal) {
        // Under the lock, so that no signal goes to a group whose end is noted: its number may belong to another one soon.
        let end = self.end.end.lock();
        if end.is_none() {
            send(self.id, signal_of(signal));
        }
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        self.signal(ProgramSignal::Kill);
    }
}

/// Waits for the process, then kills what is left of its group, and waits until that is gone, too.
async fn wait(mut child: Child, id: u32, state: Arc<EndState>) {
    let status = child.wait().await;
    send(id, Signal::KILL);
    let gone = async {
        while system::runs_any_of(id) {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(GONE, gone).await;
    sentinel::forget(id);
    let end = status.map_or(ProgramEnd { code: None, signal: None }, ProgramEnd::from);
    *state.end.lock() = Some(end);
    state.changed.notify_waiters();
}

/// Kills a process group.
pub(super) fn kill(group: u32) {
    send(group, Signal::KILL);
}

/// Sends a signal to a process group. Groups that are gone are no error.
fn send(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

fn signal_of(signal: ProgramSignal) -> Signal {
    match signal {
        ProgramSignal::Term => Signal::TERM,
        ProgramSignal::Kill => Signal::KILL,
        ProgramSignal::Stop => Signal::STOP,
        ProgramSignal::Cont => Signal::CONT,
        ProgramSignal::Int => Signal::INT,
        ProgramSignal::Hup => Signal::HUP,
        ProgramSignal::Quit => Signal::QUIT,
        ProgramSignal::Usr1 => Signal::USR1,
        ProgramSignal::Usr2 => Signal::USR2,
    }
}
