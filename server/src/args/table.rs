//! The flags of `kstore-server`, by their heading in `--help`: one row each. `access::table` has the rows of those that kube-apiserver
//! has, too, with its meaning.

use super::access::{
    ADMISSION, APIS, AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, BASIC_AUTH, EVENTS, KUBERNETES,
    REQUEST_LIMITS,
};
use super::flag::{add, chosen, list, parsed, put, repeated, words};
use super::lab::LAB;
use super::logging::LOGGING;
use super::options::{controllers, egress_rules};
use super::scope::Part;
use super::simulation::NODES;
use super::{
    Component, Durability, Engine, OutboundPolicy, SchedulerFile, ServerOptions, audit, encryption, etcd,
    naming, number, time,
};
use clap::Arg;
use kstore_scheduler::scheduler::TieMode;

type Flag = super::flag::Flag<ServerOptions>;

/// Flags under one heading.
pub(super) struct FlagGroup {
    /// The heading.
    pub(super) heading: &'static str,
    /// The flags, in the order in which `--help` shows them.
    pub(super) flags: &'static [Flag],
}

const fn group(heading: &'static str, flags: &'static [Flag]) -> FlagGroup {
    FlagGroup { heading, flags }
}

const STORAGE: &str = "Storage";
pub(super) const SERVING: &str = "Serving";
const COMPONENTS: &str = "Components";

/// All flags of the server. `run` has them, too, unless they are the server's only.
pub(super) const SERVER: &[FlagGroup] = &[
    group(STORAGE, STORE),
    group(STORAGE, EVENTS),
    group(SERVING, LISTENER),
    group(COMPONENTS, LOOPS),
    group(COMPONENTS, NODES),
    group("Audit log", AUDIT_LOG),
    group("Audit webhook", AUDIT_WEBHOOK),
    group("Authentication", AUTHENTICATION),
    group("Authentication", BASIC_AUTH),
    group("Authorization", AUTHORIZATION),
    group("Admission", ADMISSION),
    group("Request limits", REQUEST_LIMITS),
    group("Optional APIs", KUBERNETES),
    group("Optional APIs", APIS),
    group("Lab", LAB),
    group("etcd API", ETCD_API),
    group("External etcd", EXTERNAL_ETCD),
    group("Logging", LOGGING),
];

const STORE: &[Flag] = &[
    Flag::path(
        "data-dir",
        "DIR",
        |o, path| o.data_dir = Some(path),
        "Directory of the data, certificates and kubeconfigs [default: ./kstore-data]",
    )
    .part(Part::Data)
    .server_only()
    .daily()
    .shaped(not_in_memory),
    Flag::switch(
        "in-memory",
        |o| o.is_in_memory = true,
        "Keep everything in memory and write nothing to disk",
    )
    .part(Part::Data)
    .server_only()
    .daily(),
    Flag::choice(
        ("durability", "WHEN"),
        words::<Durability>,
        |o, word| put(&mut o.durability, chosen(word)),
        "When a write is acknowledged: once it is synced to disk, or before, with a sync every 100 ms [default: sync]",
    )
    .part(Part::StoreTuning)
    .server_only(),
    Flag::choice(
        ("engine", "ENGINE"),
        words::<Engine>,
        |o, word| put(&mut o.engine, chosen(word)),
        "Storage engine of the history [default: segments]",
    )
    .part(Part::StoreTuning)
    .server_only(),
    Flag::switch(
        "salvage",
        |o| o.salvages = true,
        "If damage keeps the store from opening, go on with what can be read; the damaged files move to DIR.damaged-N",
    )
    .part(Part::StoreTuning)
    .server_only()
    .shaped(not_in_memory),
    Flag::switch(
        "read-only",
        |o| o.api.is_read_only = true,
        "Serve the data of DIR as they are: the API server alone, on a copy, refuses all writes, and calls nothing that the data name",
    )
    .part(Part::StoreTuning)
    .server_only()
    .shaped(|arg| arg.conflicts_with_all(["in-memory", "components", "etcd-servers", "etcd-listen", "lab"])),
    Flag::choice(
        ("outbound", "WHICH"),
        words::<OutboundPolicy>,
        |o, word| put(&mut o.api.outbound, chosen(word).map(Some)),
        "Webhooks and API servers that the data name [default: allow; none for imported data]",
    )
    .server_only(),
    Flag::switch(
        "allow-downgrade",
        |o| o.api.allow_downgrade = true,
        "Serve data of a newer version of Kubernetes; its kinds and fields are not shown, and are lost when an object is written",
    )
    .part(Part::Apiserver),
    Flag::value(
        "quota-bytes",
        "N",
        |o, text| put(&mut o.quota_bytes, number::bytes(text).map(Some)),
        "Refuse writes above N bytes of objects, history not counted, such as 2GiB; negative disables [default: 2GiB]",
    )
    .part(Part::Store)
    .server_only()
    .daily()
    .shaped(|arg| arg.allow_negative_numbers(true)),
    Flag::path(
        encryption::CONFIG,
        "FILE",
        |o, path| o.encryption_config = Some(path),
        "Encrypt stored objects as the EncryptionConfiguration (apiserver.config.k8s.io/v1) in FILE says",
    )
    .server_only(),
    Flag::boolean(
        encryption::RELOAD,
        |o, is_on| o.encryption_reloads = Some(is_on),
        "Read --encryption-provider-config again when it has changed, within a minute",
    )
    .server_only(),
    Flag::value(
        "history",
        "KEEP",
        |o, text| put(&mut o.history, parsed(text).map(Some)),
        "History that automatic compaction keeps: a time (5m, 2h), a number of revisions (10000revs), or all; and after a comma a number of bytes, such as 7d,20GiB, at which the oldest history goes [default: 5m; all,128MiB with `run`; all with the store alone; bytes: half of --quota-bytes]",
    )
    .part(Part::StoreTuning),
    Flag::server(
        "explain-memory",
        "SIZE",
        |config, text| put(&mut config.storage.explain_bytes, number::memory(text)),
        "Memory for the writes that `kstore-server explain` can show, such as 64MiB [default: 4MiB, some 100,000 writes]",
    ),
];

/// The flags of the server.
pub(super) fn flags() -> impl Iterator<Item = &'static Flag> + Clone {
    SERVER.iter().flat_map(|group| group.flags)
}

/// The flags of the server that `run` has, too.
pub(super) fn flags_of_run() -> impl Iterator<Item = &'static Flag> + Clone {
    flags().filter(|flag| !flag.is_server_only)
}

fn not_in_memory(arg: Arg) -> Arg {
    arg.conflicts_with("in-memory")
}

const LISTENER: &[Flag] = &[
    Flag::value(
        "listen",
        "ADDR",
        |o, text| put(&mut o.api.listen, parsed(text)),
        "Address of the API (REST and gRPC, TLS only); port 0 picks a free port",
    )
    .part(Part::Process)
    .server_only()
    .daily()
    .default("127.0.0.1:6443"),
    Flag::value(
        "service-cluster-ip-range",
        "CIDR[,CIDR]",
        |o, text| put(&mut o.api.service_ranges, parsed(text)),
        "Network of Service addresses, or two separated by a comma, one per IP family, for dual stack [default: 10.96.0.0/12]",
    ),
    Flag::value(
        "webhook-service-resolve",
        "NAMESPACE/NAME[:PORT]=HOST:PORT",
        |o, text| add(&mut o.service_backends, parsed(text)),
        "Send requests for the Service NAMESPACE/NAME of a webhook or APIService to HOST:PORT, such as a program on this machine; its certificate must be valid for NAME.NAMESPACE.svc. May be given several times",
    )
    .shaped(repeated),
    Flag::value(
        "forward",
        "[HOST:]PORT=[NAMESPACE/]svc|pod/NAME[:PORT]",
        |o, text| add(&mut o.forwards, parsed(text)),
        "Listen on a loopback address of this machine, 127.0.0.1 without HOST, for connections to a Service or pod of the cluster; port 0 picks a free port. May be given several times",
    )
    .shaped(repeated),
    Flag::boolean(
        "anonymous-auth",
        |o, is_on| o.anonymous_auth = Some(is_on),
        "Serve requests without credentials as the user system:anonymous, which may read health and version; with false they are refused with 401",
    ),
    Flag::path(
        "write-kubeconfig",
        "FILE",
        |o, path| o.api.write_kubeconfig = Some(path),
        "Write a second copy of the admin kubeconfig to FILE",
    )
    .daily(),
    Flag::value(
        "name",
        "NAME",
        |o, text| put(&mut o.api.name, naming::name(text).map(Some)),
        "Name of the cluster: context, cluster and user of its kubeconfigs are kstore-NAME [default: that of the data directory]",
    ),
];

const LOOPS: &[Flag] = &[
    Flag::path(
        "kubeconfig",
        "FILE",
        |o, path| o.kubeconfig = Some(path),
        "Kubeconfig of an apiserver in another process, for --components without `apiserver`",
    )
    .part(Part::OtherApiserver)
    .server_only()
    .daily(),
    Flag::choice(
        ("components", "LIST"),
        words::<Component>,
        |o, word| add(&mut o.components, chosen(word)),
        "Components to run, of apiserver, controllers, scheduler and kubelet-sim; or `store` alone, a plain etcd",
    )
    .part(Part::Process)
    .daily()
    .shaped(list)
    .default("apiserver,controllers,scheduler,kubelet-sim"),
    Flag::value(
        "controllers",
        "LIST",
        |o, text| put(&mut o.loops.controllers, controllers(text)),
        "Controllers to run, by Kubernetes' names: NAME, -NAME, or * for all others [default: *]",
    )
    .part(Part::Controllers)
    .shaped(|arg| arg.allow_hyphen_values(true)),
    Flag::value(
        "load-balancer-pool",
        "CIDR,...",
        |o, text| put(&mut o.loops.networks.load_balancers, parsed(text)),
        "Address blocks for Services of type LoadBalancer, which stay pending without it. Nothing listens at the addresses",
    )
    .part(Part::Controllers),
    Flag::value(
        "cluster-cidr",
        "CIDR,...",
        |o, text| put(&mut o.cluster_cidr, parsed(text)),
        "Address blocks for nodes without a pod network (/24 for IPv4, /64 for IPv6 each). Simulated nodes have their own",
    )
    .part(Part::Controllers),
    Flag::value(
        "scheduler-config",
        "FILE",
        |o, path| put(&mut o.loops.scheduler, SchedulerFile::read(path).map(Some)),
        "KubeSchedulerConfiguration (v1) with the scheduler's profiles, plugins and their arguments; `scheduler-config check FILE` shows it",
    )
    .part(Part::Process),
    Flag::choice(
        ("scheduler-tie", "RULE"),
        words::<TieMode>,
        |o, word| put(&mut o.loops.ties, chosen(word)),
        "Which of several nodes with the highest score the scheduler takes",
    )
    .part(Part::Process)
    .default("hash"),
    Flag::value(
        "pod-max-in-unschedulable-pods-duration",
        "DURATION",
        |o, text| put(&mut o.loops.longest_stay, time(text).map(Some)),
        "Time after which the scheduler tries a pod again although nothing happened that may help it; 5m without the flag",
    )
    .part(Part::Process),
    Flag::value(
        "missing-image",
        "PATTERN",
        |o, text| add(&mut o.loops.missing_images, parsed(text)),
        "Images that do not exist for the simulated nodes, such as 'example.com/*:broken'; may be repeated",
    )
    .part(Part::Process)
    .shaped(repeated),
    Flag::value(
        "image",
        "PATTERN=PATH",
        |o, text| add(&mut o.loops.images, parsed(text)),
        "Containers whose image matches PATTERN run the program PATH of this machine, or the image of the layout or .tar at PATH, in namespaces of their own; * in PATTERN stands for any characters but /, ** for any; may be repeated, the first match counts",
    )
    .part(Part::Process)
    .shaped(repeated),
    Flag::switch(
        "image-host-network",
        |o| o.loops.shares_network = true,
        "Run the programs of --image also where their pods can have no network of their own: they then reach what this program's user reaches",
    )
    .part(Part::Process),
    Flag::switch(
        "image-anywhere",
        |o| o.has_images_anywhere = true,
        "Run the programs of --image and the containers of --cri also where other machines reach the API: clients there can then start them",
    )
    .part(Part::Process),
    Flag::value(
        "cri",
        "SOCKET",
        |o, text| put(&mut o.loops.cri.socket, parsed(text).map(Some)),
        "Add a node whose pods are real containers of the runtime (CRI v1) at SOCKET, such as unix:///run/containerd/containerd.sock",
    )
    .part(Part::Process),
    Flag::value(
        "cri-node",
        "NAME",
        |o, text| put(&mut o.loops.cri.node, Ok(Some(text.to_owned()))),
        "Name of the node of --cri [default: cri-0]",
    )
    .part(Part::Process),
    Flag::path(
        "cri-dir",
        "DIR",
        |o, path| o.loops.cri.folder = Some(path),
        "Keep volumes and logs of the pods of --cri in DIR, and let the pods run on when this process ends [default: they end with it]",
    )
    .part(Part::Process),
    Flag::value(
        "cri-listen",
        "SOCKET[,node=NAME]",
        |o, text| put(&mut o.loops.cri_listen, parsed(text).map(Some)),
        "Serve the simulated container runtime by CRI v1 at SOCKET, for a kubelet or crictl: they see the pods of NAME, and make pods of their own [default of NAME: the first simulated node]",
    )
    .part(Part::Process),
    Flag::value(
        "egress",
        "LIST",
        |o, text| egress_rules(&mut o.loops.egress, text),
        "Let the programs of --image reach networks beyond the cluster, and names there: CIDR, ADDRESS or `internet` (no private address), each with :PORT or :FIRST-LAST if not all ports; never an address of this machine; may be repeated",
    )
    .part(Part::Process)
    .shaped(repeated),
    Flag::value(
        "egress-host",
        "NAME=ADDR:PORT",
        |o, text| add(&mut o.loops.host_services, parsed(text)),
        "Let the programs of --image reach a service that listens at ADDR:PORT of this machine, such as db=127.0.0.1:5432, as NAME.host.kstore.internal at the same port; may be repeated",
    )
    .part(Part::Process)
    .shaped(repeated),
    Flag::boolean(
        "network-policies",
        |o, is_on| o.loops.ignores_network_policies = !is_on,
        "Let NetworkPolicies restrict connections between simulated pods [default: true]",
    )
    .part(Part::Process),
    Flag::boolean(
        "metrics-server",
        |o, is_on| o.metrics_server = Some(is_on),
        "Serve metrics.k8s.io for `kubectl top` and autoscalers, with the usage in the annotations of simulated pods [default: true with simulated nodes]",
    ),
    Flag::boolean(
        "leader-elect",
        |o, is_on| o.loops.leader_elect = Some(is_on),
        "Run controllers and scheduler only while this process holds their Leases in kube-system, so that one of several processes works [default: true without `apiserver` in --components or with --etcd-servers]",
    )
    .part(Part::Process),
];

pub(super) const AUDIT_LOG: &[Flag] = &[
    Flag::path(
        "audit-policy-file",
        "FILE",
        |o, path| o.audit.policy = Some(path),
        "Record requests as the policy in FILE says (audit.k8s.io/v1 Policy); needs --audit-log-path or --audit-webhook-config-file",
    ),
    Flag::value(
        "audit-log-path",
        "FILE",
        |o, text| put(&mut o.audit.log_path, parsed(text).map(Some)),
        "File of recorded requests, one JSON event per line; - is standard output",
    ),
    Flag::value(
        "audit-log-mode",
        "MODE",
        |o, text| put(&mut o.audit.mode, audit::mode(text)),
        "Whether requests wait until their events are written: blocking, blocking-strict (a request that cannot be recorded fails), or batch (requests do not wait, and events are dropped when the queue is full) [default: blocking]",
    ),
    Flag::value(
        "audit-log-maxage",
        "DAYS",
        |o, text| put(&mut o.audit.rotation.max_age_days, number::count(text)),
        "Days after which rotated log files are removed; 0 keeps them [default: 0]",
    ),
    Flag::value(
        "audit-log-maxbackup",
        "N",
        |o, text| put(&mut o.audit.rotation.max_backups, number::count(text)),
        "Number of rotated log files to keep; 0 keeps all [default: 0]",
    ),
    Flag::value(
        "audit-log-maxsize",
        "MB",
        |o, text| put(&mut o.audit.rotation.max_size_mb, number::count(text)),
        "Mebibytes at which the log file is rotated [default: 100]",
    ),
];

const ETCD_API: &[Flag] = &[
    Flag::value(
        "etcd-listen",
        "ADDR",
        |o, text| put(&mut o.etcd.listen, parsed(text).map(Some)),
        "Serve the etcd v3 API on a Unix socket for the user of this process alone (unix:///path/to.sock, recommended beside an apiserver), or on HOST:PORT; on loopback only, unless clients must show certificates",
    )
    .part(Part::Store)
    .daily(),
    Flag::value(
        "etcd-advertise",
        "URL",
        |o, text| put(&mut o.etcd.advertise, etcd::url(text).map(Some)),
        "Client URL that the etcd API reports [default: from --etcd-listen]",
    )
    .part(Part::EtcdListener),
    Flag::path(
        "etcd-cert-file",
        "FILE",
        |o, path| o.etcd.certificate = Some(path),
        "Server certificate chain (PEM); the etcd API is then served over TLS only",
    )
    .part(Part::EtcdListener)
    .shaped(|arg| arg.requires("etcd-key-file")),
    Flag::path(
        "etcd-key-file",
        "FILE",
        |o, path| o.etcd.key = Some(path),
        "Private key of --etcd-cert-file (PEM)",
    )
    .part(Part::EtcdListener)
    .shaped(|arg| arg.requires("etcd-cert-file")),
    Flag::path(
        "etcd-trusted-ca-file",
        "FILE",
        |o, path| o.etcd.clients = Some(path),
        "Certificate authorities of clients (PEM); clients must then show a certificate",
    )
    .part(Part::EtcdListener)
    .shaped(|arg| arg.requires("etcd-cert-file")),
    Flag::switch(
        "etcd-client-cert-auth",
        |_| {},
        "Accepted as etcd's flag; --etcd-trusted-ca-file alone already requires client certificates",
    )
    .part(Part::EtcdListener)
    .shaped(|arg| arg.requires("etcd-trusted-ca-file")),
    Flag::switch(
        "etcd-allow-anyone",
        |o| o.etcd.allow_anyone = true,
        "Serve other machines without client certificates: every client that can connect can read and write everything",
    )
    .part(Part::EtcdListener),
];

const EXTERNAL_ETCD: &[Flag] = &[
    Flag::value(
        "etcd-servers",
        "URL",
        |o, text| add(&mut o.external.servers, parsed(text)),
        "Store objects in an external etcd (3.5 or later) at these client URLs; several apiservers can share it",
    )
    .server_only()
    .daily()
    .shaped(list),
    Flag::path(
        "etcd-cafile",
        "FILE",
        |o, path| o.external.authority = Some(path),
        "Certificate authority of --etcd-servers (PEM)",
    )
    .part(Part::ExternalEtcd)
    .server_only(),
    Flag::path(
        "etcd-certfile",
        "FILE",
        |o, path| o.external.certificate = Some(path),
        "Client certificate for --etcd-servers (PEM)",
    )
    .part(Part::ExternalEtcd)
    .server_only()
    .shaped(|arg| arg.requires("etcd-keyfile").requires("etcd-cafile")),
    Flag::path(
        "etcd-keyfile",
        "FILE",
        |o, path| o.external.key = Some(path),
        "Private key of --etcd-certfile (PEM)",
    )
    .part(Part::ExternalEtcd)
    .server_only()
    .shaped(|arg| arg.requires("etcd-certfile")),
    Flag::value(
        "etcd-prefix",
        "PREFIX",
        |o, text| put(&mut o.external.prefix, parsed(text).map(Some)),
        "Prefix of all keys in --etcd-servers [default: /registry]",
    )
    .part(Part::ExternalEtcd)
    .server_only(),
    Flag::value(
        "etcd-compaction-interval",
        "TIME",
        |o, text| put(&mut o.external.compaction, time(text).map(Some)),
        "Interval at which --etcd-servers are compacted, such as 5m; 0s disables [default: 5m]",
    )
    .part(Part::ExternalEtcd)
    .server_only(),
    Flag::value(
        "etcd-user",
        "NAME",
        |o, text| put(&mut o.external.user, parsed(text).map(Some)),
        "User name for --etcd-servers",
    )
    .part(Part::ExternalEtcd)
    .server_only()
    .shaped(|arg| arg.requires("etcd-password-file")),
    Flag::path(
        "etcd-password-file",
        "FILE",
        |o, path| o.external.password = Some(path),
        "File with the password of --etcd-user",
    )
    .part(Part::ExternalEtcd)
    .server_only()
    .shaped(|arg| arg.requires("etcd-user")),
];
