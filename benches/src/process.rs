//! [`Server`]: a running `kstore-server` with a temporary directory. Dropping it ends the process and removes
//! the directory.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{START_TIMEOUT, STOP_TIMEOUT};
use anyhow::{Context, ensure};
use kstore_client::Kubeconfig;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Storage of a server's data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Memory only.
    Memory,
    /// A new directory, with every write synced.
    Disk,
}

impl Storage {
    /// The storage's name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "in memory",
            Self::Disk => "on disk",
        }
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    dir: TempDir,
    /// The admin's kubeconfig.
    pub kubeconfig: Kubeconfig,
    /// From the start of the process to the first answer of `/readyz`, over a new TLS connection.
    pub ready_after: Duration,
}

impl Server {
    /// Starts a server with all components. Returns when it is ready.
    pub(crate) async fn start(binary: &Binary, storage: Storage) -> anyhow::Result<Self> {
        Self::start_with(binary, storage, &[]).await
    }

    /// Starts a server with additional flags.
    pub(crate) async fn start_with(
        binary: &Binary,
        storage: Storage,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        Self::launch(binary, storage, flags, tempfile::tempdir()?).await
    }

    /// Kills the process and starts it again on its data.
    pub(crate) async fn restart(self, binary: &Binary, flags: &[&str]) -> anyhow::Result<Self> {
        let Self { mut child, dir, .. } = self;
        child.kill().await.context("cannot end the server")?;
        Self::launch(binary, Storage::Disk, flags, dir).await
    }

    async fn launch(binary: &Binary, storage: Storage, flags: &[&str], dir: TempDir) -> anyhow::Result<Self> {
        let kubeconfig = dir.path().join("kubeconfig");
        let mut command = Command::new(binary.path());
        match storage {
            Storage::Memory => command.arg("--in-memory"),
            Storage::Disk => command.arg("--data-dir").arg(dir.path().join("data")),
        };
        command.args(["--listen", "127.0.0.1:0"]).arg("--write-kubeconfig").arg(&kubeconfig).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", binary.path().display()))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let ready = async {
            // The ready message; its last line is a command to try.
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await? {
                if line.contains("kubeconfig") {
                    break;
                }
            }
            let kubeconfig = Kubeconfig::read(&kubeconfig)?;
            let (status, _) = Connection::open(&kubeconfig).await?.get("/readyz").await?;
            ensure!(status == 200, "/readyz answered {status}");
            anyhow::Ok(kubeconfig)
        };
        let kubeconfig = tokio::time::timeout(START_TIMEOUT, ready).await.context("not ready in time")??;
        Ok(Self { child, dir, kubeconfig, ready_after: started.elapsed() })
    }

    /// Opens a connection as the admin.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(&self.kubeconfig).await
    }

    /// Opens a connection with the token, or with the admin's certificate if there is none.
    pub(crate) async fn connect_with(&self, token: Option<&str>) -> anyhow::Result<Connection> {
        match token {
            Some(token) => Connection::open_with_token(&self.kubeconfig, token).await,
            None => self.connect().await,
        }
    }

    /// Path of the kubeconfig.
    pub(crate) fn kubeconfig_path(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// The process ID.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has ended")
    }

    /// Sends SIGTERM. Returns the time until the exit, which must have code 0.
    pub(crate) async fn terminate(mut self) -> anyhow::Result<Duration> {
        let pid = i32::try_from(self.id()?).ok().and_then(Pid::from_raw).context("no such process")?;
        let requested_at = Instant::now();
        kill_process(pid, Signal::TERM)?;
        let status =
            tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.context("did not end in time")??;
        ensure!(status.success(), "the server ended with {status}");
        Ok(requested_at.elapsed())
    }

    /// Kills the process: its remaining work is not measured.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot end the server")
    }
}
