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

/// A command that is to run in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Index of the container.
    pub container: usize,
    /// The runtime's id of the run.
    pub run: String,
    /// The purpose.
    pub purpose: Purpose,
    /// The command with its arguments.
    pub argv: Vec<String>,
    /// When it is given up; `None`: never.
    pub timeout: Option<Duration>,
}

/// The result of a command that ran in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The exit code; `None` if the command was given up.
    pub code: Option<u8>,
    /// The beginning of the output.
    pub output: String,
}
