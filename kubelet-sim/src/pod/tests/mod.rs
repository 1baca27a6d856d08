//! Scenario tests of pods: each file in `testdata` is a scenario, which runs the state machine over the simulated runtime with a simulated
//! clock.

mod hooks;
mod probes;
mod real;
mod restarts;

use super::adopt::adopt;
use super::container::{Container, Phase};
use super::{Input, Output, Pod, PodEvent, step};
use crate::config::{Delays, Network};
use crate::execution::{Executed, Execution};
use crate::pod_object::source::{SourceState, Sources};
use crate::pod_object::{PodObject, needs};
use crate::runtime::sim::SimRuntime;
use crate::runtime::{DueEvent, Event, Runtime};
use crate::status::{self, KubeletFacts};
use crate::time::api_time;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, PodStatus};
use kstore_api::version::Minor;
use kstore_container_sim::time::{between, later};
use kstore_nondet::Rng;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

const START: Timestamp = Timestamp::UNIX_EPOCH;
const HOST: KubeletFacts<'static> =
    KubeletFacts { ip: "172.30.0.2", minor: Minor::V36, clock: &crate::time::RIGHT };

/// One pod on one node, with a clock.
struct World {
    object: Arc<PodObject>,
    sources: Sources,
    pod: Pod,
    runtime: SimRuntime,
    now: Timestamp,
    shown: PodStatus,
    statuses: usize,
    removed: bool,
    /// Commands that run in containers.
    executions: Vec<Execution>,
    /// The objects that exist beside the pod.
    created: Vec<String>,
    story: String,
}

impl World {
    fn new(mut object: PodObject) -> Self {
        object.metadata.name = "p".into();
        object.metadata.namespace = "ns".into();
        object.metadata.uid = "u".into();
        object.spec.node_name = "node-0".into();
        let mut runtime = SimRuntime::new(Delays::default(), &Rng::seeded(1));
        runtime.add_node("node-0", Network::parse("10.0.0.0/24").unwrap());
        let (pod, commands) = adopt(&object, START);
        assert_eq!(commands, []);
        let (object, shown) =
            (Arc::new(object), PodStatus { phase: Some("Pending".into()), ..PodStatus::default() });
        let mut world = Self {
            object,
            sources: Sources::default(),
            pod,
            runtime,
            now: START,
            shown,
            statuses: 0,
            removed: false,
            executions: Vec::new(),
            created: Vec::new(),
            story: String::new(),
        };
        world.show(&[]);
        world.drive(Input::Observed);
        world
    }

    /// One input, and all that follows from it at the same moment.
    fn drive(&mut self, input: Input) {
        self.step(input);
        while let Some(DueEvent { event, .. }) = self.runtime.take_due(self.now) {
            self.step(Input::Runtime(event));
        }
        let status = status::compute(&self.pod, &self.object, HOST, &self.shown, self.now);
        if status != self.shown {
            self.tell(&line(&status));
            self.statuses += 1;
            self.shown = status;
        }
        if self.removed {
            self.tell("removed");
        }
    }

    fn step(&mut self, input: Input) {
        check_invariants(&self.pod);
        let (pod, outputs) = step(self.pod.clone(), &self.object, &self.sources, input, self.now);
        self.pod = pod;
        for output in outputs {
            match output {
                Output::Runtime(command) => self.runtime.submit(&self.object, command, self.now),
                Output::Event(PodEvent { warning, reason, message, container }) => {
                    let mark = if warning { "!" } else { "" };
                    let name = container.map(|index| self.object.container(index).unwrap().name.clone());
                    self.tell(&format!("  {mark}{reason} [{}] {message}", name.unwrap_or_default()));
                }
                Output::Execute(execution) => self.executions.push(execution),
                Output::Remove => self.removed = true,
            }
        }
    }

    /// The oldest running command ends with this code.
    fn execute(&mut self, code: Option<u8>) {
        let Execution { container, run, purpose, .. } = self.executions.remove(0);
        let result = Executed { code, output: "output".to_owned() };
        self.drive(Input::Runtime(Event::Executed { container, run, purpose, result }));
    }

    fn tell(&mut self, line: &str) {
        let second = between(START, self.now).as_secs_f64();
        writeln!(self.story, "{second:>3} {line}").unwrap();
    }

    /// Lets time pass up to `until`.
    fn run(&mut self, until: Timestamp) {
        while !self.removed {
            let due = [self.runtime.next_due(), self.pod.deadline(&self.object)].into_iter().flatten().min();
            let Some(due) = due.filter(|due| *due <= until) else { break };
            assert!(due > self.now, "{due} is not after {}: {:?}", self.now, self.pod);
            self.now = due;
            self.drive(Input::Deadline);
        }
        self.now = self.now.max(until);
    }

    /// The API says that these objects exist, each with the keys that are named; all others that the pod refers to do not.
    fn show(&mut self, objects: &[String]) {
        for key in needs::references(&self.object) {
            let name = format!("{} {}", key.kind.resource(), key.name);
            let of = |object: &&String| object.split(':').next() == Some(name.as_str());
            let state = match objects.iter().rev().find(of) {
                Some(object) => SourceState::Present(object.split(':').skip(1).map(str::to_owned).collect()),
                None => SourceState::Missing,
            };
            self.sources.set(key, state);
        }
    }

    /// The object, written as in [`World::show`], is created.
    fn create(&mut self, object: &str) {
        self.tell(&format!("-- created {object}"));
        let known = self.created.iter().cloned().chain([object.to_owned()]).collect::<Vec<_>>();
        self.show(&known);
        self.created = known;
        self.drive(Input::Observed);
    }

    fn delete(&mut self) {
        let object = Arc::make_mut(&mut self.object);
        object.metadata.deletion_timestamp = Some(api_time(self.now));
        self.tell("-- deleted");
        self.drive(Input::Observed);
    }

    /// The pod is deleted, or deleted again, with this grace period.
    fn delete_within(&mut self, seconds: i64) {
        Arc::make_mut(&mut self.object).metadata.deletion_grace_period_seconds = Some(seconds);
        self.delete();
    }

    /// Lets time pass up to a second, which may be a fraction.
    fn until(&mut self, second: f64) {
        self.run(later(START, Duration::from_secs_f64(second)));
    }

    /// The second of the first line of the story that has this text.
    fn second_of(&self, text: &str) -> f64 {
        let line = self.story.lines().find(|line| line.contains(text));
        let line = line.unwrap_or_else(|| panic!("no {text:?} in\n{}", self.story));
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

/// Checks the invariants that every state must satisfy.
fn check_invariants(pod: &Pod) {
    for container in &pod.containers {
        if let Some(ended) = &container.ended {
            assert!(ended.started_at <= ended.finished_at);
        }
        assert_eq!(
            container.phase == Phase::Exited,
            container.phase == Phase::Exited && container.ended.is_some()
        );
    }
    if matches!(pod.stage, super::Stage::Ended(_)) {
        assert!(!pod.containers.iter().any(Container::active), "something runs in a pod that ended");
    }
}

/// A status in one line.
fn line(status: &PodStatus) -> String {
    let conditions = status.conditions.iter().flatten();
    let ready = conditions.clone().find(|c| c.type_ == "Ready").unwrap();
    let mut line = status.phase.clone().unwrap();
    if let Some(ip) = &status.pod_ip {
        write!(line, " {ip}").unwrap();
    }
    write!(line, " Ready={}", ready.status).unwrap();
    let why = ready.reason.iter().chain(&ready.message).map(|text| format!(" {text:?}"));
    line.extend(why);
    if let Some(reason) = &status.reason {
        write!(line, " {reason}").unwrap();
    }
    for container in status.init_container_statuses.iter().chain(&status.container_statuses).flatten() {
        write!(line, "; {}", container_text(container)).unwrap();
    }
    line
}

fn container_text(status: &ContainerStatus) -> String {
    let state = |state: &ContainerState| match (&state.running, &state.terminated, &state.waiting) {
        (Some(_), _, _) => Some("running".to_owned()),
        (_, Some(ended), _) => Some(format!("{}({})", ended.reason.clone().unwrap(), ended.exit_code)),
        (_, _, Some(waiting)) => waiting.reason.clone(),
        _ => None,
    };
    let mut text = format!("{} {}", status.name, state(status.state.as_ref().unwrap()).unwrap());
    if status.ready {
        text.push('+');
    }
    if status.restart_count > 0 {
        write!(text, " restarts={}", status.restart_count).unwrap();
    }
    if let Some(last) = status.last_state.as_ref().and_then(state) {
        write!(text, " last={last}").unwrap();
    }
    text
}

#[derive(serde::Deserialize, serde::Serialize)]
struct Case {
    title: String,
    pod: serde_yaml_ng::Value,
    /// Objects that other clients create, by the second: `10: configmap x:key`.
    #[serde(default)]
    create: BTreeMap<u64, String>,
    delete: Option<u64>,
    until: u64,
    story: String,
}

#[test]
fn pods_follow_their_recorded_stories() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "yaml"));
    files.sort();
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Case = serde_yaml_ng::from_str(&text).unwrap();
        let mut world = World::new(serde_yaml_ng::from_value(case.pod).unwrap());
        for (second, object) in case.create {
            world.run(later(START, Duration::from_secs(second)));
            world.create(&object);
        }
        if let Some(second) = case.delete {
            world.run(later(START, Duration::from_secs(second)));
            world.delete();
        }
        world.run(later(START, Duration::from_secs(case.until)));
        if world.story == case.story {
            continue;
        }
        if std::env::var_os("UPDATE_STORIES").is_some() {
            let head = text.split("\nstory:").next().unwrap();
            let indented: String = world.story.lines().map(|line| format!("\n  {line}")).collect();
            std::fs::write(&path, format!("{head}\nstory: |2\n{}\n", &indented[1..])).unwrap();
        } else {
            wrong.push(format!("{}: {}\n{}", path.display(), case.title, world.story));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pods_continue_from_the_state_that_an_earlier_process_left() {
    let object: PodObject =
        serde_yaml_ng::from_str("{spec: {containers: [{name: c, image: 'a:1'}]}}").unwrap();
    let before = World::new(object);
    let mut object = (*before.object).clone();
    object.status = before.shown.clone();
    let (pod, commands) = adopt(&object, START);
    let mut runtime = SimRuntime::new(Delays::default(), &Rng::seeded(2));
    runtime.add_node("node-0", Network::parse("10.0.0.0/24").unwrap());
    let object = Arc::new(object);
    commands.into_iter().for_each(|command| runtime.submit(&object, command, START));
    let (mut pod, outputs) = step(pod, &object, &before.sources, Input::Observed, START);
    assert_eq!(outputs, []);
    let DueEvent { event, .. } = runtime.take_due(START).unwrap();
    assert!(matches!(event, Event::Adopted(0, _)));
    (pod, _) = step(pod, &object, &before.sources, Input::Runtime(event), START);
    let after = status::compute(&pod, &object, HOST, &before.shown, START);
    assert_eq!(after, before.shown, "nothing to write");
}

#[test]
fn a_pod_without_a_sandbox_says_so_since_1_37() {
    let object: PodObject =
        serde_yaml_ng::from_str("{spec: {containers: [{name: c, image: 'a:1'}]}}").unwrap();
    let (pod, _) = adopt(&object, START);
    let message = |minor| {
        let shown = status::compute(&pod, &object, KubeletFacts { minor, ..HOST }, &object.status, START);
        let first = shown.conditions.unwrap().remove(0);
        assert_eq!((&*first.type_, &*first.status), ("PodReadyToStartContainers", "False"));
        first.message
    };
    assert_eq!(message(Minor::V36), None);
    assert_eq!(message(Minor::V37).as_deref(), Some("no pod sandbox exists"));
}

#[test]
fn a_command_that_ran_when_its_process_ended_is_restarted_with_a_wait_and_in_the_end_not_run() {
    use crate::program::{self, Program};
    let spec = "{spec: {containers: [{name: c, image: 'a:1', command: [sh, -c, 'while true; do date; sleep 1; done']}]}}";
    let mut object: PodObject = serde_yaml_ng::from_str(spec).unwrap();
    object.status = World::new(object.clone()).shown;
    for count in 1..=3 {
        // The command runs, and the process ends with it.
        assert!(matches!(program::of(&object, 0), Program::Shell(_)), "before the end number {count}");
        let (pod, _) = adopt(&object, START);
        assert!(matches!(pod.containers[0].phase, Phase::CrashLoop { .. }), "{:?}", pod.containers[0].phase);
        let shown = status::compute(&pod, &object, HOST, &object.status, START);
        let mut status = shown.container_statuses.clone().unwrap().remove(0);
        let ended = status.last_state.clone().unwrap().terminated.unwrap();
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (137, Some("ContainerStatusUnknown")));
        assert!(ended.message.unwrap().ends_with(&format!(": {count}")));
        let before = object.status.container_statuses.as_ref().unwrap()[0].clone();
        (status.state, status.container_id) = (before.state, before.container_id);
        object.status = PodStatus { container_statuses: Some(vec![status]), ..shown };
    }
    assert!(matches!(program::of(&object, 0), Program::NotRun(why) if why.contains("repeatedly")));
    let (pod, _) = adopt(&object, START);
    assert!(pod.containers[0].run().is_some(), "without its command the container goes on");
}

#[test]
fn a_command_that_ran_when_its_process_ended_fails_a_pod_that_never_restarts() {
    let spec =
        "{spec: {restartPolicy: Never, containers: [{name: c, image: 'a:1', command: [sleep, '3600']}]}}";
    let mut object: PodObject = serde_yaml_ng::from_str(spec).unwrap();
    object.status = World::new(object.clone()).shown;
    let (pod, _) = adopt(&object, START);
    assert!(pod.containers[0].failed());
}

fn annotations() -> impl Strategy<Value = Vec<(String, String)>> {
    let key = prop_oneof![Just("a."), Just("b."), Just("i."), Just("s."), Just("")];
    let pair = prop_oneof![
        (0..40u32).prop_map(|n| ("run-seconds", n.to_string())),
        (0..3u32).prop_map(|n| ("exit-code", n.to_string())),
        (0..4u32).prop_map(|n| ("crash-times", n.to_string())),
        (0..30u32).prop_map(|n| ("ready-after", n.to_string())),
        (0..30u32).prop_map(|n| ("unhealthy-after", n.to_string())),
        (0..3u32).prop_map(|n| ("image-pull", format!("{n}s,fail={n}"))),
        (0..40u32).prop_map(|n| ("stop", format!("{n}s"))),
        Just(("started-after", "never".to_owned())),
        Just(("create-seconds", "1e19".to_owned())),
        Just(("start-seconds", "18446744073709551615".to_owned())),
        Just(("unready", "1e19,1e19".to_owned())),
    ];
    prop::collection::vec((key, pair), 0..5).prop_map(|all| {
        all.into_iter().map(|(c, (k, v))| (format!("kubelet-sim.kstore.io/{c}{k}"), v)).collect()
    })
}

proptest! {
    /// Whatever a script does: a deleted pod is gone within its grace, a terminal phase stays, restarts only rise.
    #[test]
    fn every_deleted_pod_ends_in_its_grace(
        annotations in annotations(), policy in 0usize..3, delete in 0u64..100, probes in any::<bool>(),
    ) {
        let probe = if probes { "livenessProbe: {periodSeconds: 3}, startupProbe: {periodSeconds: 2}," } else { "" };
        let policy = ["Always", "OnFailure", "Never"][policy];
        let spec = format!(
            "{{spec: {{restartPolicy: {policy}, terminationGracePeriodSeconds: 10,
              initContainers: [{{name: i, image: 'i:1'}}, {{name: s, image: 's:1', {probe} restartPolicy: Always}}],
              containers: [{{name: a, {probe} image: 'a:1'}}, {{name: b, image: 'b:1'}}]}}}}"
        );
        let mut object: PodObject = serde_yaml_ng::from_str(&spec).unwrap();
        object.metadata.annotations = annotations.into_iter().collect();
        let mut world = World::new(object);
        world.run(later(START, Duration::from_secs(delete)));
        let phase = world.shown.phase.clone().unwrap();
        world.delete();
        world.run(later(world.now, Duration::from_secs(10 + 2 * 2)));
        assert!(world.removed, "{}", world.story);
        if phase == "Succeeded" || phase == "Failed" {
            assert_eq!(world.shown.phase.clone().unwrap(), phase);
        }
        assert!(world.runtime.next_due().is_none(), "the runtime still has something to do");
    }
}
