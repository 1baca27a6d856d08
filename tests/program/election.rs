//! Leader election of controllers and scheduler: of several servers on one etcd, one runs them, and another
//! takes over. A server with its own store elects none. `dropin::elections` tests the drop-in programs, `fencing`
//! of the binary `sim` the fences of leaders.

use crate::SERVER;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kstore_client::{Client, Gvr, ListParams};
use kstore_tests::wait::watch_until;
use kstore_tests::{Etcd, Launch, Server, manifests};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::time::sleep;

fn server(dir: &Path, name: &str, etcd: &Etcd) -> Server {
    let dir = dir.join(name);
    std::fs::create_dir(&dir).unwrap();
    let args = ["--etcd-servers", etcd.url(), "--components", "apiserver,controllers,scheduler"];
    Launch::in_memory(SERVER, &dir).args(&args).start().unwrap()
}

/// Creates a namespace and waits until a controller has created its service account.
async fn namespace(client: &Client, name: &str) {
    client.dynamic(Gvr::of::<Namespace>()).create("", &manifests::namespace(name)).await.unwrap();
    watch_until(client, Gvr::of::<ServiceAccount>(), name, "default", |_| true).await;
}

/// The holder of a Lease, once it satisfies a condition.
async fn holder(client: &Client, lease: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    let is_held = |lease: &Value| !holder(lease).is_empty() && is_wanted(&holder(lease));
    holder(&watch_until(client, Gvr::of::<Lease>(), "kube-system", lease, is_held).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_on_one_etcd_one_runs_the_controllers_and_the_other_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(&dir.path().join("etcd")) else { return };
    let first = server(dir.path(), "first", &etcd);
    let to_first = first.client("test").await;
    namespace(&to_first, "one").await;
    let manager = "kube-controller-manager";
    let leader = holder(&to_first, manager, |_| true).await;
    holder(&to_first, "kube-scheduler", |_| true).await;

    let second = server(dir.path(), "second", &etcd);
    let to_second = second.client("test").await;
    // The other server takes over from a leader that does not respond.
    first.pause();
    namespace(&to_second, "two").await;
    let successor = holder(&to_second, manager, |now| now != leader).await;
    holder(&to_second, "kube-scheduler", |now| now != leader).await;
    // The deposed leader is a candidate again, and stays one.
    first.resume();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(holder(&to_second, manager, |_| true).await, successor);
    second.kill();
    let to_first = first.client("test").await;
    namespace(&to_first, "three").await;
    assert_eq!(holder(&to_first, manager, |_| true).await, leader);
    assert!(first.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn components_of_their_own_hand_their_leases_over_when_they_end() {
    let dir = tempfile::tempdir().unwrap();
    let apiserver = Launch::on_disk(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    let kubeconfig = dir.path().join("data").join("controllers.kubeconfig");
    let components = |flags: &[&str]| {
        let args = ["--components", "controllers", "--kubeconfig", kubeconfig.to_str().unwrap()];
        Launch::new(SERVER, dir.path()).args(&args).args(flags).start_silent()
    };
    let (client, manager) = (apiserver.client("test").await, "kube-controller-manager");
    let first = components(&[]);
    let leader = holder(&client, manager, |_| true).await;
    let second = components(&[]);
    namespace(&client, "one").await;
    assert_eq!(holder(&client, manager, |_| true).await, leader);
    // A process that ends releases its Lease. That the next leader then does not wait for its expiry is tested in
    // virtual time.
    assert!(first.terminate().success());
    holder(&client, manager, |now| now != leader).await;
    namespace(&client, "two").await;
    assert!(second.terminate().success());
    // Without an election, the Lease does not matter.
    let _third = components(&["--leader-elect=false"]);
    namespace(&client, "three").await;
    let lease = client.dynamic(Gvr::of::<Lease>()).get("kube-system", manager).await.unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_its_own_store_elects_no_leader() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).start().unwrap();
    let client = server.client("test").await;
    namespace(&client, "one").await;
    let (leases, _) =
        client.dynamic(Gvr::of::<Lease>()).list("kube-system", &ListParams::default()).await.unwrap();
    let names: Vec<_> = leases.iter().map(|lease| lease["metadata"]["name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("apiserver-")), "{names:?}");
}
