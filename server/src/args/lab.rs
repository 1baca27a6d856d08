//! Flags of the lab: clusters whose clock tests may move, at `/kstore/lab/v1` of the API's port. The crate `kstore-lab` serves it.

use super::flag::{parsed, put};
use super::scope::GivenFlags;
use super::{ListenAddress, ServerOptions, UsageError, number};
use jiff::Timestamp;
use kstore_lab::clock::Mode;
use kstore_lab::limits;
use std::net::IpAddr;
use std::path::PathBuf;

type Flag = super::flag::Flag<ServerOptions>;

/// The values of the flags of the lab.
#[derive(Debug, Default)]
pub(super) struct LabOptions {
    is_on: bool,
    clock: Option<Mode>,
    start: Option<LabStart>,
    seed: Option<u64>,
    log_bytes: Option<usize>,
    clusters: Option<usize>,
    image: Option<PathBuf>,
    has_programs: bool,
    is_anywhere: bool,
}

/// Time at which a clock of the lab begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabStart {
    Now,
    At(Timestamp),
}

/// The lab of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabFlags {
    /// Mode of the first cluster's clock.
    pub mode: Mode,
    /// Time at which the first cluster begins; `None`: now.
    pub start: Option<Timestamp>,
    /// Seed of its random values; `None`: a random one.
    pub seed: Option<u64>,
    /// Bytes of the request log of each cluster.
    pub log_bytes: usize,
    /// Most clusters of the process.
    pub clusters: usize,
    /// Snapshot file from which the first cluster starts.
    pub image: Option<PathBuf>,
    /// Whether callers may start programs as children of this process.
    pub programs: bool,
}

/// The flags of the lab, for the server and for `run`.
pub(super) const LAB: &[Flag] = &[
    Flag::switch(
        "lab",
        |o| o.lab.is_on = true,
        "Serve the lab at /kstore/lab/v1 of the API's port: a clock that tests move, forks, images, resets, `settled`, a request log; for members of system:masters. Needs --in-memory, or `run`",
    )
    .daily(),
    Flag::value(
        "lab-clock",
        "MODE",
        |o, text| put(&mut o.lab.clock, parsed(text).map(Some)),
        "How the time of the cluster passes: real, manual (only when a call lets it), auto (to the next deadline whenever all is quiet), or times a factor such as 60x [default: real]",
    ),
    Flag::value(
        "lab-start",
        "TIME",
        |o, text| put(&mut o.lab.start, start(text).map(Some)),
        "Time of the cluster at its start, in RFC 3339, or now; not with --lab-clock real [default: now]",
    ),
    Flag::value(
        "lab-seed",
        "N",
        |o, text| put(&mut o.lab.seed, number::count(text).map(Some)),
        "Seed of the random values of the cluster's components [default: a random one, which the start shows]",
    ),
    Flag::value(
        "lab-log",
        "SIZE",
        |o, text| put(&mut o.lab.log_bytes, number::memory(text).map(Some)),
        "Memory for the request log of each cluster, such as 64MiB [default: 8MiB, some 25,000 reads or 9,000 writes]",
    ),
    Flag::value(
        "lab-clusters",
        "N",
        |o, text| put(&mut o.lab.clusters, clusters(text).map(Some)),
        "Largest number of clusters of the process, the first one included [default: 1024]",
    ),
    Flag::path(
        "lab-image",
        "FILE",
        |o, path| o.lab.image = Some(path),
        "Begin with the snapshot FILE of a lab, which has the time, unless --lab-clock is real, and the seed",
    ),
    Flag::switch(
        "lab-programs",
        |o| o.lab.has_programs = true,
        "Let administrators start programs as children of this process, with the rights of its user; always so with `run`",
    ),
    Flag::switch(
        "lab-anywhere",
        |o| o.lab.is_anywhere = true,
        "Serve the lab also where other machines reach it: administrators there can then stop its clock and end its clusters",
    ),
];

/// Flags of the server that the lab refuses, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("data-dir", "its clusters are in memory, and forks share it: use --in-memory"),
    ("etcd-servers", "its clusters are in memory, and forks share it"),
    ("forward", "connections from this machine do not wait for its clock: use `kubectl port-forward`"),
    ("etcd-listen", "what is written there is in no request log, and a reset replaces the store"),
    ("cri", "a container runtime runs in real time, and no fork can have its containers"),
    ("cri-listen", "its clients run in real time, and do not wait for the clocks of clusters"),
    ("image", "programs of this machine run in real time, and no fork can have them"),
    ("encryption-provider-config", "its clusters are in memory, and forks share the objects as they are"),
];

/// Parses `--lab-start`.
fn start(text: &str) -> Result<LabStart, String> {
    match text {
        "now" => Ok(LabStart::Now),
        text => {
            let time = text.parse::<Timestamp>().ok();
            let seconds = time.and_then(|time| Timestamp::from_second(time.as_second()).ok());
            let time = seconds.ok_or("expected now, or a time such as 2026-03-01T00:00:00Z")?;
            Ok(LabStart::At(time))
        }
    }
}

/// Parses `--lab-clusters`.
fn clusters(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=limits::CLUSTERS_MOST).contains(number));
    number.ok_or_else(|| format!("expected a whole number from 1 to {}", limits::CLUSTERS_MOST))
}

/// Whether only this machine reaches a listener.
pub(super) fn is_loopback(listen: &ListenAddress) -> bool {
    listen.host == "localhost" || listen.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl LabOptions {
    /// Whether the flag `--lab` is given.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The lab, if `--lab` is given. `given` are the flags of the command line.
    ///
    /// # Errors
    /// A flag of the lab without `--lab`, or one that the lab refuses.
    pub(super) fn into_flags(
        self,
        given: &GivenFlags,
        listen: &ListenAddress,
    ) -> Result<Option<Box<LabFlags>>, UsageError> {
        if !self.is_on {
            let alone = given.among(LAB);
            return alone.map_or(Ok(None), |flag| Err(UsageError::NeedsFlag(flag, "--lab")));
        }
        for (flag, reason) in REFUSED {
            if given.has(flag) {
                return Err(UsageError::LabRefuses(flag, reason));
            }
        }
        if !self.is_anywhere && !is_loopback(listen) {
            return Err(UsageError::LabOnLoopback(listen.host.clone()));
        }
        let mode = self.clock.unwrap_or_default();
        let start = match self.start {
            Some(LabStart::At(_)) if mode == Mode::Real => return Err(UsageError::LabStartInRealTime),
            Some(LabStart::At(_)) if self.image.is_some() => {
                return Err(UsageError::LabRefuses("lab-start", "the file of --lab-image has the time"));
            }
            Some(LabStart::At(time)) => Some(time),
            Some(LabStart::Now) | None => None,
        };
        Ok(Some(Box::new(LabFlags {
            mode,
            start,
            seed: self.seed,
            log_bytes: self.log_bytes.unwrap_or(limits::LOG_BYTES),
            clusters: self.clusters.unwrap_or(limits::CLUSTERS),
            image: self.image,
            programs: self.has_programs,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command, History};
    use super::*;

    fn lab(flags: &str) -> Result<Option<LabFlags>, String> {
        let cli = Cli::try_parse_from(format!("kstore-server {flags}").split(' '));
        let cli = cli.map_err(|error| error.to_string())?;
        let config = match cli.command {
            None => cli.serve.into_config().map_err(|error| error.to_string())?,
            Some(Command::Run(run)) => run.into_config().map_err(|error| error.to_string())?.0,
            Some(other) => panic!("{other:?}"),
        };
        let here = config.api.here().unwrap();
        assert!(here.lab.is_none() || here.history == History::All || flags.contains("--history"));
        Ok(here.lab.map(|lab| *lab))
    }

    #[test]
    fn the_lab_takes_its_flags_in_the_server_and_in_run() {
        let defaults = LabFlags {
            mode: Mode::Real,
            start: None,
            seed: None,
            log_bytes: limits::LOG_BYTES,
            clusters: limits::CLUSTERS,
            image: None,
            programs: false,
        };
        assert_eq!(lab("--in-memory"), Ok(None));
        assert_eq!(lab("--in-memory --lab").unwrap().unwrap(), defaults);
        let of_run = LabFlags { programs: true, ..defaults };
        assert_eq!(lab("run --lab -- true").unwrap().unwrap(), of_run);
        let flags = "--lab --lab-clock 60x --lab-start 2026-03-01T00:00:00.5Z --lab-seed 7 --lab-log 1MiB --lab-clusters 3";
        let given = lab(&format!("run {flags} -- true")).unwrap().unwrap();
        assert_eq!((given.mode, given.seed), (Mode::Scaled(60.0), Some(7)));
        assert_eq!((given.log_bytes, given.clusters), (1024 * 1024, 3));
        assert_eq!(given.start, Some("2026-03-01T00:00:00Z".parse().unwrap()), "whole seconds");
        assert_eq!(lab("run --lab --lab-start now -- true").unwrap().unwrap(), of_run);
        let file = lab("--in-memory --lab --lab-image f --lab-programs").unwrap().unwrap();
        assert_eq!((file.image, file.programs), (Some("f".into()), true));
        let anywhere = "run --lab --lab-anywhere --listen 0.0.0.0:0 --history 5m -- true";
        assert!(lab(anywhere).unwrap().is_some());
    }

    #[test]
    fn what_the_lab_cannot_serve_is_refused_by_name() {
        for (flags, text) in [
            ("--lab", "--lab needs --in-memory"),
            ("--lab --data-dir d", "--data-dir cannot be combined with --lab: its clusters are in memory"),
            ("--lab --in-memory --etcd-servers http://a:1", "--etcd-servers cannot be combined with --lab"),
            ("--lab --in-memory --etcd-listen :0", "--etcd-listen cannot be combined with --lab"),
            (
                "--lab --in-memory --encryption-provider-config f",
                "--encryption-provider-config cannot be combined with --lab",
            ),
            ("--lab --kubeconfig f --components scheduler", "--lab requires `apiserver` in --components"),
            (
                "--lab --components store --etcd-listen unix:///a",
                "--lab requires `apiserver` in --components",
            ),
            (
                "run --lab --image a=/bin/sh -- true",
                "--image cannot be combined with --lab: programs of this machine",
            ),
            ("run --lab --components scheduler -- true", "run requires `apiserver` in --components"),
            ("run --lab --from d -- true", "--from cannot be combined with --lab"),
            ("--in-memory --lab --listen 0.0.0.0:6443", "add --lab-anywhere"),
            ("--in-memory --lab --listen :6443", "add --lab-anywhere"),
            ("--in-memory --lab-clock manual", "--lab-clock needs --lab"),
            ("run --lab-seed 7 -- true", "--lab-seed needs --lab"),
            ("run --lab --lab-start 2026-03-01T00:00:00Z -- true", "--lab-start needs a --lab-clock"),
            (
                "run --lab --lab-clock manual --lab-image f --lab-start 2026-03-01T00:00:00Z -- true",
                "the file of --lab-image has the time",
            ),
            ("run --lab --lab-start monday -- true", "expected now, or a time such as 2026-03-01T00:00:00Z"),
            ("run --lab --lab-clock fast -- true", "use real, manual, auto, or a factor such as 60x"),
            ("run --lab --lab-clusters 0 -- true", "expected a whole number from 1 to 4096"),
        ] {
            let refusal = lab(flags).unwrap_err();
            assert!(refusal.contains(text), "{flags}: {refusal}");
        }
    }
}
