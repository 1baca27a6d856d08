//! The workloads of `examples/scheduler-perf` on control planes of their own.

use super::document::{self, Selection};
use super::{execute, read};
use crate::args::SchedulerPerfArgs;
use std::path::{Path, PathBuf};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scheduler-perf/config.yaml")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_measures_its_pods() {
    let args = SchedulerPerfArgs { files: vec![example()], ..SchedulerPerfArgs::default() };
    let workloads = read(&args).unwrap();
    let names: Vec<_> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    assert_eq!(names, ["Basic/20Nodes", "Volumes/2Nodes", "Churn/5Nodes"]);
    for (workload, (topic, pods)) in
        workloads.iter().zip([("namespace-2", 50), ("namespace-1", 10), ("tenants", 20)])
    {
        let measured = execute::run(workload, None).await.unwrap();
        let [measured] = &measured[..] else { panic!("{measured:?}") };
        assert_eq!((measured.topic.as_str(), measured.throughput.pods), (topic, pods));
        assert!(measured.throughput.average > 0.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_the_server_refuses_is_named_with_its_operation() {
    let text = "
- name: Wrong
  workloadTemplate:
  - {opcode: createNodes, count: 1}
  - {opcode: createAny, templatePath: any.yaml}
  workloads: [{name: one}]
";
    let any = |_: &Path| {
        Ok("{apiVersion: v1, kind: Pod, metadata: {name: A_B}, spec: {containers: []}}".to_owned())
    };
    let selection = Selection { labels: &[], name: None };
    let workloads = document::workloads(Path::new("F"), text, &selection, &any).unwrap();
    let error = format!("{:#}", execute::run(&workloads[0], None).await.unwrap_err());
    assert!(error.starts_with("op 1: cannot create v1/pods default/A_B: "), "{error}");
}

/// Runs the one workload of a configuration whose templates are these.
async fn run(text: &str, files: &[(&str, &str)]) -> anyhow::Result<Vec<super::report::Measured>> {
    let read = |path: &Path| {
        let found = files.iter().find(|(name, _)| path.ends_with(name));
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "No such file".to_owned())
    };
    let selection = Selection { labels: &[], name: None };
    let workloads = document::workloads(Path::new("F"), text, &selection, &read).unwrap();
    execute::run(&workloads[0], None).await
}

const GANGS: &str = "
- name: Gangs
  featureGates: {GenericWorkload: true}
  workloadTemplate:
  - {opcode: createNodes, count: 3}
  - {opcode: createNamespaces, prefix: gang-ns, count: 1}
  - {opcode: createPodGroups, countParam: $groups, namespace: gang-ns-0, templatePath: group.yaml, templateParams: {size: $size}}
  - {opcode: waitForPodGroups, namespace: gang-ns-0, countParam: $groups}
  - {opcode: createPods, countParam: $groups, countMultiplierParam: $size, namespace: gang-ns-0, podTemplatePath: pod.yaml,
     collectMetrics: true, templateParams: {size: $size}}
  workloads: [{name: one, params: {groups: 4, size: 3}}]
";
const GROUP: &str =
    "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: 'gang-{{.Index}}'},
  spec: {schedulingPolicy: {gang: {minCount: {{.size}}}}}}";
const MEMBER: &str = "{apiVersion: v1, kind: Pod, metadata: {name: 'pod-{{.Index}}'},
  spec: {schedulingGroup: {podGroupName: 'gang-{{DivideInt .Index .size}}'}, containers: [{name: c, image: i}]}}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gangs_are_made_and_scheduled() {
    let files = [("group.yaml", GROUP), ("pod.yaml", MEMBER)];
    let measured = run(GANGS, &files).await.unwrap();
    assert_eq!((measured[0].topic.as_str(), measured[0].throughput.pods), ("gang-ns-0", 12));
    let more = GANGS.replace("namespace: gang-ns-0, countParam: $groups}", "namespace: gang-ns-0, count: 9}");
    let error = format!("{:#}", run(&more, &files).await.unwrap_err());
    assert_eq!(error, "op 3: namespace gang-ns-0 has 4 of 9 PodGroups");
}

#[test]
fn composite_groups_are_refused_with_the_reason() {
    let text = GANGS.replace("createPodGroups", "createCompositePodGroups");
    let selection = Selection { labels: &[], name: None };
    let read = |_: &Path| Ok(GROUP.to_owned());
    let problems = document::workloads(Path::new("F"), &text, &selection, &read).unwrap_err();
    let start = "F: Gangs/one: op 2 (createCompositePodGroups): composite PodGroups are alpha in Kubernetes";
    assert!(problems[0].starts_with(start), "{problems:?}");
}

const DEVICES: &str = "
- name: Devices
  workloadTemplate:
  - {opcode: createNodes, count: 1}
  - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
  - {opcode: createResourceDriver, driverName: test-driver.cdi.k8s.io, nodes: scheduler-perf-dra-*, maxClaimsPerNode: 5}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createResourceClaims, count: 4, namespace: init, templatePath: claim.yaml}
  - {opcode: allocResourceClaims, namespace: init}
  - {opcode: createAny, namespace: test, templatePath: template.yaml}
  - {opcode: createPods, namespace: test, count: 6, podTemplatePath: pod.yaml, collectMetrics: true}
  workloads: [{name: one}]
";
const DEVICE_FILES: [(&str, &str); 5] = [
    (
        "node.yaml",
        "{apiVersion: v1, kind: Node, metadata: {name: 'scheduler-perf-dra-{{.Index}}'},
          status: {capacity: {pods: '110', cpu: '4', memory: 32Gi}, conditions: [{type: Ready, status: 'True'}]}}",
    ),
    (
        "class.yaml",
        "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: test-class},
          spec: {selectors: [{cel: {expression: device.driver == \"test-driver.cdi.k8s.io\"}}]}}",
    ),
    (
        "claim.yaml",
        "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: 'claim-{{.Index}}'},
          spec: {devices: {requests: [{name: req-0, exactly: {deviceClassName: test-class}}]}}}",
    ),
    (
        "template.yaml",
        "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: test-claim-template},
          spec: {spec: {devices: {requests: [{name: req-0, exactly: {deviceClassName: test-class}}]}}}}",
    ),
    (
        "pod.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {generateName: test-dra-},
          spec: {containers: [{name: pause, image: i, resources: {claims: [{name: resource}]}}],
            resourceClaims: [{name: resource, resourceClaimTemplateName: test-claim-template}]}}",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_has_devices_for_claims_and_for_pods_of_a_claim_template() {
    let measured = run(DEVICES, &DEVICE_FILES).await.unwrap();
    assert_eq!(measured[0].throughput.pods, 6, "of ten devices, claims have four");
    let many = DEVICES.replace("count: 4", "count: 11");
    let error = format!("{:#}", run(&many, &DEVICE_FILES).await.unwrap_err());
    assert!(error.starts_with("op 5: no node has devices for claim init/claim-"), "{error}");
}

/// Templates of Kubernetes 1.36 have beta versions, and the rule an alpha one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_of_older_versions_and_a_rule_that_taints_them_are_created() {
    let rule = "{apiVersion: resource.k8s.io/v1alpha3, kind: DeviceTaintRule, metadata: {name: all},
      spec: {deviceSelector: null, taint: {key: example.com/taint, value: tainted, effect: NoSchedule}}}";
    let older = |text: &str| text.replace("resource.k8s.io/v1,", "resource.k8s.io/v1beta2,");
    let tolerant = |text: &str| {
        let class = "deviceClassName: test-class";
        text.replace(class, &format!("{class}, tolerations: [{{key: example.com/taint, operator: Exists}}]"))
    };
    let files: Vec<_> = DEVICE_FILES.iter().map(|(name, text)| (*name, tolerant(&older(text)))).collect();
    let mut files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    assert!(files.iter().any(|(_, text)| text.contains("v1beta2")));
    files.push(("rule.yaml", rule));
    let with_rule = DEVICES.replace(
        "  - {opcode: createAny, templatePath: class.yaml}",
        "  - {opcode: createAny, templatePath: rule.yaml}\n  - {opcode: createAny, templatePath: class.yaml}",
    );
    let measured = run(&with_rule, &files).await.unwrap();
    assert_eq!(measured[0].throughput.pods, 6, "{measured:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steady_state_replaces_its_pods_and_their_claims_until_its_time_is_over() {
    let steady =
        DEVICES.replace("collectMetrics: true", "collectMetrics: true, steadyState: true, duration: 2s");
    let measured = run(&steady, &DEVICE_FILES).await.unwrap();
    assert!(measured[0].throughput.pods > 6, "{measured:?}");
}

/// The path of a kube-scheduler.
const PROGRAM: &str = "KUBE_SCHEDULER";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kube_scheduler_schedules_the_pods_of_a_workload() {
    let Some(program) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
        println!("skipped: {PROGRAM} does not name a kube-scheduler");
        return;
    };
    let args = SchedulerPerfArgs {
        files: vec![example()],
        name: Some("Basic".to_owned()),
        ..SchedulerPerfArgs::default()
    };
    let workloads = read(&args).unwrap();
    let measured = execute::run(&workloads[0], Some(&program)).await.unwrap();
    assert_eq!(measured[0].throughput.pods, 50);
    assert!(measured[0].throughput.average > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_ends_is_an_error_with_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kube-scheduler");
    std::fs::write(&program, "#!/bin/sh\necho no such gate >&2\nexit 3\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let args = SchedulerPerfArgs { files: vec![example()], ..SchedulerPerfArgs::default() };
    let error = execute::run(&read(&args).unwrap()[0], Some(&program)).await.unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.ends_with("no such gate"), "{error}");
}

/// The kept inputs, and each with every 7th byte changed: a file is refused with reasons, or read, and nothing else happens.
#[test]
fn kept_and_damaged_configurations_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/scheduler_perf");
    let selection = Selection { labels: &[], name: None };
    let template = |_: &Path| Ok("{kind: Pod, metadata: {name: 'p-{{.Index}}'}}".to_owned());
    let read = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        match document::workloads(Path::new("perf.yaml"), &text, &selection, &template) {
            Ok(workloads) => workloads.len(),
            Err(problems) => {
                assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty()));
                0
            }
        }
    };
    let mut sound = 0;
    let mut kept = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        kept += 1;
        sound += usize::from(read(&bytes) > 0);
        for at in (0..bytes.len()).step_by(7) {
            for flip in [1, 0x20, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                read(&damaged);
            }
        }
    }
    assert!(kept > 4 && sound > 1, "{sound} of {kept} inputs are configurations");
}
