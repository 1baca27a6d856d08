//! Lifecycle hooks, and grace periods that are shortened.

use super::*;

fn world(spec: &str) -> World {
    World::new(serde_yaml_ng::from_str(&format!("{{spec: {spec}}}")).unwrap())
}

/// A pod with one container.
fn one(lifecycle: &str, more: &str) -> World {
    let ports = "ports: [{name: web, containerPort: 80}]";
    world(&format!("{{{more} containers: [{{name: c, image: 'a:1', {ports}, lifecycle: {{{lifecycle}}}}}]}}"))
}

/// How long a pod that is deleted at second 5 with this grace needs to end.
fn ends_after(world: &mut World, grace: i64) -> f64 {
    world.until(5.0);
    world.delete_within(grace);
    world.until(500.0);
    assert!(world.removed, "{}", world.story);
    (world.second_of("removed") * 10.0).round() / 10.0 - 5.0
}

#[test]
fn a_sleep_before_the_end_takes_its_time_within_the_grace_period() {
    for (sleep, grace, expected) in [(3, 10, 3.3), (0, 10, 0.3), (20, 3, 3.3), (1, 1, 1.3)] {
        let mut world = one(&format!("preStop: {{sleep: {{seconds: {sleep}}}}}"), "");
        let took = ends_after(&mut world, grace);
        assert!((took - expected).abs() < 0.01, "{sleep} s in {grace} s: {took}\n{}", world.story);
        assert!(!world.story.contains("Failed"), "{}", world.story);
    }
}

#[test]
fn a_container_that_ignores_the_signal_has_two_seconds_after_a_long_hook() {
    let mut world = one("preStop: {sleep: {seconds: 20}}", "");
    Arc::make_mut(&mut world.object)
        .metadata
        .annotations
        .insert("kubelet-sim.kstore.io/stop".to_owned(), "ignore".to_owned());
    assert!((ends_after(&mut world, 4) - 6.0).abs() < 0.01, "{}", world.story);
    assert!(world.story.contains("Error(137)"), "{}", world.story);
}

#[test]
fn commands_and_requests_before_the_end_may_fail() {
    let mut world = one("preStop: {exec: {command: [sh, -c, exit 3]}}", "");
    world.until(5.0);
    world.delete_within(30);
    world.until(7.0);
    assert!(world.story.contains("Killing [c] Stopping container c"));
    assert!(!world.story.contains("Completed"), "the command still runs");
    world.execute(Some(3));
    world.until(8.0);
    assert_eq!(world.second_of("!FailedPreStopHook [c] PreStopHook failed"), 7.0);
    assert!(world.removed);
    for (target, fails) in [
        ("{port: 80, path: /stop}", false),
        ("{port: web}", false),
        ("{port: '80'}", false),
        ("{port: 81}", true),
        ("{port: other}", true),
        ("{port: 80, host: example.com}", true),
    ] {
        let mut world = one(&format!("preStop: {{httpGet: {target}}}"), "");
        ends_after(&mut world, 30);
        assert_eq!(world.story.contains("!FailedPreStopHook"), fails, "{target}");
    }
    let mut world = one("preStop: {tcpSocket: {port: 80}}", "");
    ends_after(&mut world, 30);
    assert!(world.story.contains("!FailedPreStopHook"));
}

#[test]
fn a_command_that_the_shell_does_not_know_counts_as_done() {
    let mut world = one("preStop: {exec: {command: [nginx, -s, quit]}}", "");
    assert!((ends_after(&mut world, 30) - 0.3).abs() < 0.01);
    assert!(!world.story.contains("Failed"));
}

#[test]
fn sidecars_run_their_hook_at_once_and_end_after_the_others() {
    let sidecar =
        "{name: s, image: 's:1', restartPolicy: Always, lifecycle: {preStop: {sleep: {seconds: 1}}}}";
    let main = "{name: c, image: 'c:1', lifecycle: {preStop: {sleep: {seconds: 4}}}}";
    let mut world = world(&format!("{{initContainers: [{sidecar}], containers: [{main}]}}"));
    let took = ends_after(&mut world, 30);
    assert_eq!(world.second_of("Stopping container s"), 5.0);
    assert!((took - 4.6).abs() < 0.01, "{took}: {}", world.story);
}

#[test]
fn a_failed_liveness_probe_runs_the_hook_before_the_restart() {
    let mut world = one("preStop: {sleep: {seconds: 2}}", "");
    let object = Arc::make_mut(&mut world.object);
    let probe = "{periodSeconds: 1, failureThreshold: 1}";
    object.spec.containers[0].liveness_probe = serde_yaml_ng::from_str(probe).unwrap();
    object.metadata.annotations.insert("kubelet-sim.kstore.io/unhealthy-after".into(), "4".into());
    let mut world = World::new((*world.object).clone());
    world.until(20.0);
    assert_eq!(world.second_of("failed liveness probe, will be restarted"), 4.0);
    assert_eq!(world.second_of("restarts=1"), 6.3);
}

#[test]
fn a_container_is_not_running_before_its_first_hook_is_over() {
    let mut world = one("postStart: {sleep: {seconds: 3}}", "");
    world.until(2.0);
    assert_eq!(world.shown.phase.as_deref(), Some("Pending"));
    assert!(world.story.contains("c ContainerCreating"), "{}", world.story);
    assert!(world.story.contains("Started [c] Container started"));
    world.until(3.0);
    assert_eq!(world.second_of("Running 10.0.0.1 Ready=True; c running+"), 3.0);
}

#[test]
fn regular_containers_wait_for_the_first_hook_of_those_before() {
    let proxy = "{name: proxy, image: 'p:1', lifecycle: {postStart: {exec: {command: [sleep, '1']}}}}";
    let mut world = world(&format!("{{containers: [{proxy}, {{name: app, image: 'a:1'}}]}}"));
    world.until(7.0);
    assert!(!world.story.contains("[app]"), "{}", world.story);
    world.execute(Some(0));
    assert_eq!(world.second_of("Started [app]"), 7.0);
    assert!(world.story.contains("Ready=True; proxy running+; app running+"), "{}", world.story);
}

#[test]
fn a_first_hook_that_fails_kills_the_container_which_restarts() {
    let mut world = one("postStart: {exec: {command: [sh, -c, exit 1]}}", "");
    world.execute(Some(1));
    world.until(1.0);
    assert_eq!(world.second_of("!FailedPostStartHook [c] PostStartHook failed"), 0.0);
    assert_eq!(world.second_of("Killing [c] FailedPostStartHook"), 0.0);
    world.execute(Some(1));
    world.until(2.0);
    assert!(world.story.contains("c CrashLoopBackOff restarts=1"), "{}", world.story);
    world.until(12.0);
    world.execute(Some(0));
    assert!(world.story.contains("c running+ restarts=2"), "{}", world.story);
    let mut world = one("postStart: {httpGet: {port: 8080}}", "restartPolicy: Never,");
    world.until(1.0);
    assert!(world.story.contains("!FailedPostStartHook"), "{}", world.story);
    assert!(matches!(world.shown.phase.as_deref(), Some("Succeeded" | "Failed")));
}

#[test]
fn a_pod_that_is_deleted_during_its_first_hook_ends() {
    let mut world = one("postStart: {exec: {command: [sleep, '60']}}", "");
    let took = ends_after(&mut world, 30);
    assert!((took - 0.3).abs() < 0.01, "{}", world.story);
}

#[test]
fn a_second_deletion_shortens_the_grace_period() {
    for lifecycle in ["", "preStop: {sleep: {seconds: 100}}", "preStop: {exec: {command: [sleep, '100']}}"] {
        let mut world = one(lifecycle, "");
        let annotations = &mut Arc::make_mut(&mut world.object).metadata.annotations;
        annotations.insert("kubelet-sim.kstore.io/stop".to_owned(), "ignore".to_owned());
        world.until(5.0);
        world.delete_within(300);
        world.until(6.0);
        world.delete_within(300);
        world.until(7.0);
        world.delete_within(2);
        world.until(30.0);
        let killed = world.second_of("Error(137)");
        let expected = if lifecycle.is_empty() { 9.0 } else { 11.0 };
        assert!((killed - expected).abs() < 0.01, "{lifecycle}: {}", world.story);
        assert!(world.removed);
    }
}

#[test]
fn a_longer_grace_period_changes_nothing() {
    let mut world = one("", "");
    let annotations = &mut Arc::make_mut(&mut world.object).metadata.annotations;
    annotations.insert("kubelet-sim.kstore.io/stop".to_owned(), "8s".to_owned());
    world.until(5.0);
    world.delete_within(10);
    world.until(6.0);
    world.delete_within(9);
    world.until(60.0);
    assert_eq!(world.second_of("removed"), 13.0, "it ends in time by itself");
}
