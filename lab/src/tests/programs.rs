//! Tests of programs of a cluster over the network. The program is this test binary, started again.

use super::{CONFIG_MAPS, TestClient, config_map, lab_with};
use crate::authority::Credentials;
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::programs::ProgramSpec;
use crate::registry::LabConfig;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The variable that tells the test binary to be an operator, with the name of the ConfigMap that it makes.
const OPERATOR: &str = "KSTORE_LAB_TEST_OPERATOR";

/// The operator that the tests start: makes a ConfigMap and a Lease, and then sleeps. It does nothing when it is run as a test.
#[tokio::test]
async fn operator() {
    let Ok(name) = std::env::var(OPERATOR) else { return };
    let kubeconfig = std::fs::read_to_string(std::env::var("KUBECONFIG").unwrap()).unwrap();
    let client = TestClient::of(&kubeconfig, "operator/v1");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 15}});
    client.api(Method::POST, LEASES, Some(lease)).await;
    println!("made {}", client.post_in_pipeline(CONFIG_MAPS, &config_map(&name)).await);
    std::future::pending::<()>().await;
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

fn program(name: &str, map: &str) -> Value {
    let binary = std::env::current_exe().unwrap();
    let command = json!([binary, "--exact", "tests::programs::operator", "--nocapture"]);
    json!({"name": name, "command": command, "env": {OPERATOR: map}, "user": "shared"})
}

/// Waits until a program has written a line.
async fn said(admin: &TestClient, name: &str, line: &str) {
    for _ in 0..30_000 {
        let report = admin.lab(Method::GET, &format!("/programs/{name}"), None).await.body;
        if report["tail"].as_str().is_some_and(|tail| tail.contains(line)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} never wrote {line:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_a_client_of_its_own_that_is_known_by_its_process() {
    let config = LabConfig {
        programs: true,
        components: ComponentChoice::NONE,
        mode: Mode::Manual,
        ..LabConfig::default()
    };
    let (lab, admin) = lab_with(config).await;
    for (name, map) in [("first", "a"), ("second", "b")] {
        let started = admin.lab(Method::POST, "/programs", Some(program(name, map))).await;
        assert_eq!((started.code, &started.body["state"]), (201, &json!("running")), "{started:?}");
        said(&admin, name, "made 201").await;
    }
    let writers = async || {
        let log = admin.lab(Method::GET, "/requests?verb=create&resource=configmaps", None).await.body;
        let rows = log["requests"].as_array().unwrap().iter();
        rows.map(|row| {
            let incarnation = row["incarnation"].as_u64().unwrap_or(0);
            (row["client"].as_str().unwrap().to_owned(), row["user"].clone(), incarnation)
        })
        .collect::<Vec<_>>()
    };
    let by = |name: &str, incarnation: u64| (name.to_owned(), json!("shared"), incarnation);
    assert_eq!(writers().await, [by("first", 0), by("second", 0)], "two programs of one user");
    let clients = admin.lab(Method::GET, "/clients", None).await.body;
    let first = clients["clients"].as_array().unwrap().iter().find(|client| client["name"] == "first");
    let report = admin.lab(Method::GET, "/programs/first", None).await.body;
    assert_eq!((&first.unwrap()["process"], &first.unwrap()["counted"]), (&report["process"], &json!(true)));
    // Quiet by its process, not by a window of real time.
    assert_eq!(admin.lab(Method::POST, "/quiet", None).await.code, 200);
    let kill = json!({"signal": "KILL"});
    assert_eq!(admin.lab(Method::POST, "/programs/first/signal", Some(kill)).await.code, 200);
    for attempt in 0.. {
        let again = admin.lab(Method::POST, "/programs/first/start", None).await;
        if again.code == 200 {
            break;
        }
        assert!(again.code == 409 && attempt < 60_000, "{again:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    said(&admin, "first", "made 409").await;
    assert_eq!(writers().await.last(), Some(&by("first", 1)), "the incarnation of the second start");
    let process = admin.lab(Method::GET, "/programs/first", None).await.body["process"].as_u64().unwrap();
    assert_eq!(admin.lab(Method::DELETE, "/programs/first?grace=10ms", None).await.code, 200);
    assert_eq!(admin.lab(Method::DELETE, "/programs/first", None).await.code, 200);
    assert_eq!(admin.lab(Method::GET, "/programs/first", None).await.code, 404);
    let process = u32::try_from(process).unwrap();
    assert_eq!(crate::client::process::sample(process), None);
    let second = admin.lab(Method::GET, "/programs/second", None).await.body["process"].as_u64().unwrap();
    lab.end().await;
    assert_eq!(
        crate::client::process::sample(u32::try_from(second).unwrap()),
        None,
        "it ends with the cluster"
    );
}

/// Waits until every action of a plan is done, and returns it.
async fn plan_done(admin: &TestClient, plan: &str) -> Value {
    for _ in 0..30_000 {
        let report = admin.lab(Method::GET, &format!("/plans/{plan}"), None).await.body;
        if report["state"] == "done" {
            return report;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("plan {plan} is never done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_kills_a_program_between_its_write_and_the_answer() {
    let config = LabConfig {
        programs: true,
        components: ComponentChoice::NONE,
        mode: Mode::Manual,
        ..LabConfig::default()
    };
    let (lab, admin) = lab_with(config).await;
    admin.lab(Method::PUT, "/caches/b", None).await;
    let made =
        json!({"request": {"client": "first", "verb": "create", "resource": "configmaps", "phase": "done"}});
    let kill = json!({"action": "kill", "program": "first", "cache": "b", "trigger": made});
    let started = admin.lab(Method::POST, "/plans", Some(json!({"name": "crash", "actions": [kill]}))).await;
    assert_eq!(started.code, 201, "{}", started.body);
    assert_eq!(admin.lab(Method::POST, "/programs", Some(program("first", "a"))).await.code, 201);
    said(&admin, "first", "made 409").await;
    let report = admin.lab(Method::GET, "/programs/first", None).await.body;
    assert_eq!(report["incarnation"], 1);
    assert!(
        !report["tail"].as_str().unwrap().contains("made 201"),
        "the first answer never arrived: {report}"
    );
    let plan = plan_done(&admin, "crash").await;
    assert_eq!(plan["actions"][0]["state"], "done", "{plan}");
    let routes = admin.lab(Method::GET, "/routes", None).await.body;
    assert_eq!(routes, json!([{"client": {"program": "first"}, "cache": "b"}]), "where it reads now");

    // A second instance, and a pause, until a step of the test.
    let step = json!({"step": {"name": "apply"}});
    let actions = json!([{"action": "second", "program": "first", "until": step},
        {"action": "pause", "program": "first", "until": step}, {"action": "term", "program": "none"}]);
    let started =
        admin.lab(Method::POST, "/plans", Some(json!({"name": "overlap", "actions": actions}))).await;
    assert_eq!(started.code, 201, "{}", started.body);
    said(&admin, "first-second", "made 409").await;
    let second = admin.lab(Method::GET, "/programs/first-second", None).await.body;
    assert_eq!(second["state"], "running");
    assert_eq!(
        admin.lab(Method::POST, "/plans/overlap/steps", Some(json!({"name": "apply"}))).await.code,
        200
    );
    let plan = plan_done(&admin, "overlap").await;
    let states: Vec<&Value> =
        plan["actions"].as_array().unwrap().iter().map(|action| &action["state"]).collect();
    assert_eq!(states, ["done", "done", "skipped"], "{plan}");
    assert_eq!(plan["actions"][2]["why"], "the lab has no program \"none\"");
    for attempt in 0.. {
        let second = admin.lab(Method::GET, "/programs/first-second", None).await.body;
        if second["state"] == "ended" {
            break;
        }
        assert!(attempt < 30_000, "{second}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_a_plan_holds_at_its_arrival_is_never_performed_after_its_program_was_killed() {
    let config = LabConfig {
        programs: true,
        components: ComponentChoice::NONE,
        mode: Mode::Manual,
        ..LabConfig::default()
    };
    let (lab, admin) = lab_with(config).await;
    let names: Vec<String> = (0..6).map(|nth| format!("p{nth}")).collect();
    for name in &names {
        let arrived = json!({"request": {"client": name, "verb": "create", "resource": "configmaps"}});
        // Half of them are started again before what was held goes on.
        let start = if name < &"p3".to_owned() { json!("now") } else { json!("never") };
        let kill = json!({"action": "kill", "program": name, "start": start, "trigger": arrived});
        let started = admin.lab(Method::POST, "/plans", Some(json!({"name": name, "actions": [kill]}))).await;
        assert_eq!(started.code, 201, "{}", started.body);
        assert_eq!(admin.lab(Method::POST, "/programs", Some(program(name, name))).await.code, 201);
    }
    for name in &names {
        let plan = plan_done(&admin, name).await;
        assert_eq!(plan["actions"][0]["state"], "done", "{plan}");
    }
    // A second start would find the map that the first one made.
    for name in &names[..3] {
        said(&admin, name, "made ").await;
        let program = admin.lab(Method::GET, &format!("/programs/{name}"), None).await.body;
        assert!(program["tail"].to_string().contains("made 201"), "{program}");
    }
    assert_eq!(admin.lab(Method::POST, "/quiet", None).await.code, 200);
    for name in &names[3..] {
        let map = admin.api(Method::GET, &format!("{CONFIG_MAPS}/{name}"), None).await;
        assert_eq!(map.code, 404, "{name} was killed before its write");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_releases_the_leases_of_a_program_that_it_kills_if_its_starter_wants_that() {
    let config = LabConfig {
        programs: true,
        components: ComponentChoice::NONE,
        mode: Mode::Manual,
        ..LabConfig::default()
    };
    let (lab, admin) = lab_with(config).await;
    let other = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "other"},
        "spec": {"holderIdentity": "someone"}});
    assert_eq!(admin.api(Method::POST, LEASES, Some(other)).await.code, 201);
    let cluster = lab.cluster("main").unwrap();
    for (name, releases_leases) in [("kept", false), ("released", true)] {
        let kubeconfig =
            cluster.kubeconfig(&Credentials::Certificate("shared", &["system:masters".to_owned()]));
        let spec = serde_json::from_value::<ProgramSpec>(program(name, name)).unwrap();
        cluster.programs().run(ProgramSpec { releases_leases, ..spec }, &kubeconfig.unwrap()).unwrap();
        said(&admin, name, "made 201").await;
        let kill = json!({"action": "kill", "program": name, "start": "never"});
        assert_eq!(
            admin.lab(Method::POST, "/plans", Some(json!({"name": name, "actions": [kill]}))).await.code,
            201
        );
        let plan = plan_done(&admin, name).await;
        assert_eq!(plan["actions"][0]["state"], "done", "{plan}");
    }
    for (name, holder) in [("other", "someone"), ("kept", "kept"), ("released", "")] {
        let lease = admin.api(Method::GET, &format!("{LEASES}/{name}"), None).await.body;
        assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), holder, "{lease}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_need_a_server_that_allows_them() {
    let config = LabConfig { components: ComponentChoice::NONE, mode: Mode::Manual, ..LabConfig::default() };
    let (lab, admin) = lab_with(config).await;
    let refused = admin.lab(Method::POST, "/programs", Some(program("a", "a"))).await;
    assert!(
        refused.code == 403 && refused.body["message"].as_str().unwrap().contains("--lab-programs"),
        "{refused:?}"
    );
    assert_eq!(admin.lab(Method::GET, "/programs", None).await.body, json!({"programs": []}));
    let info = admin.lab(Method::GET, "", None).await.body;
    assert!(!info["features"].as_array().unwrap().contains(&json!("programs")), "{info}");
    lab.end().await;
    let config = LabConfig { programs: true, components: ComponentChoice::NONE, ..LabConfig::default() };
    let (lab, admin) = lab_with(config).await;
    let refused = async |body: Value| admin.lab(Method::POST, "/programs", Some(body)).await;
    assert_eq!(refused(json!({"name": "a", "command": ["/none/such"]})).await.code, 422);
    assert_eq!(refused(json!({"name": "a"})).await.code, 400);
    assert_eq!(
        refused(json!({"name": "a", "command": ["true"], "serviceAccount": "default/none"})).await.code,
        400
    );
    assert_eq!(
        admin.lab(Method::POST, "/programs/a/signal", Some(json!({"signal": "KILL"}))).await.code,
        404
    );
    assert_eq!(refused(json!({"name": "a", "command": ["true"]})).await.code, 201);
    assert_eq!(admin.lab(Method::POST, "/programs/a/signal", Some(json!({"signal": "BOO"}))).await.code, 400);
    lab.end().await;
}
