//! A running server of either kind with a temporary directory; dropping it ends the process and removes the
//! directory.

use super::limits::{POLL_INTERVAL, START_TIMEOUT, STOP_TIMEOUT};
use super::load::{self, ClientCount};
use super::request::Once;
use crate::binary::Binary;
use crate::usage;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// A kind of server to measure.
#[derive(Clone)]
pub(super) enum ServerKind {
    /// A real etcd.
    Etcd(PathBuf),
    /// kstore's store with the etcd API.
    Kstore {
        binary: Binary,
        /// Whether it runs on the engine `sled` instead of segments.
        sled: bool,
    },
    /// `kstore-server` with the store as its only component.
    StoreAlone(Binary),
}

/// When writes are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// After a sync.
    Synced,
    /// After they are handed to the operating system.
    Relaxed,
}

impl ServerKind {
    /// The real etcd in PATH, if any.
    pub(super) fn etcd() -> Option<Self> {
        find("etcd").map(Self::Etcd)
    }

    fn command(&self, data: &Path, address: SocketAddr, durability: Durability) -> anyhow::Result<Command> {
        let relaxed = durability == Durability::Relaxed;
        let command = match self {
            Self::Etcd(path) => {
                let (client, peer) = (format!("http://{address}"), format!("http://{}", free_address()?));
                let mut command = Command::new(path);
                command.arg("--data-dir").arg(data);
                command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
                command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
                command.args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"]);
                command.args(relaxed.then_some("--unsafe-no-fsync"));
                command
            }
            Self::Kstore { binary, sled } => {
                let mut command = Command::new(binary.path());
                command.arg(data).arg(address.to_string());
                command.args(sled.then_some("--sled")).args(relaxed.then_some("--relaxed"));
                command
            }
            Self::StoreAlone(binary) => {
                let mut command = Command::new(binary.path());
                command.args(["--components", "store", "--etcd-listen", &address.to_string()]);
                command.arg("--data-dir").arg(data);
                command.args(relaxed.then_some("--durability=relaxed"));
                command
            }
        };
        Ok(command)
    }
}

/// An executable in PATH.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path: OsString = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A running server.
pub(super) struct Server {
    kind: ServerKind,
    child: Child,
    dir: TempDir,
    pub(super) address: SocketAddr,
    /// From the start of the process to its first answer.
    pub(super) ready_after: Duration,
}

impl Server {
    /// Starts a server on an empty directory. Returns when it has answered.
    pub(super) async fn start(kind: &ServerKind, durability: Durability) -> anyhow::Result<Self> {
        Self::start_in(kind.clone(), tempfile::tempdir()?, durability).await
    }

    async fn start_in(kind: ServerKind, dir: TempDir, durability: Durability) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = kind.command(&dir.path().join("data"), address, durability)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().context("cannot start the server")?;
        while load::run(address, ClientCount::ONE, None, |_| Once::default()).await.is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("the server ended: {status}");
            }
            if started.elapsed() > START_TIMEOUT {
                bail!("the server did not answer in time");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(Self { kind, child, dir, address, ready_after: started.elapsed() })
    }

    /// Ends the process in order, and starts another on its directory.
    pub(super) async fn restart(mut self) -> anyhow::Result<Self> {
        let pid = i32::try_from(self.id()?).ok().and_then(Pid::from_raw).context("no such process")?;
        kill_process(pid, Signal::TERM)?;
        tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.context("did not end in time")??;
        Self::start_in(self.kind, self.dir, Durability::Synced).await
    }

    fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has ended")
    }

    /// CPU time of the process so far, in seconds.
    pub(super) fn processor_seconds(&self) -> anyhow::Result<f64> {
        usage::processor_seconds(self.id()?)
    }

    /// Resident memory of the process now.
    pub(super) fn resident_mebibytes(&self) -> anyhow::Result<f64> {
        usage::resident_mebibytes(self.id()?)
    }

    /// Disk space of the directory, in bytes.
    pub(super) fn disk_bytes(&self) -> anyhow::Result<u64> {
        usage::disk_bytes(self.dir.path())
    }

    /// Kills the process: its remaining work is not measured.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot end the server")
    }
}
