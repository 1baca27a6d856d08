//! A pod whose containers a container runtime runs.

use super::*;
use crate::probe::Health;
use crate::runtime::Command;

fn object(text: &str) -> PodObject {
    let mut object: PodObject = serde_yaml_ng::from_str(text).unwrap();
    object.metadata.uid = "u".into();
    object.spec.is_real = true;
    object
}

/// The state after an input, and the outputs as texts: commands, events, executions.
fn stepped(pod: Pod, object: &PodObject, input: Input, now: Timestamp) -> (Pod, Vec<String>) {
    let (pod, outputs) = step(pod, object, &Sources::default(), input, now);
    let text = |output: Output| match output {
        Output::Runtime(command) => format!("{command:?}"),
        Output::Event(event) => format!("{} {}", event.reason, event.message),
        Output::Execute(execution) => format!("{:?}", execution.act),
        Output::Remove => "remove".to_owned(),
    };
    (pod, outputs.into_iter().map(text).collect())
}

#[test]
fn a_container_that_cannot_be_started_says_why_and_begins_anew_with_its_image() {
    let object = object("spec: {containers: [{name: c, image: 'a:1', command: [any-program]}]}");
    let (pod, _) = adopt(&object, START);
    let runtime = |event| Input::Runtime(event);
    let (pod, outputs) = stepped(pod, &object, Input::Observed, START);
    assert_eq!(outputs, [format!("{:?}", Command::Sandbox)]);
    let ip = Some("10.88.0.2".parse().unwrap());
    let (pod, outputs) = stepped(pod, &object, runtime(Event::Sandbox(ip)), START);
    assert_eq!(outputs, [format!("{:?}", Command::Image(0))]);
    let (pod, outputs) = stepped(pod, &object, runtime(Event::ImagePresent(0)), START);
    assert_eq!(outputs.last(), Some(&format!("{:?}", Command::Start(0, 0))));
    let failed =
        Event::StartFailed { container: 0, reason: "RunContainerError", message: "no such file".to_owned() };
    let (pod, outputs) = stepped(pod, &object, runtime(failed.clone()), START);
    assert_eq!(outputs, ["Failed Error: no such file"]);
    let status = status::compute(&pod, &object, HOST, &PodStatus::default(), START);
    let waiting = status.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(
        (waiting.reason.as_deref(), waiting.message.as_deref()),
        (Some("RunContainerError"), Some("no such file"))
    );
    let at = pod.deadline(&object).unwrap();
    let (pod, outputs) = stepped(pod, &object, Input::Deadline, at);
    assert_eq!(outputs, [format!("{:?}", Command::Image(0))]);
    // A report about an earlier try has no effect.
    let (_, outputs) = stepped(pod, &object, runtime(failed), at);
    assert_eq!(outputs, Vec::<String>::new());
}

#[test]
fn a_container_of_an_earlier_process_runs_on_and_its_probes_begin_where_they_were() {
    let object = object(
        "{spec: {containers: [{name: c, image: 'a:1', readinessProbe: {exec: {command: [any-program]}, periodSeconds: 5}}]}, \
         status: {phase: Running, podIP: 10.88.0.2, containerStatuses: [{name: c, image: a, imageID: '', ready: true, started: true, \
         restartCount: 2, containerID: 'containerd://ab', state: {running: {startedAt: '1970-01-01T00:00:00Z'}}}]}}",
    );
    let now = later(START, Duration::from_secs(60));
    let (pod, commands) = adopt(&object, now);
    assert_eq!(commands, [Command::AdoptSandbox("10.88.0.2".parse().unwrap()), Command::Adopt(0, 2, START)]);
    assert!(matches!(&pod.containers[0].phase, Phase::Running(run) if run.id == "containerd://ab"));
    let (pod, first) = stepped(pod, &object, Input::Runtime(Event::Adopted(0, Health::of_process())), now);
    assert!(pod.containers[0].ready(), "its last probe succeeded");
    let at = pod.deadline(&object).unwrap_or(now);
    let (pod, second) = stepped(pod, &object, Input::Deadline, at);
    assert_eq!([first, second].concat(), [r#"Command(["any-program"])"#]);
    // The network was made anew.
    let ip = Some("10.88.0.3".parse().unwrap());
    let (pod, outputs) = stepped(pod, &object, Input::Runtime(Event::Sandbox(ip)), at);
    assert_eq!((pod.ip, outputs), (ip, Vec::new()));
}
