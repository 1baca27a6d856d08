//! Jobs of stages, as of given times.

use super::addresses::{NodeAddress, StageNodes};
use super::jobs::{Jobs, Played};
use super::object::StageObject;
use crate::config::Network;
use crate::limits::STAGE_RATE;
use jiff::Timestamp;
use kstore_informer::{Key, Object as _};
use kstore_kwok::{Addresses as _, Kind, StageSet};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pods() -> Kind {
    Kind { api_version: "v1".to_owned(), kind: "Pod".to_owned() }
}

/// A stage of pods of a phase, one second after they got it.
fn stage(name: &str, phase: &str, is_immediate: bool) -> Value {
    json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name},
        "spec": {
            "resourceRef": {"kind": "Pod"}, "delay": {"durationMilliseconds": 1000},
            "selector": {"matchExpressions": [{"key": ".status.phase", "operator": "In", "values": [phase]}]},
            "next": {"statusTemplate": "phase: Running"}, "immediateNextStage": is_immediate,
        },
    })
}

fn jobs(is_immediate: bool) -> Jobs {
    let stages = [stage("start", "Pending", is_immediate), stage("end", "Running", false)];
    let set = StageSet::read(stages.iter().map(|stage| ("t", stage))).unwrap();
    Jobs::new(pods(), Arc::new(set), 7)
}

fn pod(revision: u64, phase: &str) -> Arc<StageObject> {
    let revision = revision.to_string();
    Arc::new(StageObject::new(
        json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u", "resourceVersion": revision},
            "spec": {"nodeName": "n"}, "status": {"phase": phase},
        }),
        &pods(),
    ))
}

fn nodes(names: &[&str]) -> BTreeMap<String, ()> {
    names.iter().map(|name| ((*name).to_owned(), ())).collect()
}

#[test]
fn a_stage_is_played_once_for_a_state_and_the_next_when_the_watch_shows_the_write() {
    let (mut jobs, nodes) = (jobs(false), nodes(&["n"]));
    jobs.observe(pod(1, "Pending"), &nodes, second(10));
    assert_eq!(jobs.deadline(), Some(second(11)));
    assert!(jobs.take_due(second(10)).is_none());
    let job = jobs.take_due(second(11)).unwrap();
    // What the watch shows while the stage is played is considered afterwards: not this state, which lacks the last write.
    jobs.observe(pod(2, "Pending"), &nodes, second(11));
    assert_eq!(jobs.deadline(), None);
    let written = StageObject::new(pod(3, "Running").value().clone(), &pods());
    jobs.played(job, Played::Done(Some(written)), &nodes, second(12));
    assert_eq!(jobs.deadline(), None);
    jobs.observe(pod(3, "Running"), &nodes, second(13));
    let job = jobs.take_due(second(14)).unwrap();
    assert_eq!(job.stage, 1);
    // A write that changed nothing: the state does not get its stage again.
    let same = StageObject::new(pod(3, "Running").value().clone(), &pods());
    jobs.played(job, Played::Done(Some(same)), &nodes, second(15));
    assert_eq!(jobs.deadline(), None);
}

#[test]
fn an_immediate_stage_follows_from_the_answer_of_the_write() {
    let (mut jobs, nodes) = (jobs(true), nodes(&["n"]));
    jobs.observe(pod(1, "Pending"), &nodes, second(10));
    let job = jobs.take_due(second(11)).unwrap();
    let written = StageObject::new(pod(2, "Running").value().clone(), &pods());
    jobs.played(job, Played::Done(Some(written)), &nodes, second(11));
    assert_eq!(jobs.deadline(), Some(second(12)));
    // The watch shows the same state later: the delay does not begin anew.
    jobs.observe(pod(2, "Running"), &nodes, second(11));
    assert_eq!(jobs.deadline(), Some(second(12)));
}

#[test]
fn pods_follow_stages_on_nodes_that_run_and_steps_are_repeated() {
    let (mut jobs, none, some) = (jobs(false), nodes(&[]), nodes(&["n"]));
    jobs.observe(pod(1, "Pending"), &none, second(10));
    assert_eq!(jobs.deadline(), None);
    jobs.change_nodes(&none, &some, second(20));
    assert_eq!(jobs.deadline(), Some(second(21)));
    jobs.change_nodes(&some, &none, second(20));
    assert_eq!(jobs.deadline(), None);
    jobs.change_nodes(&none, &some, second(30));
    for wait in [1, 2, 4, 8, 16, 30, 30] {
        let now = jobs.deadline().unwrap();
        let job = jobs.take_due(now).unwrap();
        jobs.played(job, Played::Repeat { step: 0 }, &some, now);
        assert_eq!(jobs.deadline(), Some(now + jiff::SignedDuration::from_secs(wait)));
    }
    jobs.forget(&pod(1, "Pending").key());
    assert_eq!((jobs.deadline(), pod(1, "").key()), (None, Key::new("d", "p")));
}

#[test]
fn stages_that_undo_each_other_are_played_at_a_bounded_rate() {
    let stages = ["Pending", "Running"].map(|phase| {
        let mut stage = stage(phase, phase, true);
        stage["spec"]["delay"] = Value::Null;
        stage
    });
    let set = StageSet::read(stages.iter().map(|stage| ("t", stage))).unwrap();
    let (mut jobs, nodes) = (Jobs::new(pods(), Arc::new(set), 7), nodes(&["n"]));
    let (mut now, mut plays) = (second(10), 0);
    jobs.observe(pod(1, "Pending"), &nodes, now);
    for revision in 2.. {
        now = now.max(jobs.deadline().unwrap());
        if now >= second(13) {
            break;
        }
        let job = jobs.take_due(now).unwrap();
        plays += 1;
        let written = pod(revision, if revision % 2 == 0 { "Running" } else { "Pending" });
        let written = StageObject::new(written.value().clone(), &pods());
        jobs.played(job, Played::Done(Some(written)), &nodes, now);
    }
    assert_eq!(plays, 3 * STAGE_RATE, "three seconds");
}

#[test]
fn a_pod_has_one_address_of_its_nodes_network_until_it_is_gone() {
    let network = Network::parse("10.1.0.0/29").unwrap();
    let address = NodeAddress { ip: "172.30.0.1".to_owned(), network };
    let nodes = StageNodes::new(BTreeMap::from([("n".to_owned(), address)]));
    assert_eq!((nodes.node("n").as_deref(), nodes.node("other")), (Some("172.30.0.1"), None));
    nodes.reserve("n", "old", "10.1.0.1");
    let first = nodes.pod("n", "a").unwrap();
    assert_eq!((&*first, nodes.pod("n", "a"), nodes.pod("m", "a")), ("10.1.0.2", Some(first.clone()), None));
    let more: Vec<_> = ["b", "c", "d", "e"].map(|uid| nodes.pod("n", uid)).into();
    assert_eq!(more.iter().flatten().count(), 4, "{more:?}");
    assert_eq!(nodes.pod("n", "f"), None, "the network has six");
    nodes.release("a");
    assert_eq!(nodes.pod("n", "f"), Some(first));
}
