//! Plans of sandboxes and containers for a container runtime, from a pod and what its node knows. Pure.

use super::etc;
use crate::amounts::Amounts;
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, ContainerPort, Pod, PodSpec, SELinuxOptions, SeccompProfile,
};
use kstore_cri::client::FoundImage;
use kstore_cri::plan::{
    ContainerPlan, DnsPlan, InputPlan, MountPlan, NamespacePlan, PodName, PortPlan, ProfilePlan, Propagation,
    ResourcePlan, SandboxPlan, SecurityPlan, SelinuxPlan,
};
use std::collections::BTreeMap;

/// The resource whose request gives a container its share of processors.
const CPU: &str = "cpu";
/// Microseconds of the period in which a processor limit holds.
const PERIOD: i64 = 100_000;
/// The shortest processor time in a period that kernels accept.
const LEAST_QUOTA: i64 = 1000;
/// The shares of a processor, and the bounds of shares that kernels accept.
const SHARES: i64 = 1024;
const LEAST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;
/// The scores by which the kernel chooses a process to end: of pods that get what they ask for, and of those that ask for nothing.
const GUARANTEED_SCORE: i64 = -997;
const BEST_EFFORT_SCORE: i64 = 1000;
/// What a container without `procMount: Unmasked` does not see, and what it cannot write, as kubelets say it.
const MASKED: [&str; 11] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What a node says about the sandbox of a pod.
#[derive(Clone, Debug, Default)]
pub struct SandboxFacts {
    /// The number of the sandbox among those of the pod.
    pub attempt: u32,
    /// The folder of the log files.
    pub log_directory: String,
    /// The labels by which the node finds its sandboxes.
    pub labels: BTreeMap<String, String>,
    /// The name servers of the machine.
    pub dns: DnsPlan,
}

/// What a node says about a container.
#[derive(Clone, Debug, Default)]
pub struct ContainerFacts {
    /// The number of the run.
    pub run: u32,
    /// Its image, as the runtime has it.
    pub image: FoundImage,
    /// The variables.
    pub env: Vec<(String, String)>,
    /// Command and arguments, with their variables replaced.
    pub command: (Vec<String>, Vec<String>),
    /// The mounts.
    pub mounts: Vec<MountPlan>,
    /// The labels by which the node finds its containers.
    pub labels: BTreeMap<String, String>,
    /// The id of the container whose processes an ephemeral container sees.
    pub target: Option<String>,
    /// Bytes of memory of the machine.
    pub memory: i64,
}

/// The pod by its names.
pub fn pod_name(pod: &Pod) -> PodName {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let meta = &pod.metadata;
    PodName { namespace: text(&meta.namespace), name: text(&meta.name), uid: text(&meta.uid) }
}

/// The sandbox of a pod.
pub fn sandbox(pod: &Pod, facts: SandboxFacts) -> SandboxPlan {
    let none = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&none);
    let name = pod_name(pod);
    let context = spec.security_context.as_ref();
    let sysctls = context.and_then(|context| context.sysctls.as_ref()).into_iter().flatten();
    let is_privileged = |container: &Container| {
        container.security_context.as_ref().and_then(|context| context.privileged) == Some(true)
    };
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let security = SecurityPlan {
        user: context.and_then(|context| context.run_as_user),
        group: context.and_then(|context| context.run_as_group),
        more_groups: groups(spec),
        is_privileged: all.clone().any(is_privileged),
        // The pause program of the sandbox needs none of what a profile denies.
        seccomp: ProfilePlan::RuntimeDefault,
        selinux: context.and_then(|context| context.se_linux_options.as_ref()).map(selinux),
        ..SecurityPlan::default()
    };
    SandboxPlan {
        hostname: etc::hostname(spec, &name.name),
        pod: name,
        attempt: facts.attempt,
        log_directory: facts.log_directory,
        dns: dns(spec, &facts.dns),
        ports: all.flat_map(|container| container.ports.iter().flatten()).filter_map(port).collect(),
        labels: facts.labels,
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        sysctls: sysctls.map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect(),
        namespaces: namespaces(spec),
        security,
        handler: String::new(),
    }
}

/// A container of a pod.
///
/// # Errors
/// The kubelet's text if the container must not run as root and would, or might.
pub fn container(pod: &Pod, container: &Container, facts: ContainerFacts) -> Result<ContainerPlan, String> {
    let none = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&none);
    let security = security(pod, spec, container, &facts.image)?;
    let (command, args) = facts.command;
    let has_input = container.stdin == Some(true);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Ok(ContainerPlan {
        name: container.name.clone(),
        attempt: facts.run,
        image: facts.image.id,
        named_image: text(&container.image),
        command,
        args,
        workdir: text(&container.working_dir),
        env: facts.env,
        mounts: facts.mounts,
        labels: facts.labels,
        annotations: annotations(spec, container, facts.run),
        log_path: log_path(&container.name, facts.run),
        input: InputPlan {
            is_open: has_input,
            is_once: has_input && container.stdin_once == Some(true),
            is_terminal: container.tty == Some(true),
        },
        resources: resources(pod, container, facts.memory),
        namespaces: NamespacePlan { target: facts.target, ..namespaces(spec) },
        security,
    })
}

/// The log file of a run of a container, in the folder of its sandbox.
pub fn log_path(container: &str, run: u32) -> String {
    format!("{container}/{run}.log")
}

fn annotations(spec: &PodSpec, container: &Container, run: u32) -> BTreeMap<String, String> {
    let path = container.termination_message_path.clone();
    let policy = container.termination_message_policy.clone();
    let grace = spec.termination_grace_period_seconds.map(|seconds| seconds.to_string());
    let all = [
        ("io.kubernetes.container.restartCount", Some(run.to_string())),
        ("io.kubernetes.container.terminationMessagePath", path),
        ("io.kubernetes.container.terminationMessagePolicy", policy),
        ("io.kubernetes.pod.terminationGracePeriod", grace),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn namespaces(spec: &PodSpec) -> NamespacePlan {
    NamespacePlan {
        has_host_network: spec.host_network == Some(true),
        has_host_pid: spec.host_pid == Some(true),
        has_host_ipc: spec.host_ipc == Some(true),
        shares_processes: spec.share_process_namespace == Some(true),
        target: None,
    }
}

/// The name servers of a pod; `None`: those of the machine. Names of the cluster are not known there, because its DNS is in no network that
/// a container runtime makes.
fn dns(spec: &PodSpec, machine: &DnsPlan) -> Option<DnsPlan> {
    let own = spec.dns_config.clone().unwrap_or_default();
    let options = own.options.into_iter().flatten().filter_map(|option| {
        let name = option.name?;
        Some(option.value.map_or(name.clone(), |value| format!("{name}:{value}")))
    });
    let own = DnsPlan {
        servers: own.nameservers.unwrap_or_default(),
        searches: own.searches.unwrap_or_default(),
        options: options.collect(),
    };
    match spec.dns_policy.as_deref() {
        Some("None") => Some(own),
        _ if own == DnsPlan::default() => None,
        _ => Some(DnsPlan {
            servers: machine.servers.iter().cloned().chain(own.servers).collect(),
            searches: machine.searches.iter().cloned().chain(own.searches).collect(),
            options: machine.options.iter().cloned().chain(own.options).collect(),
        }),
    }
}

/// The name servers in a file such as `/etc/resolv.conf`.
pub fn resolver(text: &str) -> DnsPlan {
    let mut plan = DnsPlan::default();
    for line in text.lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        match words.next().as_deref() {
            Some("nameserver") => plan.servers.extend(words.next()),
            // The last line counts.
            Some("search") => plan.searches = words.collect(),
            Some("options") => plan.options = words.collect(),
            _ => {}
        }
    }
    plan
}

fn port(port: &ContainerPort) -> Option<PortPlan> {
    Some(PortPlan {
        protocol: port.protocol.clone().unwrap_or_default(),
        container_port: port.container_port,
        host_port: port.host_port.filter(|port| *port > 0)?,
        host_ip: port.host_ip.clone().unwrap_or_default(),
    })
}

/// The further groups of a pod, that of its volumes among them.
fn groups(spec: &PodSpec) -> Vec<i64> {
    let context = spec.security_context.as_ref();
    let more =
        context.and_then(|context| context.supplemental_groups.as_ref()).into_iter().flatten().copied();
    more.chain(context.and_then(|context| context.fs_group)).collect()
}

fn security(
    pod: &Pod,
    spec: &PodSpec,
    container: &Container,
    image: &FoundImage,
) -> Result<SecurityPlan, String> {
    let (own, general) = (container.security_context.as_ref(), spec.security_context.as_ref());
    let named = own.and_then(|own| own.run_as_user).or(general.and_then(|all| all.run_as_user));
    let non_root = own.and_then(|own| own.run_as_non_root).or(general.and_then(|all| all.run_as_non_root));
    let user = named.or(image.user);
    let user_name = if user.is_none() { image.user_name.clone() } else { String::new() };
    if non_root == Some(true) && named.is_none() {
        let meta = &pod.metadata;
        let (name, namespace) = (meta.name.as_deref(), meta.namespace.as_deref());
        let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
        let uid = meta.uid.as_deref().unwrap_or_default();
        let of = format!("(pod: \"{name}_{namespace}({uid})\", container: {})", container.name);
        match (user, user_name.as_str()) {
            (Some(1..), _) => {}
            (None, named) if !named.is_empty() => {
                return Err(format!(
                    "container has runAsNonRoot and image has non-numeric user ({named}), cannot verify user is non-root {of}"
                ));
            }
            _ => return Err(format!("container has runAsNonRoot and image will run as root {of}")),
        }
    }
    let is_privileged = own.and_then(|own| own.privileged) == Some(true);
    let is_unmasked = own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked");
    let has_paths = !is_privileged && !is_unmasked;
    let paths = |paths: &[&str]| {
        let paths = paths.iter().filter(|_| has_paths);
        paths.map(|path| (*path).to_owned()).collect()
    };
    let capabilities = own.and_then(|own| own.capabilities.clone()).unwrap_or_default();
    let seccomp = own.and_then(|own| own.seccomp_profile.as_ref());
    let seccomp = seccomp.or(general.and_then(|all| all.seccomp_profile.as_ref())).filter(|_| !is_privileged);
    let apparmor = own.and_then(|own| own.app_armor_profile.as_ref());
    let apparmor = apparmor.or(general.and_then(|all| all.app_armor_profile.as_ref()));
    let labels = own.and_then(|own| own.se_linux_options.as_ref());
    let labels = labels.or(general.and_then(|all| all.se_linux_options.as_ref()));
    let policy = general.and_then(|all| all.supplemental_groups_policy.as_deref());
    Ok(SecurityPlan {
        user,
        user_name,
        group: own.and_then(|own| own.run_as_group).or(general.and_then(|all| all.run_as_group)),
        more_groups: groups(spec),
        has_strict_groups: policy == Some("Strict"),
        is_privileged,
        has_read_only_root: own.and_then(|own| own.read_only_root_filesystem) == Some(true),
        has_no_new_privileges: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        added_capabilities: capabilities.add.unwrap_or_default(),
        dropped_capabilities: capabilities.drop.unwrap_or_default(),
        masked_paths: paths(&MASKED),
        read_only_paths: paths(&READ_ONLY),
        seccomp: seccomp.map(of_seccomp).unwrap_or_default(),
        apparmor: apparmor.map(of_apparmor),
        selinux: labels.map(selinux),
    })
}

fn of_seccomp(profile: &SeccompProfile) -> ProfilePlan {
    of_profile(&profile.type_, profile.localhost_profile.as_deref())
}

fn of_apparmor(profile: &AppArmorProfile) -> ProfilePlan {
    of_profile(&profile.type_, profile.localhost_profile.as_deref())
}

fn of_profile(kind: &str, path: Option<&str>) -> ProfilePlan {
    match (kind, path) {
        ("RuntimeDefault", _) => ProfilePlan::RuntimeDefault,
        ("Localhost", Some(path)) => ProfilePlan::Localhost(path.to_owned()),
        _ => ProfilePlan::Unconfined,
    }
}

fn selinux(options: &SELinuxOptions) -> SelinuxPlan {
    let SELinuxOptions { level, role, type_, user } = options.clone();
    SelinuxPlan {
        user: user.unwrap_or_default(),
        role: role.unwrap_or_default(),
        kind: type_.unwrap_or_default(),
        level: level.unwrap_or_default(),
    }
}

/// The shares and limits of a container on a machine with so much memory.
fn resources(pod: &Pod, container: &Container, machine: i64) -> ResourcePlan {
    let resources = container.resources.clone().unwrap_or_default();
    let (requests, limits) =
        (Amounts::of(resources.requests.as_ref()), Amounts::of(resources.limits.as_ref()));
    let asks_for_cpu = resources.requests.as_ref().is_some_and(|requests| requests.contains_key(CPU));
    let cpu = if asks_for_cpu { requests.milli_cpu } else { limits.milli_cpu };
    let quota = limits.milli_cpu * PERIOD / 1000;
    let class = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    let oom_score = match class {
        Some("Guaranteed") => GUARANTEED_SCORE,
        Some("BestEffort") => BEST_EFFORT_SCORE,
        _ => {
            let share = requests.memory.saturating_mul(1000).checked_div(machine).unwrap_or(0);
            (1000 - share).clamp(1000 + GUARANTEED_SCORE, BEST_EFFORT_SCORE - 1)
        }
    };
    ResourcePlan {
        cpu_shares: (cpu * SHARES / 1000).clamp(LEAST_SHARES, MOST_SHARES),
        cpu_quota: if limits.milli_cpu > 0 { quota.max(LEAST_QUOTA) } else { 0 },
        cpu_period: PERIOD,
        memory: limits.memory,
        oom_score,
    }
}

/// A mount of a folder or file of the machine.
pub fn mount(source: String, target: String, is_read_only: bool, propagation: Option<&str>) -> MountPlan {
    let propagation = match propagation {
        Some("HostToContainer") => Propagation::HostToContainer,
        Some("Bidirectional") => Propagation::Bidirectional,
        _ => Propagation::Private,
    };
    MountPlan { source, target, is_read_only, propagation }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &str, class: &str) -> Pod {
        let text = format!(
            "{{metadata: {{name: p, namespace: n, uid: u}}, spec: {spec}, status: {{qosClass: {class}}}}}"
        );
        serde_yaml_ng::from_str(&text).unwrap()
    }

    fn planned(pod: &Pod, image: FoundImage) -> Result<ContainerPlan, String> {
        let own = &pod.spec.as_ref().unwrap().containers[0];
        container(pod, own, ContainerFacts { run: 2, image, memory: 1 << 30, ..ContainerFacts::default() })
    }

    fn image(user: Option<i64>, name: &str) -> FoundImage {
        FoundImage { id: "sha256:1".to_owned(), size: 1, user, user_name: name.to_owned() }
    }

    #[test]
    fn the_user_is_that_of_the_container_the_pod_or_the_image_and_root_only_if_it_may() {
        let of = |general: &str, own: &str, image: FoundImage| {
            let spec = format!(
                "{{securityContext: {{{general}}}, containers: [{{name: c, securityContext: {{{own}}}}}]}}"
            );
            let security = planned(&pod(&spec, "BestEffort"), image)?.security;
            Ok((security.user, security.user_name, security.group, security.more_groups))
        };
        let user = |user: Option<i64>, name: &str, group: Option<i64>, more: &[i64]| {
            Ok::<_, String>((user, name.to_owned(), group, more.to_vec()))
        };
        assert_eq!(of("", "", image(Some(0), "")), user(Some(0), "", None, &[]));
        assert_eq!(of("", "", image(None, "web")), user(None, "web", None, &[]));
        assert_eq!(
            of("runAsUser: 5, fsGroup: 9", "runAsUser: 8, runAsGroup: 7", image(None, "web")),
            user(Some(8), "", Some(7), &[9])
        );
        assert_eq!(of("runAsNonRoot: true", "", image(Some(3), "")), user(Some(3), "", None, &[]));
        for (image, why) in [
            (
                image(Some(0), ""),
                "container has runAsNonRoot and image will run as root (pod: \"p_n(u)\", container: c)",
            ),
            (
                image(None, ""),
                "container has runAsNonRoot and image will run as root (pod: \"p_n(u)\", container: c)",
            ),
            (
                image(None, "web"),
                "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root (pod: \"p_n(u)\", container: c)",
            ),
        ] {
            assert_eq!(of("runAsNonRoot: true", "", image).unwrap_err(), why);
        }
    }

    #[test]
    fn shares_limits_and_scores_are_those_of_kubelets() {
        let of = |resources: &str, class: &str| {
            let spec = format!("{{containers: [{{name: c, resources: {{{resources}}}}}]}}");
            let ResourcePlan { cpu_shares, cpu_quota, memory, oom_score, .. } =
                planned(&pod(&spec, class), image(Some(0), "")).unwrap().resources;
            (cpu_shares, cpu_quota, memory, oom_score)
        };
        assert_eq!(of("", "BestEffort"), (2, 0, 0, 1000));
        assert_eq!(of("limits: {cpu: 500m, memory: 64Mi}", "Guaranteed"), (512, 50_000, 64 << 20, -997));
        assert_eq!(
            of("requests: {cpu: 1, memory: 512Mi}, limits: {cpu: 1m}", "Burstable"),
            (1024, 1000, 0, 500)
        );
        assert_eq!(of("requests: {cpu: 0}, limits: {cpu: 1}", "Burstable"), (2, 100_000, 0, 999));
        assert_eq!(of("requests: {memory: 1Gi}", "Burstable"), (2, 0, 0, 3));
    }

    #[test]
    fn rights_are_passed_on_and_paths_masked_unless_the_container_may_see_all() {
        let of = |own: &str| {
            let spec = format!(
                "{{securityContext: {{seccompProfile: {{type: RuntimeDefault}}}}, containers: [{{name: c, securityContext: {{{own}}}}}]}}"
            );
            planned(&pod(&spec, "BestEffort"), image(Some(0), "")).unwrap().security
        };
        let usual = of("");
        assert_eq!(
            (usual.masked_paths.len(), usual.read_only_paths.len(), usual.seccomp),
            (11, 5, ProfilePlan::RuntimeDefault)
        );
        let privileged = of("privileged: true");
        assert!(privileged.is_privileged && privileged.masked_paths.is_empty());
        assert_eq!(privileged.seccomp, ProfilePlan::Unconfined);
        assert!(of("procMount: Unmasked").read_only_paths.is_empty());
        let less = of(
            "allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {add: [NET_ADMIN], drop: [ALL]}, \
                       seccompProfile: {type: Localhost, localhostProfile: a.json}",
        );
        assert!(less.has_no_new_privileges && less.has_read_only_root);
        assert_eq!(
            (less.added_capabilities[0].as_str(), less.dropped_capabilities[0].as_str()),
            ("NET_ADMIN", "ALL")
        );
        assert_eq!(less.seccomp, ProfilePlan::Localhost("a.json".to_owned()));
    }

    #[test]
    fn name_servers_are_those_of_the_machine_and_of_the_pod() {
        let machine =
            resolver("# a\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a b\noptions ndots:2\n");
        assert_eq!((machine.servers.len(), machine.searches.join(" ")), (2, "a b".to_owned()));
        let of = |spec: &str| {
            let spec = format!("{{containers: [], {spec}}}");
            let plan = sandbox(
                &pod(&spec, "BestEffort"),
                SandboxFacts { dns: machine.clone(), ..SandboxFacts::default() },
            );
            plan.dns.map(|dns| {
                format!("{} | {} | {}", dns.servers.join(" "), dns.searches.join(" "), dns.options.join(" "))
            })
        };
        assert_eq!(of("dnsPolicy: ClusterFirst"), None);
        let own = "dnsConfig: {nameservers: [1.1.1.1], options: [{name: ndots, value: '5'}, {name: edns0}]}";
        assert_eq!(of(&format!("dnsPolicy: None, {own}")).unwrap(), "1.1.1.1 |  | ndots:5 edns0");
        assert_eq!(of(own).unwrap(), "10.0.0.1 10.0.0.2 1.1.1.1 | a b | ndots:2 ndots:5 edns0");
    }

    #[test]
    fn a_sandbox_has_the_ports_the_parameters_and_the_namespaces_of_its_pod() {
        let spec = "{hostPID: true, shareProcessNamespace: true, hostname: h, securityContext: {sysctls: [{name: a.b, value: '1'}]}, \
                    containers: [{name: c, securityContext: {privileged: true}, ports: [{containerPort: 80}, {containerPort: 53, hostPort: 54, protocol: UDP}]}]}";
        let plan = sandbox(&pod(spec, "BestEffort"), SandboxFacts { attempt: 1, ..SandboxFacts::default() });
        let ports: Vec<_> = plan.ports.iter().map(|port| (port.host_port, port.protocol.as_str())).collect();
        assert_eq!((ports, plan.hostname.as_str(), plan.attempt), (vec![(54, "UDP")], "h", 1));
        assert!(
            plan.namespaces.has_host_pid && plan.namespaces.shares_processes && plan.security.is_privileged
        );
        assert_eq!(plan.sysctls["a.b"], "1");
    }
}
