//! Tests of `settled`, of quiet clients and of the request log over the network.

use super::{CONFIG_MAPS, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::process::Command;

fn causes(answer: &super::client::TestAnswer) -> String {
    let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().filter_map(|cause| cause["message"].as_str()).collect::<Vec<_>>().join("; ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_names_the_client_that_is_busy() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    let settled = admin.lab(Method::POST, "/settled", None).await;
    assert_eq!((settled.code, &settled.body["settled"]), (200, &json!(true)), "{settled:?}");
    admin.lab(Method::PUT, "/clients/mine", Some(json!({"busy": true}))).await;
    let short = json!({"patience": "100ms"});
    let refused = admin.lab(Method::POST, "/settled", Some(short.clone())).await;
    assert_eq!((refused.code, causes(&refused).as_str()), (504, "client mine: says that it is busy"));
    admin.lab(Method::PUT, "/clients/mine", Some(json!({"busy": false}))).await;
    assert_eq!(admin.lab(Method::POST, "/settled", None).await.code, 200);
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let process = json!({"process": busy.id()});
    admin.lab(Method::PUT, "/clients/mine", Some(process)).await;
    let refused = admin.lab(Method::POST, "/quiet", Some(short)).await;
    busy.kill().unwrap();
    busy.wait().unwrap();
    let named = format!("client mine: process {} runs (1 thread)", busy.id());
    assert_eq!((refused.code, causes(&refused)), (504, named));
    assert_eq!(admin.lab(Method::POST, "/quiet", None).await.code, 200, "a process that is gone is quiet");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_not_read_is_named_and_stops_the_clock() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let operator = admin.at(&lab.cluster("main").unwrap().url, "idler");
    let watch = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=100000");
    let (code, unread) = operator.open(Method::GET, &watch, None, None).await;
    assert_eq!(code, 200);
    // More than the buffers of the client's library and of both sockets take.
    let large = Value::String("x".repeat(900_000));
    for number in 0..16 {
        let mut map = config_map(&format!("map-{number}"));
        map["data"]["a"] = large.clone();
        assert_eq!(admin.api(Method::POST, CONFIG_MAPS, Some(map)).await.code, 201);
    }
    let refused =
        admin.lab(Method::POST, "/clock/advance", Some(json!({"by": "1h", "patience": "200ms"}))).await;
    assert_eq!((refused.code, &refused.body["ended"]), (200, &json!("busy")), "{refused:?}");
    assert_eq!(refused.body["from"], refused.body["time"], "no time passed");
    let what = refused.body["busy"][0]["what"].as_str().unwrap();
    assert!(what.starts_with("does not read its watch of configmaps"), "{what}");
    drop(unread);
    let advanced = admin.lab(Method::POST, "/clock/advance", Some(json!({"by": "1h"}))).await;
    assert_eq!(advanced.body["ended"], "there", "{advanced:?}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_and_the_view_have_what_a_client_asked_and_saw() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let operator = admin.at(&lab.cluster("main").unwrap().url, "backup/v1 (linux)");
    let list = operator.api(Method::GET, &format!("{CONFIG_MAPS}?resourceVersion=0"), None).await.body;
    let made = operator.api(Method::POST, CONFIG_MAPS, Some(config_map("a"))).await.body;
    assert_eq!(operator.api(Method::GET, &format!("{CONFIG_MAPS}/none"), None).await.code, 404);
    let log = admin.lab(Method::GET, "/requests?client=backup", None).await.body;
    let rows: Vec<_> = log["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            (text("verb"), text("version"), row["code"].as_u64().unwrap())
        })
        .collect();
    let expected = [("list", "0", 200), ("create", "unset", 201), ("get", "unset", 404)];
    assert_eq!(rows, expected.map(|(verb, version, code)| (verb.to_owned(), version.to_owned(), code)));
    assert_eq!(
        log["requests"][1]["revision"].to_string(),
        made["metadata"]["resourceVersion"].as_str().unwrap()
    );
    let view = admin.lab(Method::GET, "/clients/backup/view", None).await.body;
    let delivered = view["kinds"]["configmaps"]["delivered"].to_string();
    assert_eq!(delivered, made["metadata"]["resourceVersion"].as_str().unwrap(), "{view}");
    assert_ne!(delivered, list["metadata"]["resourceVersion"].as_str().unwrap());
    assert_eq!(view["listsFromCache"], true);
    let first = admin.lab(Method::GET, "/writes?client=backup", None).await.body;
    let first = &first["writes"][0];
    assert_eq!(
        (&first["verb"], &first["objects"][0]["effect"]),
        (&json!("create"), &json!("created")),
        "{first}"
    );
    admin.api(Method::PUT, &format!("{CONFIG_MAPS}/a"), Some(config_map("a"))).await;
    let again = operator.api(Method::PUT, &format!("{CONFIG_MAPS}/a"), Some(config_map("a"))).await;
    assert_eq!(again.code, 200, "{again:?}");
    let mut other = config_map("a");
    other["data"]["a"] = json!("changed");
    let changed = admin.api(Method::PUT, &format!("{CONFIG_MAPS}/a"), Some(other)).await.body;
    let last = operator.api(Method::PUT, &format!("{CONFIG_MAPS}/a"), Some(config_map("a"))).await.body;
    let write = format!("/writes/{}", last["metadata"]["resourceVersion"].as_str().unwrap());
    let write = admin.lab(Method::GET, &write, None).await.body;
    let unseen = &write["basis"]["unseen"][0];
    assert_eq!(
        (&unseen["object"], &unseen["relation"]),
        (&json!("configmaps/default/a"), &json!("same")),
        "{write}"
    );
    assert_eq!(unseen["revision"].to_string(), changed["metadata"]["resourceVersion"].as_str().unwrap());
    let clients = admin.lab(Method::GET, "/clients", None).await.body;
    let backup =
        clients["clients"].as_array().unwrap().iter().find(|client| client["name"] == "backup").unwrap();
    assert_eq!((&backup["requests"], &backup["writes"]), (&json!(5), &json!(3)));
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followed_log_has_each_request_once_in_order_and_ends_with_a_reset() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    assert_eq!(admin.lab(Method::POST, "/images", Some(json!({"name": "empty"}))).await.code, 201);
    let operator = admin.at(&lab.cluster("main").unwrap().url, "backup");
    operator.api(Method::POST, CONFIG_MAPS, Some(config_map("first"))).await;
    let path = "/kstore/lab/v1/requests?follow=true&client=backup";
    let (code, mut lines) = admin.open(Method::GET, path, None, None).await;
    assert_eq!(code, 200);
    for number in 0..20 {
        operator.api(Method::POST, CONFIG_MAPS, Some(config_map(&format!("map-{number}")))).await;
        admin.api(Method::GET, CONFIG_MAPS, None).await;
    }
    let mut read = Vec::new();
    while read.iter().filter(|byte| **byte == b'\n').count() < 21 {
        let frame = lines.frame().await.unwrap().unwrap();
        read.extend_from_slice(&frame.into_data().unwrap());
    }
    let rows: Vec<Value> = read
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert!(rows.iter().all(|row| row["verb"] == "create" && row["code"] == 201), "{rows:?}");
    assert!(rows.is_sorted_by_key(|row| row["n"].as_u64()), "{rows:?}");
    let since = rows[18]["n"].as_u64().unwrap();
    let limited = admin
        .lab(Method::GET, &format!("/requests?follow=true&client=backup&since={since}&limit=2"), None)
        .await;
    assert_eq!(limited.body.as_str().map(|text| text.lines().count()), Some(2), "it ends at its limit");
    let gone = admin.lab(Method::DELETE, "/requests", None).await;
    assert_eq!(gone.code, 200);
    assert_eq!(admin.lab(Method::GET, "/requests?follow=true&since=1", None).await.code, 410);
    let fork = admin.lab(Method::POST, "/clusters", Some(json!({"name": "fork"}))).await.body;
    let of_fork = admin.at(fork["url"].as_str().unwrap(), "other");
    let (code, followed) = of_fork.open(Method::GET, "/kstore/lab/v1/requests?follow=true", None, None).await;
    assert_eq!(code, 200);
    assert_eq!(admin.lab(Method::POST, "/clusters/fork/reset", None).await.code, 200);
    // An ended log, or an ended connection.
    drop(tokio::time::timeout(std::time::Duration::from_secs(20), followed.collect()).await.unwrap());
    let mut open = Vec::new();
    for _ in 0..crate::limits::FOLLOWERS {
        let (code, lines) =
            of_fork.open(Method::GET, "/kstore/lab/v1/requests?follow=true", None, None).await;
        assert_eq!(code, 200);
        open.push(lines);
    }
    assert_eq!(of_fork.lab(Method::GET, "/requests?follow=true", None).await.code, 429);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_an_object_lets_a_manual_clock_pass_until_it_is_there() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    admin.api(Method::POST, super::CRON_JOBS, Some(super::hourly("hourly"))).await;
    let wanted = json!({"object": "cronjobs.batch/default/hourly", "matches": {"spec": {"suspend": false}},
        "limit": "1m"});
    assert_eq!(admin.lab(Method::POST, "/wait", Some(wanted)).await.code, 200);
    let node = json!({"object": "nodes/node-0", "condition": "Ready"});
    assert_eq!(admin.lab(Method::POST, "/wait", Some(node)).await.body["metadata"]["name"], "node-0");
    let cel =
        json!({"object": "nodes/node-0", "cel": "object.status.conditions.exists(one, one.type == 'Ready')"});
    assert_eq!(admin.lab(Method::POST, "/wait", Some(cel)).await.code, 200);
    let wrong = json!({"object": "nodes/node-0", "cel": "object.status."});
    let wrong = admin.lab(Method::POST, "/wait", Some(wrong)).await;
    assert!(wrong.code == 400 && wrong.body["message"].as_str().unwrap().starts_with("/cel: "), "{wrong:?}");
    let never = json!({"object": "configmaps/default/none", "matches": {}, "limit": "1m"});
    let refused = admin.lab(Method::POST, "/wait", Some(never)).await;
    assert_eq!(refused.code, 504, "{refused:?}");
    let stopped = admin.lab(Method::POST, "/nodes/node-0/stop", None).await;
    assert_eq!(stopped.code, 200, "{stopped:?}");
    admin.lab(Method::POST, "/clock/advance", Some(json!({"by": "2m"}))).await;
    let node = admin.api(Method::GET, "/api/v1/nodes/node-0", None).await.body;
    let ready = node["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready");
    assert_eq!(ready.unwrap()["status"], "Unknown", "a node without power misses its Lease");
    assert_eq!(admin.lab(Method::POST, "/nodes/none/stop", None).await.code, 404);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_and_quiet_name_an_action_of_a_plan_that_is_under_way() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["example.com/held"]);
    assert_eq!(admin.api(Method::POST, CONFIG_MAPS, Some(map)).await.code, 201);
    let again = json!({"action": "recreate", "object": "configmaps/default/a"});
    let plan = json!({"name": "again", "actions": [again]});
    assert_eq!(admin.lab(Method::POST, "/plans", Some(plan)).await.code, 201);
    let line = "plan again: action 0 (recreate) is under way";
    for path in ["/settled", "/quiet"] {
        let refused = admin.lab(Method::POST, path, Some(json!({"patience": "100ms"}))).await;
        assert_eq!((refused.code, causes(&refused).as_str()), (504, line), "{path}");
    }
    let waiting = tokio::spawn({
        let admin = admin.clone();
        async move { admin.lab(Method::POST, "/settled", None).await }
    });
    let old = admin.api(Method::GET, &format!("{CONFIG_MAPS}/a"), None).await.body;
    assert_eq!(admin.api(Method::PUT, &format!("{CONFIG_MAPS}/a"), Some(config_map("a"))).await.code, 200);
    let settled = waiting.await.unwrap();
    assert_eq!((settled.code, &settled.body["busy"]), (200, &json!([])), "{settled:?}");
    let new = admin.api(Method::GET, &format!("{CONFIG_MAPS}/a"), None).await.body;
    assert!(new["metadata"]["uid"].is_string() && new["metadata"]["uid"] != old["metadata"]["uid"], "{new}");
    lab.end().await;
}
