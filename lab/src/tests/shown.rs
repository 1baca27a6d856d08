//! The record of what clients were shown, as the checker of legality judges it.

use super::client::TestClient;
use super::perturbing::next_event;
use super::{CONFIG_MAPS, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::legality::observed::{Observed, ShownAnswer, ShownRequest};
use crate::legality::{Rule, check};
use crate::registry::Lab;
use crate::request::Verb;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// What was observed of the first cluster since [`keep`].
pub(super) async fn observed(lab: &Arc<Lab>) -> Observed {
    let current = lab.cluster("main").unwrap().current().unwrap();
    let (running, shown, log) = (current.running(), current.bridge.shown.clone(), current.bridge.log.clone());
    let host = running.clone();
    running.call(async move { shown.observed(&host, &log).await }).await.unwrap().unwrap()
}

/// Begins the record of the first cluster.
pub(super) fn keep(lab: &Arc<Lab>) {
    let current = lab.cluster("main").unwrap().current().unwrap();
    current.bridge.shown.keep(current.running());
}

fn labelled(name: &str, team: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = json!({ "team": team });
    object
}

/// Events of a watch that come within a while, whose connection then ends.
async fn watch(client: &TestClient, query: &str) -> usize {
    let path = format!("{CONFIG_MAPS}?watch=1&{query}");
    let (code, mut body) = client.open(Method::GET, &path, None, None).await;
    assert_eq!(code, 200);
    let (mut rest, mut count) = (Vec::new(), 0);
    while next_event(&mut body, &mut rest).await.is_some() {
        count += 1;
    }
    count
}

/// A change of one record, and the rule that rejects it.
type Mutation = (&'static str, Rule, Verb, fn(&mut ShownRequest));

const MUTATIONS: [Mutation; 5] = [
    ("an event left out", Rule::Gap, Verb::Watch, |request| {
        let ShownAnswer::Events(events) = &mut request.answer else { panic!("{request:?}") };
        let first = events.iter().position(|event| event.object == "default/b").unwrap();
        events.remove(first);
    }),
    ("an object missing in a list", Rule::OneState, Verb::List, |request| {
        let ShownAnswer::List { objects, .. } = &mut request.answer else { panic!("{request:?}") };
        assert!(objects.remove("default/b").is_some());
    }),
    ("an older version than the newest", Rule::ConsistentRead, Verb::Get, |request| {
        let ShownAnswer::Object { revision, .. } = &mut request.answer else { panic!("{request:?}") };
        *revision -= 1;
    }),
    ("a conflict without a change", Rule::Conflict, Verb::Update, |request| request.sent = i64::MAX),
    ("a refusal of what was done", Rule::RefusedAndDone, Verb::Update, |request| {
        (request.code, request.answer) = (429, ShownAnswer::Unread);
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_were_shown_is_recorded_and_a_changed_record_is_rejected() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    assert_eq!(admin.api(Method::POST, CONFIG_MAPS, Some(labelled("before", "x"))).await.code, 201);
    keep(&lab);
    let first = admin.api(Method::POST, CONFIG_MAPS, Some(labelled("a", "x"))).await.body;
    assert_eq!(admin.api(Method::POST, CONFIG_MAPS, Some(labelled("b", "y"))).await.code, 201);
    let a = format!("{CONFIG_MAPS}/a");
    let mut changed = first.clone();
    changed["metadata"]["labels"]["team"] = json!("y");
    changed = admin.api(Method::PUT, &a, Some(changed)).await.body;
    assert_eq!(admin.api(Method::PUT, &a, Some(first.clone())).await.code, 409);
    let mut again = changed.clone();
    again["data"]["a"] = json!("again");
    assert_eq!(admin.api(Method::PUT, &a, Some(again)).await.code, 200);
    assert_eq!(admin.api(Method::GET, &a, None).await.code, 200);
    for query in
        ["", "?labelSelector=team%3Dx", "?fieldSelector=metadata.name%3Da", "?resourceVersion=0", "?limit=1"]
    {
        assert_eq!(admin.api(Method::GET, &format!("{CONFIG_MAPS}{query}"), None).await.code, 200);
    }
    let from = first["metadata"]["resourceVersion"].as_str().unwrap();
    assert_eq!(watch(&admin, &format!("resourceVersion={from}")).await, 3);
    // `a` no longer has the label.
    assert_eq!(watch(&admin, &format!("resourceVersion={from}&labelSelector=team%3Dx")).await, 1);
    assert_eq!(admin.api(Method::DELETE, &a, None).await.code, 200);
    let seen = observed(&lab).await;
    let history = seen.history();
    assert_eq!(check(&history), []);
    let read = (history.reads.len(), history.watches.len(), history.writes.len());
    assert_eq!(read, (6, 2, 6), "{history:#?}");
    for (name, rule, verb, mutate) in MUTATIONS {
        let mut other = seen.clone();
        let newest: i64 = changed["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let request = other.requests.iter_mut().find(|request| {
            let is_conflict = rule != Rule::Conflict || request.code == 409;
            request.target.verb == verb && is_conflict
        });
        let request = request.unwrap();
        mutate(request);
        request.sent = request.sent.min(newest + 1);
        let found = check(&other.history());
        assert!(found.iter().any(|one| one.rule == rule), "{name}: {found:?}");
    }
    lab.end().await;
}
