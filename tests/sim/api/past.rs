//! Views of the cluster as of a revision: what was answered when the revision was the newest is answered again, and nothing can be changed.

use super::config_map;
use super::custom::{create as create_lamp, define, lamps};
use kstore_nondet::Rng;
use kstore_registry::user::{ANONYMOUS, UNAUTHENTICATED, UserInfo};
use kstore_store::Revision;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.shop.example.com";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn get(cluster: &Cluster, path: &str, accept: &str) -> Reply {
    let request = http::Request::builder().uri(path).header("accept", accept);
    cluster.rest().send(request.body(http_body_util::Full::default()).unwrap()).await
}

async fn revision(cluster: &Cluster) -> i64 {
    cluster.rest().call("GET", CONFIG_MAPS, "").await.text("/metadata/resourceVersion").parse().unwrap()
}

/// The reads whose answers are compared, with the accepted form of each.
const READS: [(&str, &str); 9] = [
    (CONFIG_MAPS, "application/json"),
    (CONFIG_MAPS, TABLE),
    ("/api/v1/configmaps?labelSelector=side%3Dleft", "application/json"),
    ("/api/v1/configmaps?fieldSelector=metadata.name%3Dc-1", "application/vnd.kubernetes.protobuf"),
    ("/api/v1/namespaces/default/configmaps/c-2", "application/yaml"),
    ("/api/v1/namespaces", "application/json"),
    ("/apis/shop.example.com/v1/lamps", "application/json"),
    ("/apis/shop.example.com/v1/lamps", TABLE),
    ("/apis/shop.example.com/v1/namespaces/default/lamps/a/scale", "application/json"),
];

async fn answers(cluster: &Cluster, prefix: &str) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    for (path, accept) in READS {
        let reply = get(cluster, &format!("{prefix}{path}"), accept).await;
        found.push((reply.code, reply.body.to_vec()));
    }
    for document in ["/apis/shop.example.com/v1", "/openapi/v3/apis/shop.example.com/v1"] {
        let reply = get(cluster, &format!("{prefix}{document}"), "application/json").await;
        found.push((reply.code, reply.body.to_vec()));
    }
    found
}

async fn change(cluster: &Cluster, rng: &Rng) {
    let name = format!("c-{}", rng.below(5));
    let side = if rng.below(2) == 0 { "left" } else { "right" };
    let body = config_map(&name, &json!({"side": side, "n": rng.below(100).to_string()}));
    match rng.below(3) {
        0 => drop(cluster.rest().call("POST", CONFIG_MAPS, body).await),
        1 => drop(cluster.rest().call("PUT", &format!("{CONFIG_MAPS}/{name}"), body).await),
        _ => drop(cluster.rest().call("DELETE", &format!("{CONFIG_MAPS}/{name}"), "").await),
    }
}

/// Removes a definition: the server deletes the objects first.
async fn remove_definition(cluster: &Cluster) {
    assert_eq!(cluster.rest().call("DELETE", DEFINITION, "").await.code, 200);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(cluster.rest().call("GET", DEFINITION, "").await.code, 404);
}

#[test]
fn a_view_answers_what_was_answered_when_its_revision_was_the_newest() {
    simulate(Setup::api_alone(), async |cluster| {
        let rng = cluster.nondet().rng.clone();
        let mut recorded = BTreeMap::new();
        for step in 0..40 {
            match step {
                10 => drop(define(cluster, &lamps()).await),
                12 => drop(create_lamp(cluster, "a", json!({"watts": 5})).await),
                20 => {
                    let column = json!([{"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}]);
                    let patch = json!([{"op": "replace", "path": "/spec/versions/0/additionalPrinterColumns", "value": column}]);
                    let form = "application/json-patch+json";
                    let done = cluster.rest().call_as("PATCH", DEFINITION, form, patch.to_string()).await;
                    assert_eq!(done.code, 200, "{}", done.json());
                }
                30 => {
                    remove_definition(cluster).await;
                    // Ages are those of the time of the revision, which is that of its write.
                    cluster.rest().call("POST", CONFIG_MAPS, config_map("last", &json!({}))).await;
                }
                _ => change(cluster, &rng).await,
            }
            recorded.insert(revision(cluster).await, answers(cluster, "").await);
        }
        for (revision, expected) in recorded {
            let seen = answers(cluster, &format!("/kstore/v1/at/{revision}")).await;
            for (number, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
                let text =
                    |(code, body): &(u16, Vec<u8>)| format!("{code} {}", String::from_utf8_lossy(body));
                assert_eq!(text(seen), text(expected), "read {number} at {revision}");
            }
        }
    });
}

/// The server keeps the documents of views for the next requests, of any user.
#[test]
fn documents_of_a_view_are_the_same_for_all_users_who_may_read_them() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        let at = revision(cluster).await;
        remove_definition(cluster).await;
        let admin = cluster.rest();
        let jane = cluster.rest_as(UserInfo::new("jane", [""; 0]));
        let (username, groups) = (ANONYMOUS.to_owned(), vec![UNAUTHENTICATED.to_owned()]);
        let anonymous = cluster.rest_as(UserInfo { username, groups, ..UserInfo::default() });
        assert_eq!(jane.call("GET", "/apis/shop.example.com/v1/lamps", "").await.code, 403);
        for (number, document) in
            ["/apis", "/apis/shop.example.com/v1", "/openapi/v2", "/openapi/v3"].iter().enumerate()
        {
            let path = format!("/kstore/v1/at/{at}{document}");
            let order = if number % 2 == 0 { [&admin, &jane] } else { [&jane, &admin] };
            let first = order[0].call("GET", &path, "").await;
            let second = order[1].call("GET", &path, "").await;
            assert_eq!((first.code, second.code), (200, 200), "{path}: {}", second.json());
            assert!(first.body == second.body, "{path}");
            assert!(
                String::from_utf8_lossy(&first.body).contains("shop.example.com"),
                "{path} is of the past"
            );
            assert_eq!(anonymous.call("GET", &path, "").await.code, 403, "{path} is kept, and forbidden");
        }
    });
}

#[test]
fn pages_of_a_view_and_older_exact_lists_in_it_are_of_the_past() {
    simulate(Setup::api_alone(), async |cluster| {
        for n in 0..7 {
            let made =
                cluster.rest().call("POST", CONFIG_MAPS, config_map(&format!("c-{n}"), &json!({}))).await;
            assert_eq!(made.code, 201);
        }
        let at = revision(cluster).await;
        assert_eq!(cluster.rest().call("DELETE", CONFIG_MAPS, "").await.code, 200);
        let view = |query: &str| format!("/kstore/v1/at/{at}{CONFIG_MAPS}?{query}");
        let names = |list: &Value| list["items"].as_array().unwrap().len();
        let (mut token, mut found) = (String::new(), 0);
        loop {
            let page =
                cluster.rest().call("GET", &view(&format!("limit=3&continue={token}")), "").await.json();
            assert_eq!(page["metadata"]["resourceVersion"], at.to_string());
            found += names(&page);
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, 7);
        let older = format!("resourceVersion={}&resourceVersionMatch=Exact", at - 2);
        assert_eq!(names(&cluster.rest().call("GET", &view(&older), "").await.json()), 5);
        for newer in
            ["resourceVersionMatch=Exact&", "resourceVersionMatch=NotOlderThan&", "watch=1&", "limit=3&"]
        {
            let newer = format!("{newer}resourceVersion={}", at + 1);
            let refused = cluster.rest().call("GET", &view(&newer), "").await;
            assert_eq!(refused.code, 504, "{newer}: {}", refused.json());
            assert!(refused.text("/message").contains("Too large resource version"), "{newer}");
        }
        let present = cluster.rest().call("GET", &format!("{CONFIG_MAPS}?limit=1"), "").await;
        assert_eq!(names(&present.json()), 0);
    });
}

async fn events(cluster: &Cluster, path: &str) -> Vec<String> {
    let reply = cluster.rest().call("GET", path, "").await;
    assert_eq!(reply.code, 200, "{path}: {}", reply.json());
    let one = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let object = &event["object"]["metadata"];
        let name =
            object["name"].as_str().or(object["resourceVersion"].as_str()).unwrap_or_default().to_owned();
        format!("{} {name}", event["type"].as_str().unwrap_or_default())
    };
    String::from_utf8_lossy(&reply.body).lines().map(one).collect()
}

#[test]
fn watches_of_a_view_show_the_state_then_the_changes_of_its_range_and_then_bookmarks() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let made = |name: &str| config_map(name, &json!({}));
        rest.call("POST", CONFIG_MAPS, made("a")).await;
        rest.call("POST", CONFIG_MAPS, made("b")).await;
        let begin = revision(cluster).await;
        rest.call("DELETE", &format!("{CONFIG_MAPS}/a"), "").await;
        rest.call("PUT", &format!("{CONFIG_MAPS}/b"), config_map("b", &json!({"x": "y"}))).await;
        let end = revision(cluster).await;
        rest.call("POST", CONFIG_MAPS, made("c")).await;
        let watch = |range: &str, query: &str| {
            format!("/kstore/v1/at/{range}{CONFIG_MAPS}?watch=1&timeoutSeconds=120&{query}")
        };
        let state = ["ADDED a", "ADDED b"];
        let changes = ["DELETED a", "MODIFIED b"];
        let mark = |revision: i64| format!("BOOKMARK {revision}");
        assert_eq!(events(cluster, &watch(&begin.to_string(), "")).await, state);
        let marked = events(cluster, &watch(&begin.to_string(), "allowWatchBookmarks=true")).await;
        assert_eq!(marked[..3], [state[0].to_owned(), state[1].to_owned(), mark(begin)]);
        assert!(marked.len() > 3 && marked[3..].iter().all(|event| *event == mark(begin)), "{marked:?}");
        let range = format!("{begin}..{end}");
        assert_eq!(events(cluster, &watch(&range, "")).await, [state, changes].concat());
        let resumed = format!("resourceVersion={begin}");
        assert_eq!(events(cluster, &watch(&end.to_string(), &resumed)).await, changes);
        assert_eq!(
            events(cluster, &watch(&end.to_string(), &format!("resourceVersion={end}"))).await,
            [""; 0]
        );
        let marked = events(cluster, &watch(&range, "allowWatchBookmarks=true")).await;
        assert_eq!(marked.last(), Some(&mark(end)), "{marked:?}");
        let shown = rest.call("GET", &format!("/kstore/v1/at/{range}{CONFIG_MAPS}"), "").await;
        assert_eq!(shown.json()["items"].as_array().unwrap().len(), 2, "lists of a range show its begin");
    });
}

#[test]
fn nothing_can_be_changed_in_a_view() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster, &lamps()).await;
        create_lamp(cluster, "a", json!({"watts": 5})).await;
        let at = revision(cluster).await;
        let view = format!("/kstore/v1/at/{at}");
        let mut documents = vec!["/api/v1".to_owned()];
        let groups = cluster.rest().call("GET", &format!("{view}/apis"), "").await.json();
        for group in groups["groups"].as_array().unwrap() {
            let versions = group["versions"].as_array().unwrap();
            documents.extend(
                versions.iter().map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap())),
            );
        }
        let mut tried = 0;
        for document in documents {
            let resources = cluster.rest().call("GET", &format!("{view}{document}"), "").await.json();
            for resource in resources["resources"].as_array().unwrap() {
                let (name, below) = match resource["name"].as_str().unwrap().split_once('/') {
                    Some((name, below)) => (name, format!("/{below}")),
                    None => (resource["name"].as_str().unwrap(), String::new()),
                };
                let namespace = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
                for (method, object) in [
                    ("POST", ""),
                    ("POST", "/a"),
                    ("PUT", "/a"),
                    ("PATCH", "/a"),
                    ("DELETE", "/a"),
                    ("DELETE", ""),
                ] {
                    let path = format!("{view}{document}{namespace}/{name}{object}{below}");
                    let reply = cluster.rest().call(method, &path, "{}").await;
                    if name == "selfsubjectreviews" && method == "POST" {
                        continue;
                    }
                    assert_eq!(reply.code, 405, "{method} {path}: {}", reply.json());
                    let text =
                        format!("the server shows the cluster as of revision {at}, which cannot be changed");
                    assert_eq!(reply.text("/message"), text, "{method} {path}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 500, "{tried}");
        for stream in [
            "pods/a/log",
            "pods/a/exec",
            "pods/a/attach",
            "pods/a/portforward",
            "services/a/proxy",
            "pods/a/proxy/x",
        ] {
            let path = format!("{view}/api/v1/namespaces/default/{stream}");
            assert_eq!(cluster.rest().call("GET", &path, "").await.code, 405, "{stream}");
        }
        let me = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
        let me = cluster
            .rest()
            .call("POST", &format!("{view}/apis/authentication.k8s.io/v1/selfsubjectreviews"), me)
            .await;
        assert_eq!(me.code, 201, "{}", me.json());
        assert_eq!(revision(cluster).await, at, "nothing was written");
    });
}

#[test]
fn revisions_of_a_view_that_do_not_exist_are_refused_and_answers_say_theirs() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        rest.call("POST", CONFIG_MAPS, config_map("a", &json!({}))).await;
        let at = revision(cluster).await;
        let message = async |path: &str| {
            let reply = cluster.rest().call("GET", path, "").await;
            (reply.code, reply.text("/message"))
        };
        let future = message(&format!("/kstore/v1/at/9000{CONFIG_MAPS}")).await;
        assert_eq!(future, (504, format!("revision 9000 does not exist yet: the newest is {at}")));
        assert_eq!(message("/kstore/v1/resolve?text=9000").await.0, 504);
        assert_eq!(message("/kstore/v1/at/x/api").await.0, 400);
        cluster.store().compact(Revision(at)).await.unwrap();
        let (code, text) = message(&format!("/kstore/v1/at/{}{CONFIG_MAPS}", at - 1)).await;
        assert!(
            text.starts_with(&format!("revision {} is not retained: the oldest is {at} (", at - 1)),
            "{text}"
        );
        assert!(code == 410 && text.ends_with("; a longer --history keeps more"), "{text}");
        assert_eq!(message(&format!("/kstore/v1/resolve?text={}", at - 1)).await, (410, text));
        let plain = http::Request::builder().uri(CONFIG_MAPS).header("kstore-at", at.to_string());
        let reply = rest.send(plain.body(http_body_util::Full::default()).unwrap()).await;
        let header = |name: &str| reply.headers[name].to_str().unwrap().to_owned();
        assert_eq!((reply.code, header("kstore-revision")), (200, at.to_string()));
        assert!(header("kstore-time").starts_with("2026-01-01T00:"), "{}", header("kstore-time"));
        let warning = header("warning");
        assert!(warning.starts_with(&format!("299 - \"the cluster as of revision {at} (00:")), "{warning}");
        assert!(warning.ends_with(" ago); nothing can be changed\""), "{warning}");
    });
}

#[test]
fn texts_resolve_to_revisions_and_writes_name_their_objects() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let mut made = Vec::new();
        for n in 0..3 {
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            let reply = rest.call("POST", CONFIG_MAPS, config_map(&format!("c-{n}"), &json!({}))).await;
            made.push(reply.text("/metadata/resourceVersion").parse::<i64>().unwrap());
        }
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        let now = revision(cluster).await;
        let resolve = async |text: &str| {
            let reply = cluster.rest().call("GET", &format!("/kstore/v1/resolve?text={text}"), "").await;
            assert_eq!(reply.code, 200, "{text}: {}", reply.json());
            reply.json()["revision"].as_i64().unwrap()
        };
        assert_eq!([resolve("now").await, resolve(&format!("{}~2", made[2])).await], [now, made[0]]);
        assert_eq!(resolve(&format!("%23{}~1", made[2])).await, made[1]);
        let between = resolve("60s").await;
        assert!(between >= made[1] && between < made[2], "{between} of {made:?}");
        let before = resolve("2026-01-01T00:01:30Z").await;
        assert!(before >= made[0] && before < made[1], "{before} of {made:?}");
        let selected = resolve(&format!("{}~1&resource=configmaps&name=c-0", made[2])).await;
        assert_eq!(selected, made[0]);
        for (text, part) in [
            ("before-upgrade", "there is no tag"),
            ("Yesterday", "is no revision"),
            ("now&x=y", "unknown parameter \"x\""),
        ] {
            let refused = rest.call("GET", &format!("/kstore/v1/resolve?text={text}"), "").await;
            assert!(refused.code == 400 && refused.text("/message").contains(part), "{}", refused.json());
        }
        let known = rest.call("GET", "/kstore/v1/revisions", "").await.json();
        assert_eq!(
            (known["newest"]["revision"].as_i64(), &known["clock"]),
            (Some(now), &json!("virtual")),
            "{known}"
        );
        let writes = rest
            .call("GET", &format!("/kstore/v1/writes?after={}&until={}", made[0] - 1, made[0]), "")
            .await
            .json();
        let write = &writes["writes"][0];
        assert_eq!(
            (&write["verb"], write["revision"].as_i64()),
            (&json!("create"), Some(made[0])),
            "{writes}"
        );
        let object = json!({"resource": "configmaps", "version": "v1", "namespace": "default", "name": "c-0", "effect": "created"});
        assert_eq!(write["objects"], json!([object]));
    });
}

/// Regression test: `X~N` of an object counted in the memory of provenance, which has no writes of Leases and Events, and forgets.
#[test]
fn writes_of_an_object_are_counted_in_all_that_is_retained() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let lease = json!({"metadata": {"name": "turn"}, "spec": {"leaseTransitions": 0}});
        let mut object = rest.call("POST", leases, lease.to_string()).await.json();
        let version = |object: &Value| {
            let version = object["metadata"]["resourceVersion"].as_str().unwrap();
            version.parse::<i64>().unwrap()
        };
        let mut made = vec![version(&object)];
        let scheduler = UserInfo::new("system:kube-scheduler", ["system:masters"]);
        let component = cluster.rest_as(scheduler);
        // More than the first page of changes.
        for turn in 1..=80 {
            object["spec"]["leaseTransitions"] = json!(turn);
            let writer = if turn % 10 == 0 { &component } else { &rest };
            let reply = writer.call("PUT", &format!("{leases}/turn"), object.to_string()).await;
            assert_eq!(reply.code, 200, "{}", reply.json());
            object = reply.json();
            if turn % 10 != 0 {
                made.push(version(&object));
            }
        }
        let resolve = async |back: usize| {
            let query = "resource=leases.coordination.k8s.io&namespace=default&name=turn";
            let path = format!("/kstore/v1/resolve?text=now~{back}&{query}");
            cluster.rest().call("GET", &path, "").await
        };
        for back in [1, 2, 10, 60, made.len()] {
            let found = resolve(back).await.json();
            assert_eq!(found["revision"].as_i64(), Some(made[made.len() - back]), "{back}: {found}");
        }
        let missing = resolve(made.len() + 1).await;
        assert_eq!(missing.code, 404, "{}", missing.json());
    });
}

#[test]
fn tags_are_revisions_by_name() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        let mut made = Vec::new();
        for n in 0..2 {
            let reply = rest.call("POST", CONFIG_MAPS, config_map(&format!("c-{n}"), &json!({}))).await;
            made.push(reply.text("/metadata/resourceVersion").parse::<i64>().unwrap());
        }
        let data = json!({"release": made[1].to_string(), "later": "99999"});
        let maps = "/api/v1/namespaces/kube-system/configmaps";
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kstore-tags"}, "data": data});
        let reply = rest.call("POST", maps, map.to_string()).await;
        assert_eq!(reply.code, 201, "{}", reply.json());
        let resolve = async |text: &str| {
            cluster.rest().call("GET", &format!("/kstore/v1/resolve?text={text}"), "").await
        };
        assert_eq!(resolve("release").await.json()["revision"], made[1]);
        assert_eq!(resolve("release~1").await.json()["revision"], made[0]);
        for (tag, code, part) in
            [("none", 400, "this server has later, release"), ("later", 504, "does not exist yet")]
        {
            let refused = resolve(tag).await;
            assert!(refused.code == code && refused.text("/message").contains(part), "{}", refused.json());
        }
        let known = rest.call("GET", "/kstore/v1/revisions", "").await.json();
        let tags = json!([{"name": "later", "revision": 99999}, {"name": "release", "revision": made[1]}]);
        assert_eq!(known["tags"], tags);
    });
}
