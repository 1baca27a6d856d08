//! Recorded runs of kube-scheduler are decided alike.

use super::recording::{Recorder, compared, replay};
use super::{Attempted, Decision, Outcome, Turn};
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

/// The decision about the pod that the shadow would try.
fn tried(recorder: &mut Recorder, t: i64) -> Decision {
    assert_eq!(recorder.next(t), Some(Turn::Tries("d/p".to_owned())));
    let attempted = recorder.attempt(t, "d/p").unwrap();
    assert!(attempted.is_expected);
    attempted.decision
}

/// A recording in which a pod is refused by a node of one core and bound after the node has grown.
fn recorded() -> String {
    let mut recorder = Recorder::default();
    recorder.step(0, "create node");
    recorder.set(0, DecisionKind::Node, node("1")).unwrap();
    recorder.set(1, DecisionKind::Pod, pod(None)).unwrap();
    let refused = tried(&mut recorder, 1);
    assert!(matches!(&refused.outcome, Outcome::Refused { reason, .. } if reason == "Unschedulable"));
    recorder.decided(1, refused);
    recorder.settle(1, 2);
    assert_eq!(recorder.next(2), None);
    recorder.step(2, "grow node");
    recorder.set(2, DecisionKind::Node, node("4")).unwrap();
    let bound = tried(&mut recorder, 2);
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
    // A pod that the other scheduler does not try is counted.
    let quiet = |line: &str| {
        if line.contains("bound") { r#"{"t":2,"quiet":null}"#.to_owned() } else { line.to_owned() }
    };
    let without: String = lines.lines().map(|line| quiet(line) + "\n").collect();
    let replayed = replay(&without).unwrap();
    assert_eq!((replayed.decisions, replayed.extra), (1, 1));
}

#[test]
fn the_other_scheduler_alone_may_try_a_pod_in_vain_and_do_nothing_else() {
    let refused =
        Outcome::Refused { reason: "Unschedulable".to_owned(), message: String::new(), nominated: None };
    let bound = Outcome::Bound { node: "n".to_owned(), claims: Default::default() };
    let preempts = |victims: &[&str]| Outcome::Preempts {
        message: String::new(),
        node: "n".to_owned(),
        victims: victims.iter().map(|victim| (*victim).to_owned()).collect(),
    };
    let (again, more) = (preempts(&[]), preempts(&["d/v"]));
    let cases = [
        (&again, false, Ok(true)),
        (&more, true, Ok(false)),
        (&more, false, Err("would not be tried")),
        (&refused, true, Ok(false)),
        (&refused, false, Ok(true)),
        (&bound, true, Ok(false)),
        (&bound, false, Err("would not be tried")),
    ];
    for (outcome, is_expected, expected) in cases {
        let theirs = Decision { pod: "d/p".to_owned(), outcome: outcome.clone() };
        let result = compared(&theirs, Some(Attempted { decision: theirs.clone(), is_expected }));
        match expected {
            Ok(is_alone) => assert_eq!(result, Ok(is_alone), "{outcome:?}"),
            Err(text) => assert!(result.unwrap_err().contains(text), "{outcome:?}"),
        }
    }
    let theirs = Decision { pod: "d/p".to_owned(), outcome: bound };
    assert!(compared(&theirs, None).unwrap_err().contains("does not wait"));
}

/// An attempt that one scheduler makes alone moves neither the start of the next search nor the order of the nodes.
#[test]
fn a_pod_that_is_passed_is_decided_on_as_if_it_had_not_been_ready() {
    let named = |name: &str| {
        let mut node = node("4");
        for member in ["name", "uid"] {
            node["metadata"][member] = name.into();
        }
        node
    };
    let mut recorder = Recorder::default();
    recorder.set(0, DecisionKind::Pod, pod(None)).unwrap();
    for name in ["a", "b"] {
        recorder.set(0, DecisionKind::Node, named(name)).unwrap();
    }
    assert_eq!(recorder.next(1), Some(Turn::Tries("d/p".to_owned())));
    recorder.pass(1);
    assert_eq!(recorder.next(1), None);
    let attempted = recorder.attempt(2, "d/p").unwrap();
    let outcome = Outcome::Bound { node: "a".to_owned(), claims: Default::default() };
    assert_eq!(
        attempted,
        Attempted { decision: Decision { pod: "d/p".to_owned(), outcome }, is_expected: true }
    );
    assert_eq!(recorder.attempt(2, "d/p"), None);
}
