//! Starts the launcher of a container, and follows the container through it.

use crate::cgroup::ControlGroup;
use crate::launch::{
    ENVIRONMENT, LAUNCH, LaunchRequest, LauncherOrder, LauncherReport, ProcessRequest, receive_exactly, send,
};
use crate::limits::START_TIME;
use crate::processes::namespace_of;
use crate::running::{Registration, RunningContainers, RunningProcess};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{ChildStderr, ChildStdout};

/// The exit code of a process that SIGKILL has ended.
const KILLED: u8 = 137;

/// A container whose program has been executed. Dropping it ends the container.
#[derive(Debug)]
pub struct StartedContainer {
    /// Dropped first: the number of the first process is no other's before the launcher has ended.
    registration: Option<Registration>,
    control: UnixStream,
    launcher: Launcher,
    /// The number of its first process.
    pid: i32,
    group: Option<Arc<ControlGroup>>,
}

/// The process of a launcher, and the group of its container. Its end is waited for when this is dropped, after the socket to it is closed:
/// it then kills the container and ends within milliseconds. The group is removed after it.
#[derive(Debug)]
struct Launcher(Option<Child>, Option<Arc<ControlGroup>>);

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let group = self.1.take();
            std::thread::spawn(move || {
                let _ = child.wait();
                drop(group);
            });
        }
    }
}

impl StartedContainer {
    /// Starts a container by `launcher`, this program; returns when its program is executed. Takes some milliseconds, and blocks.
    ///
    /// # Errors
    /// What could not be done, as the launcher says it.
    pub(crate) fn start(
        launcher: &Path,
        request: &LaunchRequest,
        group: Option<Arc<ControlGroup>>,
    ) -> Result<Self> {
        let (control, other) = UnixStream::pair()?;
        let mut command = Command::new(launcher);
        // Nothing of this process's environment reaches the container.
        command.arg(LAUNCH).env_clear().envs(ENVIRONMENT).stdin(Stdio::from(OwnedFd::from(other)));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // The command has the other end of the socket.
        drop(command);
        let process = child.id();
        let launcher = Launcher(Some(child), group.clone());
        let mut started = Self { registration: None, control, launcher, pid: 0, group };
        started.control.set_read_timeout(Some(START_TIME))?;
        send(&started.control, request)?;
        loop {
            match started.next_report()? {
                LauncherReport::Unshared => {
                    map_ids(process, request)?;
                    send(&started.control, &LauncherOrder::Mapped)?;
                }
                LauncherReport::Started(pid) => {
                    started.pid = pid;
                    return Ok(started);
                }
                LauncherReport::Failed(why) => return Err(Error::other(why)),
                LauncherReport::Exited(code) => {
                    return Err(Error::other(format!("it ended with code {code}")));
                }
            }
        }
    }

    /// The container, which other commands may enter while it runs: it is in `all` with its pod's uid, its name and what it runs.
    pub(crate) fn registered(
        mut self,
        all: &RunningContainers,
        name: (&str, &str),
        process: ProcessRequest,
    ) -> Self {
        let (pid, namespace, group) = (self.pid, namespace_of(self.pid), self.group.clone());
        self.registration = Some(all.add(name, RunningProcess { pid, process, namespace, group }));
        self
    }

    fn next_report(&self) -> Result<LauncherReport> {
        match receive_exactly(&self.control) {
            Ok(report) => {
                report.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "the launcher has ended"))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Error::new(ErrorKind::TimedOut, "the launcher does not answer"))
            }
            Err(error) => Err(error),
        }
    }

    /// The exit code of a container that ends at once.
    pub(crate) fn wait(self) -> Result<u8> {
        match self.next_report()? {
            LauncherReport::Exited(code) => Ok(code),
            other => Err(Error::other(format!("unexpected: {other:?}"))),
        }
    }

    /// The container for a task. Must be called within a runtime.
    ///
    /// # Errors
    /// Its pipes cannot be registered.
    pub fn into_running(self) -> Result<RunningContainer> {
        let Self { registration, control, mut launcher, group, .. } = self;
        control.set_nonblocking(true)?;
        let (reports, orders) = tokio::net::UnixStream::from_std(control)?.into_split();
        let child = launcher.0.as_mut().expect("it is taken only when it is dropped");
        let output = child.stdout.take().zip(child.stderr.take()).expect("both are pipes, taken once");
        Ok(RunningContainer {
            stdout: ChildStdout::from_std(output.0)?,
            stderr: ChildStderr::from_std(output.1)?,
            end: ContainerEnd {
                _registration: registration,
                reports: BufReader::new(reports).lines(),
                orders,
                _launcher: launcher,
                group,
            },
        })
    }
}

/// A running container. Dropping `end` ends it.
#[derive(Debug)]
pub struct RunningContainer {
    /// What its program prints. It is at its end when all its processes have ended.
    pub stdout: ChildStdout,
    /// What its program prints as errors.
    pub stderr: ChildStderr,
    /// Signals and the end.
    pub end: ContainerEnd,
}

/// The handle by which a container is signalled, and tells of its end. Dropping it kills the container.
#[derive(Debug)]
pub struct ContainerEnd {
    _registration: Option<Registration>,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    group: Option<Arc<ControlGroup>>,
    _launcher: Launcher,
}

impl ContainerEnd {
    /// The exit code of the container, 128 and the number for a signal. Cancel safe.
    pub async fn exited(&mut self) -> u8 {
        while let Ok(Some(line)) = self.reports.next_line().await {
            if let Ok(LauncherReport::Exited(code)) = serde_json::from_str(&line) {
                return code;
            }
        }
        KILLED
    }

    /// Whether the kernel killed the container for want of memory. What [`crate::HostPrograms::usage`] shows is not part of it.
    pub fn is_out_of_memory(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_out_of_memory())
    }

    /// Sends a signal to the container's first process.
    pub async fn signal(&mut self, signal: i32) {
        let mut line = Vec::new();
        send(&mut line, &LauncherOrder::Signal(signal)).expect("a vector takes everything");
        // The container may have ended.
        let _ = self.orders.write_all(&line).await;
    }
}

/// Writes which ids of this machine those of a launcher's user namespace are.
fn map_ids(process: u32, request: &LaunchRequest) -> Result<()> {
    let [users, groups] = request.ids.texts();
    let write = |name: &str, text: &str| {
        let file = format!("/proc/{process}/{name}");
        std::fs::write(&file, text)
            .map_err(|error| Error::new(error.kind(), format!("write {text:?} to {name}: {error}")))
    };
    if !request.ids.has_ids() {
        // The kernel asks for it where a user without rights maps its own group.
        write("setgroups", "deny")?;
    }
    write("uid_map", &users)?;
    write("gid_map", &groups)
}
