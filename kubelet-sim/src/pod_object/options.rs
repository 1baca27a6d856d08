//! The settings of a container that most containers lack: ports, lifecycle hooks, restart rules, the place of its termination message. They
//! are boxed, so that thousands of plain pods stay small.

use serde::Deserialize;

/// The path at which a container leaves its termination message by default.
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// The settings that most containers lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerOptions {
    /// The declared ports.
    pub ports: Vec<PortSpec>,
    /// The lifecycle hooks.
    pub lifecycle: Lifecycle,
    /// The rules that come before the restart policy.
    pub restart_rules: Vec<RestartRule>,
    /// The resources whose change restarts the container.
    pub restart_on_resize: Vec<String>,
    /// The path of the termination message, if it is not [`TERMINATION_LOG`].
    pub termination_message_path: Option<String>,
    /// Whether the end of the log is the message of a failed container that wrote none.
    pub falls_back_to_logs: bool,
}

/// A port that a container declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct PortSpec {
    pub name: String,
    pub container_port: i32,
    pub host_port: i32,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    pub protocol: String,
}

impl PortSpec {
    /// The port on the node, if the pod claims one.
    pub fn on_host(&self) -> Option<HostPort> {
        let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        let port = u16::try_from(self.host_port).ok().filter(|port| *port > 0)?;
        Some(HostPort {
            port,
            protocol: or(&self.protocol, "TCP"),
            address: or(&self.host_ip, HostPort::ANY_ADDRESS),
        })
    }
}

/// A port of a node that a pod claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// 1 to 65535.
    pub port: u16,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// The address; [`HostPort::ANY_ADDRESS`] is every address of the node.
    pub address: String,
}

impl HostPort {
    /// All addresses of a node.
    pub const ANY_ADDRESS: &'static str = "0.0.0.0";

    /// Whether two pods cannot claim both ports on one node.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let is_any = |port: &Self| port.address == Self::ANY_ADDRESS;
        (self.port, &self.protocol) == (other.port, &other.protocol)
            && (self.address == other.address || is_any(self) || is_any(other))
    }
}

/// The hooks of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lifecycle {
    /// Runs as soon as the container has started.
    pub post_start: Option<Handler>,
    /// Runs before the container gets SIGTERM.
    pub pre_stop: Option<Handler>,
}

/// The action of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawHandler")]
pub enum Handler {
    /// A command in the container.
    Exec(Vec<String>),
    /// An HTTP request to the container.
    Http(HttpTarget),
    /// A wait of this many seconds.
    Sleep(u64),
    /// An action that kubelets do not carry out, such as `tcpSocket`.
    Invalid,
}

/// The target of an HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HttpTarget {
    /// The host; empty is the pod's address.
    pub host: String,
    /// The path.
    pub path: String,
    /// The number or the name of the port.
    pub port: PortName,
    /// `HTTP` or `HTTPS`; empty is `HTTP`.
    pub scheme: String,
}

impl HttpTarget {
    /// Whether the request goes over TLS.
    pub fn is_encrypted(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("https")
    }
}

/// The target of a connection that is closed at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TcpTarget {
    /// The host; empty is the pod's address.
    pub host: String,
    /// The number or the name of the port.
    pub port: PortName,
}

/// The target of a gRPC health check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GrpcTarget {
    /// The number of the port.
    pub port: i32,
    /// The service that is asked for; `None` is the empty name.
    pub service: Option<String>,
}

impl GrpcTarget {
    /// The port, if it is one.
    pub fn number(&self) -> Option<u16> {
        u16::try_from(self.port).ok().filter(|port| *port > 0)
    }
}

/// A port by number or name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum PortName {
    /// The number.
    Number(i32),
    /// The name of a declared port, or a number as text.
    Name(String),
}

impl PortName {
    /// The number of the port, by the names that a container declares.
    pub fn number(&self, declared: &[PortSpec]) -> Option<u16> {
        let number = match self {
            Self::Number(number) => *number,
            Self::Name(name) => match name.parse() {
                Ok(number) => number,
                Err(_) => declared.iter().find(|port| port.name == *name)?.container_port,
            },
        };
        u16::try_from(number).ok().filter(|port| *port > 0)
    }
}

impl Default for PortName {
    fn default() -> Self {
        Self::Number(0)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawHandler {
    exec: Option<RawExec>,
    http_get: Option<HttpTarget>,
    sleep: Option<RawSleep>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawExec {
    pub(super) command: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSleep {
    seconds: i64,
}

impl From<RawHandler> for Handler {
    fn from(raw: RawHandler) -> Self {
        match (raw.exec, raw.http_get, raw.sleep) {
            (Some(exec), ..) => Self::Exec(exec.command.unwrap_or_default()),
            (None, Some(target), _) => Self::Http(target),
            (None, None, Some(sleep)) => Self::Sleep(u64::try_from(sleep.seconds).unwrap_or(0)),
            (None, None, None) => Self::Invalid,
        }
    }
}

/// A rule that comes before a container's restart policy (`restartPolicyRules`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartRule {
    /// `Restart` or `RestartAllContainers`.
    pub action: String,
    /// The exit codes to which the rule applies.
    pub exit_codes: ExitCodes,
}

/// A set of exit codes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ExitCodes {
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    pub values: Vec<i32>,
}

impl RestartRule {
    /// Whether the rule applies to a run that ended with `code`.
    pub fn applies_to(&self, code: i32) -> bool {
        let listed = self.exit_codes.values.contains(&code);
        match self.exit_codes.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    }
}
