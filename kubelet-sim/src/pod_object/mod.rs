//! The fields of a Pod that the kubelet reads. Decoding skips all others, which keeps thousands of pods
//! small. For reading only; writes use the API's own types.

pub mod needs;
pub mod options;
mod raw;
pub mod shared_volume;
pub mod source;
mod sub_path;

use crate::amounts::Amounts;
use k8s_openapi::api::core::v1::{NodeSelector, PodDNSConfig, PodStatus, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kstore_client::ProjectedMeta;
use kstore_host_runtime::MappedProgram;
use needs::{ContainerNeeds, VolumeNeed};
use options::{ContainerOptions, GrpcTarget, Handler, HostPort, HttpTarget, RestartRule, TcpTarget};
pub(crate) use raw::Keys;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A Pod with the fields that the kubelet reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodObject {
    /// Identity and lifetime.
    pub metadata: PodMeta,
    /// The wanted state.
    pub spec: PodSpec,
    /// The last written status.
    pub status: PodStatus,
}

/// A pod's metadata.
pub type PodMeta = ProjectedMeta<PodLabels, BTreeMap<String, String>, Vec<Owner>, Time>;

/// The labels of a pod that its node reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodLabels {
    /// The operating system for which the pod is made.
    #[serde(rename = "kubernetes.io/os")]
    pub os: Option<String>,
}

/// An owner reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct Owner {
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

/// A pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct PodSpec {
    pub node_name: String,
    pub host_network: bool,
    #[serde(rename = "hostIPC")]
    pub host_ipc: bool,
    pub dns_policy: DnsPolicy,
    pub dns_config: Option<Box<PodDNSConfig>>,
    pub image_pull_secrets: Vec<NamedReference>,
    pub restart_policy: RestartPolicy,
    pub termination_grace_period_seconds: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub readiness_gates: Vec<ReadinessGate>,
    pub security_context: PodSecurityContext,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Option<Box<Affinity>>,
    pub tolerations: Vec<Toleration>,
    pub priority: Option<i32>,
    pub os: Option<PodOs>,
    /// Resources that the pod needs beside its containers.
    pub overhead: BTreeMap<String, Quantity>,
    /// The resources of the whole pod.
    pub resources: Option<Box<ResourceRequirements>>,
    /// The pod's volumes.
    #[serde(deserialize_with = "raw::volumes")]
    pub volumes: PodVolumes,
    /// The resource claims that the pod uses.
    pub resource_claims: Vec<ClaimEntry>,
    pub init_containers: Vec<ContainerSpec>,
    pub containers: Vec<ContainerSpec>,
    pub ephemeral_containers: Vec<ContainerSpec>,
    /// Whether a container runtime runs the containers.
    #[serde(skip)]
    pub is_real: bool,
}

/// The volumes of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// The objects in the volumes; volumes of other kinds are left out.
    pub needs: Vec<VolumeNeed>,
    /// The names of the volumes that programs write; the others show objects of the API.
    pub written: Vec<String>,
}

/// The node affinity of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// Requirements on the node.
    pub node_affinity: NodeAffinity,
}

/// Requirements on the node of a pod. Preferences do not matter on the node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// Terms of which one must hold; `None`: the pod requires nothing.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

/// The operating system of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodOs {
    /// The name, such as `linux`.
    pub name: String,
}

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimEntry {
    /// Name of the entry.
    pub name: String,
    /// Name of the claim; `None` for a claim from a template, which the status names.
    pub resource_claim_name: Option<String>,
}

/// A condition set by another writer, which readiness waits for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct ReadinessGate {
    pub condition_type: String,
}

/// When ended containers restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    /// Always.
    #[default]
    Always,
    /// When the exit code is not zero.
    OnFailure,
    /// Never.
    Never,
}

/// Which name servers the processes of a pod ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum DnsPolicy {
    /// The cluster's, or with `hostNetwork` the node's.
    #[default]
    ClusterFirst,
    /// The cluster's.
    ClusterFirstWithHostNet,
    /// The node's.
    Default,
    /// Those of `dnsConfig` alone.
    None,
}

impl DnsPolicy {
    /// Its name in the API.
    pub fn text(self) -> &'static str {
        match self {
            Self::ClusterFirst => "ClusterFirst",
            Self::ClusterFirstWithHostNet => "ClusterFirstWithHostNet",
            Self::Default => "Default",
            Self::None => "None",
        }
    }
}

/// A reference to an object of the pod's namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedReference {
    /// The name of the object.
    pub name: String,
}

/// The security context of a pod, as far as its node looks at it before its containers are made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct PodSecurityContext {
    pub run_as_non_root: Option<bool>,
    pub run_as_user: Option<i64>,
    pub sysctls: Vec<NamedReference>,
    pub seccomp_profile: Option<Box<SeccompProfile>>,
}

/// A seccomp profile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SeccompProfile {
    /// The kind: `RuntimeDefault`, `Unconfined` or `Localhost`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The path of a file below the node's folder of profiles.
    pub localhost_profile: String,
}

/// The user of a container's processes, and their seccomp profile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct SecurityContext {
    pub run_as_non_root: Option<bool>,
    pub run_as_user: Option<i64>,
    pub seccomp_profile: Option<Box<SeccompProfile>>,
}

/// A container's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "raw::RawContainer")]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct ContainerSpec {
    pub name: String,
    pub image: String,
    pub image_pull_policy: Option<PullPolicy>,
    pub restart_policy: Option<RestartPolicy>,
    pub startup_probe: Option<ProbeSpec>,
    pub readiness_probe: Option<ProbeSpec>,
    pub liveness_probe: Option<ProbeSpec>,
    pub resources: ResourceRequirements,
    pub security_context: SecurityContext,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// The objects that it needs before it is created.
    pub needs: Option<Box<ContainerNeeds>>,
    /// The settings that most containers lack.
    pub options: Option<Box<ContainerOptions>>,
    /// The program of this machine that its image is mapped to. No field of the API: `record` sets it.
    pub program: Option<Arc<MappedProgram>>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never: without the image on the node, the container does not start.
    Never,
}

/// A probe.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct ProbeSpec {
    pub exec: Option<ExecAction>,
    pub http_get: Option<Box<HttpTarget>>,
    pub tcp_socket: Option<Box<TcpTarget>>,
    pub grpc: Option<Box<GrpcTarget>>,
    pub timeout_seconds: Option<i32>,
    pub termination_grace_period_seconds: Option<i64>,
    pub initial_delay_seconds: Option<i32>,
    pub period_seconds: Option<i32>,
    pub failure_threshold: Option<i32>,
    pub success_threshold: Option<i32>,
}

/// A command of a probe.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExecAction {
    /// The command with its arguments.
    pub command: Vec<String>,
}

impl ContainerSpec {
    /// Whether it is a restartable init container, if it is an init container at all.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }

    /// The rule that applies to a run that ended with `code`. Rules count only beside a restart policy.
    pub fn restart_rule(&self, code: i32) -> Option<&RestartRule> {
        self.restart_policy?;
        self.options.as_ref()?.restart_rules.iter().find(|rule| rule.applies_to(code))
    }

    /// The seccomp profile of a file of the node: its own, or the pod's.
    pub fn localhost_profile<'s>(&'s self, pod: &'s PodSecurityContext) -> Option<&'s str> {
        let profile = self.security_context.seccomp_profile.as_deref().or(pod.seccomp_profile.as_deref())?;
        (profile.kind == "Localhost").then_some(&*profile.localhost_profile)
    }

    /// The hooks of the container.
    pub fn hook(&self, hook: Hook) -> Option<&Handler> {
        let lifecycle = &self.options.as_ref()?.lifecycle;
        match hook {
            Hook::PostStart => lifecycle.post_start.as_ref(),
            Hook::PreStop => lifecycle.pre_stop.as_ref(),
        }
    }
}

impl ProbeSpec {
    /// Time before the first probe.
    pub fn initial_delay(&self) -> Duration {
        Duration::from_secs(positive(self.initial_delay_seconds, 0).into())
    }

    /// Time between two probes; never zero.
    pub fn period(&self) -> Duration {
        Duration::from_secs(positive(self.period_seconds, 10).max(1).into())
    }

    /// Time after which a command counts as failed; at least a second.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(positive(self.timeout_seconds, 1).max(1).into())
    }

    /// Consecutive failures that count as failed; at least one.
    pub fn failure_threshold(&self) -> u32 {
        positive(self.failure_threshold, 3).max(1)
    }

    /// Consecutive successes that count as passed; at least one.
    pub fn success_threshold(&self) -> u32 {
        positive(self.success_threshold, 1).max(1)
    }
}

fn positive(value: Option<i32>, default: u32) -> u32 {
    value.map_or(default, |value| u32::try_from(value).unwrap_or(0))
}

impl PodObject {
    /// Init containers in order, then regular containers in order, then ephemeral ones, which may be added
    /// later.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerSpec> {
        let PodSpec { init_containers, containers, ephemeral_containers, .. } = &self.spec;
        init_containers.iter().chain(containers).chain(ephemeral_containers)
    }

    /// The `index`-th of [`Self::containers`].
    pub fn container(&self, index: usize) -> Option<&ContainerSpec> {
        self.containers().nth(index)
    }

    /// Whether the pod is being deleted.
    pub fn deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Time between SIGTERM and SIGKILL; at least a second.
    pub fn grace(&self) -> Duration {
        let seconds =
            self.metadata.deletion_grace_period_seconds.or(self.spec.termination_grace_period_seconds);
        Duration::from_secs(seconds.map_or(30, |seconds| u64::try_from(seconds).unwrap_or(0)).max(1))
    }

    /// What the pod occupies on its node if its `index`-th container has the resources `of(index)`: the greater of the sum of its
    /// containers and of the largest need during initialization (an init container with the sidecars before it). Requests of the
    /// whole pod replace that; overhead is added. Follows `resource.PodRequests`.
    pub fn claim<'a>(&'a self, of: impl Fn(usize) -> &'a ResourceRequirements) -> Claim {
        let init = self.spec.init_containers.len();
        let (mut running, mut sidecars, mut initializing) =
            (Amounts::default(), Amounts::default(), Amounts::default());
        for (index, spec) in self.spec.init_containers.iter().chain(&self.spec.containers).enumerate() {
            let mut requests = Amounts::of(of(index).requests.as_ref());
            if index >= init {
                running.add(&requests);
            } else if spec.is_sidecar() {
                running.add(&requests);
                sidecars.add(&requests);
                initializing.raise_to(&sidecars);
            } else {
                requests.add(&sidecars);
                initializing.raise_to(&requests);
            }
        }
        running.raise_to(&initializing);
        running.set(self.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
        running.add(&Amounts::of(Some(&self.spec.overhead)));
        let sidecars = self.spec.init_containers.iter().filter(|spec| spec.is_sidecar());
        let options = self.spec.containers.iter().chain(sidecars).filter_map(|spec| spec.options.as_ref());
        let ports = options.flat_map(|options| &options.ports).filter_map(|port| port.on_host());
        Claim { requests: running, ports: ports.collect() }
    }

    /// The place of a new pod in the order in which its node admits pods: those that an earlier process admitted, then by creation.
    pub fn order_of_admission(&self) -> (bool, Option<jiff::Timestamp>) {
        let created = self.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (self.status.start_time.is_none(), created)
    }

    /// What the pod occupies on its node by its spec.
    pub fn wanted_claim(&self) -> Claim {
        let all: Vec<&ResourceRequirements> = self.containers().map(|spec| &spec.resources).collect();
        self.claim(|index| all[index])
    }

    /// Time between SIGTERM and SIGKILL of a container that failed this probe; at least a second.
    pub fn grace_after(&self, probe: Option<&ProbeSpec>) -> Duration {
        let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
        let own = own.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1)));
        own.unwrap_or_else(|| self.grace())
    }

    /// Whether a Job owns the pod.
    pub fn of_job(&self) -> bool {
        self.metadata.owner_references.iter().any(|owner| owner.controller && owner.kind == "Job")
    }

    /// `name_namespace(uid)`, as kubelet messages name a pod.
    pub fn full_name(&self) -> String {
        let PodMeta { name, namespace, uid, .. } = &self.metadata;
        format!("{name}_{namespace}({uid})")
    }

    /// Whether the phase can no longer change.
    pub fn terminal(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

/// The hooks of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Runs as soon as the container has started.
    PostStart,
    /// Runs before the container gets SIGTERM.
    PreStop,
}

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An init container: ends before the next container starts.
    Init,
    /// A restartable init container: the next container starts once this one has started up.
    Sidecar,
    /// A regular container: starts after all init containers.
    Regular,
    /// An ephemeral container, added for debugging: starts at once and never restarts.
    Ephemeral,
}

/// What a pod occupies on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The requested resources.
    pub requests: Amounts,
    /// The ports on the node.
    pub ports: Vec<HostPort>,
}

/// The role of the `index`-th container of `pod`.
pub fn kind_of(pod: &PodObject, index: usize, spec: &ContainerSpec) -> Kind {
    let init = pod.spec.init_containers.len();
    match (index < init, spec.restart_policy) {
        (true, Some(RestartPolicy::Always)) => Kind::Sidecar,
        (true, _) => Kind::Init,
        (false, _) if index < init + pod.spec.containers.len() => Kind::Regular,
        (false, _) => Kind::Ephemeral,
    }
}
