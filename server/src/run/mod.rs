//! `kstore-server run`: a cluster for one command. The cluster runs in this process, in memory; the command gets KUBECONFIG;
//! its end is the end.

pub(crate) mod guard;

use crate::args::RunArgs;
use crate::memory_file::MemoryFile;
use crate::shutdown::{Caught, Signals};
use crate::wiring;
use anyhow::Context;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use tokio::process::Child;

/// A command that was asked to end has this long before it is killed.
const COMMAND_GRACE: Duration = Duration::from_secs(5);

/// Starts the cluster, runs the command, ends the cluster, and returns the command's exit code.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let (config, command) = args.into_config()?;
    wiring::block_on(async {
        let mut signals = Signals::catch()?;
        let cluster = wiring::start(&config).await?;
        let kubeconfig = MemoryFile::new("kubeconfig", cluster.admin_kubeconfig().as_bytes())
            .context("cannot make the kubeconfig for the command")?;
        let status = supervise(&command, kubeconfig.path(), &mut signals).await;
        cluster.stop().await;
        Ok(exit_code(status?))
    })
}

/// Runs the command to its end. This must be polled on the main thread: the kernel ends the command when the *thread* that
/// started it ends, and only the main thread lives as long as the process.
async fn supervise(
    command: &[OsString],
    kubeconfig: &Path,
    signals: &mut Signals,
) -> anyhow::Result<ExitStatus> {
    let mut child = guard::command(command)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the command")?;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status.context("lost the command"),
            caught = signals.next() => match caught {
                // A terminal sends Ctrl-C to the command as well; it alone decides what that means.
                Caught::Interrupt if std::io::stdin().is_terminal() => {}
                Caught::Interrupt => send(&child, rustix::process::Signal::INT),
                Caught::Terminate => {
                    send(&child, rustix::process::Signal::TERM);
                    return end_within_grace(&mut child).await;
                }
            }
        }
    }
}

async fn end_within_grace(child: &mut Child) -> anyhow::Result<ExitStatus> {
    if tokio::time::timeout(COMMAND_GRACE, child.wait()).await.is_err() {
        child.start_kill().context("cannot end the command")?;
    }
    child.wait().await.context("lost the command")
}

fn send(child: &Child, signal: rustix::process::Signal) {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(id) = id {
        // It may have ended in between; then there is nobody to tell.
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// The exit code by which shells report the same end.
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
