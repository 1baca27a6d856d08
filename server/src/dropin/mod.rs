//! Programs that kstore stands in for: called under the name `kube-apiserver`, `etcd`, `kube-controller-manager` or `kube-scheduler`, or as
//! `kstore-server as PROGRAM`, this binary takes the flags of that program, so that test harnesses that start control planes run unchanged. Not what the programs do: they are
//! the server's own parts, composed by `wiring`.

mod assets;
mod component;
mod etcd;
mod every_program;
mod flags;
mod kube_apiserver;
mod serving;

pub(crate) use assets::make as make_assets;
pub(crate) use flags::{BOOL, Flag, honour, parse_bool};

use clap::ValueEnum;
use component::Kind;
use flags::FlagError;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// A program that this binary can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The apiserver alone, on an etcd.
    KubeApiserver,
    /// The store with its etcd API.
    Etcd,
    /// The controllers alone, on kstore's apiserver.
    KubeControllerManager,
    /// The scheduler alone, on kstore's apiserver.
    KubeScheduler,
}

/// The release whose flags and API these are.
const KUBERNETES: &str = "v1.36.2";

/// What one of Kubernetes' programs prints for this value of `--version`, if anything.
fn version_line(asked: Option<&str>) -> Option<String> {
    match asked {
        None | Some("false") => None,
        Some("raw") => Some(format!(
            "version.Info{{GitVersion:\"{KUBERNETES}\", GitCommit:\"kstore-{}\"}}",
            crate::VERSION
        )),
        Some(_) => Some(format!("Kubernetes {KUBERNETES}")),
    }
}

impl Program {
    /// Every program.
    const ALL: [Self; 4] =
        [Self::KubeApiserver, Self::Etcd, Self::KubeControllerManager, Self::KubeScheduler];

    /// The name of its executable.
    fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::KubeControllerManager => Kind::ControllerManager.name(),
            Self::KubeScheduler => Kind::Scheduler.name(),
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }
}

/// Runs the program that the command line asks for by its first word's file name, or by `as PROGRAM`; none for kstore's own command
/// line.
pub fn run(words: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut words = words.into_iter();
    let called = words.next()?;
    let called = Path::new(&called).file_name()?.to_str()?;
    let program = match Program::named(called) {
        Some(program) => program,
        None => {
            let is_as = words.next()?.to_str() == Some("as");
            let named = words.next().filter(|_| is_as)?;
            Program::named(named.to_str()?)?
        }
    };
    Some(run_as(program, words))
}

/// Runs a program on the words after its name.
pub(crate) fn run_as(program: Program, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match program {
        Program::KubeApiserver => kube_apiserver::run(words),
        Program::Etcd => etcd::run(words),
        Program::KubeControllerManager => component::run(Kind::ControllerManager, words),
        Program::KubeScheduler => component::run(Kind::Scheduler, words),
    }
}

/// A flag whose value makes no sense, or that is missing.
#[derive(Debug, thiserror::Error)]
enum UsageError {
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// A value of a flag that `kstore-server` has as well.
    #[error(transparent)]
    Shared(#[from] crate::args::FlagError),
    /// A value that cannot be used.
    #[error("invalid argument {value:?} for \"--{name}\" flag: {reason}")]
    Value { name: &'static str, value: String, reason: String },
    /// A variable of the environment whose value cannot be used.
    #[error("{name}={value}: {reason}")]
    Variable { name: &'static str, value: String, reason: String },
    /// A flag that is needed.
    #[error("--{name} is required: {reason}")]
    Missing { name: &'static str, reason: &'static str },
}

/// The architecture by the name that Go has for it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl UsageError {
    fn value(name: &'static str, value: &str, reason: impl ToString) -> Self {
        Self::Value { name, value: value.to_owned(), reason: reason.to_string() }
    }

    fn variable(name: &'static str, value: &str, reason: impl ToString) -> Self {
        Self::Variable { name, value: value.to_owned(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(words: &[&str]) -> bool {
        run(words.iter().map(OsString::from)).is_some()
    }

    #[test]
    fn a_program_is_chosen_by_the_name_it_is_called_by_or_after_as() {
        assert!(runs(&["/assets/kube-apiserver", "--version"]));
        assert!(runs(&["etcd", "--version"]));
        assert!(runs(&["kstore-server", "as", "kube-apiserver", "--help"]));
        assert!(runs(&["/usr/bin/kstore-server", "as", "etcd", "--version"]));
        assert!(!runs(&["kstore-server", "--help"]));
        assert!(!runs(&["kstore-server", "as", "kubelet"]));
        assert!(!runs(&["kstore-server"]));
        assert!(!runs(&[]));
    }
}
