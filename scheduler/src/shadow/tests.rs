//! Recorded runs of kube-scheduler are decided alike.

use super::recording::{Recorder, replay};
use super::{Decision, Outcome};
use crate::reconstruct::DecisionKind;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::Path;

/// A recording to replay besides the kept ones.
const RECORDING: &str = "KSTORE_LOCKSTEP_RECORDING";

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    match path.extension().is_some_and(|ext| ext == "gz") {
        true => GzDecoder::new(file).read_to_string(&mut text).unwrap(),
        false => std::io::BufReader::new(file).read_to_string(&mut text).unwrap(),
    };
    text
}

#[test]
fn recorded_runs_of_kube_scheduler_are_decided_alike() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.extend(std::env::var_os(RECORDING).map(Into::into));
    files.retain(|file| file.to_string_lossy().contains(".jsonl"));
    files.sort();
    assert!(!files.is_empty());
    let mut failures = Vec::new();
    for file in files {
        let text = unpacked(&file);
        // Each run of a file begins with an empty scheduler.
        for (number, run) in text.split("\n\n").enumerate() {
            match replay(run) {
                Ok(replayed) => println!("{}, run {number}: {replayed:?}", file.display()),
                Err(error) => failures.push(format!("{}, run {number}: {error}", file.display())),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn node(cpu: &str) -> Value {
    json!({ "metadata": { "name": "n", "uid": "n", "resourceVersion": "1" },
        "status": { "allocatable": { "cpu": cpu, "memory": "1Gi", "pods": "9" } } })
}

fn pod(node: Option<&str>) -> Value {
    json!({ "metadata": { "name": "p", "namespace": "d", "uid": "p", "resourceVersion": "2" },
        "spec": { "nodeName": node, "schedulerName": "default-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] } })
}

/// A recording in which a pod is refused by a node of one core and bound after the node has grown.
fn recorded() -> String {
    let mut recorder = Recorder::default();
    recorder.step(0, "create node");
    recorder.set(0, DecisionKind::Node, node("1")).unwrap();
    recorder.set(1, DecisionKind::Pod, pod(None)).unwrap();
    let refused = recorder.next(1).unwrap();
    assert!(matches!(&refused.outcome, Outcome::Refused { reason, .. } if reason == "Unschedulable"));
    recorder.decided(1, refused);
    recorder.settle(1, 2);
    assert_eq!(recorder.next(2), None);
    recorder.step(2, "grow node");
    recorder.set(2, DecisionKind::Node, node("4")).unwrap();
    let bound = recorder.next(2).unwrap();
    let outcome = Outcome::Bound { node: "n".to_owned(), claims: Default::default() };
    assert_eq!(bound, Decision { pod: "d/p".to_owned(), outcome });
    recorder.decided(2, bound);
    recorder.settle(2, 3);
    recorder.set(2, DecisionKind::Pod, pod(Some("n"))).unwrap();
    assert_eq!(recorder.next(3), None);
    recorder.lines().to_owned()
}

#[test]
fn a_replay_ends_at_the_first_decision_that_differs() {
    let lines = recorded();
    let replayed = replay(&lines).unwrap();
    assert_eq!((replayed.steps, replayed.decisions), (2, 2));
    let other = lines.replace(r#""bound":{"node":"n""#, r#""bound":{"node":"m""#);
    assert_ne!(lines, other);
    let error = replay(&other).unwrap_err();
    assert!(error.contains("step 2 (grow node)") && error.contains("differently"), "{error}");
    // Where the other scheduler binds the pod, this one would then be alone to do so.
    let quiet = |line: &str| {
        if line.contains("bound") { r#"{"t":2,"quiet":null}"#.to_owned() } else { line.to_owned() }
    };
    let without: String = lines.lines().map(|line| quiet(line) + "\n").collect();
    let error = replay(&without).unwrap_err();
    assert!(error.contains("decided where the other scheduler did not"), "{error}");
}
