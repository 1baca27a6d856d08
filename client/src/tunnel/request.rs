//! Decodes the server's stream requests.

use kstore_proto::kstore::v1 as pb;
use pb::stream_open::What;

/// A stream that the server opens: the node, pod and container, and the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// The node that the pod is bound to.
    pub node: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// The container; empty for port forwarding.
    pub container: String,
    /// The operation.
    pub kind: StreamKind,
}

/// The operation of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Sends the container's logs.
    Log(LogOptions),
    /// Run a command in the container.
    Exec(Vec<String>, Terminal),
    /// Attaches to the standard streams of the container's process.
    Attach(Terminal),
    /// Forwards one connection to a port of the pod.
    Port(u16),
    /// Forwards one HTTP connection to the node's kubelet server; concerns no pod.
    Kubelet,
}

/// `core/v1 PodLogOptions`; the server has validated them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct LogOptions {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub since_seconds: Option<i64>,
    /// A time in RFC 3339.
    pub since_time: Option<String>,
    pub tail_lines: Option<i64>,
    pub limit_bytes: Option<i64>,
    /// `All` (or empty), `Stdout` or `Stderr`.
    pub stream: String,
}

/// The streams of a process that the caller wants, and whether they are a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct Terminal {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// The request; `None` for an operation that this program does not know.
pub(super) fn read(open: pb::StreamOpen) -> Option<StreamRequest> {
    let kind = match open.what? {
        What::Log(log) => StreamKind::Log(LogOptions {
            follow: log.follow,
            previous: log.previous,
            timestamps: log.timestamps,
            since_seconds: log.since_seconds,
            since_time: log.since_time,
            tail_lines: log.tail_lines,
            limit_bytes: log.limit_bytes,
            stream: log.stream,
        }),
        What::Exec(pb::ExecStream { command, stdin, stdout, stderr, tty }) => {
            StreamKind::Exec(command, Terminal { stdin, stdout, stderr, tty })
        }
        What::Attach(pb::AttachStream { stdin, stdout, stderr, tty }) => {
            StreamKind::Attach(Terminal { stdin, stdout, stderr, tty })
        }
        What::Kubelet(pb::KubeletStream {}) => StreamKind::Kubelet,
        What::Port(port) => StreamKind::Port(u16::try_from(port.port).ok()?),
    };
    let pb::StreamOpen { node, namespace, pod, uid, container, .. } = open;
    Some(StreamRequest { node, namespace, pod, uid, container, kind })
}
