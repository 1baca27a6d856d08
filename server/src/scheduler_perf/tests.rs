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
        let measured = execute::run(workload).await.unwrap();
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
    let error = format!("{:#}", execute::run(&workloads[0]).await.unwrap_err());
    assert!(error.starts_with("op 1: cannot create v1/pods default/A_B: "), "{error}");
}
