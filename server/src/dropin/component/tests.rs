//! Tests of the settings that flags of kube-controller-manager and kube-scheduler give.

use super::ComponentKind;
use super::election::ElectionSettings;
use super::settings::{ComponentSettings, Settings, read};
use crate::args::{ListenAddress, OptionalApis};
use crate::dropin::UsageError;
use crate::dropin::serving::ServingFiles;
use jiff::SignedDuration;
use kstore_controllers::{Networks, NodeMonitorConfig, PodNetworks, UnusedTokenPeriod};
use kstore_scheduler::Gates;
use std::time::Duration;

fn settings(kind: ComponentKind, line: &str) -> Result<(Settings, Vec<String>), UsageError> {
    let parsed = kind.table().parse(line.split_whitespace().map(str::to_owned))?;
    let mut warnings = parsed.check()?;
    let settings = read(kind, &parsed, &mut warnings)?;
    Ok((settings, warnings))
}

#[test]
fn controller_manager_accepts_the_flags_of_test_harnesses() {
    let metacontroller = "--kubeconfig F --service-account-private-key-file K --root-ca-file certs/apiserver.crt \
                          --controllers namespace,garbagecollector,serviceaccount --secure-port 10257";
    let (settings, warnings) = settings(ComponentKind::ControllerManager, metacontroller).unwrap();
    let ComponentSettings::Controllers { selection, root_ca, .. } = &settings.part else {
        panic!("{settings:?}")
    };
    let names: Vec<_> = selection.names().collect();
    assert_eq!(names, ["garbage-collector-controller", "namespace-controller", "serviceaccount-controller"]);
    assert_eq!(root_ca.as_deref(), Some("certs/apiserver.crt".as_ref()));
    assert_eq!(settings.listen, Some(ListenAddress { host: "0.0.0.0".into(), port: 10257 }));
    assert_eq!(settings.serving, ServingFiles::InMemory);
    assert_eq!((settings.election, warnings.len()), (ElectionSettings::default(), 0), "{warnings:?}");

    let kwok = "--node-monitor-period=25s --node-monitor-grace-period=3m20s --kubeconfig=F --bind-address=0.0.0.0 \
                --authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics --secure-port=0 \
                --kube-api-qps=5000 --kube-api-burst=10000 --leader-elect=false --controllers=*,selinux-warning-controller,-podgc";
    let (settings, warnings) = self::settings(ComponentKind::ControllerManager, kwok).unwrap();
    let ComponentSettings::Controllers { selection, patience, .. } = &settings.part else {
        panic!("{settings:?}")
    };
    let expected = NodeMonitorConfig {
        grace: Duration::from_secs(200),
        recheck: Duration::from_secs(25),
        ..NodeMonitorConfig::default()
    };
    assert_eq!(*patience, expected);
    assert!(selection.names().all(|name| name != "pod-garbage-collector-controller"));
    assert_eq!((settings.listen, settings.open_paths.len()), (None, 4));
    assert!(
        warnings.contains(&"--controllers: kstore has no selinux-warning-controller".to_owned()),
        "{warnings:?}"
    );
}

#[test]
fn controller_manager_has_the_flags_of_its_version() {
    let read = |flags: &str| settings(ComponentKind::ControllerManager, &format!("--kubeconfig F {flags}"));
    let refused = read("--concurrent-service-syncs=2").unwrap_err().to_string();
    assert!(refused.contains("no such flag since Kubernetes 1.37"), "{refused}");
    for flags in ["--concurrent-disruption-syncs=2", "--concurrent-resourceclaim-syncs=2"] {
        let (_, warnings) = read(flags).unwrap();
        assert_eq!(warnings.len(), 1, "{flags} has no effect: {warnings:?}");
    }
}

#[test]
fn the_token_controller_has_its_key_and_its_period_from_flags() {
    let parts = |line: &str| {
        let line = format!("--kubeconfig=F --service-account-private-key-file=K {line}");
        let (settings, _) = settings(ComponentKind::ControllerManager, &line)?;
        let ComponentSettings::Controllers { token_key, unused_tokens, .. } = settings.part else {
            panic!("{:?}", settings.part)
        };
        Ok::<_, UsageError>((token_key.is_some(), unused_tokens))
    };
    let year = UnusedTokenPeriod::default();
    assert_eq!(parts("").unwrap(), (true, year));
    assert_eq!(parts("--controllers=*,-serviceaccount-token").unwrap(), (false, year));
    let flag = "--legacy-service-account-token-clean-up-period";
    assert_eq!(
        parts(&format!("{flag}=48h")).unwrap().1,
        UnusedTokenPeriod::new(SignedDuration::from_hours(48)).unwrap()
    );
    for bad in ["0s", "soon"] {
        assert!(parts(&format!("{flag}={bad}")).is_err(), "{bad}");
    }
}

#[test]
fn allocate_node_cidrs_splits_the_cluster_cidr_among_nodes() {
    let networks = |line: &str| {
        let (settings, _) =
            settings(ComponentKind::ControllerManager, &format!("--kubeconfig=F {line}")).unwrap();
        let ComponentSettings::Controllers { networks, .. } = settings.part else {
            panic!("{:?}", settings.part)
        };
        networks
    };
    let pods = |blocks: &str, v4, v6| Networks {
        pods: PodNetworks::new(blocks.parse().unwrap(), v4, v6).unwrap(),
        ..Networks::default()
    };
    assert_eq!(
        networks("--cluster-cidr=10.1.0.0/16"),
        Networks::default(),
        "without --allocate-node-cidrs nothing is allocated"
    );
    let both = "10.1.0.0/16,fd00:1::/48";
    assert_eq!(networks(&format!("--allocate-node-cidrs --cluster-cidr={both}")), pods(both, None, None));
    let line = "--allocate-node-cidrs --cluster-cidr=10.1.0.0/16 --node-cidr-mask-size=25";
    assert_eq!(networks(line), pods("10.1.0.0/16", Some(25), Some(25)));
    let line = "--allocate-node-cidrs --cluster-cidr=fd00:1::/48 --node-cidr-mask-size=56";
    assert_eq!(networks(line), pods("fd00:1::/48", None, Some(56)));
    let refused = |line: &str| {
        settings(ComponentKind::ControllerManager, &format!("--kubeconfig=F {line}")).unwrap_err().to_string()
    };
    assert!(refused("--allocate-node-cidrs").contains("--cluster-cidr is required"));
    assert!(refused("--allocate-node-cidrs --cluster-cidr=10.1.0.0/25").contains("none smaller"));
    assert!(refused("--allocate-node-cidrs --cluster-cidr=pods").contains("not a block of addresses"));
}

#[test]
fn scheduler_accepts_a_configuration_file_without_a_kubeconfig_flag() {
    let (settings, _) = settings(ComponentKind::Scheduler, "--config=C --leader-elect=false").unwrap();
    assert!(
        matches!(&settings.part, ComponentSettings::Scheduler { config: Some(file), .. } if file.as_os_str() == "C")
    );
    assert_eq!(
        (settings.kubeconfig, settings.open_paths),
        (None, ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec())
    );
}

#[test]
fn scheduler_has_its_gates_and_the_longest_stay_of_unschedulable_pods_from_flags() {
    let read = |line: &str| {
        let (settings, warnings) = settings(ComponentKind::Scheduler, &format!("--kubeconfig F {line}"))?;
        let ComponentSettings::Scheduler { longest_stay, gates, .. } = settings.part else {
            panic!("{:?}", settings.part)
        };
        Ok::<_, UsageError>((longest_stay, gates, warnings.len()))
    };
    let default = OptionalApis::default().scheduler;
    assert_eq!(read("").unwrap(), (None, default, 0));
    let stay = "--pod-max-in-unschedulable-pods-duration";
    let gate = "--feature-gates=SchedulerPopFromBackoffQ=false";
    let expected = Gates { pop_from_backoff: false, ..default };
    assert_eq!(
        read(&format!("{stay}=2m {gate}")).unwrap(),
        (Some(SignedDuration::from_mins(2)), expected, 0)
    );
    assert!(read(&format!("{stay}=soon")).is_err() && read(&format!("{stay}=-1s")).is_err());
}

#[test]
fn unsupported_component_flags_are_refused_with_the_reason() {
    let refused = |kind, line: &str| settings(kind, line).unwrap_err().to_string();
    for kind in [ComponentKind::ControllerManager, ComponentKind::Scheduler] {
        assert!(refused(kind, "").contains("--kubeconfig is required"));
        assert!(refused(kind, "--kubeconfig=F --master=http://a").contains("expected https://HOST:PORT"));
        assert!(refused(kind, "--kubeconfig=F --secure-port=many").contains("expected a port"));
        assert!(refused(kind, "--nonsense").contains("unknown flag: --nonsense"));
    }
    let manager = |line: &str| refused(ComponentKind::ControllerManager, &format!("--kubeconfig=F {line}"));
    assert!(manager("--controllers=nothing").contains("is not in the list of known controllers"));
    assert!(manager("--cloud-provider=aws").contains("kstore has no cloud provider"));
    assert!(manager("--cluster-signing-cert-file=f").contains("--cluster-signing-key-file is required"));
    assert!(manager("--cluster-signing-duration=0s").contains("expected a positive duration"));
    assert!(manager("--node-monitor-grace-period=0s").contains("expected a positive duration"));
    assert!(refused(ComponentKind::Scheduler, "--controllers=a").contains("unknown flag"));
}
