//! `kstore-server run`: a cluster for the lifetime of one command. The cluster runs in this process, in
//! memory, with the objects that flags name. The command gets KUBECONFIG; when it exits, the cluster ends.

pub(crate) mod guard;
mod manifests;
mod page;
mod readiness;
mod report;
mod setup;
pub(crate) mod watcher;

use crate::args::{Api, Config, PageTime, ReportFile, RunArgs, Setup, UsageError, WaitFor};
use crate::forward::ShownForward;
use crate::memory_file::MemoryFile;
use crate::runtime;
use crate::shutdown::{CaughtSignal, Signals};
use crate::source_copy::SourceCopy;
use crate::wiring::{self, Cluster};
use anyhow::Context;
use kstore_api::version::Minor;
use kstore_client::Client;
use manifests::SourcedObject;
use page::ClusterPage;
use setup::StoredObject;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use tokio::process::{Child, Command};
use watcher::{Mark, Watcher};

/// Time for the command to end after SIGTERM before it is killed.
const COMMAND_GRACE: Duration = Duration::from_secs(5);
/// Exit code when objects did not become available: EX_TEMPFAIL of sysexits.h.
const NOT_AVAILABLE: u8 = 75;

/// Starts the cluster, stores the objects, runs the command, stops the cluster, and returns the command's
/// exit code.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let (mut config, setup, command) = args.into_config()?;
    let command = command_or_shell(command, std::env::var_os("SHELL"), std::io::stdin().is_terminal())?;
    let objects = manifests::read(&setup)?;
    let copy = setup.from.as_deref().map(SourceCopy::of).transpose()?;
    if let (Some(copy), Api::Here(api)) = (&copy, &mut config.api) {
        api.storage = copy.storage();
    }
    runtime::block_on(async {
        let mark = Mark::new(std::env::var(watcher::VARIABLE).ok());
        let Setup { wait, timeout, page, report, .. } = setup;
        let contents = Contents { objects, wait, timeout, page, report };
        run_marked(&config, contents, &command, &mark, copy.as_ref().map(SourceCopy::folder)).await
    })
}

/// Objects of the cluster before the command starts, and what the command waits for.
struct Contents {
    objects: Vec<SourcedObject>,
    wait: WaitFor,
    timeout: Duration,
    page: Option<PageTime>,
    report: Option<ReportFile>,
}

/// Runs the command, with a mark in its environment, on a cluster that ends with it. If this process is killed, a watcher ends what has the
/// mark, and removes the folder.
async fn run_marked(
    config: &Config,
    Contents { objects, wait, timeout, page, report }: Contents,
    command: &[OsString],
    mark: &Mark,
    folder: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch()?;
    // On another thread: a thread that starts a process waits for its first instruction. If the cluster does not start, the watcher ends
    // with its pipe.
    let (own, folder) = (mark.own(), folder.map(Path::to_owned));
    let watcher = tokio::spawn(async move { Watcher::start(&own, folder.as_deref()) });
    let cluster = wiring::start(config).await?;
    // Without a watcher the command's children live on if this process is killed; nothing else depends on it.
    let watcher = watcher.await.ok().and_then(Result::ok);
    let version = config.kubernetes();
    let preparation = Preparation { cluster: &cluster, version, objects, wait, timeout, mark };
    let page = ClusterPage::start(&cluster, page).await;
    let outcome = match page {
        Ok(page) => {
            let outcome = preparation.run(command, &mut signals).await;
            report::save_after(&cluster, report.as_ref(), command, &outcome).await;
            if let Some(page) = page {
                page.stay(&mut signals).await;
            }
            outcome
        }
        Err(error) => Err(error),
    };
    cluster.stop().await;
    if let Some(watcher) = watcher {
        watcher.dismiss().await;
    }
    outcome
}

/// The command, or without one a shell, which needs a terminal: it would end at once, with success, where standard input is empty.
fn command_or_shell(
    command: Vec<OsString>,
    shell: Option<OsString>,
    is_terminal: bool,
) -> Result<Vec<OsString>, UsageError> {
    match (command.is_empty(), is_terminal) {
        (false, _) => Ok(command),
        (true, false) => Err(UsageError::NoCommand),
        (true, true) => {
            eprintln!("kstore-server run: KUBECONFIG is set in this shell; the cluster ends with it");
            Ok(vec![shell.filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())])
        }
    }
}

/// A started cluster, and what happens in it before the command starts.
struct Preparation<'c> {
    cluster: &'c Cluster,
    /// The version of Kubernetes, if the cluster's API server is in this process.
    version: Option<Minor>,
    objects: Vec<SourcedObject>,
    wait: WaitFor,
    timeout: Duration,
    mark: &'c Mark,
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
        let (wait, mark, etcd) = (self.wait, self.mark, self.cluster.etcd_url());
        let lab = self.cluster.lab().map(|lab| lab.url());
        let (kubeconfig, version, forwards) = (kubeconfig.path(), self.version, self.cluster.forwards());
        let environment = Environment { kubeconfig, version, mark, etcd, lab, forwards };
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
        Ok(exit_code(supervise(command, environment, signals, preparing).await?))
    }

    async fn prepare(self) -> Result<(), PrepareError> {
        if self.objects.is_empty() {
            return Ok(());
        }
        let Self { cluster, objects, wait, timeout, .. } = self;
        match cluster.lab() {
            None => {
                let client = cluster.client().context("`run` has an apiserver");
                prepare_objects(client.map_err(PrepareError::Refused)?, objects, wait, timeout).await
            }
            // On the runtime of its cluster, whose clock passes as far as the objects need it.
            Some(lab) => {
                let client = lab.client().map_err(PrepareError::Refused)?;
                let preparing = Box::pin(prepare_objects(client, objects, wait, timeout));
                let prepared = lab.complete(preparing, timeout).await;
                prepared.map_err(PrepareError::Refused)?
            }
        }
    }
}

/// Stores the objects, and waits for them.
async fn prepare_objects(
    client: Client,
    objects: Vec<SourcedObject>,
    wait: WaitFor,
    timeout: Duration,
) -> Result<(), PrepareError> {
    let stored = setup::store(&client, objects).await;
    let stored: Vec<StoredObject> = stored.map_err(|error| PrepareError::Refused(error.into()))?;
    match wait {
        WaitFor::None | WaitFor::Applied => Ok(()),
        WaitFor::Available => {
            let available = setup::wait_available(&client, &stored, timeout).await;
            available.map_err(PrepareError::Unavailable)
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
    environment: Environment<'_>,
    signals: &mut Signals,
    mut preparing: Option<Pin<&mut impl Future<Output = Result<(), PrepareError>>>>,
) -> anyhow::Result<ExitStatus> {
    let mut guarded = guard::command(command);
    environment.set(&mut guarded);
    let mut child = guarded.kill_on_drop(true).spawn().context("cannot start the command")?;
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

/// What the command finds in its environment.
struct Environment<'a> {
    kubeconfig: &'a Path,
    version: Option<Minor>,
    mark: &'a Mark,
    /// URL of the etcd API, if it is served.
    etcd: Option<&'a str>,
    /// URL of the lab, if it is served.
    lab: Option<String>,
    /// Addresses that lead to Services and pods.
    forwards: &'a [ShownForward],
}

impl Environment<'_> {
    fn set(&self, command: &mut Command) {
        command.env("KUBECONFIG", self.kubeconfig).env(watcher::VARIABLE, &self.mark.value);
        if let Some(version) = self.version {
            command.env("KUBERNETES_VERSION", version.to_string());
        }
        if let Some(etcd) = self.etcd {
            command.env("ETCDCTL_ENDPOINTS", etcd);
        }
        if let Some(lab) = &self.lab {
            command.env("KSTORE_LAB", lab);
        }
        for forward in self.forwards {
            command.env(&forward.variable, forward.address.to_string());
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
    fn without_a_command_a_terminal_gets_a_shell() {
        let of = |command: &[&str], shell: Option<&str>, is_terminal| {
            let command = command.iter().map(OsString::from).collect();
            command_or_shell(command, shell.map(OsString::from), is_terminal)
        };
        assert_eq!(of(&["kubectl", "get"], Some("/bin/zsh"), true).unwrap(), ["kubectl", "get"]);
        assert_eq!(of(&[], Some("/bin/zsh"), true).unwrap(), ["/bin/zsh"]);
        assert_eq!(of(&[], None, true).unwrap(), ["/bin/sh"]);
        assert_eq!(of(&[], Some("/bin/zsh"), false).unwrap_err(), UsageError::NoCommand);
    }

    #[test]
    fn an_exit_code_is_passed_on_and_a_signal_becomes_128_and_its_number() {
        let of = |raw| format!("{:?}", exit_code(ExitStatus::from_raw(raw)));
        assert_eq!(of(3 << 8), format!("{:?}", ExitCode::from(3)));
        assert_eq!(of(9), format!("{:?}", ExitCode::from(137)));
    }
}
