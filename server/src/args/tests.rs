//! Tests of what command lines mean, and of the refused ones.

use super::*;
use kstore_controllers::{Networks, PodNetworks};
use std::time::Duration;

fn config(line: &str) -> Result<Config, UsageError> {
    Cli::try_parse_from(line.split(' ')).unwrap().serve.into_config()
}

fn store_of(config: Config) -> StoreAlone {
    match config.api {
        Api::Store(store) => *store,
        other => panic!("no store alone: {other:?}"),
    }
}

#[test]
fn without_flags_everything_runs_here_on_disk() {
    let config = config("kstore-server").unwrap();
    assert_eq!(config.loops.nodes, 3);
    assert_eq!(config.loops.components.len(), 3);
    let ApiHere {
        storage,
        listen,
        etcd,
        quota,
        history,
        service_ranges,
        anonymous,
        audit,
        access,
        encryption,
        write_kubeconfig,
        metrics,
        name,
        ..
    } = config.api.here().unwrap();
    assert_eq!((metrics, encryption, name), (MetricsServer::Installed, None, None));
    let dir = DEFAULT_DATA_DIR.into();
    assert_eq!(
        storage,
        Storage::Disk { dir, durability: Durability::Sync, engine: Engine::Segments, salvage: false }
    );
    assert_eq!((listen.host.as_str(), listen.port), ("127.0.0.1", 6443));
    assert_eq!(history, History::For(Duration::from_secs(300)));
    assert_eq!((write_kubeconfig, etcd, quota, audit), (None, None, Quota::Default, None));
    assert_eq!(service_ranges.cidrs(), ["10.96.0.0/12"]);
    assert!(anonymous);
    assert_eq!(*access, AccessConfig::default());
}

#[test]
fn components_without_an_apiserver_need_a_kubeconfig_and_refuse_apiserver_flags() {
    assert!(Cli::try_parse_from("kstore-server --data-dir x --in-memory".split(' ')).is_err());
    assert_eq!(config("kstore-server --components scheduler"), Err(UsageError::NoApi));
    assert_eq!(config("kstore-server --kubeconfig f"), Err(UsageError::TwoApis));
    let wrong = config("kstore-server --components scheduler --kubeconfig f --in-memory");
    assert_eq!(wrong, Err(UsageError::NeedsApiserver("in-memory")));
    let wrong = config("kstore-server --components scheduler --kubeconfig f --etcd-listen 127.0.0.1:0");
    assert_eq!(wrong, Err(UsageError::NeedsApiserver("etcd-listen")));
    let right = config("kstore-server --components scheduler,kubelet-sim --kubeconfig f --nodes 9").unwrap();
    assert_eq!(right.api, Api::Elsewhere("f".into()));
    assert_eq!(right.loops.components, [Component::Scheduler, Component::KubeletSim].into());
}

#[test]
fn images_can_be_missing_for_all_simulated_nodes() {
    let chosen = |flags: &str| config(&format!("kstore-server{flags}")).unwrap().loops.missing_images;
    assert_eq!(chosen(""), [""; 0]);
    assert_eq!(chosen(" --missing-image *:broken --missing-image app:?"), ["*:broken", "app:?"]);
}

#[test]
fn the_store_alone_is_an_etcd_that_keeps_all_history() {
    let alone = config("kstore-server --components store --etcd-listen :2379 --in-memory").unwrap();
    let StoreAlone { storage, etcd, quota, history, .. } = store_of(alone);
    assert_eq!(
        (storage, history, etcd.listen),
        (Storage::Memory, History::All, EtcdAddress::Tcp(":2379".parse().unwrap()))
    );
    assert_eq!((etcd.tls, etcd.advertise, etcd.allow_anyone), (None, None, false));
    assert_eq!(quota, Quota::Default);
    let socket = config("kstore-server --components store --etcd-listen unix:///run/etcd.sock").unwrap();
    let etcd = store_of(socket).etcd;
    assert_eq!(etcd.listen, EtcdAddress::Unix("/run/etcd.sock".into()));
    for wrong in ["unix://etcd.sock", "unix:///", "unix://", "unix:/etcd.sock"] {
        assert!(wrong.parse::<EtcdAddress>().is_err(), "{wrong}");
    }
    for (text, expected) in [
        ("0", Quota::Default),
        ("-1", Quota::None),
        ("4096", Quota::Bytes(4096)),
        ("2GiB", Quota::Bytes(2 << 30)),
        ("512Mi", Quota::Bytes(512 << 20)),
        ("3KiB", Quota::Bytes(3 << 10)),
    ] {
        let line = format!("kstore-server --components store --etcd-listen :0 --quota-bytes {text}");
        let quota = store_of(config(&line).unwrap()).quota;
        assert_eq!(quota, expected, "{text}");
    }
    for (line, refusal) in [
        ("--components store", UsageError::NoEtcdListen),
        ("--components store,scheduler --etcd-listen :0", UsageError::StoreNotAlone),
        ("--components store --etcd-listen :0 --kubeconfig f", UsageError::NeedsApiserver("kubeconfig")),
        ("--etcd-advertise http://a:1", UsageError::NeedsEtcdListen("etcd-advertise")),
    ] {
        assert_eq!(config(&format!("kstore-server {line}")), Err(refusal), "{line}");
    }
}

#[test]
fn etcd_tls_needs_certificate_and_key_and_client_authentication_needs_an_authority() {
    let store = "kstore-server --components store --etcd-listen :0";
    let tls = "--etcd-cert-file c --etcd-key-file k";
    let etcd = store_of(config(&format!("{store} {tls} --etcd-trusted-ca-file a")).unwrap()).etcd;
    let files = EtcdTls { certificate: "c".into(), key: "k".into(), clients: Some("a".into()) };
    assert_eq!(etcd.tls, Some(files));
    for halves in
        ["--etcd-cert-file c", "--etcd-trusted-ca-file a", &format!("{tls} --etcd-client-cert-auth")]
    {
        let line = format!("{store} {halves}");
        assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{halves}");
    }
}

#[test]
fn service_networks_are_at_most_one_of_each_family_and_need_the_apiserver() {
    let line = "kstore-server --service-cluster-ip-range";
    let ranges = config(&format!("{line} 10.0.0.0/24,fd00::/112")).unwrap();
    let service_ranges = ranges.api.here().unwrap().service_ranges;
    assert_eq!(service_ranges.cidrs(), ["10.0.0.0/24", "fd00::/112"]);
    let run = "kstore-server run --service-cluster-ip-range fd00::/112 -- true";
    let Some(Command::Run(run)) = Cli::try_parse_from(run.split(' ')).unwrap().command else {
        panic!("not run")
    };
    let service_ranges = run.into_config().unwrap().0.api.here().unwrap().service_ranges;
    assert_eq!(service_ranges.api_address().to_string(), "fd00::1");
    for (ranges, text) in [
        ("10.0.0.0/24,10.1.0.0/24", "must be of different IP family"),
        ("a,b,c", "service-cluster-ip-range[0] is not a valid cidr"),
    ] {
        let refused = Cli::try_parse_from(format!("{line} {ranges}").split(' ')).unwrap_err();
        assert!(refused.to_string().contains(text), "{refused}");
    }
    let elsewhere = config(&format!("{line} 10.0.0.0/24 --components scheduler --kubeconfig f"));
    assert_eq!(elsewhere, Err(UsageError::NeedsApiserver("service-cluster-ip-range")));
}

#[test]
fn controllers_assign_addresses_only_from_networks_given_by_flags() {
    assert_eq!(config("kstore-server").unwrap().loops.networks, Networks::default());
    let given = "--load-balancer-pool 192.0.2.0/24,2001:db8::/120 --cluster-cidr 10.1.0.0/16";
    let networks = config(&format!("kstore-server {given}")).unwrap().loops.networks;
    assert_eq!(networks.load_balancers.to_string(), "192.0.2.0/24,2001:db8::/120");
    assert_eq!(networks.pods, PodNetworks::new("10.1.0.0/16".parse().unwrap(), None, None).unwrap());
    for flag in ["load-balancer-pool", "cluster-cidr"] {
        let line = format!("kstore-server --components apiserver --{flag} 10.1.0.0/16");
        assert_eq!(config(&line), Err(UsageError::NeedsControllers(flag)));
        let nonsense = format!("kstore-server --{flag} pool");
        assert!(Cli::try_parse_from(nonsense.split(' ')).is_err());
    }
    let small = config("kstore-server --cluster-cidr 10.1.0.0/25").unwrap_err().to_string();
    assert!(small.starts_with("--cluster-cidr: expected at most one network of each family"), "{small}");
}

#[test]
fn history_is_a_time_a_count_or_all() {
    for (text, expected) in [
        ("90s", Some(History::For(Duration::from_secs(90)))),
        ("2h", Some(History::For(Duration::from_secs(7200)))),
        ("7d", Some(History::For(Duration::from_secs(604_800)))),
        ("10000revs", Some(History::Revisions(10_000))),
        ("all", Some(History::All)),
        ("5", None),
        ("", None),
        ("5 m", None),
        ("99999999999999999999s", None),
    ] {
        assert_eq!(text.parse::<History>().ok(), expected, "{text}");
    }
    for (text, expected) in [
        ("7d,20GiB", Some((History::For(Duration::from_secs(604_800)), Some(20 << 30)))),
        ("all,128MiB", Some((History::All, Some(128 << 20)))),
        ("all", Some((History::All, None))),
        ("all,", None),
        ("all,0", None),
        ("all,-1", None),
        ("20GiB", None),
    ] {
        let bounds = text.parse::<HistoryBounds>().ok().map(|bounds| (bounds.kept, bounds.bytes));
        assert_eq!(bounds, expected, "{text}");
    }
}

#[test]
fn listen_addresses_are_host_and_port() {
    for (text, expected) in [
        ("127.0.0.1:0", Some(("127.0.0.1", 0))),
        ("localhost:6443", Some(("localhost", 6443))),
        (":6443", Some(("", 6443))),
        ("[::1]:7", Some(("::1", 7))),
        ("::1:7", None),
        ("6443", None),
        ("a:70000", None),
    ] {
        let parsed = text.parse::<ListenAddress>().ok();
        assert_eq!(parsed.as_ref().map(|a| (a.host.as_str(), a.port)), expected, "{text}");
    }
}

#[test]
fn number_errors_say_which_value_is_expected() {
    for (flags, expected) in [
        ("--nodes many", "invalid value 'many' for '--nodes <N>': expected a whole number from 0 to 20000"),
        ("--nodes 20001", "expected a whole number from 0 to 20000"),
        ("--nodes=-1", "expected a whole number from 0 to 20000"),
        (
            "--quota-bytes 2GB",
            "'--quota-bytes <N>': expected a number of bytes, for example 2147483648 or 2GiB",
        ),
        ("--history 5", "none of: a time such as 30s, 5m, 2h or 7d; a count such as 10000revs; all"),
        ("--listen 127.0.0.1:http", "`http` is not a port (0 to 65535)"),
        ("--etcd-servers http://a:1 --etcd-compaction-interval x", "expected a time such as 5m, 90s or 0s"),
        ("explain pod/x --depth deep", "expected a whole number, zero or more"),
        ("explain pod/x --since yesterday", "expected a time such as 5m, 90s or 0s"),
        (
            "store snapshot restore f --mark-compacted --bump-revision x",
            "expected a whole number, zero or more",
        ),
    ] {
        let refused =
            Cli::try_parse_from(format!("kstore-server {flags}").split(' ')).unwrap_err().to_string();
        assert!(refused.contains(expected), "{flags}: {refused}");
        assert!(!refused.contains("invalid digit"), "{flags}: {refused}");
    }
}

#[test]
fn flags_set_values_of_the_api_servers_configuration() {
    let config = config("kstore-server --event-ttl 5m --event-ttl 10m --explain-memory 1MiB").unwrap();
    let mut server = kstore_apiserver::ServerConfig::default();
    let values = config.api.here().unwrap().access.server;
    values.iter().for_each(|value| value.apply(&mut server).unwrap());
    assert_eq!(
        (server.registry.event_ttl, server.storage.explain_bytes),
        (Duration::from_secs(600), 1 << 20)
    );
    let refused = Cli::try_parse_from(["kstore-server", "--event-ttl", "soon"]).unwrap_err().to_string();
    assert!(refused.contains("'soon' for '--event-ttl <TIME>': expected a time such as 30s"), "{refused}");
}

#[test]
fn booleans_are_those_of_kubernetes() {
    let value = |flag: &str| config(&format!("kstore-server {flag}")).unwrap().api.here().unwrap();
    assert!(value("--enable-priority-and-fairness").access.request_limits.is_fair);
    assert!(!value("--enable-priority-and-fairness=F").access.request_limits.is_fair);
    assert!(!value("--anonymous-auth=0").anonymous && value("--anonymous-auth=T").anonymous);
    for flag in ["--anonymous-auth=no", "--enable-priority-and-fairness="] {
        let refused = Cli::try_parse_from(["kstore-server", flag]).unwrap_err().to_string();
        assert!(refused.contains("[possible values: true, false]"), "{refused}");
    }
}

#[test]
fn commands_name_only_flags_that_they_have() {
    Cli::command().debug_assert();
}

#[test]
fn help_groups_every_flag_of_the_server_under_a_heading() {
    let command = Cli::command();
    let mut headings = Vec::new();
    for flag in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())) {
        let heading = flag.get_help_heading().unwrap_or_else(|| panic!("{flag} has no heading"));
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    assert_eq!(
        headings,
        [
            "Storage",
            "Serving",
            "Components",
            "Audit log",
            "Audit webhook",
            "Authentication",
            "Authorization",
            "Admission",
            "Request limits",
            "Optional APIs",
            "Lab",
            "etcd API",
            "External etcd",
            "Logging",
        ]
    );
}

#[test]
fn log_format_is_accepted_before_and_after_a_subcommand() {
    let format = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap().log_format;
    assert_eq!(format("kstore-server"), LogFormat::Text);
    assert_eq!(format("kstore-server --log-format json"), LogFormat::Json);
    assert_eq!(format("kstore-server run --log-format json -- true"), LogFormat::Json);
}

#[test]
fn leader_election_can_be_chosen() {
    let chosen = |flags: &str| config(&format!("kstore-server{flags}")).unwrap().loops.leader_elect;
    assert_eq!(["", " --leader-elect", " --leader-elect=false"].map(chosen), [None, Some(true), Some(false)]);
}

#[test]
fn anonymous_access_can_be_disabled_and_needs_the_apiserver() {
    for (flag, expected) in
        [("kstore-server --anonymous-auth=false", false), ("kstore-server --anonymous-auth", true)]
    {
        assert_eq!(config(flag).unwrap().api.here().unwrap().anonymous, expected, "{flag}");
    }
    let elsewhere = config("kstore-server --components scheduler --kubeconfig f --anonymous-auth=false");
    assert_eq!(elsewhere, Err(UsageError::NeedsApiserver("anonymous-auth")));
}

#[test]
fn metrics_server_is_installed_with_simulated_nodes_or_by_flag() {
    let choice = |flags: &str| {
        let config = config(&format!("kstore-server --in-memory {flags}")).unwrap();
        config.api.here().unwrap().metrics
    };
    for (flags, wanted) in [
        ("--nodes 1", MetricsServer::Installed),
        ("--nodes 0", MetricsServer::Answers),
        ("--components apiserver", MetricsServer::Answers),
        ("--components apiserver --metrics-server", MetricsServer::Installed),
        ("--metrics-server=true --nodes 0", MetricsServer::Installed),
        ("--metrics-server=false", MetricsServer::Off),
    ] {
        assert_eq!(choice(flags), wanted, "{flags}");
    }
    for components in ["scheduler --kubeconfig f", "store --etcd-listen :2379"] {
        let wrong = config(&format!("kstore-server --components {components} --metrics-server=false"));
        assert_eq!(wrong, Err(UsageError::NeedsApiserver("metrics-server")), "{components}");
    }
}

#[test]
fn passwords_are_accepted_only_on_request() {
    let of = |flags: &str| {
        let api = config(&format!("kstore-server{flags}")).unwrap().api;
        api.here().unwrap().access.authentication.basic_auth
    };
    assert_eq!(of(""), None);
    assert_eq!(of(" --basic-auth-file users"), Some("users".into()));
}

#[test]
fn names_of_nodes_begin_with_a_prefix_that_leaves_them_valid() {
    let parsed = |prefix: &str| {
        let cli = Cli::try_parse_from(["kstore-server", &format!("--node-prefix={prefix}")]);
        cli.map(|_| ()).map_err(|error| error.to_string())
    };
    let of = |flags: &str| config(&format!("kstore-server{flags}")).unwrap().loops.simulation.node_prefix.0;
    assert_eq!(of(""), "node-");
    assert_eq!(of(" --node-prefix edge-"), "edge-");
    let longest = "a".repeat(58);
    for prefix in ["e", "7", "rack-1.example.com-", "site.", &longest] {
        assert_eq!(parsed(prefix), Ok(()), "{prefix}");
    }
    let (too_long, with_dots) = ("a".repeat(59), format!("{}.{}", "a".repeat(29), "a".repeat(29)));
    for (prefix, reason) in [
        ("", "the beginning of a name"),
        ("Edge-", "lower case"),
        ("-edge", "alphanumeric"),
        ("edge_", "alphanumeric"),
        ("a..", "alphanumeric"),
        (&too_long, "63"),
        (&with_dots, "63"),
    ] {
        let said = parsed(prefix).unwrap_err();
        assert!(said.contains(reason), "{prefix}: {said}");
    }
    let wrong = config("kstore-server --components scheduler --kubeconfig f --node-prefix edge-");
    assert_eq!(wrong, Err(UsageError::NeedsFlag("node-prefix", "`kubelet-sim` in --components")));
}
