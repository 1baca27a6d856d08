//! Lists over REST: their revision, their pagination, and refused options.

use super::{config_map, configs, names, query};
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn version(list: &Value) -> String {
    list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// Creates `count` ConfigMaps `c-000`…, every other one labelled `side=left`. Returns the last revision.
async fn fill(cluster: &Cluster, count: usize) -> String {
    let mut last = String::new();
    for n in 0..count {
        let side = if n % 2 == 0 { "left" } else { "right" };
        let body = config_map(&format!("c-{n:03}"), &json!({"side": side}));
        let made = cluster.rest().call("POST", CONFIG_MAPS, body).await;
        assert_eq!(made.code, 201, "{}", made.json());
        last = version(&made.json());
    }
    last
}

#[test]
fn pages_of_a_list_are_consistent_under_concurrent_writes() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster, 25).await;
        for selector in ["", "labelSelector=side%3Dleft&"] {
            let whole = configs(cluster, selector).await;
            let (mut pages, mut token, mut round) = (Vec::new(), String::new(), 0);
            loop {
                let page = configs(cluster, &format!("{selector}limit=4&continue={token}")).await;
                assert_eq!(version(&page), version(&whole), "each page has the first page's revision");
                pages.extend(names(&page));
                let left = names(&whole).len() - pages.len();
                let remaining = page["metadata"]["remainingItemCount"].as_u64();
                assert_eq!(remaining, (selector.is_empty() && left > 0).then_some(left as u64));
                token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                if token.is_empty() {
                    break;
                }
                // Creates, changes and deletes objects before, between and after the remaining pages.
                let made = config_map(&format!("c-{round:03}-new"), &json!({"side": "left"}));
                assert_eq!(cluster.rest().call("POST", CONFIG_MAPS, made).await.code, 201);
                let gone = format!("{CONFIG_MAPS}/c-{:03}", 24 - round);
                assert_eq!(cluster.rest().call("DELETE", &gone, "").await.code, 200);
                round += 1;
            }
            assert_eq!(pages, names(&whole), "{selector}");
            let rest = names(&configs(cluster, "").await);
            for name in rest {
                cluster.rest().call("DELETE", &format!("{CONFIG_MAPS}/{name}"), "").await;
            }
            fill(cluster, 25).await;
        }
    });
}

#[test]
fn every_retained_revision_can_be_listed_exactly() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut states: Vec<(String, Vec<String>)> = Vec::new();
        for step in 0..12 {
            let name = format!("c-{}", step % 5);
            let answer = match step % 3 {
                2 => cluster.rest().call("DELETE", &format!("{CONFIG_MAPS}/c-{}", step % 2), "").await,
                _ => cluster.rest().call("POST", CONFIG_MAPS, config_map(&name, &json!({}))).await,
            };
            assert!([200, 201, 409, 404].contains(&answer.code), "{}", answer.json());
            let now = configs(cluster, "").await;
            states.push((version(&now), names(&now)));
        }
        for (revision, want) in states {
            let list =
                configs(cluster, &format!("resourceVersion={revision}&resourceVersionMatch=Exact")).await;
            assert_eq!((version(&list), names(&list)), (revision.clone(), want.clone()));
            // The legacy form of an exact list: a limit without a match rule.
            let list = configs(cluster, &format!("resourceVersion={revision}&limit=100")).await;
            assert_eq!((version(&list), names(&list)), (revision.clone(), want.clone()));
            for name in ["c-0", "c-1"] {
                let selector = format!("fieldSelector=metadata.name%3D{name}");
                let list = configs(
                    cluster,
                    &format!("{selector}&resourceVersion={revision}&resourceVersionMatch=Exact"),
                )
                .await;
                assert_eq!(!names(&list).is_empty(), want.contains(&name.to_owned()), "{name} at {revision}");
            }
        }
    });
}

#[test]
fn a_future_revision_is_awaited_and_then_refused() {
    simulate(Setup::api_alone(), async |cluster| {
        let now: u64 = fill(cluster, 1).await.parse().unwrap();
        for form in ["", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan", "&limit=1"] {
            let list = query(cluster, CONFIG_MAPS, &format!("resourceVersion={}{form}", now + 10)).await;
            assert_eq!((list.code, list.text("/reason").as_str()), (504, "Timeout"), "{form}");
            let message = format!("Timeout: Too large resource version: {}, current: {now}", now + 10);
            assert_eq!(list.text("/message"), message);
            assert_eq!(list.text("/details/causes/0/reason"), "ResourceVersionTooLarge");
            assert_eq!(list.headers["retry-after"], "1");
        }
    });
}

#[test]
fn compacted_revisions_answer_410_and_pages_offer_an_inconsistent_continuation() {
    simulate(Setup::api_alone(), async |cluster| {
        let old = fill(cluster, 6).await;
        let page = configs(cluster, "limit=2").await;
        let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
        assert_eq!(cluster.rest().call("DELETE", &format!("{CONFIG_MAPS}/c-003"), "").await.code, 200);
        cluster.store().compact(cluster.store().revision()).await.unwrap();
        let list =
            query(cluster, CONFIG_MAPS, &format!("resourceVersion={old}&resourceVersionMatch=Exact")).await;
        assert_eq!((list.code, list.text("/reason").as_str()), (410, "Expired"));
        assert_eq!(list.text("/message"), "The resourceVersion for the provided list is too old.");
        let next = query(cluster, CONFIG_MAPS, &format!("limit=2&continue={token}")).await;
        assert_eq!((next.code, next.text("/reason").as_str()), (410, "Expired"));
        assert!(
            next.text("/message").starts_with("The provided continue parameter is too old"),
            "{}",
            next.json()
        );
        let on = next.text("/metadata/continue");
        let rest = configs(cluster, &format!("limit=10&continue={on}")).await;
        assert_eq!(names(&rest), ["c-002", "c-004", "c-005"], "from the same place at the newest revision");
    });
}

#[test]
fn a_continue_token_is_valid_only_for_its_own_list() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster, 4).await;
        let page = configs(cluster, "limit=2").await;
        let token = page["metadata"]["continue"].as_str().unwrap();
        let path = "/api/v1/namespaces/kube-system/configmaps";
        let elsewhere = query(cluster, path, &format!("limit=2&continue={token}")).await;
        assert!(names(&elsewhere.json()).iter().all(|name| !name.starts_with("c-")), "bound to its prefix");
        for (token, why) in [
            ("abc%25", "continue key is not valid"),
            ("e30", "continue key is not valid"),
            // {"v":"meta.k8s.io/v1","rv":5,"start":"../secrets/x"}
            (
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi9zZWNyZXRzL3gifQ",
                "continue key is not valid",
            ),
        ] {
            let answer = query(cluster, CONFIG_MAPS, &format!("continue={token}")).await;
            let want = format!("invalid continue token: {why}");
            assert!(answer.code == 400 && answer.text("/message").starts_with(&want), "{}", answer.json());
        }
        let both = query(cluster, CONFIG_MAPS, &format!("continue={token}&resourceVersion=5")).await;
        assert_eq!(both.text("/message"), "specifying resource version is not allowed when using continue");
    });
}

#[test]
fn pods_are_listed_by_node_after_they_move() {
    simulate(Setup::api_alone(), async |cluster| {
        let pods = "/api/v1/namespaces/default/pods";
        let pod = |name: &str, node: Value| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
            .to_string()
        };
        for (name, node) in [("a", json!("n1")), ("b", json!("n2")), ("c", json!(null)), ("d", json!("n1"))] {
            assert_eq!(cluster.rest().call("POST", pods, pod(name, node)).await.code, 201);
        }
        let on = async |node: &str| {
            names(&query(cluster, pods, &format!("fieldSelector=spec.nodeName%3D{node}")).await.json())
        };
        assert_eq!(
            (on("n1").await, on("n2").await, on("").await),
            (vec!["a".into(), "d".into()], vec!["b".into()], vec!["c".into()])
        );
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "c"}, "target": {"kind": "Node", "name": "n2"}});
        assert_eq!(
            cluster.rest().call("POST", &format!("{pods}/c/binding"), binding.to_string()).await.code,
            201
        );
        let delete = r#"{"gracePeriodSeconds":0}"#;
        assert_eq!(cluster.rest().call("DELETE", &format!("{pods}/a"), delete).await.code, 200);
        assert_eq!(
            (on("n1").await, on("n2").await, on("").await),
            (vec!["d".into()], vec!["b".into(), "c".into()], vec![])
        );
        let other = query(cluster, pods, "fieldSelector=spec.nodeName!%3Dn2").await;
        assert_eq!(names(&other.json()), ["d"]);
    });
}
