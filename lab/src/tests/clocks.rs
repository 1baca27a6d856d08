//! Tests of clocks over the network: advances, leaps, modes.

use super::{CRON_JOBS, JOBS, TestClient, hourly, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use http::Method;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

async fn time(client: &TestClient) -> Timestamp {
    client.lab(Method::GET, "/clock", None).await.body["time"].as_str().unwrap().parse().unwrap()
}

async fn advance(client: &TestClient, body: Value) -> Value {
    let answer = client.lab(Method::POST, "/clock/advance", Some(body)).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    answer.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hours_with_ten_hourly_cron_jobs_make_each_job_once_at_its_time() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    assert_eq!(admin.lab(Method::POST, "/settled", None).await.code, 200);
    for number in 0..10 {
        let made = admin.api(Method::POST, CRON_JOBS, Some(hourly(&format!("hourly-{number}")))).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
    let before = time(&admin).await;
    let advanced = advance(&admin, json!({"by": "3h"})).await;
    assert_eq!(advanced["ended"], "there", "{advanced}");
    assert_eq!(time(&admin).await, before + Duration::from_secs(3 * 3600));
    assert_eq!(admin.lab(Method::POST, "/settled", None).await.code, 200);
    let jobs = admin.api(Method::GET, JOBS, None).await.body;
    let jobs = jobs["items"].as_array().unwrap();
    assert_eq!(jobs.len(), 30);
    let is_at_the_hour =
        |job: &Value| job["metadata"]["creationTimestamp"].as_str().unwrap().ends_with(":00:00Z");
    assert!(jobs.iter().all(is_at_the_hour), "each job is made at its hour");
    let is_done = |job: &Value| job["status"]["succeeded"] == 1;
    assert_eq!(jobs.iter().filter(|job| is_done(job)).count(), 30);
    let nodes = admin.api(Method::GET, "/api/v1/nodes/node-0", None).await.body;
    let ready = nodes["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready");
    assert_eq!(ready.unwrap()["status"], "True", "stepping loses no node");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_waits_for_a_client_that_reacts_to_each_event() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    admin.api(Method::POST, CRON_JOBS, Some(hourly("hourly"))).await;
    // An operator in a runtime of its own: it takes real time to record each Job, and may not miss its hour.
    let operator = admin.at(&lab.cluster("main").unwrap().url, "recorder");
    let defined = admin.lab(Method::PUT, "/clients/recorder", Some(json!({"window": "400ms"}))).await;
    assert_eq!(defined.code, 200, "{defined:?}");
    let (watching, watched) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let watch = format!("{JOBS}?watch=true&timeoutSeconds=1000000");
            let (code, mut events) = operator.open(Method::GET, &watch, None, None).await;
            assert_eq!(code, 200);
            watching.send(()).unwrap();
            let mut recorded = 0;
            while recorded < 5 {
                let Some(Ok(frame)) = events.frame().await else { break };
                let Ok(data) = frame.into_data() else { continue };
                for line in data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    let event: Value = serde_json::from_slice(line).unwrap();
                    if event["type"] == "ADDED" {
                        tokio::time::sleep(Duration::from_millis(40)).await;
                        let name = event["object"]["metadata"]["name"].as_str().unwrap();
                        let record = super::config_map(&format!("record-{name}"));
                        assert_eq!(
                            operator.api(Method::POST, super::CONFIG_MAPS, Some(record)).await.code,
                            201
                        );
                        recorded += 1;
                    }
                }
            }
        });
    });
    watched.await.unwrap();
    let advanced = advance(&admin, json!({"by": "5h"})).await;
    assert_eq!((&advanced["ended"], advanced["barriers"].as_u64() >= Some(5)), (&json!("there"), true));
    thread.join().unwrap();
    let maps = admin.api(Method::GET, super::CONFIG_MAPS, None).await.body;
    let records = maps["items"].as_array().unwrap().iter().filter(|map| {
        let is_record = map["metadata"]["name"].as_str().unwrap().starts_with("record-");
        is_record && map["metadata"]["creationTimestamp"].as_str().unwrap().contains(":00:0")
    });
    assert_eq!(records.count(), 5, "each was recorded within the first seconds of its hour: {maps}");
    let view = admin.lab(Method::GET, "/clients/recorder/view", None).await.body;
    assert!(view["kinds"]["jobs.batch"]["events"].as_u64() >= Some(5), "{view}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leap_backward_sets_the_wall_time_and_timers_keep_their_remaining_time() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    let begin = time(&admin).await;
    let until = begin + Duration::from_secs(1200);
    let waiting = admin.clone();
    let wait = tokio::spawn(async move {
        waiting.lab(Method::GET, &format!("/clock/wait?until={until}"), None).await;
    });
    while admin.lab(Method::GET, "/clock", None).await.body["next"].is_null() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let leapt = admin.lab(Method::POST, "/clock/leap", Some(json!({"by": "-30m"}))).await;
    assert_eq!((leapt.code, &leapt.body["ended"]), (200, &json!("there")), "{leapt:?}");
    assert_eq!(time(&admin).await, begin - Duration::from_secs(1800));
    let made = admin.api(Method::POST, super::CONFIG_MAPS, Some(super::config_map("early"))).await.body;
    let stamp: Timestamp = made["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    assert!(stamp < begin, "objects get the new time: {made}");
    advance(&admin, json!({"by": "40m"})).await;
    assert!(!wait.is_finished(), "the clock is not at the awaited time again");
    assert_eq!(time(&admin).await, begin + Duration::from_secs(600));
    let node = admin.api(Method::GET, "/api/v1/nodes/node-0", None).await.body;
    let ready = node["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready");
    assert_eq!(ready.unwrap()["status"], "True", "timers go on, so no lease runs out");
    advance(&admin, json!({"by": "10m"})).await;
    wait.await.unwrap();
    assert_eq!(time(&admin).await, until);
    for (by, code) in [("-61m", 400), ("-1us", 400), ("--1m", 400)] {
        assert_eq!(admin.lab(Method::POST, "/clock/leap", Some(json!({"by": by}))).await.code, code, "{by}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_forks_write_the_same_bytes_however_the_clock_is_moved() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    admin.api(Method::POST, CRON_JOBS, Some(hourly("hourly"))).await;
    admin.lab(Method::POST, "/settled", None).await;
    let two = admin.lab(Method::POST, "/clusters", Some(json!({"count": 2}))).await;
    assert_eq!(two.code, 201, "{two:?}");
    let forks = two.body["clusters"].as_array().unwrap();
    let clients: Vec<_> = forks.iter().map(|fork| admin.at(fork["url"].as_str().unwrap(), "test")).collect();
    advance(&clients[0], json!({"by": "3h"})).await;
    for _ in 0..6 {
        advance(&clients[1], json!({"by": "30m"})).await;
    }
    let hashes: Vec<_> = forks
        .iter()
        .map(|fork| {
            let cluster = lab.cluster(fork["id"].as_str().unwrap()).unwrap();
            let current = cluster.current().unwrap();
            let store = current.running().store();
            store.hash_kv(store.revision()).unwrap()
        })
        .collect();
    assert_eq!(hashes[0], hashes[1]);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leap_skips_what_was_due_and_a_call_with_a_key_happens_once() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    admin.api(Method::POST, CRON_JOBS, Some(hourly("hourly"))).await;
    admin.lab(Method::POST, "/settled", None).await;
    let before = time(&admin).await;
    let leap = admin.lab(Method::POST, "/clock/leap", Some(json!({"by": "10h"}))).await;
    assert_eq!(leap.code, 200, "{leap:?}");
    assert_eq!(time(&admin).await, before + Duration::from_secs(36_000));
    admin.lab(Method::POST, "/settled", None).await;
    let jobs = admin.api(Method::GET, JOBS, None).await.body["items"].as_array().unwrap().len();
    assert_eq!(jobs, 1, "only the newest missed time is made up for");
    let at = time(&admin).await;
    let first = admin.keyed("/clock/advance", json!({"by": "1h"}), "k").await;
    let again = admin.keyed("/clock/advance", json!({"by": "1h"}), "k").await;
    assert_eq!((first.code, &first.body), (200, &again.body));
    assert_eq!(time(&admin).await, at + Duration::from_secs(3600), "one effect");
    assert_eq!(admin.keyed("/clock/advance", json!({"by": "2h"}), "k").await.code, 422);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaled_and_automatic_clocks_move_by_themselves() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let before = time(&admin).await;
    admin.lab(Method::PUT, "/clock", Some(json!({"mode": "scaled", "factor": 3600}))).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let scaled = time(&admin).await.duration_since(before);
    assert!(scaled.as_secs() >= 600, "{scaled}");
    admin.lab(Method::PUT, "/clock", Some(json!({"mode": "manual"}))).await;
    let standing = time(&admin).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(time(&admin).await, standing);
    let auto = admin.lab(Method::PUT, "/clock", Some(json!({"mode": "auto", "upTo": "1m"}))).await;
    assert_eq!((auto.code, &auto.body["upTo"]), (200, &json!("1m0s")));
    for _ in 0..500 {
        if time(&admin).await > standing {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(time(&admin).await > standing);
    let waited = admin.lab(Method::GET, "/clock/wait?for=1s", None);
    let waited = tokio::time::timeout(Duration::from_secs(20), waited).await.unwrap();
    assert_eq!(waited.code, 200, "{waited:?}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_stops_at_the_deadlines_of_clients_in_their_order() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let begin = time(&admin).await;
    let waits = [40_i64, 10, 25].map(|seconds| {
        let client = admin.clone();
        tokio::spawn(async move {
            let answer = client.lab(Method::GET, &format!("/clock/wait?for={seconds}s"), None).await;
            (seconds, answer.body["time"].as_str().unwrap().parse::<Timestamp>().unwrap())
        })
    });
    while lab.cluster("main").unwrap().current().unwrap().waits.count() < waits.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let clock = admin.lab(Method::GET, "/clock", None).await.body;
    assert_eq!(clock["next"]["time"], json!((begin + Duration::from_secs(10)).to_string()));
    advance(&admin, json!({"by": "1m"})).await;
    for wait in waits {
        let (seconds, answered) = wait.await.unwrap();
        assert!(answered >= begin + Duration::from_secs(seconds.unsigned_abs()), "{seconds}");
    }
    assert_eq!(time(&admin).await, begin + Duration::from_secs(60));
    lab.end().await;
}
