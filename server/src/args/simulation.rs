//! Flags of simulated data centres, and the arguments of `sim-crds`, `sim-lint` and `simulate`.

use super::flag::{Choice, Flag, add, chosen, parsed, put, repeated, required, words};
use super::scope::Part;
use super::{ListenAddress, MAX_NODES, ServerOptions, number, time};
use kstore_api::name::{dns1123_label, dns1123_subdomain};
use kstore_client::manifest::ManifestObject;
use kstore_kwok::StageSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

type ServerFlag = Flag<ServerOptions>;

/// The flags of the server about simulated nodes.
pub(super) const NODES: &[ServerFlag] = &[
    ServerFlag::value(
        "nodes",
        "N",
        |o, text| put(&mut o.loops.nodes, number::nodes(text)),
        "Number of simulated nodes",
    )
    .part(Part::Process)
    .daily()
    .default("3"),
    ServerFlag::value(
        "node-prefix",
        "PREFIX",
        |o, text| put(&mut o.loops.simulation.node_prefix, parsed(text)),
        "What the names of the nodes of --nodes begin with",
    )
    .part(Part::Process)
    .default("node-"),
    ServerFlag::value(
        "nodes-file",
        "PATH",
        |o, text| add(&mut o.loops.simulation.files, parsed(text)),
        "Apply the objects of sim.kstore.io in PATH (a file or a folder) at the start, such as NodeGroups, and simulate their nodes; --nodes is then 0 by default. May be repeated",
    )
    .shaped(repeated),
    ServerFlag::value(
        "kwok",
        "PATH",
        |o, text| add(&mut o.loops.simulation.kwok, parsed(text)),
        "Let the objects of kinds for which PATH (a file or a folder) has Stages of KWOK follow these, such as Pods and Nodes. May be repeated",
    )
    .shaped(repeated),
    ServerFlag::choice(
        ("adopt-nodes", "WHICH"),
        words::<Adoption>,
        |o, word| put(&mut o.loops.simulation.adoption, chosen(word)),
        "Which Nodes that other clients create are simulated, too",
    )
    .part(Part::Process)
    .default("marked"),
    ServerFlag::boolean(
        "sim-api",
        |o, is_on| o.loops.simulation.is_on = is_on,
        "Serve the kinds of sim.kstore.io, by which simulated nodes are made and broken, and pods behave",
    )
    .part(Part::Process),
    ServerFlag::value(
        "autoscaler-listen",
        "ADDR",
        |o, text| put(&mut o.loops.simulation.autoscaler, parsed(text).map(Some)),
        "Let a Cluster Autoscaler (--cloud-provider=externalgrpc) scale the NodeGroups by calls without TLS to this address on loopback, such as 127.0.0.1:8086",
    )
    .part(Part::Process)
    .server_only(),
    ServerFlag::switch(
        "no-guard",
        |o| o.loops.simulation.is_unguarded = true,
        "Register the nodes in a cluster of another API server without the taint sim.kstore.io/simulated, which keeps pods away that do not tolerate it, and without the labels that say what the nodes are",
    )
    .part(Part::Process)
    .server_only(),
];

/// What makes simulated nodes besides `--nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationFlags {
    /// Whether the cluster has the kinds of sim.kstore.io although there is no file.
    pub is_on: bool,
    /// Which Nodes of other clients are simulated.
    pub adoption: Adoption,
    /// What the names of the nodes of `--nodes` begin with.
    pub node_prefix: NodePrefix,
    /// Whether nodes in a cluster of another API server do not say that they are simulated.
    pub is_unguarded: bool,
    /// Where the calls of a Cluster Autoscaler are accepted.
    pub autoscaler: Option<ListenAddress>,
    /// Files and folders with objects of these kinds.
    pub files: Vec<PathBuf>,
    /// Files and folders with KWOK's stages.
    pub kwok: Vec<PathBuf>,
    /// The objects in the files, once they are read and checked.
    pub documents: Documents,
    /// The stages in the files, once they are read and compiled.
    pub stages: Stages,
}

impl SimulationFlags {
    /// Whether groups make nodes.
    pub(crate) fn is_active(&self) -> bool {
        self.is_on || !self.files.is_empty() || self.autoscaler.is_some()
    }
}

/// Which Nodes that other clients create are simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// Those that an annotation marks.
    #[default]
    Marked,
    /// None.
    None,
}

impl Choice for Adoption {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        (
            "marked",
            Self::Marked,
            "Those with the annotation kubelet-sim.kstore.io/node, or kwok.x-k8s.io/node: fake",
        ),
        ("none", Self::None, "None"),
    ];
}

/// What the names of the nodes of `--nodes` begin with; their number follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePrefix(pub String);

impl Default for NodePrefix {
    fn default() -> Self {
        Self("node-".to_owned())
    }
}

impl FromStr for NodePrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(
                "expected the beginning of a name: YAML reads names of digits alone as numbers".to_owned()
            );
        }
        // The name is also the value of the label kubernetes.io/hostname, which takes 63 bytes as a DNS label does. Names with dots are
        // usual: those of machines with their domain.
        let longest = format!("{text}{}", MAX_NODES - 1);
        let faults = match longest.contains('.') {
            true => [dns1123_subdomain(&longest), dns1123_label(&longest.replace('.', "a"))].concat(),
            false => dns1123_label(&longest),
        };
        match faults.first() {
            None => Ok(Self(text.to_owned())),
            Some(fault) => Err(format!("{longest:?} cannot be the name of a node: {fault}")),
        }
    }
}

/// Objects of files, which all clusters of the process share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents(pub Arc<[ManifestObject]>);

// JSON values without floating-point numbers that are not numbers are equal to themselves.
impl Eq for Documents {}

/// Stages of files, which all clusters of the process share.
#[derive(Clone, Debug, Default)]
pub struct Stages(pub Arc<StageSet>);

// Compiled stages are equal if they are the same.
impl PartialEq for Stages {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }
}

impl Eq for Stages {}

pub(super) const LINT_HELP: &str = "\
Checks the documents as a start with --nodes-file does: each problem is a line, and the exit code is 1 if there is one.

Example:
  kstore-server sim-lint -f dc.yaml";

pub(super) const LINT: &[Flag<SimLintArgs>] = &[Flag::value(
    "file",
    "PATH",
    |o: &mut SimLintArgs, text| add(&mut o.files, parsed(text)),
    "File or folder with objects of sim.kstore.io. May be repeated",
)
.shaped(|arg| repeated(required(arg.short('f'))))];

/// Arguments of `sim-lint`.
#[derive(Debug, Default)]
pub struct SimLintArgs {
    /// Files and folders.
    pub files: Vec<PathBuf>,
}

pub(super) const CRDS_HELP: &str = "\
Prints the definitions of NodeGroup, NodeFault, PodBehavior and ServiceLoad, and the role that simulated nodes need for them: for clusters whose nodes run in a \
process of their own (--components kubelet-sim).

Example:
  kstore-server sim-crds | kubectl apply -f -";

pub(super) const CRDS: &[Flag<SimCrdsArgs>] = &[];

/// Arguments of `sim-crds`.
#[derive(Debug, Default)]
pub struct SimCrdsArgs {}

pub(super) const SIMULATE_HELP: &str = "\
Runs a whole cluster in memory, whose clock jumps from one event to the next, and prints what happened: pods and how long they took to \
start, evictions, writes by writer, and for each group its node-hours, its cost and how much of it was used. The same scenario and seed \
give the same bytes.

SCENARIO has NodeGroups, NodeFaults, PodBehaviors, ServiceLoads and any other objects, which are applied at the start, and a document `kind: Scenario` with \
`spec.steps`: what is applied, scaled, deleted or broken at a later time.

Examples:
  kstore-server simulate day.yaml --until 24h
  kstore-server simulate day.yaml --until 24h --seed 7 -o json --chart day.svg
  kstore-server simulate day.yaml --against before.json";

pub(super) const SIMULATE: &[Flag<SimulateArgs>] = &[
    Flag::path(
        "scenario",
        "SCENARIO",
        |o: &mut SimulateArgs, path| o.scenario = path,
        "Scenario file, or a folder",
    )
    .positional()
    .shaped(required),
    Flag::value(
        "until",
        "TIME",
        |o: &mut SimulateArgs, text| put(&mut o.until, time(text).map(Some)),
        "Time to simulate, such as 24h [default: spec.until of the scenario]",
    ),
    Flag::value(
        "seed",
        "N",
        |o: &mut SimulateArgs, text| put(&mut o.seed, number::count(text).map(Some)),
        "Seed of everything that is drawn [default: spec.seed of the scenario, or 1]",
    ),
    Flag::choice(
        ("output", "FORM"),
        words::<ReportOutput>,
        |o: &mut SimulateArgs, word| put(&mut o.output, chosen(word)),
        "Form of the report",
    )
    .shaped(|arg| arg.short('o'))
    .default("text"),
    Flag::path(
        "chart",
        "FILE",
        |o: &mut SimulateArgs, path| o.chart = Some(path),
        "Also draw nodes, pods and use over time, as an SVG picture",
    ),
    Flag::path(
        "against",
        "FILE",
        |o: &mut SimulateArgs, path| o.against = Some(path),
        "Also print what differs from the report (-o json) of an earlier simulation",
    ),
];

/// Arguments of `simulate`.
#[derive(Debug, Default)]
pub struct SimulateArgs {
    /// The scenario's file or folder.
    pub scenario: PathBuf,
    /// Time to simulate; `None`: as the scenario says.
    pub until: Option<Duration>,
    /// Seed; `None`: as the scenario says.
    pub seed: Option<u64>,
    /// Form of the report.
    pub output: ReportOutput,
    /// File for the picture.
    pub chart: Option<PathBuf>,
    /// File with the report of an earlier simulation, to compare with.
    pub against: Option<PathBuf>,
}

/// Form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportOutput {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl Choice for ReportOutput {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("text", Self::Text, "For people"), ("json", Self::Json, "For programs")];
}

pub(super) const RBAC_HELP: &str = "\
Prints the service account kube-system/kubelet-sim with the least role for simulated nodes inside a cluster of another API server \
(--components kubelet-sim --kubeconfig). It reads no Secrets and requests no tokens, which containers of pods need only if their commands \
or mounts read them; --read-secrets adds both.

Example:
  kstore-server sim-rbac | kubectl apply -f -
  kubectl create token kubelet-sim -n kube-system";

pub(super) const RBAC: &[Flag<SimRbacArgs>] = &[Flag::switch(
    "read-secrets",
    |o: &mut SimRbacArgs| o.reads_secrets = true,
    "Let the nodes read Secrets by name and request tokens of service accounts, as kubelets do for mounts",
)];

/// Arguments of `sim-rbac`.
#[derive(Debug, Default)]
pub struct SimRbacArgs {
    /// Whether the role reads Secrets.
    pub reads_secrets: bool,
}
