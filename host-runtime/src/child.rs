//! Starts the launcher of a container, and follows the container through it.

use crate::cgroup::ControlGroup;
use crate::confinement::IdMap;
use crate::launch::{
    ENVIRONMENT, LAUNCH, LaunchRequest, LauncherOrder, LauncherReport, ProcessRequest, receive_exactly, send,
};
use crate::limits::START_TIME;
use crate::processes::namespace_of;
use crate::running::{Registration, RunningContainers, RunningProcess};
use crate::terminal::Terminal;
use std::fs::File;
use std::io::{Error, ErrorKind, PipeReader, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{ChildStderr, ChildStdout};

/// The exit code of a process that SIGKILL has ended.
const KILLED: u8 = 137;

/// What a container gets of this process besides its request.
#[derive(Debug, Default)]
pub(crate) struct ContainerParts {
    /// Its control group.
    pub(crate) group: Option<Arc<ControlGroup>>,
    /// Both ends of its standard input, if that is a pipe. The launcher opens the reading one by its descriptor of this process.
    pub(crate) input: Option<(PipeReader, pipe::Sender)>,
    /// Its terminal, and the end of it that its program has.
    pub(crate) terminal: Option<(Terminal, File)>,
}

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
    input: Option<pipe::Sender>,
    terminal: Option<Terminal>,
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
    pub(crate) fn start(launcher: &Path, request: &LaunchRequest, parts: ContainerParts) -> Result<Self> {
        let (control, other) = UnixStream::pair()?;
        let mut command = Command::new(launcher);
        // Nothing of this process's environment reaches the container.
        command.arg(LAUNCH).env_clear().envs(ENVIRONMENT).stdin(Stdio::from(OwnedFd::from(other)));
        let ContainerParts { group, input, terminal } = parts;
        // The reading end is open here until the program has it.
        let (_reader, input) = input.unzip();
        let terminal = match terminal {
            Some((own, other)) => {
                command.stdout(other.try_clone()?).stderr(other);
                Some(own)
            }
            None => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                None
            }
        };
        let child = command.spawn()?;
        // The command has the other ends of the socket and of the terminal.
        drop(command);
        let process = child.id();
        let launcher = Launcher(Some(child), group.clone());
        let mut started = Self { registration: None, control, launcher, pid: 0, group, input, terminal };
        started.control.set_read_timeout(Some(START_TIME))?;
        send(&started.control, request)?;
        loop {
            match started.next_report()? {
                LauncherReport::Unshared => {
                    map_ids(process, request.ids)?;
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
                LauncherReport::Linked => {
                    return Err(Error::other("it has made a network, and no container"));
                }
            }
        }
    }

    /// The container, which other commands may enter while it runs: it is in `all` with its pod's uid, its name and what it runs.
    pub(crate) fn registered(
        mut self,
        all: &RunningContainers,
        name: (&str, &str),
        (process, has_network): (ProcessRequest, bool),
    ) -> Self {
        let (pid, namespace, group) = (self.pid, namespace_of(self.pid), self.group.clone());
        self.registration =
            Some(all.add(name, RunningProcess { pid, process, has_network, namespace, group }));
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
        let Self { registration, control, mut launcher, group, input, terminal, .. } = self;
        control.set_nonblocking(true)?;
        let (reports, orders) = tokio::net::UnixStream::from_std(control)?.into_split();
        let child = launcher.0.as_mut().expect("it is taken only when it is dropped");
        let streams = match (terminal, child.stdout.take(), child.stderr.take()) {
            (Some(terminal), _, _) => ContainerStreams::Terminal(terminal),
            (None, Some(stdout), Some(stderr)) => ContainerStreams::Pipes {
                stdin: input,
                stdout: ChildStdout::from_std(stdout)?,
                stderr: ChildStderr::from_std(stderr)?,
            },
            (None, _, _) => unreachable!("without a terminal both are pipes, which are taken once"),
        };
        Ok(RunningContainer {
            streams,
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

/// The other ends of a program's standard streams. What is read is at its end when all processes of the container have ended.
#[derive(Debug)]
pub enum ContainerStreams {
    /// Pipes.
    Pipes {
        /// What the program reads, which is at its end when this is dropped; `None`: it reads nothing.
        stdin: Option<pipe::Sender>,
        /// What it prints.
        stdout: ChildStdout,
        /// What it prints as errors.
        stderr: ChildStderr,
    },
    /// A terminal.
    Terminal(Terminal),
}

/// A running container. Dropping `end` ends it.
#[derive(Debug)]
pub struct RunningContainer {
    /// Its standard streams.
    pub streams: ContainerStreams,
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
pub(crate) fn map_ids(process: u32, ids: IdMap) -> Result<()> {
    let [users, groups] = ids.texts();
    let write = |name: &str, text: &str| {
        let file = format!("/proc/{process}/{name}");
        std::fs::write(&file, text)
            .map_err(|error| Error::new(error.kind(), format!("write {text:?} to {name}: {error}")))
    };
    if !ids.has_ids() {
        // The kernel asks for it where a user without rights maps its own group.
        write("setgroups", "deny")?;
    }
    write("uid_map", &users)?;
    write("gid_map", &groups)
}
