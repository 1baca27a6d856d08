//! Tests of forks, images and resets over the network.

use super::{CONFIG_MAPS, TestClient, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::{limits, objects};
use http::Method;
use kstore_client::Gvr;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

async fn revision(client: &TestClient) -> i64 {
    let list = client.api(Method::GET, CONFIG_MAPS, None).await.body;
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn count(client: &TestClient) -> usize {
    client.api(Method::GET, CONFIG_MAPS, None).await.body["items"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_thousands_of_objects_is_a_cluster_of_its_own() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let running = lab.cluster("main").unwrap().current().unwrap().running().clone();
    let filling = running.clone();
    let fill = running.call(async move {
        let api = objects::client(&filling).dynamic(Gvr::new("", "v1", "configmaps"));
        for number in 0..3000 {
            let map = config_map(&format!("map-{number}")).to_string();
            api.create_text("default", &format!("map-{number}"), &map).await.unwrap();
        }
    });
    fill.await.unwrap();
    let fork = admin.lab(Method::POST, "/clusters", Some(json!({"name": "branch", "seed": 9}))).await;
    assert_eq!((fork.code, &fork.body["from"]), (201, &json!("cluster main")), "{fork:?}");
    let branch = admin.at(fork.body["url"].as_str().unwrap(), "test");
    let before = revision(&admin).await;
    assert_eq!(
        (count(&branch).await, revision(&branch).await),
        (3000, before),
        "with the parent's certificate"
    );
    let uid = async |client: &TestClient| {
        let map = client.api(Method::GET, &format!("{CONFIG_MAPS}/map-7"), None).await.body;
        map["metadata"]["uid"].clone()
    };
    assert_eq!(uid(&admin).await, uid(&branch).await);
    branch.api(Method::DELETE, &format!("{CONFIG_MAPS}/map-7"), None).await;
    admin.api(Method::POST, CONFIG_MAPS, Some(config_map("new"))).await;
    assert_eq!((count(&admin).await, count(&branch).await), (3001, 2999));
    let resumed = format!("{CONFIG_MAPS}?watch=true&resourceVersion={before}");
    assert_eq!(branch.open(Method::GET, &resumed, None, None).await.0, 200, "a watch of the parent goes on");
    let other = admin.lab(Method::GET, "/clusters/branch/clock", None).await;
    assert_eq!(
        (other.code, &other.body["mode"]),
        (200, &json!("manual")),
        "by its name at the parent's port"
    );
    assert_eq!(admin.lab(Method::POST, "/clusters", Some(json!({"name": "branch"}))).await.code, 409);
    assert_eq!(admin.lab(Method::DELETE, "/clusters/branch", None).await.code, 200);
    assert_eq!(admin.lab(Method::DELETE, "/clusters/branch", None).await.code, 200, "idempotent");
    assert_eq!(admin.lab(Method::GET, "/clusters/branch", None).await.code, 404);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_goes_back_to_the_image_and_its_revisions_never_go_down() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    admin.api(Method::POST, CONFIG_MAPS, Some(config_map("prepared"))).await;
    let image = admin.lab(Method::POST, "/images", Some(json!({"name": "prepared"}))).await;
    assert_eq!(image.code, 201, "{image:?}");
    let begin = json!({"from": {"image": "prepared"}, "name": "a"});
    let fork = admin.lab(Method::POST, "/clusters", Some(begin)).await;
    let client = admin.at(fork.body["url"].as_str().unwrap(), "test");
    let mut seen = revision(&client).await;
    for round in 0..3 {
        for number in 0..20 {
            client.api(Method::POST, CONFIG_MAPS, Some(config_map(&format!("map-{number}")))).await;
        }
        client.lab(Method::POST, "/clock/advance", Some(json!({"by": "1h"}))).await;
        assert_eq!(count(&client).await, 21);
        let last = revision(&client).await;
        assert!(last > seen);
        seen = last;
        let reset = admin.lab(Method::POST, "/clusters/a/reset", None).await;
        assert_eq!(reset.code, 200, "{reset:?}");
        assert_eq!(reset.body["clock"]["time"], image.body["time"], "round {round}");
        let list = client.api(Method::GET, CONFIG_MAPS, None).await.body;
        let names: Vec<&Value> =
            list["items"].as_array().unwrap().iter().map(|map| &map["metadata"]["name"]).collect();
        assert_eq!(names, [&json!("prepared")]);
        let now = revision(&client).await;
        assert!(now > seen, "{now} after {seen}");
        let resumed = format!("{CONFIG_MAPS}?watch=true&resourceVersion={seen}");
        let answer = client.api(Method::GET, &resumed, None).await;
        let code =
            if answer.code == 200 { answer.body["object"]["code"].clone() } else { json!(answer.code) };
        assert_eq!(code, 410, "a client that survived lists again: {answer:?}");
        let made = client.api(Method::POST, CONFIG_MAPS, Some(config_map("more"))).await;
        assert_eq!(made.code, 201);
        client.api(Method::DELETE, &format!("{CONFIG_MAPS}/more"), None).await;
        seen = revision(&client).await;
    }
    lab.end().await;
}

/// The revision that the new cluster begins above was read before the old one ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_begins_above_what_was_written_until_the_old_cluster_ended() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    admin.lab(Method::POST, "/images", Some(json!({"name": "prepared"}))).await;
    let begin = json!({"from": {"image": "prepared"}, "name": "a"});
    let fork = admin.lab(Method::POST, "/clusters", Some(begin)).await;
    let client = admin.at(fork.body["url"].as_str().unwrap(), "test");
    for round in 0..3 {
        let running = lab.cluster("a").unwrap().current().unwrap().running().clone();
        let newest = Arc::new(AtomicU64::new(0));
        let (begun, begins) = oneshot::channel();
        let (writing, told) = (running.clone(), newest.clone());
        let writes = tokio::spawn(async move {
            let endless = running.call(async move {
                let api = objects::client(&writing).dynamic(Gvr::new("", "v1", "configmaps"));
                let mut begun = Some(begun);
                for number in 0.. {
                    let map = config_map(&format!("map-{number}")).to_string();
                    let Ok(made) = api.create_text("default", &format!("map-{number}"), &map).await else {
                        break;
                    };
                    told.store(made.revision().0, Ordering::SeqCst);
                    begun.take().map(|begun| begun.send(()));
                }
            });
            let _ = endless.await;
        });
        begins.await.unwrap();
        assert_eq!(admin.lab(Method::POST, "/clusters/a/reset", None).await.code, 200);
        writes.await.unwrap();
        let (last, now) = (newest.load(Ordering::SeqCst), u64::try_from(revision(&client).await).unwrap());
        assert!(now > last, "round {round}: {now} after {last}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_name_returns_what_an_equal_one_made() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let image = || admin.lab(Method::POST, "/images", Some(json!({"name": "prepared"})));
    let (first, second) = tokio::join!(image(), image());
    let codes = std::collections::BTreeSet::from([first.code, second.code]);
    assert_eq!(codes, [201, 200].into(), "of two calls at once one takes the image: {first:?} {second:?}");
    assert_eq!(first.body["revision"], second.body["revision"]);
    let other = json!({"name": "prepared", "settled": false});
    assert_eq!(admin.lab(Method::POST, "/images", Some(other)).await.code, 409, "another body");
    let body = json!({"from": {"image": "prepared"}, "name": "a", "seed": 3});
    let start = || admin.lab(Method::POST, "/clusters", Some(body.clone()));
    let (first, second) = tokio::join!(start(), start());
    let codes = std::collections::BTreeSet::from([first.code, second.code]);
    assert_eq!(codes, [201, 200].into(), "{first:?} {second:?}");
    assert_eq!(first.body["id"], second.body["id"]);
    let other = json!({"from": {"image": "prepared"}, "name": "a", "seed": 4});
    assert_eq!(admin.lab(Method::POST, "/clusters", Some(other.clone())).await.code, 409);
    let elsewhere = admin.at(first.body["url"].as_str().unwrap(), "test");
    assert_eq!(
        elsewhere.lab(Method::POST, "/clusters", Some(body.clone())).await.code,
        409,
        "another cluster"
    );
    // What was deleted can be made again.
    assert_eq!(admin.lab(Method::DELETE, "/clusters/a", None).await.code, 200);
    let again = admin.lab(Method::POST, "/clusters", Some(other.clone())).await;
    assert_eq!(again.code, 201, "{again:?}");
    assert_ne!(again.body["id"], first.body["id"]);
    assert_eq!(admin.lab(Method::POST, "/clusters", Some(other)).await.body["id"], again.body["id"]);
    admin.lab(Method::DELETE, "/images/prepared", None).await;
    assert_eq!(image().await.code, 201);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bounds_on_clusters_and_images_hold() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    for number in 0..limits::IMAGES {
        let image = lab.cluster("main").unwrap().image(&format!("image-{number}")).await.unwrap();
        lab.keep_image(image).unwrap();
    }
    let refused = admin.lab(Method::POST, "/images", Some(json!({"name": "more"}))).await;
    assert_eq!((refused.code, &refused.body["details"]["causes"][0]["message"]), (429, &json!("images")));
    assert_eq!(admin.lab(Method::DELETE, "/images/image-0", None).await.code, 200);
    assert_eq!(admin.lab(Method::POST, "/images", Some(json!({"name": "more"}))).await.code, 201);
    lab.end().await;
    let small =
        crate::LabConfig { clusters: 2, components: ComponentChoice::NONE, ..crate::LabConfig::default() };
    let small = crate::Lab::start(small).await.unwrap();
    let kubeconfig = small.cluster("main").unwrap().report().unwrap().kubeconfig;
    let admin = TestClient::of(&kubeconfig, "test");
    assert_eq!(admin.lab(Method::POST, "/clusters", Some(json!({"count": 2}))).await.code, 429);
    assert_eq!(small.clusters().len(), 1, "a refused start leaves nothing");
    assert_eq!(admin.lab(Method::POST, "/clusters", None).await.code, 201);
    small.end().await;
}
