//! A running server of either kind, with a directory of its own; both are gone when it is dropped.

use super::limits::{ASK_AGAIN, START_TIMEOUT, STOP_TIMEOUT};
use super::load::{self, Crowd};
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

/// What is measured, and how it is started.
#[derive(Clone)]
pub(super) enum Kind {
    /// A real etcd.
    Etcd(PathBuf),
    /// Our store behind the same API.
    Ours {
        /// The program.
        binary: Binary,
        /// On the engine `sled` instead of our own segments.
        sled: bool,
    },
    /// `kstore-server` with the store as its only component.
    StoreAlone(Binary),
}

/// When writes count as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Synced.
    Synced,
    /// Handed to the operating system.
    Relaxed,
}

impl Kind {
    /// The real etcd, if there is one in PATH.
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
            Self::Ours { binary, sled } => {
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

/// A server process.
pub(super) struct Server {
    kind: Kind,
    child: Child,
    dir: TempDir,
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// From the start of the process to its first answer.
    pub(super) ready_after: Duration,
}

impl Server {
    /// Starts a server on an empty directory; returns when it has answered.
    pub(super) async fn start(kind: &Kind, durability: Durability) -> anyhow::Result<Self> {
        Self::start_in(kind.clone(), tempfile::tempdir()?, durability).await
    }

    async fn start_in(kind: Kind, dir: TempDir, durability: Durability) -> anyhow::Result<Self> {
        let address = free_address()?;
        let mut command = kind.command(&dir.path().join("data"), address, durability)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().context("cannot start the server")?;
        while load::run(address, Crowd::ONE, None, |_| Once::default()).await.is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("the server ended: {status}");
            }
            if started.elapsed() > START_TIMEOUT {
                bail!("the server did not answer in time");
            }
            tokio::time::sleep(ASK_AGAIN).await;
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

    /// Processor time of the process so far, in seconds.
    pub(super) fn processor_seconds(&self) -> anyhow::Result<f64> {
        usage::processor_seconds(self.id()?)
    }

    /// Memory of the process now.
    pub(super) fn resident_mebibytes(&self) -> anyhow::Result<f64> {
        usage::resident_mebibytes(self.id()?)
    }

    /// Bytes that its directory occupies.
    pub(super) fn disk_bytes(&self) -> anyhow::Result<u64> {
        usage::disk_bytes(self.dir.path())
    }

    /// Ends the process now. What it would still do is not measured.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot end the server")
    }
}
