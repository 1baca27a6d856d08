//! `kstore-server run`: a cluster for the lifetime of one command. The cluster runs in this process, in
//! memory, with the objects that flags name. The command gets KUBECONFIG; when it exits, the cluster ends.

pub(crate) mod guard;
mod manifests;
mod readiness;
mod setup;

use crate::args::{RunArgs, WaitFor};
use crate::memory_file::MemoryFile;
use crate::shutdown::{CaughtSignal, Signals};
use crate::wiring::{self, Cluster};
use anyhow::Context;
use manifests::SourcedObject;
use setup::StoredObject;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use tokio::process::Child;

/// Time for the command to end after SIGTERM before it is killed.
const COMMAND_GRACE: Duration = Duration::from_secs(5);
/// Exit code when objects did not become available: EX_TEMPFAIL of sysexits.h.
const NOT_AVAILABLE: u8 = 75;

/// Starts the cluster, stores the objects, runs the command, stops the cluster, and returns the command's
/// exit code.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let (config, setup, command) = args.into_config()?;
    let objects = manifests::read(&setup)?;
    wiring::block_on(async {
        let mut signals = Signals::catch()?;
        let cluster = wiring::start(&config).await?;
        let preparation =
            Preparation { cluster: &cluster, objects, wait: setup.wait, timeout: setup.timeout };
        let outcome = preparation.run(&command, &mut signals).await;
        cluster.stop().await;
        outcome
    })
}

/// A started cluster, and what happens in it before the command starts.
struct Preparation<'c> {
    cluster: &'c Cluster,
    objects: Vec<SourcedObject>,
    wait: WaitFor,
    timeout: Duration,
}

/// Why the command does not start, or is terminated.
enum PrepareError {
    Refused(anyhow::Error),
    /// A report of the objects that are not available.
    Unavailable(String),
}

impl Preparation<'_> {
    /// Prepares the cluster and runs the command. A signal aborts the preparation.
    async fn run(self, command: &[OsString], signals: &mut Signals) -> anyhow::Result<ExitCode> {
        let kubeconfig = MemoryFile::new("kubeconfig", self.cluster.admin_kubeconfig().as_bytes())
            .context("cannot make the kubeconfig for the command")?;
        let wait = self.wait;
        let mut preparing = pin!(self.prepare());
        if wait != WaitFor::None {
            let prepared = tokio::select! {
                biased;
                caught = signals.next() => return Ok(ExitCode::from(caught.exit_code())),
                prepared = &mut preparing => prepared,
            };
            match prepared {
                Ok(()) => {}
                Err(PrepareError::Refused(error)) => return Err(error),
                Err(PrepareError::Unavailable(report)) => {
                    eprintln!("kstore-server run: {report}");
                    return Ok(ExitCode::from(NOT_AVAILABLE));
                }
            }
        }
        let preparing = (wait == WaitFor::None).then_some(preparing);
        Ok(exit_code(supervise(command, kubeconfig.path(), signals, preparing).await?))
    }

    async fn prepare(self) -> Result<(), PrepareError> {
        if self.objects.is_empty() {
            return Ok(());
        }
        let client =
            self.cluster.client().context("`run` has an apiserver").map_err(PrepareError::Refused)?;
        let stored = setup::store(&client, self.objects).await;
        let stored: Vec<StoredObject> = stored.map_err(|error| PrepareError::Refused(error.into()))?;
        match self.wait {
            WaitFor::None | WaitFor::Applied => Ok(()),
            WaitFor::Available => {
                let available = setup::wait_available(&client, &stored, self.timeout).await;
                available.map_err(PrepareError::Unavailable)
            }
        }
    }
}

/// Runs the command to its end, concurrently with `preparing`, if any. If preparing fails, the command is
/// terminated.
///
/// This must be polled on the main thread: the kernel kills the command when the *thread* that started it
/// ends, and only the main thread lives as long as the process.
async fn supervise(
    command: &[OsString],
    kubeconfig: &Path,
    signals: &mut Signals,
    mut preparing: Option<Pin<&mut impl Future<Output = Result<(), PrepareError>>>>,
) -> anyhow::Result<ExitStatus> {
    let mut child = guard::command(command)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the command")?;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status.context("cannot wait for the command"),
            caught = signals.next() => match caught {
                // A terminal sends Ctrl-C to the command as well, which decides how to react.
                CaughtSignal::Interrupt if std::io::stdin().is_terminal() => {}
                CaughtSignal::Interrupt => send(&child, rustix::process::Signal::INT),
                CaughtSignal::Terminate => {
                    send(&child, rustix::process::Signal::TERM);
                    return end_within_grace(&mut child).await;
                }
            },
            prepared = finished(&mut preparing) => {
                preparing = None;
                if let Err(PrepareError::Refused(error)) = prepared {
                    send(&child, rustix::process::Signal::TERM);
                    end_within_grace(&mut child).await?;
                    return Err(error);
                }
            }
        }
    }
}

/// The output of a future; pending forever if there is none.
async fn finished<T>(future: &mut Option<Pin<&mut impl Future<Output = T>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn end_within_grace(child: &mut Child) -> anyhow::Result<ExitStatus> {
    if tokio::time::timeout(COMMAND_GRACE, child.wait()).await.is_err() {
        child.start_kill().context("cannot end the command")?;
    }
    child.wait().await.context("cannot wait for the command")
}

fn send(child: &Child, signal: rustix::process::Signal) {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(id) = id {
        // The process may have ended in between; then there is no process to signal.
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// The exit code by which shells report this status.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|n| 128 + n)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_passed_on_and_a_signal_becomes_128_and_its_number() {
        let of = |raw| format!("{:?}", exit_code(ExitStatus::from_raw(raw)));
        assert_eq!(of(3 << 8), format!("{:?}", ExitCode::from(3)));
        assert_eq!(of(9), format!("{:?}", ExitCode::from(137)));
    }
}
