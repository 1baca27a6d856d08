//! L9: what happens in one cluster changes nothing in another.

use super::{CONFIG_MAPS, TestClient, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::objects;
use http::Method;
use serde_json::{Value, json};

/// What a cluster shows of itself: all objects with their versions, its revision, its clock, and the requests of its clients.
async fn shown(
    admin: &TestClient,
    lab: &crate::Lab,
    name: &str,
) -> (Vec<(String, i64, Value)>, i64, Value, Value) {
    let store = lab.cluster(name).unwrap().current().unwrap().running().store().clone();
    let clock = admin.lab(Method::GET, &format!("/clusters/{name}/clock"), None).await.body;
    let requests = admin.lab(Method::GET, &format!("/clusters/{name}/requests"), None).await.body;
    assert!(clock["time"].is_string() && requests["requests"].is_array(), "{clock} {requests}");
    (objects::versions(&store), store.revision().0, clock["time"].clone(), requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_time_faults_and_resets_of_one_cluster_change_nothing_in_another() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    for name in ["busy", "calm"] {
        let fork = admin.lab(Method::POST, "/clusters", Some(json!({"name": name}))).await;
        assert_eq!(fork.code, 201, "{fork:?}");
    }
    let settled = admin.lab(Method::POST, "/clusters/calm/settled", None).await;
    assert_eq!(settled.code, 200, "{settled:?}");
    let before = shown(&admin, &lab, "calm").await;

    let report = admin.lab(Method::GET, "/clusters/busy", None).await;
    let busy = admin.at(report.body["url"].as_str().unwrap(), "test");
    let refused = json!({"seed": 7, "rules": [{"fault": "error", "probability": 1}]});
    assert_eq!(busy.lab(Method::PUT, "/faults", Some(refused)).await.code, 200);
    assert_ne!(busy.api(Method::GET, CONFIG_MAPS, None).await.code, 200, "the faults hit");
    assert_eq!(busy.lab(Method::DELETE, "/faults", None).await.code, 200);
    let written =
        (0..50).map(|number| {
            let busy = busy.clone();
            async move {
                busy.api(Method::POST, CONFIG_MAPS, Some(config_map(&format!("map-{number}")))).await.code
            }
        });
    assert!(futures::future::join_all(written).await.iter().all(|code| *code == 201));
    let day = busy.lab(Method::POST, "/clock/advance", Some(json!({"by": "24h"}))).await;
    assert_eq!(day.code, 200, "{day:?}");
    assert_eq!(admin.lab(Method::POST, "/clusters/busy/reset", None).await.code, 200);

    assert_eq!(shown(&admin, &lab, "calm").await, before);
    let calm =
        admin.at(admin.lab(Method::GET, "/clusters/calm", None).await.body["url"].as_str().unwrap(), "test");
    assert_eq!(calm.api(Method::GET, CONFIG_MAPS, None).await.code, 200);
    lab.end().await;
}
