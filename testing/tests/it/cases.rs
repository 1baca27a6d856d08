//! The cases of the lab that the packages of all languages run (`lab/cases/cases.yaml` says what each step means), with the clusters of
//! this library. Cases with steps that only the lab over the network has are left out by name; the other languages' packages run them.

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kstore_client::{DeleteParams, Gvr, ListParams};
use kstore_testing::{Cluster, is_subset};
use serde_json::Value;
use std::time::Duration;

/// Cases with steps for which a test of this library has other means: programs, named clients, clocks of forks, logs of requests, faults.
const ONLY_OVER_THE_NETWORK: [&str; 10] = [
    "a leap fires late, and a wait lets the time pass that an object needs",
    "pods of a node without power go elsewhere or nowhere",
    "a node has faults for their time, also in a fork, and heals",
    "what is busy is named",
    "time waits for a program, whose requests and writes are recorded",
    "the writes of an object are recorded",
    "mistakes are refused with what was meant",
    "seeded faults hit the requests of a program and are counted",
    "a cache that stands still holds events back until it thaws",
    "a plan kills a program between its write and the answer, and starts it again",
];

/// Steps of the other cases that say something of a fork's own clock or port: all clusters of a runtime share its clock.
const OF_THE_CLOCK_OF_A_FORK: [&str; 2] = ["passed", "mode"];

fn cases() -> Vec<Value> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/cases/cases.yaml");
    let text = std::fs::read_to_string(file).expect("the file of cases is in the workspace");
    let mut read: Value = serde_yaml_ng::from_str(&text).expect("it is YAML");
    match read["cases"].take() {
        Value::Array(cases) => cases,
        other => panic!("not a list of cases: {other}"),
    }
}

/// The resource of a word such as `job` or `jobs.batch`.
fn resource(word: &str) -> Gvr {
    match word {
        "configmap" | "configmaps" => Gvr::new("", "v1", "configmaps"),
        "job" | "jobs.batch" => Gvr::new("batch", "v1", "jobs"),
        other => panic!("no such resource: {other}"),
    }
}

async fn get(cluster: &Cluster, reference: &str) -> Option<Value> {
    let (word, name) = reference.split_once('/').expect("KIND/NAME");
    cluster.client().dynamic(resource(word)).get("default", name).await.ok()
}

async fn list(cluster: &Cluster, word: &Value) -> Vec<Value> {
    let listed = cluster.client().dynamic(resource(word.as_str().expect("a text")));
    listed.list("default", &ListParams::default()).await.expect("the cluster serves the request").0
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Runs steps. `image` is the state to which `reset` goes back.
fn run<'r>(cluster: Cluster, steps: &'r Value) -> LocalBoxFuture<'r, Cluster> {
    async move {
        let origin = cluster.image().expect("the cluster runs");
        let mut cluster = cluster;
        for step in steps.as_array().expect("a list of steps") {
            let (kind, given) = step.as_object().and_then(|step| step.iter().next()).expect("a step");
            match kind.as_str() {
                "reset" => cluster = origin.start().await,
                kind if OF_THE_CLOCK_OF_A_FORK.contains(&kind) => {}
                kind => act(&cluster, kind, given).await,
            }
        }
        cluster
    }
    .boxed_local()
}

async fn act(cluster: &Cluster, kind: &str, given: &Value) {
    match kind {
        "apply" => {
            for object in given.as_array().expect("a list of objects") {
                cluster.apply(&object.to_string()).await.expect("the object is applied");
            }
        }
        "delete" => {
            let (word, name) = text(given).split_once('/').expect("KIND/NAME");
            let objects = cluster.client().dynamic(resource(word));
            objects.delete("default", name, &DeleteParams::default()).await.expect("it is deleted");
        }
        "settled" => cluster.settled().await.expect("the cluster settles"),
        "advance" => {
            let hours = text(given).strip_suffix('h').and_then(|hours| hours.parse::<u64>().ok());
            cluster.advance(Duration::from_secs(3600 * hours.expect("hours"))).await;
        }
        "fork" => drop(run(cluster.fork().await, &given["steps"]).await),
        "forks" => {
            let image = cluster.image().expect("the cluster runs");
            for _ in 0..given["count"].as_u64().expect("a number") {
                drop(run(image.start().await, &given["steps"]).await);
            }
        }
        "image" => {
            let image = cluster.image().expect("the cluster runs");
            for step in given["steps"].as_array().expect("a list of steps") {
                let (kind, given) = step.as_object().and_then(|step| step.iter().next()).expect("a step");
                act(cluster, kind, given).boxed_local().await;
            }
            drop(run(image.start().await, &given["then"]).await);
        }
        kind => expect(cluster, kind, given).await,
    }
}

async fn expect(cluster: &Cluster, kind: &str, given: &Value) {
    match kind {
        "count" => {
            let prefix = given["prefix"].as_str().unwrap_or_default();
            let found = list(cluster, &given["resource"]).await;
            let named = found.iter().filter(|object| text(&object["metadata"]["name"]).starts_with(prefix));
            assert_eq!(named.count() as u64, given["is"], "{given}");
        }
        "at" => {
            let found = list(cluster, &given["resource"]).await;
            let times: Vec<&str> =
                found.iter().map(|object| text(&object["metadata"]["creationTimestamp"])).collect();
            assert!(times.iter().all(|time| time.ends_with(text(&given["time"]))), "{times:?}");
            assert!(!times.is_empty());
        }
        "get" => {
            let found = get(cluster, text(&given["object"])).await.expect("the object is there");
            let matches = &given["matches"];
            assert!(matches.is_null() || is_subset(matches, &found), "{found}");
        }
        "absent" => assert_eq!(get(cluster, text(given)).await, None),
        other => panic!("no such step: {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn shared_cases_hold_in_clusters_of_this_library() {
    let cluster = Cluster::builder().virtual_time(7).nodes(1).start().await;
    cluster.settled().await.expect("the cluster settles");
    let mut left_out = Vec::new();
    for case in cases() {
        let name = text(&case["name"]);
        match ONLY_OVER_THE_NETWORK.contains(&name) {
            true => left_out.push(name.to_owned()),
            false => {
                run(cluster.fork().await, &case["steps"]).await.stop().await;
            }
        }
    }
    assert_eq!(left_out, ONLY_OVER_THE_NETWORK, "the names of the cases that are left out");
}
