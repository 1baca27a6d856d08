//! Stages of KWOK's format in the program: nodes become ready, pods run and complete, and one crashes by a stage.

use crate::SERVER;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, Pod};
use kstore_client::{Client, DeleteParams, ListParams, Patch};
use kstore_tests::{Launch, wait};
use serde_json::json;
use std::process::Command;

/// Nodes without conditions become ready at once.
const NODES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: initialize}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ['True']}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range NodeConditions }}
      - lastHeartbeatTime: {{ $now | Quote }}
        lastTransitionTime: {{ or $.metadata.creationTimestamp $now | Quote }}
        type: {{ .type | Quote }}
        status: {{ .status | Quote }}
        reason: {{ .reason | Quote }}
        message: {{ .message | Quote }}
      {{ end }}
      phase: Running
"#;

/// Pods start, complete if a Job owns them, fail if a label says so, and are deleted.
const PODS: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.podIP, operator: DoesNotExist}
  delay: {durationMilliseconds: 10, jitterDurationMilliseconds: 50}
  next:
    event: {type: Normal, reason: StartedByStage, message: started}
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      - {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: ""
        ready: true
        restartCount: 0
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) | Quote }}
      phase: Running
      startTime: {{ $now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: complete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.ownerReferences.[].kind', operator: In, values: [Job]}
  next: {statusTemplate: "phase: Succeeded"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: crash}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.labels["crash"]', operator: In, values: ['true']}
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
  delay: {durationMilliseconds: 1, durationFrom: {expressionFrom: '.metadata.annotations["crash/delay"]'}}
  weight: 10000
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $annotations := or .metadata.annotations dict }}
      {{ $code := or ( index $annotations "crash/exit-code" ) 1 }}
      conditions:
      - {type: Ready, status: "False", lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range $index, $item := .spec.containers }}
      {{ $origin := index $.status.containerStatuses $index }}
      - name: {{ $item.name | Quote }}
        image: {{ $item.image | Quote }}
        imageID: ""
        ready: false
        restartCount: {{ $origin.restartCount }}
        state: {terminated: {exitCode: {{ $code }}, reason: failed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
      {{ end }}
      phase: Failed
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
  next: {finalizers: {remove: [{value: test/stage}]}, delete: true}
"#;

/// Claims of a class get a volume.
const CLAIMS: &str = r"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: provision}
spec:
  resourceRef: {apiGroup: v1, kind: PersistentVolumeClaim}
  selector:
    matchExpressions:
    - cel: {expression: self.spec.storageClassName == 'by-stage'}
    - cel: {expression: '!has(self.spec.volumeName)'}
  steps:
  - apply:
      template: |
        apiVersion: v1
        kind: PersistentVolume
        metadata: {name: pvc-{{ .metadata.uid }}}
        spec:
          accessModes:
          {{ YAML .spec.accessModes 2 }}
          capacity:
          {{ YAML .spec.resources.requests 2 }}
          storageClassName: {{ .spec.storageClassName }}
          hostPath: {path: /tmp/x}
";

async fn phase(client: &Client, name: &str, wanted: &str) -> Pod {
    wait::until("the pod has its phase", async || {
        let pod = client.api::<Pod>().get("default", name).await.ok()?;
        let phase = pod.status.as_ref()?.phase.clone()?;
        (phase == wanted).then_some(pod)
    })
    .await
}

fn pod(name: &str, labels: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "labels": labels, "annotations": {"crash/exit-code": "42"},
            "finalizers": ["test/stage"],
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn nodes_and_pods_follow_the_stages_of_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let stages = dir.path().join("stages");
    std::fs::create_dir(&stages).unwrap();
    for (name, text) in [("nodes.yaml", NODES), ("pods.yaml", PODS), ("claims.yml", CLAIMS)] {
        std::fs::write(stages.join(name), text).unwrap();
    }
    std::fs::write(stages.join("kustomization.yaml"), "resources: [nodes.yaml]").unwrap();
    let args = ["--nodes", "2", "--kwok", stages.to_str().unwrap()];
    let server = Launch::in_memory(SERVER, dir.path()).args(&args).start().unwrap();
    let client = server.client("test").await;

    let node = wait::until("the node is ready by its stage", async || {
        let node = client.api::<Node>().get("", "node-1").await.ok()?;
        let conditions = node.status.as_ref()?.conditions.clone()?;
        conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True").then_some(node)
    })
    .await;
    let status = node.status.unwrap();
    assert_eq!(status.capacity.unwrap()["cpu"].0, "8", "what the simulation gave the node stays");
    assert!(status.conditions.unwrap().iter().any(|one| one.reason.as_deref() == Some("RouteCreated")));

    // A pod runs, with an event and an address of its node, and is deleted through its finalizer.
    let pods = client.api::<Pod>();
    pods.create("default", &pod("plain", json!({}))).await.unwrap();
    let running = phase(&client, "plain", "Running").await.status.unwrap();
    let ip = running.pod_ip.unwrap();
    assert!(ip.starts_with("10.") && running.host_ip.unwrap().starts_with("172."), "{ip}");
    assert!(
        running.conditions.unwrap().iter().any(|one| one.type_ == "PodScheduled"),
        "the scheduler's condition stays"
    );
    wait::until("the stage's event is there", async || {
        let (events, _) = client.api::<Event>().list("default", &ListParams::default()).await.ok()?;
        events.iter().any(|event| event.reason.as_deref() == Some("StartedByStage")).then_some(())
    })
    .await;
    pods.delete("default", "plain", &DeleteParams::default()).await.unwrap();
    wait::until("the pod is gone", async || {
        pods.get("default", "plain").await.err().filter(kstore_client::ApiError::is_not_found).map(drop)
    })
    .await;

    // Another crashes, with the exit code of its annotation.
    pods.create("default", &pod("chaos", json!({"crash": "true"}))).await.unwrap();
    let failed = phase(&client, "chaos", "Failed").await.status.unwrap();
    let state = failed.container_statuses.unwrap().remove(0).state.unwrap();
    assert_eq!(state.terminated.unwrap().exit_code, 42);

    // A Job's pods complete, and the Job with them.
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "default"},
        "spec": {"completions": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}},
    });
    let jobs = client.dynamic(kstore_client::Gvr::new("batch", "v1", "jobs"));
    jobs.patch("default", "job", "", &Patch::Apply { object: job, force: true }).await.unwrap();
    wait::until("the Job is complete", async || {
        let job = jobs.get("default", "job").await.ok()?;
        (job["status"]["succeeded"] == 2).then_some(())
    })
    .await;

    // Other kinds follow stages, too.
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "by-stage", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claims = client.dynamic(kstore_client::Gvr::new("", "v1", "persistentvolumeclaims"));
    let uid = claims.create("default", &claim).await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    wait::until("the claim has its volume", async || {
        client.api::<PersistentVolume>().get("", &format!("pvc-{uid}")).await.ok()
    })
    .await;
}

#[test]
fn wrong_stages_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.yaml");
    std::fs::write(&file, NODES.replace("NodeConditions", "genCA")).unwrap();
    let output =
        Command::new(SERVER).args(["--in-memory", "--listen", "127.0.0.1:0", "--kwok"]).arg(&file).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let problem =
        "x.yaml: Stage \"initialize\": spec.next.statusTemplate:3: function \"genCA\" is not supported\n";
    assert!(output.status.code() == Some(1) && said.contains(problem), "{said}");
    std::fs::write(&file, NODES.replace("kind: Node}", "kind: Lamp}")).unwrap();
    let lint = Command::new(SERVER).args(["sim-lint", "-f"]).arg(&file).output().unwrap();
    let said = String::from_utf8(lint.stderr).unwrap();
    let problem = "stages are for built-in kinds, and there is no Lamp of v1\n";
    assert!(lint.status.code() == Some(1) && said.ends_with(problem), "{said}");
}
