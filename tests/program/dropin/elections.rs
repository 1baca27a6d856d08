//! Leader election of several `kube-controller-manager`s on one apiserver: one is active, and another takes
//! over when it dies.

use super::programs::{Program, READY, words};
use super::{END, Envtest};
use kstore_tests::Https;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/office";
/// Longer than any pause of a program on a busy machine, so that no leader loses the Lease by accident.
const DURATION: Duration = Duration::from_secs(15);

/// Waits until an object satisfies a condition, and returns it.
async fn wait_for(
    admin: &Https,
    path: &str,
    programs: &mut [&mut Program],
    holds: impl Fn(&Value) -> bool,
) -> Value {
    let began = Instant::now();
    loop {
        programs.iter_mut().for_each(|program| program.check());
        let reply = admin.call("GET", path, "").await;
        let object = reply.json();
        if reply.code == 200 && holds(&object) {
            return object;
        }
        let logs = || programs.iter().map(|program| program.log()).collect::<String>();
        assert!(began.elapsed() < READY, "{path}: {object} {}", logs());
        sleep(Duration::from_millis(50)).await;
    }
}

/// Creates a namespace and waits until a controller has created its service account.
async fn namespace(admin: &Https, name: &str, program: &mut Program) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    assert_eq!(admin.call("POST", "/api/v1/namespaces", &body.to_string()).await.code, 201);
    let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
    wait_for(admin, &account, &mut [program], |_| true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_controller_managers_is_active_and_the_other_takes_over() {
    let envtest = Envtest::start().await;
    let admin = envtest.client("admin", "system:masters");
    let dir = envtest.dir.path();
    envtest.kubeconfig("system:kube-controller-manager", &dir.join("manager.kubeconfig"));
    let args = words(&format!(
        "--kubeconfig={}/manager.kubeconfig --use-service-account-credentials=true --leader-elect-resource-name=office \
         --leader-elect-lease-duration={}s --leader-elect-renew-deadline=12s --leader-elect-retry-period=1s",
        dir.display(),
        DURATION.as_secs()
    ));
    let start = |name: &str| {
        std::fs::create_dir(dir.join(name)).unwrap();
        Program::start(&dir.join("assets/kube-controller-manager"), &args, &dir.join(name))
    };
    let is_held =
        |lease: &Value| lease["spec"]["holderIdentity"].as_str().is_some_and(|held| !held.is_empty());
    let mut first = start("first");
    let lease = wait_for(&admin, LEASE, &mut [&mut first], is_held).await;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], DURATION.as_secs());
    namespace(&admin, "before", &mut first).await;
    let mut second = start("second");
    // Long enough for the second program to take a Lease that it must not take.
    sleep(DURATION + Duration::from_secs(3)).await;
    let same = wait_for(&admin, LEASE, &mut [&mut first, &mut second], is_held).await;
    let holder =
        |lease: &Value| (lease["spec"]["holderIdentity"].clone(), lease["spec"]["leaseTransitions"].clone());
    assert_eq!(holder(&same), holder(&lease));

    drop(first);
    namespace(&admin, "after", &mut second).await;
    let taken = wait_for(&admin, LEASE, &mut [&mut second], is_held).await;
    assert_eq!(taken["spec"]["leaseTransitions"], 1);
    assert_ne!(taken["spec"]["holderIdentity"], lease["spec"]["holderIdentity"]);
    // The acting user is a separate service account, also over the network.
    let account =
        admin.call("GET", "/api/v1/namespaces/kube-system/serviceaccounts/service-account-controller", "");
    assert_eq!(account.await.code, 200, "accounts are created when they are needed");

    let (status, took) = second.terminate().await;
    assert!(status.success() && took < END, "{status} after {took:?}");
    let released = admin.call("GET", LEASE, "").await.json();
    assert_eq!(released["spec"]["holderIdentity"], "", "an orderly end lets go of the Lease");
}

#[test]
fn inconsistent_election_durations_end_the_program_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let folder = super::assets(dir.path());
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": true}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", path.display());
    for (flag, why) in [
        ("--leader-elect-lease-duration=5s", "the lease duration must be greater than the renew deadline"),
        ("--leader-elect-resource-lock=endpoints", "an election is held by leases"),
        ("--leader-elect-retry-period=soon", "expected a time"),
    ] {
        for program in ["kube-controller-manager", "kube-scheduler"] {
            let output = super::output(&folder.join(program), &[&kubeconfig, flag]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(why), "{program} {flag}: {said}");
        }
    }
}
