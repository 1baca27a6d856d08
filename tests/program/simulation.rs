//! Groups of simulated nodes in the program, and `simulate`.

use crate::SERVER;
use kstore_tests::{Launch, wait};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const GROUP: &str = "
apiVersion: sim.kstore.io/v1alpha1
kind: NodeGroup
metadata: {name: web}
spec:
  replicas: 2
  maxReplicas: 20
  zones: [a, b]
  instanceType: m5.xlarge
  template: {capacity: {cpu: 4, memory: 16Gi, pods: 58}, reserved: {cpu: 80m}}
  cost: {perHour: \"0.192\"}
";

const SCENARIO: &str = "
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {kubelet-sim.kstore.io/image-pull: 'uniform(1,9)'}}
    spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: '1', memory: 1Gi}}}]}
---
apiVersion: sim.kstore.io/v1alpha1
kind: Scenario
metadata: {name: morning}
spec:
  until: 6m
  seed: 7
  steps:
  - {at: 2m, scale: {kind: NodeGroup, name: web, replicas: 4}}
  - {at: 3m, scale: {kind: Deployment, name: web, replicas: 8}}
  - {at: 4m, fault: {node: web-0, faults: memory-pressure=1+1m}}
";

/// Two nodes of two GPUs, of which one reports an error, and pods that claim a GPU each.
const GPUS: &str = "
apiVersion: sim.kstore.io/v1alpha1
kind: NodeGroup
metadata: {name: gpu}
spec:
  replicas: 2
  template: {devices: [{profile: nvidia, model: H100-80GB, count: 2}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: claims}
spec:
  replicas: 0
  selector: {matchLabels: {app: claims}}
  template:
    metadata: {labels: {app: claims}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
      containers: [{name: c, image: cuda, resources: {claims: [{name: gpu}]}}]
---
apiVersion: sim.kstore.io/v1alpha1
kind: Scenario
metadata: {name: gpus}
spec:
  until: 6m
  steps:
  - {at: 1m, fault: {node: gpu-1, faults: 'xid=79,gpu-0'}}
  - {at: 2m, scale: {kind: Deployment, name: claims, replicas: 5}}
";

/// A deployment whose pods share 900 requests a second, each of two thousandths of a processor.
const LOAD: &str = "
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: 500m}, limits: {cpu: 800m}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  minReplicas: 2
  maxReplicas: 12
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: sim.kstore.io/v1alpha1
kind: ServiceLoad
metadata: {name: web, namespace: default}
spec: {service: web, curve: {constant: 900}, perRequest: {cpu: 2m}, idle: {cpu: 10m}}
---
apiVersion: sim.kstore.io/v1alpha1
kind: PodBehavior
metadata: {name: nginx-is-slow}
spec: {match: {images: ['*/library/nginx:*']}, behavior: {ready-after: 20s}}
---
apiVersion: sim.kstore.io/v1alpha1
kind: Scenario
metadata: {name: load}
spec: {until: 10m, seed: 3}
";

/// Two nodes on which nothing starts for three minutes, and whose clocks are wrong.
const NO_STARTS: &str = "
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: '1'}}}]}
---
apiVersion: sim.kstore.io/v1alpha1
kind: NodeFault
metadata: {name: clocks}
spec: {nodes: {group: web}, fault: clock-skew, value: -5m, at: {after: 30s}}
---
apiVersion: sim.kstore.io/v1alpha1
kind: Scenario
metadata: {name: no-starts}
spec:
  until: 10m
  steps:
  - {at: 1m, fault: {node: web-0, faults: runtime-down+3m}}
  - {at: 1m, fault: {node: web-1, faults: pull-fail=rate-limit+3m; slow=2}}
  - {at: 2m, scale: {kind: Deployment, name: web, replicas: 4}}
";

/// The report of a scenario, which leaves nothing on standard error.
fn report_of(scenario: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("scenario.yaml");
    std::fs::write(&file, scenario).unwrap();
    let output = run(&["simulate", "-o", "json"], &file);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn pods_get_the_healthy_devices_of_a_group_by_their_claims() {
    let report = report_of(GPUS);
    assert_eq!(report["pods"]["created"], 5, "{report:#}");
    assert_eq!(report["pods"]["started"], 3, "four GPUs, of which one has a taint: {report:#}");
}

#[test]
fn a_load_lets_an_autoscaler_make_more_pods() {
    let report = report_of(&format!("{GROUP}{LOAD}"));
    // With n pods each uses 1800m / n and 10m more: half of its request of 500m at n = 7.5, and the autoscaler tolerates a tenth.
    let created = report["pods"]["created"].as_u64().unwrap();
    assert!((7..=9).contains(&created), "{report:#}");
    assert_eq!(report["pods"]["started"], created, "{report:#}");
}

#[test]
fn pods_start_when_the_faults_of_runtime_and_registry_are_over() {
    let report = report_of(&format!("{GROUP}{NO_STARTS}"));
    let pods = &report["pods"];
    assert_eq!((pods["created"].clone(), pods["started"].clone()), (4.into(), 4.into()), "{report:#}");
    let half = pods["startSeconds"]["p50"].as_f64().unwrap();
    let longest = pods["startSeconds"]["max"].as_f64().unwrap();
    assert!(half >= 120.0 && longest < 300.0, "the faults end two minutes after the pods begin: {report:#}");
    assert_eq!(
        report["evictions"],
        serde_json::json!({}),
        "a wrong clock makes no node unhealthy: {report:#}"
    );
}

/// Stages of KWOK by which pods run 40 seconds after they have a node, and two stages that undo each other without a delay.
const STAGES: &str = "
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-runs}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}
  delay: {durationMilliseconds: 40000}
  next: {statusTemplate: 'phase: Running'}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: 'on'}
spec:
  resourceRef: {kind: ConfigMap}
  selector: {matchLabels: {turns: 'on'}}
  next: {patches: [{template: 'metadata: {labels: {turns: off}}'}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: 'off'}
spec:
  resourceRef: {kind: ConfigMap}
  selector: {matchLabels: {turns: 'off'}}
  next: {patches: [{template: 'metadata: {labels: {turns: \"on\"}}'}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: turns, labels: {turns: 'on'}}
---
apiVersion: sim.kstore.io/v1alpha1
kind: Scenario
metadata: {name: stages}
spec: {until: 45s, seed: 3}
";

#[test]
fn objects_of_a_scenario_follow_stages_and_a_circle_of_them_lets_time_go_on() {
    let report = report_of(&format!("{GROUP}{STAGES}"));
    assert_eq!(report["pods"]["started"], 3, "{report:#}");
    let half = report["pods"]["startSeconds"]["p50"].as_f64().unwrap();
    assert!((40.0..42.0).contains(&half), "{report:#}");
}

fn run(args: &[&str], file: &Path) -> Output {
    Command::new(SERVER).args(args).arg(file).output().unwrap()
}

#[test]
fn equal_scenarios_and_seeds_give_equal_reports_and_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("day.yaml");
    std::fs::write(&file, format!("{GROUP}{SCENARIO}")).unwrap();
    let simulate = |seed: &str, chart: &str| {
        let chart = dir.path().join(chart);
        let output =
            run(&["simulate", "-o", "json", "--seed", seed, "--chart", chart.to_str().unwrap()], &file);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (String::from_utf8(output.stdout).unwrap(), std::fs::read_to_string(chart).unwrap())
    };
    let (first, second, other) = (simulate("7", "1.svg"), simulate("7", "2.svg"), simulate("8", "3.svg"));
    assert_eq!(first, second);
    assert_ne!(first.0, other.0, "another seed draws other times");
    let report: Value = serde_json::from_str(&first.0).unwrap();
    assert_eq!(report["pods"]["started"], 9, "eight, and one that replaces the evicted one: {report:#}");
    assert_eq!(report["evictions"]["TerminationByKubelet"], 1, "{report:#}");
    let web = &report["groups"][0];
    // Two nodes for two minutes, then four for four.
    let hours = web["nodeHours"].as_f64().unwrap();
    assert!((hours - 20.0 / 60.0).abs() < 0.02 && web["mostNodes"] == 4, "{report:#}");
    assert!((web["cost"].as_f64().unwrap() - 20.0 / 60.0 * 0.192).abs() < 0.005, "{report:#}");
    assert!(report["writes"]["byWriter"]["kubelets"].as_u64().unwrap() > 50, "{report:#}");
    let longest = report["pods"]["startSeconds"]["max"].as_f64().unwrap();
    assert!((1.0..60.0).contains(&longest), "{report:#}");
    assert!(first.1.starts_with("<svg "));
}

#[test]
fn files_are_checked_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dc.yaml");
    std::fs::write(&file, GROUP.replace("replicas: 2", "replica: 2")).unwrap();
    let lint = run(&["sim-lint", "-f"], &file);
    let said = String::from_utf8(lint.stderr).unwrap();
    let problem =
        "document 1: NodeGroup \"web\": unknown field \"spec.replica\"; did you mean \"replicas\"?\n";
    assert!(lint.status.code() == Some(1) && said.ends_with(problem) && said.lines().count() == 1, "{said}");
    let start = run(&["--in-memory", "--listen", "127.0.0.1:0", "--nodes-file"], &file);
    let said = String::from_utf8(start.stderr).unwrap();
    assert!(start.status.code() == Some(1) && said.contains(problem), "{said}");
}

#[test]
fn a_file_makes_a_group_that_kubectl_shows_and_scales() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dc.yaml");
    std::fs::write(&file, GROUP).unwrap();
    let args = ["--nodes-file", file.to_str().unwrap()];
    let server = Launch::in_memory(SERVER, dir.path()).args(&args).start().unwrap();
    let Some(mut kubectl) = server.kubectl(&["get", "nodegroups"]) else { return };
    let shown = |args: &[&str]| {
        let output = server.kubectl(args).expect("kubectl is there").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ready = ["get", "nodegroup", "web", "-o", "jsonpath={.status.readyReplicas}"];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let until_ready = |count: &str| {
        let holds = async || (shown(&ready) == count).then_some(());
        runtime.block_on(wait::until("the nodes of the group are ready", holds));
    };
    until_ready("2");
    let table = String::from_utf8(kubectl.output().unwrap().stdout).unwrap();
    let heads: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heads, ["NAME", "DESIRED", "READY", "CREATING", "TYPE", "COST/H", "SPENT", "AGE"], "{table}");
    let scaled = shown(&["scale", "nodegroup", "web", "--replicas", "5"]);
    assert!(scaled.contains("scaled"), "{scaled}");
    until_ready("5");
    let nodes = shown(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 5, "{nodes}");
}
