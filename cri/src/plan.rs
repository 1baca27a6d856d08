//! Sandboxes and containers as values, and the messages of the interface that they become. Pure.

use kstore_proto::cri::v1::security_profile::ProfileType;
use kstore_proto::cri::v1::{
    Capability, ContainerConfig, ContainerMetadata, DnsConfig, ImageSpec, Int64Value, KeyValue,
    LinuxContainerConfig, LinuxContainerResources, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext, Mount, MountPropagation, NamespaceMode, NamespaceOption, PodSandboxConfig,
    PodSandboxMetadata, PortMapping, Protocol, SeLinuxOption, SecurityProfile, SupplementalGroupsPolicy,
};
use std::collections::BTreeMap;

/// The labels by which tools such as `crictl` find the pod of a sandbox or a container.
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The label with the uid of the pod.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// The label with the name of the container.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// The pod of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl PodName {
    fn labels(&self, more: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let own = [(POD_NAME, &self.name), (POD_NAMESPACE, &self.namespace), (POD_UID, &self.uid)];
        let own = own.map(|(name, value)| (name.to_owned(), value.clone()));
        more.clone().into_iter().chain(own).collect()
    }
}

/// The namespaces of a pod or a container that are not its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespacePlan {
    /// Whether it has the network of the machine.
    pub has_host_network: bool,
    /// Whether it sees the processes of the machine.
    pub has_host_pid: bool,
    /// Whether it has the inter-process communication of the machine.
    pub has_host_ipc: bool,
    /// Whether the containers of the pod see each other's processes.
    pub shares_processes: bool,
    /// The id of the container whose processes it sees.
    pub target: Option<String>,
}

/// A profile of seccomp or AppArmor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProfilePlan {
    /// None.
    #[default]
    Unconfined,
    /// That of the runtime.
    RuntimeDefault,
    /// A profile of the machine: its path or name.
    Localhost(String),
}

/// The labels of SELinux.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelinuxPlan {
    /// The user label.
    pub user: String,
    /// The role label.
    pub role: String,
    /// The type label.
    pub kind: String,
    /// The level label.
    pub level: String,
}

/// Users, groups and rights of a sandbox or a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityPlan {
    /// The user; `None`: that of the image.
    pub user: Option<i64>,
    /// The name of the user, for an image whose user has no number.
    pub user_name: String,
    /// The group, which needs a user; `None`: that of the user.
    pub group: Option<i64>,
    /// Further groups.
    pub more_groups: Vec<i64>,
    /// Whether the groups of the user in the image are left out.
    pub has_strict_groups: bool,
    /// Whether it has all rights on the machine.
    pub is_privileged: bool,
    /// Whether its own file system is read-only.
    pub has_read_only_root: bool,
    /// Whether its processes get no more rights than they begin with.
    pub has_no_new_privileges: bool,
    /// Capabilities beyond those of the runtime.
    pub added_capabilities: Vec<String>,
    /// Capabilities of the runtime that it lacks.
    pub dropped_capabilities: Vec<String>,
    /// Paths of `/proc` and `/sys` that it does not see.
    pub masked_paths: Vec<String>,
    /// Paths of `/proc` that it cannot write.
    pub read_only_paths: Vec<String>,
    /// The profile of seccomp.
    pub seccomp: ProfilePlan,
    /// The profile of AppArmor; `None`: the runtime decides.
    pub apparmor: Option<ProfilePlan>,
    /// The labels of SELinux; `None`: the runtime decides.
    pub selinux: Option<SelinuxPlan>,
}

/// What a pod's containers ask to learn addresses of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsPlan {
    /// Addresses of name servers.
    pub servers: Vec<String>,
    /// Domains in which names are looked up.
    pub searches: Vec<String>,
    /// Options of the resolver.
    pub options: Vec<String>,
}

/// A port of the machine that leads to one of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortPlan {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The pod's port.
    pub container_port: i32,
    /// The machine's port.
    pub host_port: i32,
    /// The machine's address; empty: all.
    pub host_ip: String,
}

/// The sandbox of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxPlan {
    /// The pod.
    pub pod: PodName,
    /// The number of this sandbox among those of the pod.
    pub attempt: u32,
    /// The host name; without effect in the network of the machine.
    pub hostname: String,
    /// The folder of the log files.
    pub log_directory: String,
    /// Name servers; `None`: those of the machine.
    pub dns: Option<DnsPlan>,
    /// Ports of the machine that lead to the pod.
    pub ports: Vec<PortPlan>,
    /// Labels besides those of the pod.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// Kernel parameters of its namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Namespaces that are not its own.
    pub namespaces: NamespacePlan,
    /// Its user and rights.
    pub security: SecurityPlan,
    /// The handler of its runtime class; empty: the usual one.
    pub handler: String,
}

/// A file or folder of the machine that a container sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountPlan {
    /// Its path on the machine.
    pub source: String,
    /// Its path in the container.
    pub target: String,
    /// Whether the container cannot write it.
    pub is_read_only: bool,
    /// Which later mounts are seen on the other side.
    pub propagation: Propagation,
}

/// Which mounts that are made later are seen on the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// None.
    #[default]
    Private,
    /// Those of the machine are seen in the container.
    HostToContainer,
    /// Those of either side are seen on the other.
    Bidirectional,
}

/// The shares and limits of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourcePlan {
    /// Its share of processors beside other containers.
    pub cpu_shares: i64,
    /// Microseconds of processor time in [`Self::cpu_period`]; 0: no limit.
    pub cpu_quota: i64,
    /// Microseconds.
    pub cpu_period: i64,
    /// Bytes of memory; 0: no limit.
    pub memory: i64,
    /// Which processes the kernel ends first when memory is short: the highest.
    pub oom_score: i64,
}

/// The standard input of a container's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputPlan {
    /// Whether clients can attach to it.
    pub is_open: bool,
    /// Whether it ends with the first client.
    pub is_once: bool,
    /// Whether it is a terminal.
    pub is_terminal: bool,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerPlan {
    /// Its name in the pod.
    pub name: String,
    /// The number of its run.
    pub attempt: u32,
    /// The image, as the runtime identifies it.
    pub image: String,
    /// The image as the pod names it.
    pub named_image: String,
    /// Replaces the entrypoint of the image, if it is not empty.
    pub command: Vec<String>,
    /// Replaces the arguments of the image, if it or the command is not empty.
    pub args: Vec<String>,
    /// The working directory; empty: that of the image.
    pub workdir: String,
    /// Variables besides those of the image.
    pub env: Vec<(String, String)>,
    /// What it sees of the machine.
    pub mounts: Vec<MountPlan>,
    /// Labels besides those of the pod and the container.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The log file, in the folder of the sandbox.
    pub log_path: String,
    /// Its standard input.
    pub input: InputPlan,
    /// Shares and limits.
    pub resources: ResourcePlan,
    /// Namespaces that are not its own.
    pub namespaces: NamespacePlan,
    /// Its user and rights.
    pub security: SecurityPlan,
}

impl NamespacePlan {
    fn message(&self) -> NamespaceOption {
        let own = |is_of_host: bool| if is_of_host { NamespaceMode::Node } else { NamespaceMode::Pod };
        let pid = match (&self.target, self.has_host_pid, self.shares_processes) {
            (Some(_), ..) => NamespaceMode::Target,
            (None, true, _) => NamespaceMode::Node,
            (None, false, true) => NamespaceMode::Pod,
            (None, false, false) => NamespaceMode::Container,
        };
        NamespaceOption {
            network: own(self.has_host_network).into(),
            pid: pid.into(),
            ipc: own(self.has_host_ipc).into(),
            target_id: self.target.clone().unwrap_or_default(),
        }
    }
}

impl ProfilePlan {
    fn message(&self) -> SecurityProfile {
        let (kind, path) = match self {
            Self::Unconfined => (ProfileType::Unconfined, ""),
            Self::RuntimeDefault => (ProfileType::RuntimeDefault, ""),
            Self::Localhost(path) => (ProfileType::Localhost, path.as_str()),
        };
        SecurityProfile { profile_type: kind.into(), localhost_ref: path.to_owned() }
    }
}

impl SelinuxPlan {
    fn message(&self) -> SeLinuxOption {
        let Self { user, role, kind, level } = self.clone();
        SeLinuxOption { user, role, r#type: kind, level }
    }
}

/// A number that may be missing.
fn number(value: Option<i64>) -> Option<Int64Value> {
    value.map(|value| Int64Value { value })
}

impl SandboxPlan {
    /// The message for the runtime.
    pub(crate) fn message(&self) -> PodSandboxConfig {
        let security = &self.security;
        let context = LinuxSandboxSecurityContext {
            namespace_options: Some(self.namespaces.message()),
            selinux_options: security.selinux.as_ref().map(SelinuxPlan::message),
            run_as_user: number(security.user),
            run_as_group: number(security.group.filter(|_| security.user.is_some())),
            readonly_rootfs: security.has_read_only_root,
            supplemental_groups: security.more_groups.clone(),
            privileged: security.is_privileged,
            seccomp: Some(security.seccomp.message()),
            apparmor: security.apparmor.as_ref().map(ProfilePlan::message),
        };
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: self.pod.name.clone(),
                uid: self.pod.uid.clone(),
                namespace: self.pod.namespace.clone(),
                attempt: self.attempt,
            }),
            // Runtimes refuse a name in the network of the machine.
            hostname: if self.namespaces.has_host_network { String::new() } else { self.hostname.clone() },
            log_directory: self.log_directory.clone(),
            dns_config: self.dns.clone().map(|DnsPlan { servers, searches, options }| DnsConfig {
                servers,
                searches,
                options,
            }),
            port_mappings: self.ports.iter().map(PortPlan::message).collect(),
            labels: self.pod.labels(&self.labels),
            annotations: self.annotations.clone(),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent: String::new(),
                security_context: Some(context),
                sysctls: self.sysctls.clone(),
            }),
        }
    }
}

impl PortPlan {
    fn message(&self) -> PortMapping {
        let protocol = match self.protocol.as_str() {
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => Protocol::Tcp,
        };
        PortMapping {
            protocol: protocol.into(),
            container_port: self.container_port,
            host_port: self.host_port,
            host_ip: self.host_ip.clone(),
        }
    }
}

impl MountPlan {
    fn message(&self) -> Mount {
        let propagation = match self.propagation {
            Propagation::Private => MountPropagation::PropagationPrivate,
            Propagation::HostToContainer => MountPropagation::PropagationHostToContainer,
            Propagation::Bidirectional => MountPropagation::PropagationBidirectional,
        };
        Mount {
            container_path: self.target.clone(),
            host_path: self.source.clone(),
            readonly: self.is_read_only,
            selinux_relabel: false,
            propagation: propagation.into(),
        }
    }
}

impl ContainerPlan {
    /// The message for the runtime about a container of this pod.
    pub(crate) fn message(&self, pod: &PodName) -> ContainerConfig {
        let name = [(CONTAINER_NAME.to_owned(), self.name.clone())];
        let value =
            |(key, value): &(String, String)| KeyValue { key: key.clone(), value: value.clone().into() };
        ContainerConfig {
            metadata: Some(ContainerMetadata { name: self.name.clone(), attempt: self.attempt }),
            image: Some(ImageSpec {
                image: self.image.clone(),
                annotations: BTreeMap::new(),
                user_specified_image: self.named_image.clone(),
            }),
            command: self.command.clone(),
            args: self.args.clone(),
            working_dir: self.workdir.clone(),
            envs: self.env.iter().map(value).collect(),
            mounts: self.mounts.iter().map(MountPlan::message).collect(),
            labels: pod.labels(&self.labels).into_iter().chain(name).collect(),
            annotations: self.annotations.clone(),
            log_path: self.log_path.clone(),
            stdin: self.input.is_open,
            stdin_once: self.input.is_once,
            tty: self.input.is_terminal,
            linux: Some(LinuxContainerConfig {
                resources: Some(self.resources.message()),
                security_context: Some(self.security_context()),
            }),
        }
    }

    fn security_context(&self) -> LinuxContainerSecurityContext {
        let security = &self.security;
        let policy = match security.has_strict_groups {
            true => SupplementalGroupsPolicy::Strict,
            false => SupplementalGroupsPolicy::Merge,
        };
        let has_user = security.user.is_some() || !security.user_name.is_empty();
        LinuxContainerSecurityContext {
            capabilities: Some(Capability {
                add_capabilities: security.added_capabilities.clone(),
                drop_capabilities: security.dropped_capabilities.clone(),
            }),
            privileged: security.is_privileged,
            namespace_options: Some(self.namespaces.message()),
            selinux_options: security.selinux.as_ref().map(SelinuxPlan::message),
            run_as_user: number(security.user),
            run_as_username: security.user_name.clone(),
            readonly_rootfs: security.has_read_only_root,
            supplemental_groups: security.more_groups.clone(),
            no_new_privs: security.has_no_new_privileges,
            run_as_group: number(security.group.filter(|_| has_user)),
            masked_paths: security.masked_paths.clone(),
            readonly_paths: security.read_only_paths.clone(),
            seccomp: Some(security.seccomp.message()),
            apparmor: security.apparmor.as_ref().map(ProfilePlan::message),
            supplemental_groups_policy: policy.into(),
        }
    }
}

impl ResourcePlan {
    fn message(&self) -> LinuxContainerResources {
        LinuxContainerResources {
            cpu_period: self.cpu_period,
            cpu_quota: self.cpu_quota,
            cpu_shares: self.cpu_shares,
            memory_limit_in_bytes: self.memory,
            oom_score_adj: self.oom_score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> PodName {
        PodName { namespace: "n".to_owned(), name: "p".to_owned(), uid: "u".to_owned() }
    }

    #[test]
    fn namespaces_have_the_modes_of_kubelets() {
        let of = |plan: NamespacePlan| {
            let message = plan.message();
            let name = |mode: i32| NamespaceMode::try_from(mode).unwrap().as_str_name();
            format!(
                "{} {} {} {}",
                name(message.network),
                name(message.pid),
                name(message.ipc),
                message.target_id
            )
        };
        let none = NamespacePlan::default;
        assert_eq!(of(none()), "POD CONTAINER POD ");
        assert_eq!(of(NamespacePlan { shares_processes: true, ..none() }), "POD POD POD ");
        assert_eq!(
            of(NamespacePlan { has_host_network: true, has_host_ipc: true, ..none() }),
            "NODE CONTAINER NODE "
        );
        assert_eq!(
            of(NamespacePlan { has_host_pid: true, shares_processes: true, ..none() }),
            "POD NODE POD "
        );
        let target = Some("id".to_owned());
        assert_eq!(of(NamespacePlan { target, has_host_pid: true, ..none() }), "POD TARGET POD id");
    }

    #[test]
    fn a_sandbox_in_the_network_of_the_machine_has_no_name_there() {
        let plan = SandboxPlan {
            pod: pod(),
            attempt: 2,
            hostname: "h".to_owned(),
            labels: [("own".to_owned(), "1".to_owned())].into(),
            ports: vec![PortPlan {
                protocol: "UDP".to_owned(),
                container_port: 53,
                host_port: 1053,
                host_ip: String::new(),
            }],
            ..SandboxPlan::default()
        };
        let message = plan.message();
        let metadata = message.metadata.unwrap();
        assert_eq!((metadata.name.as_str(), metadata.namespace.as_str(), metadata.attempt), ("p", "n", 2));
        assert_eq!(message.hostname, "h");
        let labels: Vec<_> = message.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected =
            ["io.kubernetes.pod.name=p", "io.kubernetes.pod.namespace=n", "io.kubernetes.pod.uid=u", "own=1"];
        assert_eq!(labels, expected);
        assert_eq!(message.port_mappings[0].protocol, i32::from(Protocol::Udp));
        let namespaces = NamespacePlan { has_host_network: true, ..NamespacePlan::default() };
        assert_eq!(SandboxPlan { namespaces, ..plan }.message().hostname, "");
    }

    #[test]
    fn a_group_without_a_user_is_left_out_because_runtimes_refuse_it() {
        let of = |user, name: &str| {
            let security =
                SecurityPlan { user, user_name: name.to_owned(), group: Some(7), ..SecurityPlan::default() };
            let plan = ContainerPlan { security, ..ContainerPlan::default() };
            plan.message(&pod())
                .linux
                .unwrap()
                .security_context
                .unwrap()
                .run_as_group
                .map(|group| group.value)
        };
        assert_eq!([of(None, ""), of(Some(5), ""), of(None, "web")], [None, Some(7), Some(7)]);
    }

    #[test]
    fn a_container_has_the_labels_by_which_tools_find_it() {
        let plan = ContainerPlan {
            name: "c".to_owned(),
            attempt: 3,
            env: vec![("A".to_owned(), "1".to_owned())],
            mounts: vec![MountPlan {
                source: "/s".to_owned(),
                target: "/t".to_owned(),
                is_read_only: true,
                propagation: Propagation::HostToContainer,
            }],
            ..ContainerPlan::default()
        };
        let message = plan.message(&pod());
        assert_eq!((message.labels[CONTAINER_NAME].as_str(), message.labels[POD_UID].as_str()), ("c", "u"));
        assert_eq!(message.metadata.unwrap().attempt, 3);
        assert_eq!((message.envs[0].key.as_str(), &*message.envs[0].value), ("A", &b"1"[..]));
        let mount = &message.mounts[0];
        assert_eq!(
            (mount.host_path.as_str(), mount.container_path.as_str(), mount.readonly),
            ("/s", "/t", true)
        );
        assert_eq!(mount.propagation, i32::from(MountPropagation::PropagationHostToContainer));
    }
}
