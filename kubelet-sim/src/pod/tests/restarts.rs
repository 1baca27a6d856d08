//! Restart policies and rules of containers, and the share of each in the termination messages of a pod.

use super::*;

/// A container that ends at once with this code.
fn ending(name: &str, code: u8, more: &str) -> (String, (String, String)) {
    let key = format!("kubelet-sim.kstore.io/{name}.exit-code");
    (format!("{{name: {name}, image: 'a:1', {more}}}"), (key, code.to_string()))
}

fn world(policy: &str, init: &[(String, (String, String))], regular: &[(String, (String, String))]) -> World {
    let texts = |all: &[(String, (String, String))]| {
        let texts: Vec<_> = all.iter().map(|(text, _)| text.clone()).collect();
        texts.join(", ")
    };
    let spec = format!(
        "{{spec: {{restartPolicy: {policy}, initContainers: [{}], containers: [{}]}}}}",
        texts(init),
        texts(regular)
    );
    let mut object: PodObject = serde_yaml_ng::from_str(&spec).unwrap();
    object.metadata.annotations = init.iter().chain(regular).map(|(_, pair)| pair.clone()).collect();
    World::new(object)
}

fn rule(action: &str, operator: &str, values: &str) -> String {
    format!(
        "restartPolicy: Never, restartPolicyRules: [{{action: {action}, exitCodes: {{operator: {operator}, values: [{values}]}}}}]"
    )
}

fn restarts(world: &World, container: usize) -> u32 {
    world.pod.containers[container].restarts
}

#[test]
fn the_policy_of_a_container_comes_before_that_of_its_pod() {
    let cases = [
        ("Always", 3, "restartPolicy: Never", false),
        ("Always", 0, "restartPolicy: OnFailure", false),
        ("Never", 3, "restartPolicy: OnFailure", true),
        ("Never", 0, "restartPolicy: Always", true),
        ("Always", 3, "", true),
        ("Never", 42, &rule("Restart", "In", "42"), true),
        ("Never", 41, &rule("Restart", "In", "42"), false),
        ("Never", 41, &rule("Restart", "NotIn", "42"), true),
        ("Never", 42, &rule("Restart", "NotIn", "42"), false),
        ("Always", 42, &rule("Unknown", "In", "41"), false),
    ];
    for (policy, code, more, expected) in cases {
        let mut world = world(policy, &[], &[ending("c", code, more)]);
        world.until(5.0);
        assert_eq!(restarts(&world, 0) > 0, expected, "{policy} {code} {more}\n{}", world.story);
        let ended = matches!(world.shown.phase.as_deref(), Some("Succeeded" | "Failed"));
        assert_eq!(ended, !expected, "{policy} {code} {more}: {:?}", world.shown.phase);
    }
}

#[test]
fn a_pod_runs_while_any_of_its_containers_may_restart() {
    let stays = ("{name: b, image: 'b:1'}".to_owned(), ("x".to_owned(), String::new()));
    let mut world = world("Always", &[], &[ending("a", 0, "restartPolicy: Never"), stays]);
    world.until(60.0);
    assert_eq!((restarts(&world, 0), world.shown.phase.as_deref()), (0, Some("Running")));
    assert!(world.story.contains("a Completed(0); b running+"), "{}", world.story);
}

#[test]
fn an_init_container_fails_or_restarts_by_its_own_policy() {
    let main = || ("{name: m, image: 'm:1'}".to_owned(), ("x".to_owned(), String::new()));
    let mut failed = world("Always", &[ending("i", 1, "restartPolicy: Never")], &[main()]);
    failed.until(5.0);
    assert_eq!((restarts(&failed, 0), failed.shown.phase.as_deref()), (0, Some("Failed")));
    let mut again = world("Never", &[ending("i", 42, &rule("Restart", "In", "42"))], &[main()]);
    again.until(5.0);
    assert_eq!((restarts(&again, 0), again.shown.phase.as_deref()), (1, Some("Pending")));
    let mut done = world("Never", &[ending("i", 0, &rule("Restart", "In", "0"))], &[main()]);
    done.until(5.0);
    assert_eq!((restarts(&done, 0), done.shown.phase.as_deref()), (0, Some("Running")));
}

#[test]
fn a_rule_restarts_all_containers_of_the_pod_from_the_first() {
    let init = ending("i", 0, "");
    let stays = ("{name: b, image: 'b:1'}".to_owned(), ("x".to_owned(), String::new()));
    let trigger = ending("a", 42, &rule(super::super::RESTART_ALL, "In", "42"));
    let mut world = world("Never", &[init], &[trigger, stays]);
    let annotations = &mut Arc::make_mut(&mut world.object).metadata.annotations;
    annotations.insert("kubelet-sim.kstore.io/a.run-seconds".to_owned(), "4".to_owned());
    annotations.insert("kubelet-sim.kstore.io/a.crash-times".to_owned(), "1".to_owned());
    let mut world = World::new((*world.object).clone());
    let restarting = |world: &World| {
        let all = world.shown.conditions.clone().unwrap();
        all.iter().find(|condition| condition.type_ == "AllContainersRestarting").unwrap().status.clone()
    };
    world.until(4.1);
    assert_eq!((restarting(&world).as_str(), world.shown.phase.as_deref()), ("True", Some("Running")));
    let ip = world.shown.pod_ip.clone();
    world.until(10.0);
    assert_eq!([0, 1, 2].map(|container| restarts(&world, container)), [1, 1, 1], "{}", world.story);
    assert_eq!((restarting(&world).as_str(), world.shown.phase.as_deref()), ("False", Some("Running")));
    assert_eq!((world.shown.pod_ip.clone(), restarts(&world, 0)), (ip, 1));
    world.delete();
    world.until(60.0);
    assert!(world.removed, "{}", world.story);
}

#[test]
fn the_containers_of_a_pod_share_its_termination_messages() {
    let mut world = world("Never", &[], &[ending("a", 1, ""), ending("b", 1, ""), ending("c", 1, "")]);
    world.until(1.0);
    for container in &mut world.pod.containers {
        container.ended.as_mut().unwrap().message = "ö".repeat(2500);
    }
    let of = |pod: &Pod| {
        let status = status::compute(pod, &world.object, HOST, &world.shown, START);
        let statuses = status.container_statuses.unwrap();
        statuses[0].state.clone().unwrap().terminated.unwrap().message.unwrap()
    };
    assert_eq!(of(&world.pod).len(), 4096);
    world.pod.containers[0].ended.as_mut().unwrap().message = "x".repeat(4097);
    assert_eq!(of(&world.pod).len(), 4096);
}
