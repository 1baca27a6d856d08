//! Drop-in programs: this binary accepts the flags of `kube-apiserver`, `etcd`, `kube-controller-manager` or `kube-scheduler` when its
//! executable has that name, or as `kstore-server as PROGRAM`. Test harnesses that start control planes therefore run unchanged. The
//! programs consist of the server's own components, which `wiring` composes.

mod assets;
mod component;
mod etcd;
mod every_program;
mod kube_apiserver;
mod serving;

use crate::args::Program;
use crate::flags::FlagError;
pub(crate) use assets::make as make_assets;
use component::ComponentKind;
use kstore_api::version::Minor;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The Kubernetes release whose flags the drop-in programs have.
const KUBERNETES: &str = kstore_api::version::PROGRAMS;

/// The output of `--version` with this value for a program of a version, in the format of Kubernetes' programs; `None` if the program is to
/// run.
fn version_line(value: Option<&str>, minor: Minor) -> Option<String> {
    let release = minor.programs();
    match value {
        None | Some("false") => None,
        // A value such as `v1.34.9` chooses the version that the program reports.
        Some(value) if value.starts_with('v') => None,
        Some("raw") => {
            Some(format!("version.Info{{GitVersion:\"{release}\", GitCommit:\"kstore-{}\"}}", crate::VERSION))
        }
        Some(_) => Some(format!("Kubernetes {release}")),
    }
}

impl Program {
    /// Every program that this binary can replace.
    const ALL: [Self; 4] =
        [Self::KubeApiserver, Self::Etcd, Self::KubeControllerManager, Self::KubeScheduler];

    /// The file name of the program's executable.
    fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::KubeControllerManager => ComponentKind::ControllerManager.name(),
            Self::KubeScheduler => ComponentKind::Scheduler.name(),
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }
}

/// Runs the program that the command line names by the file name of its first word, or by `as PROGRAM`; `None` for kstore's own
/// command line.
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

/// Runs a program with the arguments after its name.
pub(crate) fn run_as(program: Program, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match program {
        Program::KubeApiserver => kube_apiserver::run(words),
        Program::Etcd => etcd::run(words),
        Program::KubeControllerManager => component::run(ComponentKind::ControllerManager, words),
        Program::KubeScheduler => component::run(ComponentKind::Scheduler, words),
    }
}

/// An invalid or missing flag of a drop-in program.
#[derive(Debug, thiserror::Error)]
enum UsageError {
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// An invalid value of a flag that `kstore-server` has, too.
    #[error(transparent)]
    Shared(#[from] crate::args::FlagError),
    /// An invalid value of a flag.
    #[error("invalid argument {value:?} for \"--{name}\" flag: {reason}")]
    Value { name: &'static str, value: String, reason: String },
    /// An invalid value of an environment variable.
    #[error("{name}={value}: {reason}")]
    Variable { name: &'static str, value: String, reason: String },
    /// A required flag is missing.
    #[error("--{name} is required: {reason}")]
    Missing { name: &'static str, reason: &'static str },
}

/// Go's name of the processor architecture (`GOARCH`).
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
    fn program_is_chosen_by_executable_name_or_as_argument() {
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
