//! Flags of `kstore-server import`, which the module `import` carries out.

use super::flag::{Choice, Flag, add, chosen, list, parsed, put, words};
use super::listen::ListenAddress;
use super::number;
use jiff::Timestamp;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
SOURCE is a snapshot of a Kubernetes' etcd (`etcdctl snapshot save`, or `member/snap/db` of an etcd that has ended, with \
--skip-hash-check), a file of manifests as `kubectl get -A -o yaml` prints them, or a folder of such files. With --kubeconfig a running cluster is read instead, by \
lists of all kinds at one revision; what its user may not read is left out. Nothing is ever written to the source. Names, uids, resource versions, times, owners, status and places of pods are kept, and of a snapshot the history that its etcd had.

Recordings of KWOK and of kube-scheduler-simulator are files, too, and become history; a trace of SimKube, which has no nodes, needs --nodes \
or --nodes-from.

Values of Secrets are replaced before anything is written, unless --secrets says otherwise: equal values stay equal. What is left out is \
printed with counts, and is in import-report.json of the directory. A server on imported data calls no webhook, API server or other \
address in them.

Exit codes: 0 done, 1 failure, 2 a source that cannot be used, or a wrong command line.

Examples:
  kstore-server import prod.db --to prod-now
  kstore-server --data-dir prod-now --read-only
  kstore-server import prod.db --serve
  kstore-server import --kubeconfig prod.kubeconfig --to prod-now
  kubectl get -A -o yaml all,configmaps,nodes > dump.yaml && kstore-server import dump.yaml --to prod-now --live
  kstore-server --data-dir prod-now --nodes 0";

pub(super) const FLAGS: &[Flag<ImportArgs>] = &[
    Flag::path(
        "source",
        "SOURCE",
        |o: &mut ImportArgs, path| o.source = Some(path),
        "Snapshot of an etcd, file of manifests, or folder of such files",
    )
    .positional()
    .shaped(|arg| arg.required_unless_present("kubeconfig")),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut ImportArgs, path| o.kubeconfig = Some(path),
        "Read the cluster of this kubeconfig, as its user, instead of a SOURCE",
    )
    .shaped(|arg| arg.conflicts_with("source")),
    Flag::value(
        "page",
        "N",
        |o: &mut ImportArgs, text| put(&mut o.page, number::count(text)),
        "Objects that one request to the cluster of --kubeconfig asks for",
    )
    .default("500"),
    Flag::value(
        "qps",
        "N",
        |o: &mut ImportArgs, text| put(&mut o.requests_per_second, parsed(text)),
        "Most requests to the cluster of --kubeconfig in a second",
    )
    .default("20"),
    Flag::path(
        "to",
        "DIR",
        |o: &mut ImportArgs, path| o.to = Some(path),
        "Data directory to create; it must not have a store",
    )
    .shaped(|arg| arg.required_unless_present("serve")),
    Flag::switch(
        "serve",
        |o: &mut ImportArgs| o.serves = true,
        "Serve the imported state, which cannot be changed, until Ctrl-C; without --to nothing is left afterwards",
    ),
    Flag::value(
        "listen",
        "ADDR",
        |o: &mut ImportArgs, text| put(&mut o.listen, parsed(text).map(Some)),
        "Address of the API of --serve; port 0 picks a free port [default: 127.0.0.1:6443]",
    )
    .shaped(|arg| arg.requires("serve")),
    Flag::switch(
        "live",
        |o: &mut ImportArgs| o.is_live = true,
        "Prepare the data for controllers, scheduler and simulated nodes: each Node is marked to be simulated, and what calls other programs on writes is left out",
    )
    .shaped(|arg| arg.conflicts_with("serve")),
    Flag::choice(
        ("secrets", "HOW"),
        words::<SecretPolicy>,
        |o: &mut ImportArgs, word| put(&mut o.secrets, chosen(word)),
        "What becomes of Secrets",
    )
    .default("mask"),
    Flag::value(
        "exclude",
        "KIND",
        |o: &mut ImportArgs, text| add(&mut o.excluded, parsed(text)),
        "Leave out objects of these kinds, by their plurals, such as events,leases",
    )
    .shaped(list),
    Flag::value(
        "kind",
        "KIND",
        |o: &mut ImportArgs, text| add(&mut o.kinds, parsed(text)),
        "Import only objects of these kinds, by their plurals, with all Namespaces and CustomResourceDefinitions",
    )
    .shaped(list),
    Flag::value(
        "namespace",
        "NAMESPACE",
        |o: &mut ImportArgs, text| add(&mut o.namespaces, parsed(text)),
        "Import only these namespaces, and the objects outside of namespaces",
    )
    .shaped(|arg| list(arg).short('n')),
    Flag::value(
        "prefix",
        "PREFIX",
        |o: &mut ImportArgs, text| put(&mut o.prefix, parsed(text)),
        "Prefix of the keys in a snapshot, if the API server was started with another --etcd-prefix",
    )
    .default("/registry"),
    Flag::value(
        "start",
        "TIME",
        |o: &mut ImportArgs, text| put(&mut o.start, parsed(text).map(Some)),
        "Begin of a recording of KWOK, whose times are relative, such as 2026-01-01T00:00:00Z [default: now]",
    ),
    Flag::value(
        "nodes",
        "N",
        |o: &mut ImportArgs, text| put(&mut o.nodes, number::nodes(text)),
        "Add N Nodes with 16 processors and 64 GiB: a trace of SimKube has none",
    )
    .default("0"),
    Flag::path(
        "nodes-from",
        "FILE",
        |o: &mut ImportArgs, path| o.nodes_from = Some(path),
        "Add the Nodes of this file of manifests",
    ),
    Flag::switch(
        "skip-hash-check",
        |o: &mut ImportArgs| o.skips_hash_check = true,
        "Accept a snapshot without a checksum, such as the database of an etcd's data directory",
    ),
    Flag::path(
        "encryption-provider-config",
        "FILE",
        |o: &mut ImportArgs, path| o.encryption = Some(path),
        "EncryptionConfiguration by which encrypted values of a snapshot are decrypted",
    ),
    Flag::switch(
        "skip-encrypted",
        |o: &mut ImportArgs| o.skips_encrypted = true,
        "Leave out encrypted values that cannot be decrypted",
    ),
];

/// Arguments of `import`.
#[derive(Debug, Default)]
pub struct ImportArgs {
    /// Snapshot, file or folder; `None`: a cluster is read.
    pub source: Option<PathBuf>,
    /// Kubeconfig of the cluster that is read.
    pub kubeconfig: Option<PathBuf>,
    /// Objects in a request to it.
    pub page: usize,
    /// Most requests to it in a second.
    pub requests_per_second: u32,
    /// Data directory to create.
    pub to: Option<PathBuf>,
    /// Whether the result is served at once.
    pub serves: bool,
    /// Address of the API, if it is served.
    pub listen: Option<ListenAddress>,
    /// Whether a control plane is to go on with the data.
    pub is_live: bool,
    /// What becomes of Secrets.
    pub secrets: SecretPolicy,
    /// Plurals of kinds that are left out.
    pub excluded: Vec<String>,
    /// Plurals of the only kinds that are imported; empty: all.
    pub kinds: Vec<String>,
    /// The only namespaces that are imported; empty: all.
    pub namespaces: Vec<String>,
    /// Prefix of the keys in a snapshot.
    pub prefix: String,
    /// Begin of a recording with relative times; `None`: now.
    pub start: Option<Timestamp>,
    /// Number of Nodes that are added.
    pub nodes: u32,
    /// Manifests of Nodes that are added.
    pub nodes_from: Option<PathBuf>,
    /// Whether a snapshot without a checksum is read.
    pub skips_hash_check: bool,
    /// EncryptionConfiguration of the source.
    pub encryption: Option<PathBuf>,
    /// Whether values that cannot be decrypted are left out.
    pub skips_encrypted: bool,
}

/// What `import` does with Secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretPolicy {
    /// Each value is replaced by a text that says nothing about it.
    #[default]
    Mask,
    /// They are imported as they are.
    Keep,
    /// They are left out.
    Drop,
}

impl Choice for SecretPolicy {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("mask", Self::Mask, "Replace their values; equal ones stay equal, and certificates stay"),
        ("keep", Self::Keep, "Import them as they are"),
        ("drop", Self::Drop, "Leave them out"),
    ];
}
