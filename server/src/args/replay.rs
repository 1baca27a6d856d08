//! Flags of `kstore-server replay`, which the module `replay` carries out.

use super::flag::{Flag, parsed, put, required};
use super::listen::ListenAddress;
use super::number;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

pub(super) const HELP: &str = "\
Serves a recording of `record`, or another data directory or snapshot with history, so that its changes happen again: the newest revision of \
the server moves through the recorded ones, each at its time, and any client sees the cluster as it was live. Revisions and objects are those \
of the recording, and ages are of its time. Nothing can be changed, and the recording stays as it is.

The server ends at Ctrl-C, or with the command after --, which gets its kubeconfig.

Exit codes: 0 done, 1 failure, 2 revisions that the recording does not have, or a wrong command line. With a command, that of the command.

Examples:
  kstore-server replay rec --speed 60 -- kubectl get pods -A --watch
  kstore-server replay rec.db --from 88412903 --to 88413500 --write-kubeconfig then.kubeconfig";

pub(super) const FLAGS: &[Flag<ReplayArgs>] = &[
    Flag::path(
        "recording",
        "REC",
        |o: &mut ReplayArgs, path| o.recording = path,
        "Data directory or snapshot file with the recording",
    )
    .positional()
    .shaped(required),
    Flag::value(
        "speed",
        "N",
        |o: &mut ReplayArgs, text| put(&mut o.speed, parsed(text)),
        "Multiple of the recorded speed, such as 10 or 0.5, or max: without pauses",
    )
    .default("1"),
    Flag::value(
        "from",
        "REVISION",
        |o: &mut ReplayArgs, text| put(&mut o.from, number::count(text).map(Some)),
        "Revision to begin with [default: the oldest]",
    ),
    Flag::value(
        "to",
        "REVISION",
        |o: &mut ReplayArgs, text| put(&mut o.to, number::count(text).map(Some)),
        "Last revision, whose state then stays [default: the newest]",
    ),
    Flag::value(
        "listen",
        "ADDR",
        |o: &mut ReplayArgs, text| put(&mut o.listen, parsed(text)),
        "Address of the API; port 0 picks a free port",
    )
    .default("127.0.0.1:0"),
    Flag::path(
        "write-kubeconfig",
        "FILE",
        |o: &mut ReplayArgs, path| o.write_kubeconfig = Some(path),
        "Also write the kubeconfig to this file",
    ),
    Flag::word(
        "command",
        "CMD",
        |o: &mut ReplayArgs, word| o.command.push(word),
        "Command that runs with the kubeconfig, and its arguments",
    )
    .shaped(|arg| arg.num_args(1..).last(true)),
];

/// How fast a recording is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplaySpeed {
    /// A multiple of the recorded speed; above zero, and finite.
    Times(f64),
    /// Without pauses.
    Max,
}

impl FromStr for ReplaySpeed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
        factor.map(Self::Times).ok_or_else(|| "expected a number above 0, such as 10, or max".to_owned())
    }
}

/// Arguments of `replay`.
#[derive(Debug)]
pub struct ReplayArgs {
    /// Data directory, or snapshot file.
    pub recording: PathBuf,
    /// How fast.
    pub speed: ReplaySpeed,
    /// First revision; `None`: the oldest.
    pub from: Option<i64>,
    /// Last revision; `None`: the newest.
    pub to: Option<i64>,
    /// Address of the API.
    pub listen: ListenAddress,
    /// Path of a copy of the kubeconfig.
    pub write_kubeconfig: Option<PathBuf>,
    /// The command and its arguments; empty: the server runs until a signal.
    pub command: Vec<OsString>,
}

impl Default for ReplayArgs {
    fn default() -> Self {
        Self {
            recording: PathBuf::new(),
            speed: ReplaySpeed::Times(1.0),
            from: None,
            to: None,
            listen: ListenAddress { host: "127.0.0.1".to_owned(), port: 0 },
            write_kubeconfig: None,
            command: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_number_above_zero_or_max() {
        for (text, expected) in [
            ("10", Some(ReplaySpeed::Times(10.0))),
            ("0.5", Some(ReplaySpeed::Times(0.5))),
            ("max", Some(ReplaySpeed::Max)),
            ("0", None),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("fast", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
