//! Random calls: none is answered with an internal error, and none leaves a cluster, an image or a program behind that no later call ends.

use super::{TestClient, lab_with};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::registry::LabConfig;
use http::Method;
use kstore_nondet::Rng;
use serde_json::{Value, json};

/// Names that calls use, of which some exist.
const NAMES: [&str; 4] = ["a", "b", "main", "Wrong/"];

fn pick<'v, T>(rng: &Rng, values: &'v [T]) -> &'v T {
    &values[usize::try_from(rng.below(values.len() as u64)).unwrap()]
}

/// A value that may be right or wrong for any member.
fn value(rng: &Rng) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(2),
        json!("1m"),
        json!("-1h"),
        json!("a"),
        json!(["sleep", "1000"]),
        json!({"mode": "manual"}),
        json!({"image": "a"}),
        json!({"cluster": "main"}),
        json!("configmaps/default/a"),
        json!("object.data == {}"),
        json!("TERM"),
    ];
    pick(rng, &values).clone()
}

/// A body with up to three of the members that calls know.
fn body(rng: &Rng) -> Value {
    let members = [
        "name", "by", "to", "next", "settled", "limit", "patience", "mode", "from", "count", "seed", "clock",
        "object", "cel", "deleted", "user", "command", "signal", "match", "unknown",
    ];
    let members = (0..rng.below(4)).map(|_| ((*pick(rng, &members)).to_owned(), value(rng)));
    let mut body: serde_json::Map<String, Value> = members.collect();
    // No call takes long.
    if body.contains_key("object") {
        body.insert("limit".to_owned(), json!("1s"));
    }
    body.into()
}

fn path(rng: &Rng) -> String {
    let name = pick(rng, &NAMES);
    let paths = [
        String::new(),
        "/clock".to_owned(),
        "/clock/advance".to_owned(),
        "/clock/leap".to_owned(),
        "/clock/wait?for=1ms&until=x".to_owned(),
        "/quiet".to_owned(),
        "/wait".to_owned(),
        "/clusters".to_owned(),
        format!("/clusters/{name}"),
        // A reset of the first cluster would end the connection of the call.
        format!("/clusters/{}/reset", name.replace("main", "b")),
        format!("/clusters/{name}/clock"),
        "/images".to_owned(),
        format!("/images/{name}"),
        format!("/images/{name}/file"),
        "/kubeconfigs".to_owned(),
        "/clients".to_owned(),
        format!("/clients/{name}"),
        format!("/clients/{name}/view"),
        "/requests?limit=3".to_owned(),
        "/requests?since=x".to_owned(),
        "/writes".to_owned(),
        "/writes/3".to_owned(),
        "/programs".to_owned(),
        format!("/programs/{name}"),
        format!("/programs/{name}/signal"),
        format!("/programs/{name}/start"),
        format!("/nodes/{name}/stop"),
        format!("/nodes/{name}/faults"),
    ];
    pick(rng, &paths).clone()
}

async fn clean(admin: &TestClient) {
    for (list, kind) in [("clusters", "id"), ("images", "name"), ("programs", "name")] {
        let found = admin.lab(Method::GET, &format!("/{list}"), None).await.body;
        for one in found[list].as_array().unwrap() {
            admin
                .lab(Method::DELETE, &format!("/{list}/{}?grace=1ms", one[kind].as_str().unwrap()), None)
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls_have_answers_and_leave_nothing_behind() {
    let config = LabConfig {
        programs: true,
        clusters: 8,
        components: ComponentChoice::NONE,
        mode: Mode::Manual,
        ..LabConfig::default()
    };
    let (lab, admin) = lab_with(config).await;
    let rng = Rng::seeded(34);
    let methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
    let mut codes = std::collections::BTreeMap::new();
    for number in 0..600 {
        let (method, path, body) = (pick(&rng, &methods).clone(), path(&rng), body(&rng));
        let answer = admin.lab(method.clone(), &path, Some(body.clone())).await;
        assert!(answer.code != 500, "call {number}: {method} {path} {body}: {answer:?}");
        assert!(answer.code != 400 || answer.body["message"].is_string(), "{answer:?}");
        *codes.entry(answer.code).or_insert(0) += 1;
    }
    for code in [200, 201, 400, 404] {
        assert!(codes.contains_key(&code), "{codes:?}");
    }
    clean(&admin).await;
    assert_eq!((lab.clusters().len(), lab.images().len()), (1, 0));
    assert_eq!(lab.cluster("main").unwrap().programs().names(), Vec::<String>::new());
    lab.end().await;
}
