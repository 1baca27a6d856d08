//! Tests of snapshot files over the network.

use super::{CONFIG_MAPS, CRON_JOBS, TestClient, config_map, hourly, lab, lab_with};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::registry::{Lab, LabConfig, LabError};
use bytes::Bytes;
use http::Method;
use kstore_store::{KeyRange, Range};
use serde_json::{Value, json};

/// The file of an image.
async fn file(admin: &TestClient, image: &str, parameters: &str) -> Bytes {
    let (code, bytes) =
        admin.lab_bytes(Method::GET, &format!("/images/{image}/file{parameters}"), Bytes::new()).await;
    assert_eq!(code, 200, "{bytes:?}");
    bytes
}

/// Sends a file as an image, and returns the code and the message or report.
async fn send(admin: &TestClient, image: &str, bytes: Bytes) -> (u16, Value) {
    let (code, answer) = admin.lab_bytes(Method::PUT, &format!("/images/{image}/file"), bytes).await;
    (code, serde_json::from_slice(&answer).unwrap())
}

/// A cluster after three hours.
struct LaterState {
    /// Its newest revision.
    revision: i64,
    /// Its objects with their revisions, in the order of their keys.
    objects: Vec<String>,
    /// The same without revisions, and of Events only what they are about and why: components write these independently of each other,
    /// and in a cluster from a file, which starts without their caches, they may do so in another order.
    unordered: Vec<String>,
}

/// Starts a cluster from an image and lets three hours pass.
async fn three_hours(lab: &Lab, admin: &TestClient, image: &str) -> LaterState {
    let from = json!({"from": {"image": image}, "clock": {"mode": "manual"}});
    let started = admin.lab(Method::POST, "/clusters", Some(from)).await;
    assert_eq!(started.code, 201, "{started:?}");
    let id = started.body["id"].as_str().unwrap();
    let path = format!("/clusters/{id}/clock/advance");
    let advanced = admin.lab(Method::POST, &path, Some(json!({"by": "3h"}))).await;
    assert_eq!(advanced.body["ended"], "there", "{advanced:?}");
    let current = lab.cluster(id).unwrap().current().unwrap();
    let store = current.running().store();
    let objects = store.range(&Range::new(KeyRange::all())).unwrap().kvs;
    let line = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let mut unordered: Vec<String> = objects
        .iter()
        .map(|kv| match serde_json::from_slice::<Value>(kv.value()) {
            Ok(event) if event["kind"] == "Event" => {
                let about = &event["involvedObject"];
                format!("{} {about} {} {}", event["eventTime"], event["reason"], event["message"])
            }
            _ => format!("{} {}", line(kv.key()), line(kv.value())),
        })
        .collect();
    unordered.sort_unstable();
    let objects =
        objects.iter().map(|kv| format!("{}@{} {}", line(kv.key()), kv.mod_revision(), line(kv.value())));
    LaterState { revision: store.revision().0, objects: objects.collect(), unordered }
}

/// The first difference of two lists.
fn difference<'a>(one: &'a [String], other: &'a [String]) -> Option<(&'a String, &'a String)> {
    one.iter().zip(other).find(|(one, other)| one != other)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_comes_back_from_its_file_and_goes_on_as_the_original() {
    let (first, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    admin.api(Method::POST, CRON_JOBS, Some(hourly("hourly"))).await;
    admin.lab(Method::POST, "/clock/advance", Some(json!({"by": "90m"}))).await;
    let taken =
        admin.lab(Method::POST, "/images", Some(json!({"name": "prepared", "settled": true}))).await.body;
    let bytes = file(&admin, "prepared", "").await;
    let (second, other) = lab(Mode::Real, ComponentChoice::NONE).await;
    let (code, loaded) = send(&other, "again", bytes.clone()).await;
    assert_eq!(code, 201, "{loaded}");
    for member in ["time", "revision", "objects", "bytes", "seed", "history"] {
        assert_eq!(loaded[member], taken[member], "{member}");
    }
    assert_eq!(file(&other, "again", "").await, bytes, "the same file again");
    // Objects, revisions, history, time and the next random values.
    let original = three_hours(&first, &admin, "prepared").await;
    let loaded = three_hours(&second, &other, "again").await;
    assert_eq!(difference(&original.unordered, &loaded.unordered), None);
    assert_eq!((original.revision, original.objects.len()), (loaded.revision, loaded.objects.len()));
    let (code, _) = send(&admin, "back", bytes.clone()).await;
    assert_eq!(code, 201);
    let back = three_hours(&first, &admin, "back").await;
    assert_eq!(difference(&back.objects, &loaded.objects), None);
    assert_eq!((back.revision, back.objects.len()), (loaded.revision, loaded.objects.len()));
    let small = file(&admin, "prepared", "?history=false").await;
    assert!(small.len() <= bytes.len());
    let (code, loaded) = send(&other, "small", small).await;
    assert_eq!((code, &loaded["objects"], &loaded["history"]), (201, &taken["objects"], &taken["revision"]));
    first.end().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_valid_in_a_cluster_from_a_file_only_with_its_keys() {
    let (first, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    admin.api(Method::POST, "/api/v1/namespaces/default/serviceaccounts", Some(account)).await;
    let token =
        admin.lab(Method::POST, "/kubeconfigs", Some(json!({"serviceAccount": "default/robot"}))).await;
    let robot = TestClient::of(token.body["kubeconfig"].as_str().unwrap(), "robot");
    admin.lab(Method::POST, "/images", Some(json!({"name": "image"}))).await;
    let (second, other) = lab(Mode::Manual, ComponentChoice::NONE).await;
    for (name, parameters, allowed) in [("keys", "?keys=true", true), ("none", "", false)] {
        assert_eq!(send(&other, name, file(&admin, "image", parameters).await).await.0, 201);
        let from = json!({"from": {"image": name}});
        let started = other.lab(Method::POST, "/clusters", Some(from)).await.body;
        let url = started["url"].as_str().unwrap();
        // The fork of a fork has the same keys.
        let fork = json!({"from": {"cluster": started["id"]}});
        let fork = other.lab(Method::POST, "/clusters", Some(fork)).await.body;
        for url in [url, fork["url"].as_str().unwrap()] {
            if allowed {
                let answer = admin.at(url, "admin").api(Method::GET, CONFIG_MAPS, None).await;
                assert_eq!(answer.code, 200, "the certificate: {answer:?}");
                let answer =
                    robot.at(url, "robot").api(Method::GET, "/api/v1/namespaces/default/pods", None).await;
                assert_eq!(answer.code, 403, "the token authenticates: {answer:?}");
            } else {
                let own = TestClient::of(started["kubeconfig"].as_str().unwrap(), "own");
                assert_eq!(own.at(url, "own").api(Method::GET, CONFIG_MAPS, None).await.code, 200);
                assert!(!own.at(url, "own").trusts(&admin), "another authority");
            }
        }
    }
    first.end().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_and_taken_names_are_refused() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    admin.lab(Method::POST, "/images", Some(json!({"name": "image"}))).await;
    let bytes = file(&admin, "image", "").await;
    let places = [
        (0, "does not begin with"),
        (9, "version"),
        (20, "header"),
        (bytes.len() / 2, "objects"),
        (bytes.len() - 1, "checksum"),
    ];
    for (at, part) in places {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 4;
        let (code, answer) = send(&admin, "damaged", damaged.into()).await;
        let message = answer["message"].as_str().unwrap();
        assert!(code == 400 && message.contains(part), "byte {at}: {code} {message}");
    }
    assert_eq!(send(&admin, "damaged", Bytes::new()).await.0, 400);
    assert_eq!(admin.lab(Method::GET, "/images/damaged/file", None).await.code, 404);
    assert_eq!(send(&admin, "Bad", bytes.clone()).await.0, 400);
    assert_eq!(send(&admin, "image", bytes.clone()).await.0, 409, "an image that was taken has the name");
    assert_eq!(send(&admin, "loaded", bytes.clone()).await.0, 201);
    assert_eq!(send(&admin, "loaded", bytes).await.0, 201, "the same file again");
    admin.api(Method::POST, CONFIG_MAPS, Some(config_map("more"))).await;
    admin.lab(Method::POST, "/images", Some(json!({"name": "later"}))).await;
    assert_eq!(send(&admin, "loaded", file(&admin, "later", "").await).await.0, 409);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lab_starts_from_a_file_and_resets_to_it() {
    let (first, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    admin.api(Method::POST, CONFIG_MAPS, Some(config_map("kept"))).await;
    admin.lab(Method::POST, "/clock/advance", Some(json!({"by": "2h"}))).await;
    let image = admin.lab(Method::POST, "/images", Some(json!({"name": "image"}))).await.body;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.snapshot");
    let bytes = file(&admin, "image", "").await;
    std::fs::write(&path, &bytes).unwrap();
    first.end().await;
    let config = LabConfig {
        image: Some(path.clone()),
        mode: Mode::Manual,
        components: ComponentChoice::NONE,
        ..LabConfig::default()
    };
    let (lab, admin) = lab_with(config.clone()).await;
    let main = admin.lab(Method::GET, "/clusters/main", None).await.body;
    assert_eq!(
        (&main["revision"], &main["clock"]["time"], &main["seed"]),
        (&image["revision"], &image["time"], &json!(7))
    );
    assert!(main["from"].as_str().unwrap().contains("file.snapshot"), "{main}");
    let kept = format!("{CONFIG_MAPS}/kept");
    assert_eq!(admin.api(Method::DELETE, &kept, None).await.code, 200);
    assert_eq!(admin.lab(Method::POST, "/clusters/main/reset", None).await.code, 200);
    assert_eq!(admin.api(Method::GET, &kept, None).await.code, 200, "a reset goes back to the file");
    lab.end().await;
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let refused = Lab::start(config.clone()).await.unwrap_err();
    assert!(
        matches!(&refused, LabError::Image { .. }) && refused.to_string().contains("file.snapshot"),
        "{refused}"
    );
    let start = Some("2026-03-01T00:00:00Z".parse().unwrap());
    assert!(matches!(Lab::start(LabConfig { start, ..config }).await, Err(LabError::StartOfImage)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_of_a_file_get_new_uids_if_the_load_says_so() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    admin.api(Method::POST, CONFIG_MAPS, Some(config_map("a"))).await;
    admin.lab(Method::POST, "/images", Some(json!({"name": "original"}))).await;
    let bytes = file(&admin, "original", "").await;
    let load = async |path: &str| admin.lab_bytes(Method::PUT, path, bytes.clone()).await.0;
    assert_eq!(load("/images/kept/file").await, 201);
    assert_eq!(load("/images/new/file?identity=new").await, 201);
    assert_eq!(load("/images/newer/file?identity=new").await, 201);
    assert_eq!(load("/images/new/file?identity=new").await, 201, "the same load again");
    assert_eq!(load("/images/new/file").await, 409, "another image has the name");
    assert_eq!(load("/images/other/file?identity=old").await, 400);
    let uids = async |image: &str| {
        let started = admin.lab(Method::POST, "/clusters", Some(json!({"from": {"image": image}}))).await;
        let cluster = TestClient::of(started.body["kubeconfig"].as_str().unwrap(), "test");
        let map = cluster.api(Method::GET, &format!("{CONFIG_MAPS}/a"), None).await.body;
        let spaces = cluster.api(Method::GET, "/api/v1/namespaces", None).await.body;
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
        let spaces: Vec<String> = spaces["items"].as_array().unwrap().iter().map(uid).collect();
        (uid(&map), spaces)
    };
    let [original, kept, new, newer] =
        [uids("original").await, uids("kept").await, uids("new").await, uids("newer").await];
    assert_eq!(original, kept);
    assert_eq!((&new.0, new.1.len()), (&original.0, original.1.len()), "other objects keep theirs");
    let all: std::collections::BTreeSet<&String> =
        [&original.1, &new.1, &newer.1].into_iter().flatten().collect();
    assert_eq!(all.len(), 3 * original.1.len(), "each load has an identity of its own");
    let again = uids("new").await;
    assert_eq!(again, new, "clusters from one load are the same cluster");
    lab.end().await;
}
