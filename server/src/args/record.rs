//! Flags of `kstore-server record`, which the module `record` carries out.

use super::flag::{Flag, add, chosen, list, parsed, put, required, words};
use super::import::SecretPolicy;
use super::number;
use super::values::go_time;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "\
Imports a running cluster, as `import --kubeconfig` does, and then adds all of its changes: one watch for each kind, merged in the order of \
their resource versions. The recording is a data directory with history: `history`, `diff`, `at` and the page work on a server of it. It \
ends after --for, or at Ctrl-C in order. Nothing is ever written to the cluster.

A change has the revision of the cluster, the time at which it arrived, and the writer that its managed fields name; users are unknown. A \
change that arrives more than --reorder after those of later revisions gets a later revision and is marked late. If the cluster does not \
have the changes since a break of a watch, the difference is one write, marked with the length of the gap.

Values of Secrets are replaced before anything is written, unless --secrets says otherwise.

Exit codes: 0 done, 1 failure, 2 a cluster that cannot be used, or a wrong command line.

Examples:
  kstore-server record --kubeconfig prod.kubeconfig --data-dir rec --for 1h
  kstore-server record --kubeconfig prod.kubeconfig --data-dir rec --exclude events,leases --out rec.db
  kstore-server --data-dir rec --read-only";

pub(super) const FLAGS: &[Flag<RecordArgs>] = &[
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut RecordArgs, path| o.kubeconfig = path,
        "Kubeconfig of the cluster, which is read as its user",
    )
    .shaped(required),
    Flag::path(
        "data-dir",
        "DIR",
        |o: &mut RecordArgs, path| o.dir = path,
        "Data directory to create; it must not have a store",
    )
    .shaped(required),
    Flag::value(
        "for",
        "TIME",
        |o: &mut RecordArgs, text| put(&mut o.duration, go_time(text).map(Some)),
        "How long to record, such as 1h [default: until Ctrl-C]",
    ),
    Flag::path(
        "out",
        "FILE",
        |o: &mut RecordArgs, path| o.out = Some(path),
        "Also write the recording as a snapshot file, which `import` and etcd's tools read",
    ),
    Flag::value(
        "reorder",
        "TIME",
        |o: &mut RecordArgs, text| put(&mut o.reorder, go_time(text)),
        "How long a change waits for changes of older revisions at the longest",
    )
    .default("5s"),
    Flag::value(
        "max-bytes",
        "BYTES",
        |o: &mut RecordArgs, text| {
            put(&mut o.max_bytes, number::memory(text).map(|bytes| Some(bytes as u64)))
        },
        "End the recording when its changes have so many bytes, such as 10GiB",
    ),
    Flag::value(
        "page",
        "N",
        |o: &mut RecordArgs, text| put(&mut o.page, number::count(text)),
        "Objects that one request of the import asks for",
    )
    .default("500"),
    Flag::value(
        "qps",
        "N",
        |o: &mut RecordArgs, text| put(&mut o.requests_per_second, parsed(text)),
        "Most requests of the import in a second",
    )
    .default("20"),
    Flag::choice(
        ("secrets", "HOW"),
        words::<SecretPolicy>,
        |o: &mut RecordArgs, word| put(&mut o.secrets, chosen(word)),
        "What becomes of Secrets",
    )
    .default("mask"),
    Flag::value(
        "exclude",
        "KIND",
        |o: &mut RecordArgs, text| add(&mut o.excluded, parsed(text)),
        "Leave out objects of these kinds, by their plurals, such as events,leases",
    )
    .shaped(list),
];

/// Arguments of `record`.
#[derive(Debug, Default)]
pub struct RecordArgs {
    /// Kubeconfig of the cluster.
    pub kubeconfig: PathBuf,
    /// Data directory to create.
    pub dir: PathBuf,
    /// How long to record; `None`: until a signal.
    pub duration: Option<Duration>,
    /// Snapshot file to write at the end.
    pub out: Option<PathBuf>,
    /// How long a change waits for older revisions.
    pub reorder: Duration,
    /// Bytes of changes after which the recording ends.
    pub max_bytes: Option<u64>,
    /// Objects in a request of the import.
    pub page: usize,
    /// Most requests of the import in a second.
    pub requests_per_second: u32,
    /// What becomes of Secrets.
    pub secrets: SecretPolicy,
    /// Plurals of kinds that are left out.
    pub excluded: Vec<String>,
}
