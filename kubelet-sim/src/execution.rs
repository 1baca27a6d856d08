//! Commands that a kubelet runs in containers, for hooks and probes: [`Execution`], and its result [`Executed`].

use crate::pod_object::Hook;
use crate::probe::ProbeKind;
use std::time::Duration;

/// Why a kubelet runs a command in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is a hook.
    Hook(Hook),
    /// It is a probe.
    Probe(ProbeKind),
}

/// What a kubelet does for a hook or a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Runs a command with its arguments in the container.
    Command(Vec<String>),
    /// Asks a port of the pod for a path.
    Http(u16, String),
    /// The same over TLS, with any certificate.
    Https(u16, String),
    /// Connects to a port of the pod.
    Connect(u16),
    /// Asks a port of the pod for the health of a service, by gRPC.
    Health(u16, String),
}

/// A command or request that is to run for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Index of the container.
    pub container: usize,
    /// The runtime's id of the run.
    pub run: String,
    /// The purpose.
    pub purpose: Purpose,
    /// What is done.
    pub act: Act,
    /// When it is given up; `None`: never.
    pub timeout: Option<Duration>,
}

/// The result of a command that ran in a container, or of a request to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The exit code, for a request 0 or 1; `None` if it was given up.
    pub code: Option<u8>,
    /// The beginning of the output.
    pub output: String,
}
