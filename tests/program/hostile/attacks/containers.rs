//! Programs of simulated containers, the streams to them, and their number.

use super::target::{Target, User, Writer};
use super::{Attack, Scale};
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use kstore_tests::wait::{PATIENCE, until};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

const ONE_NODE: &[&str] = &["--nodes", "1"];

/// MiB of the budgets of all commands and of all disks of containers, and room for their pods.
const MEMORY: usize = 192 + 256 + 128;

/// A pod whose container runs a command.
fn pod(name: &str, command: &[&str]) -> Value {
    json!({"metadata": {"name": name},
        "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "busybox", "command": command}]}})
}

fn script(name: &str, script: &str) -> Value {
    pod(name, &["sh", "-c", script])
}

/// Creates pods of one tenant, and lets their programs run for the time of the attack.
async fn run(target: &Target, scale: Scale, pods: Vec<Value>) -> usize {
    let eve = target.user("eve", "edit").await;
    target.begin(Writer::Tenant).await;
    let mut sent = 0;
    for pod in &pods {
        let body = pod.to_string();
        sent += body.len();
        let code = eve.send(("POST", &eve.path("pods")), "application/json", &body).await;
        assert_eq!(code, 201, "{}", pod["metadata"]["name"]);
    }
    begins(&eve, pods.last().expect("there are pods")).await;
    sleep(scale.time()).await;
    sent
}

/// Waits until the container of a pod was started, or refused.
async fn begins(user: &User, pod: &Value) {
    let path = user.path(&format!("pods/{}", pod["metadata"]["name"].as_str().unwrap_or_default()));
    until("a container begins", async || {
        let request = user.request(("GET", &path), "application/json", "");
        let answer = super::observer::send(&user.https, &request).await;
        let has_begun = ["\"startedAt\"", "\"waiting\"", "\"terminated\""];
        has_begun.iter().any(|state| answer.contains(state)).then_some(())
    })
    .await;
}

/// Programs that recurse, double a variable, print without measure, or loop within loops.
pub(super) const PROGRAMS: Attack =
    Attack::new("programs that recurse", MEMORY, programs).with_flags(ONE_NODE);

fn programs(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    let mut test = vec!["test"];
    test.extend(vec!["!"; 14_000]);
    test.push("x");
    let pods = vec![
        pod("test", &test),
        script("doubling", "a=x; while true; do a=$a$a; done"),
        script("printf", "printf \"$(seq 1 100000)%s\" $(seq 1 100000)"),
        script("recursion", "export X='sh -c \"$X\"'; sh -c \"$X\""),
        script(
            "endless",
            "while true; do x=$(while true; do y=$(while true; do z=$(seq 1 1000); done); done); done",
        ),
    ];
    run(target, scale, pods).boxed_local()
}

/// Programs and pods that collect output.
pub(super) const OUTPUT: Attack = Attack::new("programs that collect", MEMORY, output).with_flags(ONE_NODE);

fn output(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    let env: Vec<Value> = (0..40)
        .map(|number: u32| match number.checked_sub(1) {
            None => json!({"name": "V0", "value": "0123456789"}),
            Some(before) => {
                json!({"name": format!("V{number}"), "value": format!("$(V{before})$(V{before})")})
            }
        })
        .collect();
    let mut variables = pod("env", &["sleep", "60"]);
    variables["spec"]["containers"][0]["env"] = Value::from(env);
    // The path of a mount is made of the same variables.
    let mut path = variables.clone();
    path["metadata"]["name"] = json!("path");
    path["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    path["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/m", "subPathExpr": "$(V39)"}]);
    let mut open = pod("parentheses", &["sleep", "60"]);
    open["spec"]["containers"][0]["env"] = json!([{"name": "V", "value": "$(".repeat(500_000)}]);
    let file = "dd if=/dev/zero of=/f bs=1M count=30";
    let pods = vec![
        variables,
        path,
        open,
        script("tar", &format!("{file}; tar cf - {}", "/f ".repeat(300))),
        script("cat", &format!("{file}; cat {}", "/f ".repeat(200))),
        script("for", &format!("for i in {}; do true; done", "$(seq 1 100000) ".repeat(200))),
    ];
    run(target, scale, pods).boxed_local()
}

/// Programs that work without a pause.
pub(super) const WORK: Attack = Attack::new("programs that work", MEMORY, work).with_flags(ONE_NODE);

fn work(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    let file = "dd if=/dev/zero of=/f bs=1M count=60";
    let forever = |command: &str| format!("{file}; for i in $(seq 1 5000); do {command}; done");
    let pods = vec![
        script("wc", &forever("wc /f")),
        script("touch", "for j in $(seq 1 100000); do touch $(seq 1 100000); done"),
        script("tail", &forever("tail -n 1 /f")),
        script("grep", &forever("grep -v x /f > /g")),
        script("head", &forever("head -n $i /f > /g")),
    ];
    run(target, scale, pods).boxed_local()
}

/// Followed logs of one user beside one of another user.
pub(super) const LOG_STREAMS: Attack =
    Attack::new("streams of one user", 192, log_streams).with_flags(ONE_NODE);

fn log_streams(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    const STREAMS: usize = 1_100;
    async move {
        let eve = target.user("eve", "edit").await;
        let ann = target.user("ann", "edit").await;
        for user in [&eve, &ann] {
            user.run(&script("main", "echo one; sleep 1000")).await;
        }
        target.begin(Writer::Tenant).await;
        let path = eve.path("pods/main/log?follow=true");
        let mut held = Vec::new();
        for _ in 0..8 {
            let channel = eve.http2().await;
            let follow = |_| {
                let call = channel.clone().oneshot(eve.get(&path));
                async move { timeout(PATIENCE, call).await.unwrap() }
            };
            held.extend(join_all((0..STREAMS / 8).map(follow)).await);
        }
        let begun = held.iter().flatten().filter(|answer| answer.status() == 200).count();
        assert!((1..STREAMS).contains(&begun), "{begun} streams of one user");
        sleep(scale.time() / 2).await;
        let code = ann.send(("GET", &ann.path("pods/main/log")), "application/json", "").await;
        assert_eq!(code, 200, "the log of another user");
        STREAMS * path.len()
    }
    .boxed_local()
}

/// A Deployment of a million replicas.
pub(super) const REPLICAS: Attack = Attack::new("a million replicas", 512, replicas).with_flags(ONE_NODE);

fn replicas(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let eve = target.user("eve", "edit").await;
        let deployment = kstore_tests::manifests::deployment("web", 1_000_000).to_string();
        target.begin(Writer::Tenant).await;
        let path = "/apis/apps/v1/namespaces/eve/deployments";
        assert_eq!(eve.send(("POST", path), "application/json", &deployment).await, 201);
        sleep(scale.time().max(Duration::from_secs(1))).await;
        deployment.len()
    }
    .boxed_local()
}
