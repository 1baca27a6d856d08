//! What the page reads: rows at any revision and the changes between, for whom they are.

use kstore_registry::user::UserInfo;
use kstore_tests::{Rest, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The lines of an answer.
async fn lines(rest: &Rest, path: &str) -> Vec<Value> {
    let reply = rest.call("GET", path, "").await;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.code, 200, "{path}: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

type Rows = BTreeMap<(String, String, String), Value>;

fn key(parts: [&Value; 3]) -> (String, String, String) {
    let [kind, namespace, name] = parts.map(|part| part.as_str().unwrap_or_default().to_owned());
    (kind, namespace, name)
}

/// The revision and the rows of an answer.
async fn rows(rest: &Rest, at: &str) -> (i64, Rows) {
    let mut lines = lines(rest, &format!("/kstore/v1/rows?at={at}")).await;
    let end = lines.pop().unwrap();
    let head = lines.remove(0);
    assert_eq!(end, json!({"end": lines.len(), "cut": false}));
    let rows = lines.into_iter().map(|row| (key([&row["k"], &row["n"], &row["m"]]), row)).collect();
    (head["revision"].as_i64().unwrap(), rows)
}

fn apply(rows: &mut Rows, change: &Value) {
    for object in change["o"].as_array().unwrap() {
        let key = key([&object[0], &object[1], &object[2]]);
        match &object[4] {
            Value::Null => drop(rows.remove(&key)),
            row => drop(rows.insert(key, row.clone())),
        }
    }
}

#[test]
fn rows_moved_by_changes_are_the_rows_of_each_later_revision() {
    simulate(Setup::seed(1), async |cluster| {
        cluster.create(manifests::deployment("web", 2)).await;
        cluster.wait_rolled_out("web").await;
        let rest = cluster.rest();
        let revisions = rest.call("GET", "/kstore/v1/revisions", "").await.json();
        assert_eq!(
            (revisions["user"].as_str(), revisions["clock"].as_str()),
            (Some("kubernetes-admin"), Some("virtual"))
        );
        let oldest = revisions["from"].as_i64().unwrap();
        let (_, mut moved) = rows(&rest, &oldest.to_string()).await;
        let changes = lines(&rest, &format!("/kstore/v1/changes?after={oldest}")).await;
        let (end, changes) = changes.split_last().unwrap();
        let (newest, now) = rows(&rest, "now").await;
        assert!(end["now"].as_i64().unwrap() <= newest);
        let checked: Vec<i64> = changes.iter().filter_map(|change| change["r"].as_i64()).collect();
        assert!(checked.is_sorted() && checked.len() > 20, "{checked:?}");
        for (at, change) in changes.iter().enumerate() {
            apply(&mut moved, change);
            if at % 7 == 0 {
                let (_, expected) = rows(&rest, &checked[at].to_string()).await;
                assert_eq!(moved, expected, "at revision {}", checked[at]);
            }
        }
        assert_eq!(moved, now);

        let create = changes
            .iter()
            .find(|change| change["o"][0][0] == "deployments.apps" && change["o"][0][3] == "created");
        let create = create.unwrap();
        assert_eq!((&create["w"][0], &create["w"][2]), (&json!("kubernetes-admin"), &json!("create")));
        let sets = changes.iter().find(|change| change["o"][0][0] == "replicasets.apps").unwrap();
        assert_eq!(sets["c"], json!([create["r"]]), "the set names the deployment's write as its cause");
        let web = &now[&("deployments.apps".to_owned(), "default".to_owned(), "web".to_owned())];
        assert_eq!((&web["s"], &web["r"]), (&json!("ready"), &json!("2/2")));
        assert!(now.values().all(|row| row["k"] != "leases.coordination.k8s.io"));
    });
}

#[test]
fn a_caller_sees_only_what_it_may_list_now_and_nothing_of_a_former_namespace() {
    simulate(Setup::api_alone(), async |cluster| {
        let admin = cluster.rest();
        let post = async |path: &str, object: Value| {
            let reply = admin.call("POST", path, object.to_string()).await;
            assert_eq!(reply.code, 201, "{path}: {}", String::from_utf8_lossy(&reply.body));
            reply.json()["metadata"]["resourceVersion"].as_str().unwrap().parse::<i64>().unwrap()
        };
        let namespace = || json!({"metadata": {"name": "shop"}});
        let config = |name: &str| json!({"metadata": {"name": name}, "data": {"k": "v"}});
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        post(
            &format!("{rbac}/clusterroles"),
            json!({"metadata": {"name": "see"},
            "rules": [{"nonResourceURLs": ["/kstore/v1/*"], "verbs": ["get"]}]}),
        )
        .await;
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]);
        let reference = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let jane = cluster.rest_as(UserInfo::new("jane", [""; 0]));
        assert_eq!(jane.call("GET", "/kstore/v1/rows", "").await.code, 403);
        post(
            &format!("{rbac}/clusterrolebindings"),
            json!({"metadata": {"name": "see"},
            "roleRef": reference("ClusterRole", "see"), "subjects": subjects}),
        )
        .await;
        assert_eq!(rows(&jane, "now").await.1, Rows::new(), "the path alone shows nothing");

        let before = post("/api/v1/namespaces", namespace()).await;
        let secret = post("/api/v1/namespaces/shop/configmaps", config("former")).await;
        for name in ["former"] {
            assert_eq!(
                admin.call("DELETE", &format!("/api/v1/namespaces/shop/configmaps/{name}"), "").await.code,
                200
            );
        }
        assert_eq!(admin.call("DELETE", "/api/v1/namespaces/shop", "").await.code, 200);
        let finalized = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}, "spec": {"finalizers": []}});
        assert_eq!(
            admin.call("PUT", "/api/v1/namespaces/shop/finalize", finalized.to_string()).await.code,
            200
        );
        post("/api/v1/namespaces", namespace()).await;
        post(
            &format!("{rbac}/namespaces/shop/roles"),
            json!({"metadata": {"name": "maps"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}),
        )
        .await;
        post(
            &format!("{rbac}/namespaces/shop/rolebindings"),
            json!({"metadata": {"name": "maps"},
            "roleRef": reference("Role", "maps"), "subjects": subjects}),
        )
        .await;
        post("/api/v1/namespaces/shop/configmaps", config("present")).await;
        post("/api/v1/namespaces/default/configmaps", config("elsewhere")).await;

        let names = |rows: &Rows| rows.keys().map(|(_, _, name)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&rows(&jane, "now").await.1), ["present"]);
        assert_eq!(names(&rows(&jane, &secret.to_string()).await.1), [""; 0], "another owner's map");
        assert!(names(&rows(&admin, &secret.to_string()).await.1).contains(&"former".to_owned()));
        let changes = |all: &[Value]| {
            let objects = all.iter().filter_map(|line| line["o"].as_array()).flatten();
            objects.map(|object| object[2].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let path = format!("/kstore/v1/changes?after={before}");
        assert_eq!(changes(&lines(&jane, &path).await), ["present"]);
        assert!(changes(&lines(&admin, &path).await).contains(&"former".to_owned()));
    });
}

#[test]
fn revisions_that_cannot_be_read_are_refused_before_the_answer_begins() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        for (path, code) in [
            ("/kstore/v1/rows?at=0", 400),
            ("/kstore/v1/rows?at=x", 400),
            ("/kstore/v1/rows?at=999999", 504),
            ("/kstore/v1/changes", 400),
            ("/kstore/v1/changes?after=999999", 504),
        ] {
            assert_eq!(rest.call("GET", path, "").await.code, code, "{path}");
        }
        assert_eq!(rest.call("POST", "/kstore/v1/rows", "").await.code, 405);
    });
}

#[test]
fn one_users_streams_of_changes_leave_room_for_those_of_others() {
    simulate(Setup::api_alone(), async |cluster| {
        let user = |name: &str| cluster.rest_as(UserInfo::new(name, ["system:masters"]));
        let revisions = user("jane").call("GET", "/kstore/v1/revisions", "").await.json();
        let path = format!("/kstore/v1/changes?after={}&follow=1", revisions["newest"]["revision"]);
        let ask = async |name: &str| user(name).call("GET", &path, "").await.code;
        // The streams are open together: each lasts as long as a stream may, but for the one that is refused at once.
        let names = (0..17).map(|_| "jane").chain(["joe"]);
        let codes = futures::future::join_all(names.map(&ask)).await;
        let (joe, jane) = codes.split_last().unwrap();
        assert_eq!(*joe, 200, "{codes:?}");
        let count = |code: u16| jane.iter().filter(|own| **own == code).count();
        assert_eq!((count(200), count(429)), (16, 1), "{codes:?}");
        assert_eq!(ask("jane").await, 200, "their places are free again");
    });
}
