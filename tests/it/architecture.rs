//! Checks the dependency table of ARCHITECTURE.md against `cargo metadata`: dependencies point only to a
//! lower level, and only as listed.

use crate::workspace_root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crate, its level, and the workspace crates that it may use. Tests may use all.
const TABLE: [(&str, u8, &[&str]); 18] = [
    ("nondet", 0, &[]),
    ("cel", 0, &[]),
    ("api", 1, &["cel"]),
    ("proto", 0, &[]),
    ("derive", 0, &[]),
    ("container-sim", 0, &[]),
    ("store", 1, &["nondet"]),
    ("informer", 1, &["nondet"]),
    ("checker", 1, &["nondet", "proto"]),
    ("etcd", 2, &["store", "proto", "nondet"]),
    ("apiserver", 2, &["store", "api", "proto", "nondet"]),
    ("client", 2, &["informer", "api", "proto", "nondet"]),
    ("controllers", 3, &["informer", "client", "api", "nondet"]),
    ("scheduler", 3, &["informer", "client", "api", "nondet"]),
    ("kubelet-sim", 3, &["informer", "client", "api", "nondet", "container-sim"]),
    ("metrics-server", 3, &["client", "api"]),
    (
        "testing",
        4,
        &[
            "nondet",
            // The names of optional APIs.
            "api",
            "store",
            "informer",
            "apiserver",
            "client",
            "controllers",
            "scheduler",
            "kubelet-sim",
        ],
    ),
    (
        "server",
        4,
        &[
            "nondet",
            "api",
            "proto",
            "store",
            "informer",
            "etcd",
            "apiserver",
            "client",
            "controllers",
            "scheduler",
            "kubelet-sim",
            "metrics-server",
        ],
    ),
];

/// Crates at the top, which no other crate uses.
const TOP: [&str; 3] = ["tests", "benches", "fuzz"];

/// Edges that only a crate's tests may have.
const TESTS_ONLY: [(&str, &str); 4] = [
    // The checker judges histories of the store's clients.
    ("store", "checker"),
    // The scheduler's loop is tested against a small API server that speaks the wire protocol.
    ("scheduler", "proto"),
    // The generated code names the client, and so do the documentation's examples.
    ("derive", "client"),
    // Derived kinds are tested on a whole cluster.
    ("testing", "derive"),
];

/// Workspace crates with the workspace crates that they use, test dependencies included: a crate's tests may
/// use only what the crate may use.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let metadata: Value = serde_json::from_slice(&cargo.stdout).expect("cargo metadata is JSON");
    let ours = |package: &Value| {
        package["name"].as_str().and_then(|name| name.strip_prefix("kstore-")).map(str::to_owned)
    };
    let packages = metadata["packages"].as_array().expect("a workspace has packages").iter();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            (
                ours(package).expect("every package carries our prefix"),
                dependencies.filter_map(ours).collect(),
            )
        })
        .collect()
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let edges = edges();
    for (name, used) in edges.iter().filter(|(name, _)| !TOP.contains(&name.as_str())) {
        let row = TABLE.iter().find(|row| row.0 == name);
        let (_, _, allowed) = row.unwrap_or_else(|| panic!("{name} is not in the table"));
        let is_allowed = |used: &str| allowed.contains(&used) || TESTS_ONLY.contains(&(name.as_str(), used));
        let extra: Vec<_> = used.iter().filter(|used| !is_allowed(used)).collect();
        assert!(extra.is_empty(), "{name} uses {extra:?}: a new edge needs a reason and a line in the table");
    }
    for (name, ..) in TABLE {
        assert!(edges.contains_key(name), "{name} is in the table, but not in the workspace");
    }
}

#[test]
fn the_table_points_down_and_limits_users_as_documented() {
    let level = |name: &str| TABLE.iter().find(|row| row.0 == name).expect("the table is closed").1;
    for (name, own, uses) in TABLE {
        for used in uses {
            assert!(level(used) < own, "{name} → {used} does not go down");
        }
    }
    let users =
        |of: &str| TABLE.iter().filter(|row| row.2.contains(&of)).map(|row| row.0).collect::<Vec<_>>();
    assert_eq!(users("store"), ["etcd", "apiserver", "testing", "server"]);
    for component in ["controllers", "scheduler", "kubelet-sim", "apiserver"] {
        assert_eq!(users(component), ["testing", "server"], "users of {component}");
    }
    assert_eq!(users("etcd"), ["server"]);
}

/// Schemas derived from Rust types are only for programs that define kinds.
#[test]
fn the_server_depends_on_no_derive_macro_and_enables_no_feature_for_it() {
    let tree =
        ["tree", "--package", "kstore-server", "--edges", "normal,features", "--prefix", "none", "--offline"];
    let cargo =
        Command::new(env!("CARGO")).args(tree).current_dir(workspace_root()).output().expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let tree = String::from_utf8_lossy(&cargo.stdout).into_owned();
    assert!(tree.contains("kstore-client"), "{tree}");
    for unwanted in ["kstore-derive", "schemars_derive", "kstore-client feature \"crd\""] {
        assert!(!tree.contains(unwanted), "{unwanted}");
    }
}

/// Programs that use the informer without kstore must not pull in another kstore crate or a Kubernetes
/// client.
#[test]
fn the_informer_depends_on_no_transport_and_no_kubernetes_client() {
    let tree = ["tree", "--package", "kstore-informer", "--edges", "normal", "--prefix", "none", "--offline"];
    let cargo =
        Command::new(env!("CARGO")).args(tree).current_dir(workspace_root()).output().expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let tree = String::from_utf8_lossy(&cargo.stdout).into_owned();
    let crates: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let ours: Vec<_> = crates.iter().filter(|name| name.starts_with("kstore-")).collect();
    assert_eq!(ours, [&"kstore-informer", &"kstore-nondet"]);
    let foreign = ["kube-client", "kube-core", "k8s-openapi", "tonic", "prost", "hyper", "http", "rustls"];
    assert!(foreign.iter().all(|name| !crates.contains(name)), "{crates:?}");
}

/// Features that the informer enables, with its feature `kube`: they are enabled for its users as well.
#[test]
fn the_informer_selects_no_kubernetes_version_and_only_the_tokio_features_it_uses() {
    let tree = [
        "tree",
        "--package",
        "kstore-informer",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--offline",
        "--format",
        "{p} {f}",
        "--features",
    ];
    let features = |of: &str, name: &str| {
        let cargo = Command::new(env!("CARGO")).args(tree).arg(of).current_dir(workspace_root()).output();
        let cargo = cargo.expect("cargo runs");
        assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
        let tree = String::from_utf8_lossy(&cargo.stdout).into_owned();
        let line = tree.lines().find(|line| line.split(' ').next() == Some(name)).map(str::to_owned);
        let line = line.unwrap_or_else(|| panic!("{name} is not in the tree"));
        let words = line.split(' ').filter(|word| !word.starts_with(['v', '(']) || word.starts_with("v1_"));
        words.skip(1).flat_map(|word| word.split(',')).map(str::to_owned).collect::<Vec<_>>()
    };
    let kubernetes = features("kube", "k8s-openapi");
    assert!(!kubernetes.iter().any(|feature| feature.starts_with("v1_")), "{kubernetes:?}");
    let tokio = features("testing", "tokio");
    let foreign = ["full", "fs", "io-std", "net", "process", "rt-multi-thread", "signal"];
    assert!(!foreign.iter().any(|name| tokio.iter().any(|feature| feature == name)), "{tokio:?}");
}
