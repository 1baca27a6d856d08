//! Probes whose commands run in the container.

use super::*;
use crate::execution::Act;

fn world(probes: &str) -> World {
    let command = "command: [sh, -c, 'touch /tmp/x; sleep 1000']";
    let spec = format!("{{spec: {{containers: [{{name: c, image: 'a:1', {command}, {probes}}}]}}}}");
    World::new(serde_yaml_ng::from_str(&spec).unwrap())
}

const CAT: &str = "exec: {command: [cat, /tmp/x]}";

fn is_ready(world: &World) -> bool {
    world.shown.container_statuses.as_ref().unwrap()[0].ready
}

#[test]
fn a_readiness_command_runs_each_period_and_flips_at_its_thresholds() {
    let mut world = world(&format!("readinessProbe: {{{CAT}, initialDelaySeconds: 2, periodSeconds: 5}}"));
    assert_eq!(world.executions.len(), 0);
    world.until(2.0);
    assert_eq!((world.executions.len(), is_ready(&world)), (1, false));
    assert_eq!(world.executions[0].timeout, Some(Duration::from_secs(1)));
    world.execute(Some(1));
    assert!(world.story.contains("!Unhealthy [c] Readiness probe failed: output"), "{}", world.story);
    world.until(6.9);
    assert_eq!(world.executions.len(), 0);
    world.until(7.0);
    world.execute(Some(0));
    assert!(is_ready(&world));
    for (second, ready) in [(12.0, true), (17.0, true), (22.0, false)] {
        world.until(second);
        world.execute(None);
        assert_eq!(is_ready(&world), ready, "{second}\n{}", world.story);
    }
    assert!(world.story.contains("Readiness probe failed: command \"cat /tmp/x\" timed out"));
    assert_eq!(world.shown.container_statuses.as_ref().unwrap()[0].restart_count, 0);
}

#[test]
fn a_command_that_takes_longer_than_the_period_is_not_started_twice() {
    let mut world = world(&format!("readinessProbe: {{{CAT}, periodSeconds: 1, timeoutSeconds: 30}}"));
    world.until(5.5);
    assert_eq!(world.executions.len(), 1);
    world.execute(Some(0));
    assert_eq!(world.executions.len(), 0);
    world.until(6.0);
    assert_eq!(world.executions.len(), 1);
}

#[test]
fn a_liveness_command_that_fails_often_enough_restarts_the_container() {
    let mut world = world(&format!("livenessProbe: {{{CAT}, periodSeconds: 5, failureThreshold: 2}}"));
    world.execute(Some(0));
    world.until(5.0);
    world.execute(Some(1));
    world.until(10.0);
    assert!(!world.story.contains("Killing"));
    world.execute(Some(1));
    assert_eq!(world.second_of("Killing [c] Container c failed liveness probe, will be restarted"), 10.0);
    let restarts = |world: &World| world.shown.container_statuses.as_ref().unwrap()[0].restart_count;
    world.until(39.0);
    assert_eq!(restarts(&world), 0, "its command has no trap and runs through its grace period");
    world.until(41.0);
    assert_eq!(restarts(&world), 1);
    assert_eq!(world.executions.len(), 1, "the new run is probed");
}

#[test]
fn a_probe_may_have_a_grace_period_of_its_own() {
    let probe = format!("livenessProbe: {{{CAT}, failureThreshold: 1, terminationGracePeriodSeconds: 3}}");
    let mut world = World::new((*world(&probe).object).clone());
    let annotations = &mut Arc::make_mut(&mut world.object).metadata.annotations;
    annotations.insert("kubelet-sim.kstore.io/stop".to_owned(), "ignore".to_owned());
    world.execute(Some(1));
    world.until(10.0);
    assert_eq!(world.second_of("restarts=1"), 3.0, "{}", world.story);
}

#[test]
fn other_probes_wait_for_the_startup_command() {
    let probes = format!(
        "startupProbe: {{{CAT}, periodSeconds: 2, failureThreshold: 3}}, livenessProbe: {{{CAT}, periodSeconds: 10}}"
    );
    let mut world = world(&probes);
    world.execute(Some(1));
    world.until(2.0);
    assert_eq!((world.executions.len(), is_ready(&world)), (1, false));
    world.execute(Some(0));
    assert!(is_ready(&world), "{}", world.story);
    world.until(9.9);
    assert_eq!(world.executions.len(), 0);
    world.until(10.0);
    assert_eq!(world.executions.len(), 1);
    let mut world = super::probes::world(&probes);
    for second in [0.0, 2.0, 4.0] {
        world.until(second);
        world.execute(Some(1));
    }
    assert_eq!(world.second_of("failed startup probe, will be restarted"), 4.0);
}

#[test]
fn commands_of_probes_do_not_run_where_annotations_or_images_decide() {
    let probe = format!("readinessProbe: {{{CAT}}}");
    let mut object = (*world(&probe).object).clone();
    object.metadata.annotations.insert("kubelet-sim.kstore.io/ready-after".into(), "3".into());
    let mut scripted = World::new(object.clone());
    assert!(scripted.executions.is_empty() && !is_ready(&scripted));
    scripted.until(10.0);
    assert!(is_ready(&scripted));
    object.metadata.annotations.clear();
    object.spec.containers[0].command.clear();
    let image = World::new(object.clone());
    assert!(image.executions.is_empty() && is_ready(&image));
    let unknown = world("readinessProbe: {exec: {command: [pg_isready]}}");
    assert!(unknown.executions.is_empty() && is_ready(&unknown));
}

fn with_image(image: &str, probes: &str, annotations: &str) -> World {
    let ports = "ports: [{name: web, containerPort: 80}]";
    let spec = format!(
        "{{metadata: {{annotations: {{{annotations}}}}}, spec: {{containers: [{{name: c, {image}, {ports}, {probes}}}]}}}}"
    );
    World::new(serde_yaml_ng::from_str(&spec).unwrap())
}

#[test]
fn requests_of_probes_are_made_to_servers_of_known_images_alone() {
    let netexec = "image: agnhost, args: [netexec]";
    let never = "kubelet-sim.kstore.io/ready-after: never";
    for (image, probe, annotations, made) in [
        (netexec, "httpGet: {path: healthz, port: web}", "", Some(Act::Http(80, "/healthz".to_owned()))),
        (netexec, "tcpSocket: {port: 8080}", "", Some(Act::Connect(8080))),
        (netexec, "httpGet: {path: /, port: '81'}", "", Some(Act::Http(81, "/".to_owned()))),
        (netexec, "httpGet: {path: /, port: 80}", never, None),
        (netexec, "httpGet: {path: /, port: other}", "", None),
        (netexec, "httpGet: {path: /, port: 80, scheme: HTTPS}", "", Some(Act::Https(80, "/".to_owned()))),
        ("image: nginx", "httpGet: {path: /, port: 443, scheme: HTTPS}", "", None),
        (netexec, "httpGet: {path: /, port: 80, host: example.com}", "", None),
        (netexec, "grpc: {port: 80}", "", Some(Act::Health(80, String::new()))),
        (netexec, "grpc: {port: 80, service: s}", "", Some(Act::Health(80, "s".to_owned()))),
        (netexec, "grpc: {port: 0}", "", None),
        ("image: app", "grpc: {port: 80}", "", None),
        ("image: nginx", "httpGet: {path: /, port: web}", "", None),
        ("image: nginx", "httpGet: {path: /ready, port: 80}", "", Some(Act::Http(80, "/ready".to_owned()))),
        ("image: nginx", "httpGet: {path: /, port: 8080}", "", Some(Act::Http(8080, "/".to_owned()))),
        ("image: app", "httpGet: {path: /ready, port: 80}", "", None),
        ("image: busybox, args: [sleep, '60']", "tcpSocket: {port: 80}", "", None),
    ] {
        let world = with_image(image, &format!("readinessProbe: {{{probe}}}"), annotations);
        let acts: Vec<&Act> = world.executions.iter().map(|execution| &execution.act).collect();
        assert_eq!(acts, made.iter().collect::<Vec<_>>(), "{image} {probe} {annotations}");
        assert_eq!(is_ready(&world), made.is_none() && annotations.is_empty(), "{image} {probe}");
    }
    let mut world = with_image(netexec, "livenessProbe: {tcpSocket: {port: 80}, failureThreshold: 1}", "");
    world.execute(None);
    assert!(world.story.contains("Liveness probe failed: context deadline exceeded"), "{}", world.story);
}

#[test]
fn hooks_ask_the_servers_of_their_pod() {
    let hook = |target: &str| format!("lifecycle: {{postStart: {{httpGet: {target}}}}}");
    let mut world = with_image("image: nginx", &hook("{path: hello, port: web}"), "");
    assert_eq!(world.executions[0].act, Act::Http(80, "/hello".to_owned()));
    world.execute(Some(1));
    assert!(world.story.contains("!FailedPostStartHook"), "{}", world.story);
    assert!(with_image("image: app", &hook("{path: hello, port: web}"), "").executions.is_empty());
}
