//! What this process and its launchers say to each other: values as lines of JSON, over a socket that is a launcher's standard input.

use crate::confinement::IdMap;
use crate::limits::MESSAGE_BYTES;
use crate::namespace::NetworkEntry;
use crate::plan::BindMount;
use crate::resources::ProcessLimits;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Error, ErrorKind, Read, Result, Write};
use std::net::IpAddr;
use std::path::PathBuf;

/// The command by which this program makes the namespaces of a container and supervises its first process.
pub const LAUNCH: &str = "container-launch";
/// The command by which this program becomes the first process of a container.
pub const INIT: &str = "container-init";
/// The command by which that process executes the container's program, as the container's user.
pub const EXEC: &str = "container-exec";

/// The command by which this program enters the namespaces of a container, to run another command there.
pub const JOIN: &str = "container-join";
/// The command by which a process in these namespaces goes on to the container's files.
pub const ENTER: &str = "container-enter";

/// The command by which this program makes the network namespace of a pod.
pub const LINK: &str = "container-link";

/// The environment of a launcher: the allocator of kstore-server must not start a thread of its own, because a process with several threads
/// cannot enter a namespace.
pub(crate) const ENVIRONMENT: [(&str, &str); 1] = [("_RJEM_MALLOC_CONF", "background_thread:false")];

/// A command to run in a container that runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JoinRequest {
    /// The number on this machine of the container's first process.
    pub(crate) pid: i32,
    /// The folder of the container's control group, if it has one.
    pub(crate) group: Option<PathBuf>,
    /// Whether the container has ids of its own.
    pub(crate) has_ids: bool,
    /// Whether it has a network namespace of its own.
    pub(crate) has_network: bool,
    /// The command.
    pub(crate) process: ProcessRequest,
}

/// The network namespace of a pod to make.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LinkRequest {
    /// The address of the pod.
    pub(crate) address: IpAddr,
    /// Whether it belongs to a user namespace of its own, because this process may not make one otherwise.
    pub(crate) has_user_namespace: bool,
}

/// A container to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The folder of the container's own tree, with a place for each mount.
    pub root: PathBuf,
    /// The mounts, in order.
    pub binds: Vec<BindMount>,
    /// Whether the container's own tree is mounted read-only.
    pub has_read_only_root: bool,
    /// The name of the host in the container.
    pub hostname: String,
    /// The users and groups.
    pub ids: IdMap,
    /// The folder of the container's control group, if it has one.
    pub group: Option<PathBuf>,
    /// Its network; `None`: that of this machine.
    pub network: Option<NetworkEntry>,
    /// The pipe that is the program's standard input, as a descriptor of the process that starts the launcher; `None`: it has none, or a
    /// terminal.
    pub input: Option<PathBuf>,
    /// What it runs; `None`: it ends at once, which shows that containers can be made here.
    pub process: Option<ProcessRequest>,
}

/// A process to start in a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessRequest {
    /// The path of the program in the container, or its name, which is looked up in `PATH`.
    pub program: String,
    /// The arguments, the program's name first.
    pub argv: Vec<String>,
    /// All variables.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub workdir: String,
    /// The user and its group. Without effect in a container that has only its root.
    pub user: (u32, u32),
    /// Whether its standard streams are a terminal, which it is to control.
    pub has_terminal: bool,
    /// Whether the container's files are not those of this machine, so that this program cannot be executed among them.
    pub is_foreign: bool,
    /// The inherited descriptor of the pipe that is its standard input. A launcher sets it.
    pub input: Option<i32>,
    /// What the process may use by itself.
    pub limits: ProcessLimits,
}

/// What the first process of a container does before it is the container's program.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct InitRequest {
    /// The user and the group that it becomes, without further groups; `None`: it stays the container's root, the only user there is.
    pub(crate) user: Option<(u32, u32)>,
    /// Whether the process becomes the program without executing this one once more.
    pub(crate) is_foreign: bool,
    /// Whether a [`ProcessRequest`] follows; else it ends.
    pub(crate) has_process: bool,
}

/// What a launcher says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherReport {
    /// It has made its user namespace, whose ids are to be mapped.
    Unshared,
    /// It has made a network namespace. The message brings the descriptors of the other end of its device, of the namespace, and of the
    /// user namespace if there is one.
    Linked,
    /// The container's process runs, with this number on this machine.
    Started(i32),
    /// The container cannot be started, for this reason.
    Failed(String),
    /// The process has ended with this code, 128 and the number for a signal.
    Exited(u8),
}

/// What a launcher is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherOrder {
    /// The ids are mapped.
    Mapped,
    /// Send this signal to the container's process.
    Signal(i32),
}

/// Writes a message.
pub(crate) fn send<T: Serialize>(mut to: impl Write, message: &T) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads a message; `None` at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(from: impl BufRead) -> Result<Option<T>> {
    let mut line = Vec::new();
    from.take(MESSAGE_BYTES).read_until(b'\n', &mut line)?;
    parse(&line)
}

/// Reads a short message and not a byte more, so that another reader goes on behind it.
pub(crate) fn receive_exactly<T: DeserializeOwned>(from: impl Read) -> Result<Option<T>> {
    let (mut from, mut line, mut byte) = (from.take(MESSAGE_BYTES), Vec::new(), [0]);
    while !line.ends_with(b"\n") {
        match from.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => line.extend(byte),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    parse(&line)
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<Option<T>> {
    if line.is_empty() {
        return Ok(None);
    }
    match line.ends_with(b"\n") {
        true => serde_json::from_slice(line).map(Some).map_err(Error::from),
        false => Err(Error::new(ErrorKind::UnexpectedEof, "a message is cut off or too long")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_one_by_one_and_cut_ones_are_errors() {
        let mut bytes = Vec::new();
        for report in [
            LauncherReport::Started(7),
            LauncherReport::Failed("two\nlines".to_owned()),
            LauncherReport::Exited(137),
        ] {
            send(&mut bytes, &report).unwrap();
        }
        let mut from = bytes.as_slice();
        assert_eq!(receive_exactly(&mut from).unwrap(), Some(LauncherReport::Started(7)));
        assert_eq!(receive(&mut from).unwrap(), Some(LauncherReport::Failed("two\nlines".to_owned())));
        let cut = &from[..from.len() - 1];
        assert!(receive::<LauncherReport>(cut).is_err());
        assert_eq!(receive(&mut from).unwrap(), Some(LauncherReport::Exited(137)));
        assert_eq!(receive::<LauncherReport>(&mut from).unwrap(), None);
    }
}
