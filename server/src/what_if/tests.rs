//! Tests of questions to a whole control plane in this process.

use super::*;
use kstore_client::Client;
use kstore_client::manifest::{Applier, objects};
use kstore_cluster::{ClusterConfig, Components, ControlPlane, InitialObjects, server_without_listener};
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::time::Duration;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: default}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers: [{name: c, image: nginx, resources: {requests: {cpu: '2'}}}]
";

fn deployment(name: &str, replicas: u32) -> String {
    DEPLOYMENT.replace("NAME", name).replace("REPLICAS", &replicas.to_string())
}

/// A cluster of three nodes of eight cores with a Deployment of four pods and a pod without controller.
async fn cluster() -> (ControlPlane, Client) {
    let server = server_without_listener(&Nondet::simulated(7));
    let (components, initial_objects) = (Components::all(3), InitialObjects::Shared);
    let config = ClusterConfig { components, initial_objects, ..ClusterConfig::default() };
    let plane = ControlPlane::start(server, config).await.unwrap();
    let client = plane.client(UserInfo::new("kubernetes-admin", ["system:masters"]), "test");
    let alone = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: debug, namespace: default}\n\
         spec: {nodeName: node-2, containers: [{name: c, image: nginx}]}\n";
    settle(&plane).await;
    for object in objects(&format!("{}{alone}", deployment("api", 4))).unwrap() {
        Applier::new(&client).apply(object).await.unwrap();
    }
    settle(&plane).await;
    (plane, client)
}

async fn settle(plane: &ControlPlane) {
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if plane.pending_work().await.unwrap().is_empty() {
            return;
        }
    }
    panic!("{:?}", plane.pending_work().await);
}

fn asked(args: &WhatIfArgs, manifests: &str) -> Question {
    Question::read(args, objects(manifests).unwrap(), "default").unwrap()
}

async fn ask(client: &Client, args: &WhatIfArgs, manifests: &str) -> Value {
    let copy = read(client, None).await.unwrap();
    on_thread(copy, asked(args, manifests)).unwrap().data()
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_question_changes_nothing_and_has_the_same_answer_again() {
    let (plane, client) = cluster().await;
    let before = plane.store().unwrap().revision();
    let copy = read(&client, None).await.unwrap();
    assert_eq!(copy.revision, before.0);
    let args = WhatIfArgs { without: texts(&["node/node-2"]), ..WhatIfArgs::default() };
    let answers: Vec<_> = (0..2)
        .map(|_| {
            let answer = on_thread(copy.clone(), asked(&args, &deployment("web", 10))).unwrap();
            (answer.text(), answer.data().to_string(), answer.fails(&[]))
        })
        .collect();
    assert_eq!(answers[0], answers[1]);
    let (text, data, fails) = &answers[0];
    let data: Value = serde_json::from_str(data).unwrap();
    // Two nodes of eight cores hold eight pods of two cores; the pods of api go first.
    let web = &data["groups"][0];
    assert_eq!((&web["name"], &web["pods"]), (&json!("Deployment default/web"), &json!(10)), "{text}");
    let placed = data["groups"].as_array().unwrap().iter().map(|group| group["placed"].as_u64().unwrap());
    assert_eq!((placed.sum::<u64>(), fails), (8, &true), "{text}");
    assert_eq!(data["lost"], json!(["default/debug"]), "{text}");
    assert!(data["pending"][0]["message"].as_str().unwrap().contains("2 Insufficient cpu"), "{text}");
    assert_eq!(data["unsettled"], json!([]), "{text}");
    assert_eq!(plane.store().unwrap().revision(), before, "the server is not written to");
    plane.end(None).await;
}

#[tokio::test(start_paused = true)]
async fn more_nodes_drains_scales_and_deletions_are_answered() {
    let (plane, client) = cluster().await;
    let more = WhatIfArgs { with_nodes: texts(&["2xnode-0"]), ..WhatIfArgs::default() };
    let answer = ask(&client, &more, &deployment("web", 14)).await;
    assert_eq!(answer["groups"][0]["placed"], 14, "{answer}");
    assert_eq!(answer["cpuRequested"]["after"]["nodes"], 5, "{answer}");

    let drained = WhatIfArgs { drain: texts(&["node/node-2"]), ..WhatIfArgs::default() };
    let answer = ask(&client, &drained, "").await;
    assert_eq!(
        (&answer["lost"], &answer["blockedByBudgets"]),
        (&json!(["default/debug"]), &json!([])),
        "{answer}"
    );
    for evicted in answer["evicted"].as_array().unwrap() {
        assert_eq!(
            (&evicted["workload"], &evicted["node"]),
            (&json!("Deployment default/api"), &json!("node-2"))
        );
    }
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: api}\n\
         spec: {maxUnavailable: 0, selector: {matchLabels: {app: api}}}\n";
    let drained = WhatIfArgs { drain: texts(&["node-0", "node-1", "node-2"]), ..WhatIfArgs::default() };
    for object in objects(budget).unwrap() {
        Applier::new(&client).apply(object).await.unwrap();
    }
    settle(&plane).await;
    let answer = ask(&client, &drained, "").await;
    assert_eq!(
        (answer["blockedByBudgets"].as_array().unwrap().len(), &answer["evicted"]),
        (4, &json!([])),
        "{answer}"
    );

    let scaled = WhatIfArgs { scale: texts(&["deployment/api=12"]), ..WhatIfArgs::default() };
    let answer = ask(&client, &scaled, "").await;
    assert_eq!((&answer["groups"][0]["placed"], &answer["pending"]), (&json!(12), &json!([])), "{answer}");

    let deleted = WhatIfArgs { delete: texts(&["deployment/api"]), ..WhatIfArgs::default() };
    let answer = ask(&client, &deleted, "").await;
    let left = json!([{ "name": "others", "pods": 1, "placed": 1, "pending": 0, "evicted": 0, "lost": 0 }]);
    assert_eq!(
        (&answer["groups"], &answer["evicted"], &answer["lost"]),
        (&left, &json!([]), &json!([])),
        "{answer}"
    );
    plane.end(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_copy_refuses_is_an_error_that_names_the_object() {
    let (plane, client) = cluster().await;
    let copy = read(&client, None).await.unwrap();
    let wrong = deployment("web", 1).replace("matchLabels: {app: web}", "matchLabels: {app: other}");
    let error = on_thread(copy.clone(), asked(&WhatIfArgs::default(), &wrong)).unwrap_err();
    assert!(
        format!("{error:#}").contains("Deployment") && format!("{error:#}").contains("selector"),
        "{error:#}"
    );
    let args = WhatIfArgs { without: texts(&["node/none"]), ..WhatIfArgs::default() };
    let error = on_thread(copy, asked(&args, "")).unwrap_err();
    assert!(format!("{error:#}").contains("cannot remove node \"none\""), "{error:#}");
    plane.end(None).await;
}
