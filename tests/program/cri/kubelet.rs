//! A real kubelet whose runtime is the simulated one. The variable `KSTORE_KUBELET` names its program, of Kubernetes 1.36; without it, or
//! without root, the test says so and passes.

use super::simulated::Served;
use super::{PODS, terminated};
use kstore_client::Kubeconfig;
use kstore_tests::skip::skip;
use kstore_tests::wait::until;
use kstore_tests::{Https, free_port};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};

const NODE: &str = "real-0";

/// A kubelet, which ends with this.
struct Kubelet(Child);

impl Drop for Kubelet {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Kubelet {
    fn start(program: &str, dir: &Path, served: &Served) -> Self {
        let path = |name: &str| dir.join(name).display().to_string();
        let none = json!({"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%",
            "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%"});
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"}, "failSwapOn": false, "failCgroupV1": false,
            "cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": [], "resolvConf": "",
            "containerRuntimeEndpoint": format!("unix://{}", served.socket.display()),
            "podLogsDir": path("logs"), "port": free_port(), "healthzPort": 0, "evictionHard": none,
            "localStorageCapacityIsolation": false,
        });
        std::fs::write(path("kubelet.yaml"), config.to_string()).unwrap();
        let log = File::create(path("kubelet.log")).unwrap();
        let kubeconfig = served.server.kubeconfig().display().to_string();
        let kubelet = Command::new(program)
            .args([
                "--config",
                &path("kubelet.yaml"),
                "--kubeconfig",
                &kubeconfig,
                "--root-dir",
                &path("root"),
            ])
            .args(["--cert-dir", &path("pki"), "--hostname-override", NODE])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Self(kubelet.unwrap())
    }
}

#[tokio::test]
async fn a_kubelet_runs_its_pods_in_the_served_runtime() {
    let Some(program) = std::env::var("KSTORE_KUBELET").ok() else {
        return skip("KSTORE_NEEDS_KUBELET", "KSTORE_KUBELET names no kubelet");
    };
    if !rustix::process::geteuid().is_root() {
        return skip("KSTORE_NEEDS_KUBELET", "a kubelet needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &format!(",node={NODE}"), "1");
    let https = Https::new(&Kubeconfig::read(served.server.kubeconfig()).unwrap());
    let kubelet = Kubelet::start(&program, dir.path(), &served);
    node_is_ready(&https).await;
    let run = async |name: &str, policy: &str, container: Value| {
        let mut container = container;
        container["name"] = "c".into();
        container["image"] = "busybox:1.36".into();
        let spec = json!({"nodeName": NODE, "automountServiceAccountToken": false, "containers": [container],
            "restartPolicy": policy, "terminationGracePeriodSeconds": 5});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        assert_eq!(https.call("POST", PODS, &object.to_string()).await.code, 201);
    };
    let status = async |name: &str, what: &str, holds: fn(&Value) -> bool| {
        until(&format!("{name}: {what}"), async || {
            let pod = https.call("GET", &format!("{PODS}/{name}"), "").await.json();
            Some(pod["status"]["containerStatuses"][0].clone()).filter(&holds)
        })
        .await
    };
    let script = "echo begun; echo -n x > /ready; trap 'exit 0' TERM; while true; do sleep 0.1; done";
    let probe = json!({"exec": {"command": ["cat", "/ready"]}, "periodSeconds": 1});
    run("shell", "Always", json!({"command": ["sh", "-c", script], "readinessProbe": probe})).await;
    let words = "echo -n last words > /dev/termination-log; exit 3";
    run("words", "Never", json!({"command": ["sh", "-c", words]})).await;
    let ready = status("shell", "is ready", |status| status["ready"] == true).await;
    assert!(ready["containerID"].as_str().unwrap().starts_with("kstore://"), "{ready}");
    let ended = status("words", "ends", terminated).await;
    let ended = &ended["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["message"]), (&json!(3), &json!("last words")), "{ended}");
    for name in ["shell", "words"] {
        delete(&https, name).await;
    }
    drop(kubelet);
}

async fn node_is_ready(https: &Https) {
    until("the node of the kubelet is ready", async || {
        let node = https.call("GET", &format!("/api/v1/nodes/{NODE}"), "").await.json();
        let conditions = node["status"]["conditions"].as_array()?;
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
    })
    .await;
}

/// Deletes a pod, and waits until its kubelet has ended it.
async fn delete(https: &Https, name: &str) {
    let path = format!("{PODS}/{name}");
    assert_eq!(https.call("DELETE", &path, "").await.code, 200);
    until("the pod is gone", async || (https.call("GET", &path, "").await.code == 404).then_some(())).await;
}
