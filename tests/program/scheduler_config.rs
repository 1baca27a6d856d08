//! The command `scheduler-config check`, and a server whose scheduler has two profiles.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::{Https, Launch};
use serde_json::json;
use std::path::Path;
use std::process::Command;

const TWO_PROFILES: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packed
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}], enabled: [{name: NodeResourcesFit, weight: 5}]}}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}}}
";

/// Exit code, standard output and standard error of a check.
fn check(file: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(SERVER).args(["scheduler-config", "check"]).arg(file).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn a_checked_file_is_printed_as_one_that_checks_to_itself_or_refused_with_all_reasons() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let (code, printed, said) = check(&file("two.yaml", TWO_PROFILES));
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(printed.contains("schedulerName: packed") && printed.contains("weight: 5"), "{printed}");
    assert_eq!(check(&file("printed.yaml", &printed)), (Some(0), printed, String::new()));
    let wrong = format!("{TWO_PROFILES}parallelism: 0\npercentageOfNodesToScore: 101\n");
    let (code, printed, said) = check(&file("wrong.yaml", &wrong));
    assert_eq!((code, printed.as_str(), said.lines().count()), (Some(1), "", 2), "{said}");
    assert!(said.lines().all(|line| line.contains(": Invalid value: ")), "{said}");
}

#[test]
fn a_server_schedules_the_pods_of_each_profile_under_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("two.yaml");
    std::fs::write(&file, TWO_PROFILES).unwrap();
    let args = ["--nodes", "2", "--scheduler-config", file.to_str().unwrap()];
    let server = Launch::in_memory(SERVER, dir.path()).args(&args).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        const PODS: &str = "/api/v1/namespaces/default/pods";
        let container = json!({ "name": "main", "image": "nginx" });
        let pod = json!({
            "metadata": { "name": "p" }, "spec": { "schedulerName": "packed", "containers": [container] },
        });
        assert_eq!(https.call("POST", PODS, &pod.to_string()).await.code, 201);
        kstore_tests::wait::until("the pod has a node and its event", async || {
            let events = https.call("GET", "/api/v1/namespaces/default/events", "").await.json();
            let from = events["items"].as_array().is_some_and(|items| {
                items
                    .iter()
                    .any(|event| event["reason"] == "Scheduled" && event["reportingComponent"] == "packed")
            });
            from.then_some(())
        })
        .await;
    });
}
