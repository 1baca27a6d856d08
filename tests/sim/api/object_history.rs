//! `/kstore/v1/history`: each retained change of an object, once, however many there are, whatever caused them, and of any kind.

use super::config_map;
use kstore_store::Revision;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The changes of an object, the newest first, in pages.
async fn history(cluster: &Cluster, query: &str, limit: usize) -> (Vec<Value>, i64) {
    let (mut found, mut before, mut oldest) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!("/kstore/v1/history?{query}&limit={limit}{before}");
        let reply = cluster.rest().call("GET", &path, "").await;
        let page = reply.json();
        assert_eq!(reply.code, 200, "{path}: {page}");
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= limit && (!entries.is_empty() || found.is_empty()), "{page}");
        found.extend(entries.iter().cloned());
        oldest = page["oldest"].as_i64().unwrap().max(oldest);
        let Some(next) = page["continue"].as_i64() else {
            assert_eq!(page["remaining"], 0, "{page}");
            return (found, oldest);
        };
        before = format!("&before={next}");
    }
}

fn revisions(entries: &[Value]) -> Vec<i64> {
    entries.iter().map(|entry| entry["revision"].as_i64().unwrap()).collect()
}

/// The revision that a write made, as an object that it answers with says.
async fn newest(cluster: &Cluster) -> i64 {
    cluster.rest().call("GET", CONFIG_MAPS, "").await.text("/metadata/resourceVersion").parse().unwrap()
}

/// H1: random writes beside a list of what was written, before and after a compaction.
#[test]
fn the_history_of_an_object_has_each_retained_change_once() {
    simulate(Setup::api_alone(), async |cluster| {
        let (rng, rest) = (cluster.nondet().rng.clone(), cluster.rest());
        let mut written: BTreeMap<String, Vec<(i64, &str)>> = BTreeMap::new();
        for step in 0..120 {
            let name = format!("c-{}", rng.below(3));
            let changes = written.entry(name.clone()).or_default();
            let exists = changes.last().is_some_and(|(_, effect)| *effect != "deleted");
            let body = config_map(&name, &json!({"step": step.to_string()}));
            let path = format!("{CONFIG_MAPS}/{name}");
            let (reply, effect) = match (exists, rng.below(4)) {
                (false, _) => (rest.call("POST", CONFIG_MAPS, body).await, "created"),
                (true, 0) => (rest.call("DELETE", &path, "").await, "deleted"),
                (true, _) => (rest.call("PUT", &path, body).await, "updated"),
            };
            assert!(reply.code < 300, "{}", reply.json());
            changes.push((newest(cluster).await, effect));
            if step == 80 {
                let at = newest(cluster).await - 15;
                cluster.store().compact(Revision(at)).await.unwrap();
            }
        }
        for (name, changes) in &written {
            for limit in [1, 7, 500] {
                let query = format!("resource=configmaps&name={name}");
                let (found, oldest) = history(cluster, &query, limit).await;
                let is_retained = |entry: &&Value| entry["retained"] != false;
                let (retained, forgotten): (Vec<&Value>, Vec<&Value>) = found.iter().partition(is_retained);
                let base = changes
                    .iter()
                    .rfind(|(revision, _)| *revision <= oldest)
                    .filter(|(_, effect)| *effect != "deleted");
                let later = changes.iter().filter(|(revision, _)| *revision > oldest);
                let expected: Vec<(i64, &str)> = base.into_iter().chain(later).rev().copied().collect();
                let shown: Vec<(i64, &str)> = retained
                    .iter()
                    .map(|entry| (entry["revision"].as_i64().unwrap(), entry["effect"].as_str().unwrap()))
                    .collect();
                assert_eq!(shown, expected, "{name} from {oldest}");
                assert!(forgotten.iter().all(|entry| entry["revision"].as_i64().unwrap() <= oldest));
                assert!(found.iter().all(|entry| entry["user"] == "kubernetes-admin"), "{found:?}");
                assert!(revisions(&found).is_sorted_by(|a, b| a > b), "{name}: {:?}", revisions(&found));
            }
        }
    });
}

/// Changes deeper than 48 in the tree of causes were left out, and so were kinds without provenance in memory.
#[test]
fn a_long_chain_of_causes_and_kinds_without_provenance_are_in_the_history() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let made = rest.call("POST", CONFIG_MAPS, config_map("chain", &json!({}))).await;
        let mut expected = vec![made.text("/metadata/resourceVersion").parse::<i64>().unwrap()];
        for step in 0..100 {
            let body = config_map("chain", &json!({"step": step.to_string()}));
            let request = http::Request::builder()
                .method("PUT")
                .uri(format!("{CONFIG_MAPS}/chain"))
                .header("content-type", "application/json")
                .header("kstore-cause", expected.last().unwrap().to_string());
            let reply = rest.send(request.body(http_body_util::Full::from(body)).unwrap()).await;
            assert_eq!(reply.code, 200, "{}", reply.json());
            expected.push(reply.text("/metadata/resourceVersion").parse().unwrap());
        }
        let (found, _) = history(cluster, "resource=configmaps&name=chain", 500).await;
        let shown: Vec<i64> = revisions(&found).into_iter().rev().collect();
        assert_eq!(shown, expected);
        assert_eq!(found[0]["causes"], json!([expected[99]]));
        assert_eq!(found[100]["effects"].as_i64(), Some(48), "as many as the tree shows");

        let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}).to_string();
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let mut held = rest.call("POST", leases, lease).await.json();
        held["spec"]["holderIdentity"] = json!("b");
        assert_eq!(rest.call("PUT", &format!("{leases}/l"), held.to_string()).await.code, 200);
        let event = json!({"metadata": {"name": "e"}, "reason": "Tested",
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "chain"}});
        let events = "/api/v1/namespaces/default/events";
        assert_eq!(rest.call("POST", events, event.to_string()).await.code, 201);
        for (query, effects) in [
            ("resource=leases.coordination.k8s.io&name=l", &["updated", "created"][..]),
            ("resource=events&name=e", &["created"]),
        ] {
            let (found, _) = history(cluster, query, 5).await;
            let shown: Vec<&str> = found.iter().map(|entry| entry["effect"].as_str().unwrap()).collect();
            assert_eq!(shown, effects, "{query}");
            assert!(found.iter().all(|entry| entry["time"].is_string() && entry["verb"].is_string()));
        }
    });
}

/// The status of a large set changes with each of its pods: a watch sees each change, and so does the history.
#[test]
fn the_history_of_a_stateful_set_of_90_replicas_has_each_version_that_a_watch_saw() {
    simulate(Setup::seed(4), async |cluster| {
        let sets = "/apis/apps/v1/namespaces/default/statefulsets";
        let from = newest(cluster).await;
        let path = format!(
            "{sets}?watch=true&fieldSelector=metadata.name%3Ddb&resourceVersion={from}&timeoutSeconds=1200"
        );
        let rest = cluster.rest();
        let changes = async {
            let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
                "spec": {"replicas": 90, "serviceName": "db",
                    "selector": {"matchLabels": {"app": "db"}}, "template": {"metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [{"name": "c", "image": "db:1"}]}}}});
            cluster.create(set).await;
            let is_ready = |set: &Value| set["status"]["readyReplicas"] == 90;
            cluster.wait_object("statefulsets", "db", "ready", is_ready).await;
            cluster.merge("statefulsets", "db", json!({"spec": {"replicas": 60}})).await;
            let is_smaller = |set: &Value| set["status"]["replicas"] == 60;
            cluster.wait_object("statefulsets", "db", "smaller", is_smaller).await;
        };
        let (watched, ()) = futures::join!(rest.call("GET", &path, ""), changes);
        let lines = String::from_utf8_lossy(&watched.body).into_owned();
        let version = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<i64>().unwrap()
        };
        let seen: Vec<i64> = lines.lines().map(version).collect();
        let (found, _) = history(cluster, "resource=statefulsets.apps&name=db", 100).await;
        let shown: Vec<i64> = revisions(&found).into_iter().rev().collect();
        assert_eq!(shown, seen, "{} in the history, {} in the watch", shown.len(), seen.len());
        assert!(seen.len() > 90, "the status changed {} times", seen.len());
    });
}

#[test]
fn questions_about_no_object_and_bad_parameters_are_refused_with_the_reason() {
    simulate(Setup::api_alone(), async |cluster| {
        for (query, code, part) in [
            ("resource=configmaps&name=none", 404, "the history reaches back to revision 1 only"),
            ("resource=configmaps", 400, "the object is missing"),
            ("resource=lamps&name=a", 400, "unknown resource"),
            ("resource=configmaps&name=a&limit=0", 400, "less than 1"),
            ("resource=configmaps&name=a&before=x", 400, "invalid syntax"),
            ("resource=configmaps&name=a&at=5", 400, "unknown parameter"),
        ] {
            let refused = cluster.rest().call("GET", &format!("/kstore/v1/history?{query}"), "").await;
            let message = refused.text("/message");
            assert!(refused.code == code && message.contains(part), "{query}: {} {message}", refused.code);
        }
    });
}
