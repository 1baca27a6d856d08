//! `--salvage`: a server on a damaged data directory starts with the readable part of its data, only with the
//! flag.

use crate::SERVER;
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_client::{Client, Gvr, ListParams};
use kstore_tests::{Launch, manifests};
use std::fs;
use std::path::Path;

/// An object that is damaged wherever it is stored.
const DAMAGED: &str = "m-150";

/// Flips bytes of every copy of an object, and in the middle of the used part of every file; the end may be preallocated space.
fn damage(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let copies = bytes.windows(DAMAGED.len()).enumerate().filter(|(_, part)| *part == DAMAGED.as_bytes());
        let places: Vec<usize> = copies.map(|(at, _)| at).chain([used / 2]).collect();
        for at in places {
            bytes[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0xff);
        }
        fs::write(&path, bytes).unwrap();
    }
}

async fn config_maps(client: &Client) -> usize {
    let maps = client.dynamic(Gvr::of::<ConfigMap>());
    maps.list("default", &ListParams::default()).await.unwrap().0.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_damaged_data_starts_with_the_readable_part_only_with_the_salvage_flag() {
    const MAPS: usize = 300;
    let dir = tempfile::tempdir().unwrap();
    let launch = || Launch::on_disk(SERVER, dir.path()).args(&["--components", "apiserver"]);
    let server = launch().start().unwrap();
    let client = server.client("test").await;
    for n in 0..MAPS {
        let map = manifests::config_map(&format!("m-{n:03}"), "value");
        client.dynamic(Gvr::of::<ConfigMap>()).create("default", &map).await.unwrap();
    }
    let before = config_maps(&client).await;
    server.kill();
    let data = dir.path().join("data");
    damage(&data.join("wal"));
    damage(&data.join("engine"));

    let refusal = launch().start().err().unwrap();
    assert!(refusal.contains("to continue with the readable part of the store, add --salvage"), "{refusal}");
    let server = launch().args(&["--salvage"]).start().unwrap();
    let after = config_maps(&server.client("test").await).await;
    assert!(after < before, "{after} of {before}");
    assert!(dir.path().join("data.damaged-1/wal").exists());
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(
        log.contains("the store continues with everything that can be read")
            && log.contains("data.damaged-1"),
        "{log}"
    );
    assert!(log.contains("lost_revisions="), "{log}");
    assert!(server.terminate().success());

    // The salvaged data is undamaged.
    let server = launch().start().unwrap();
    assert_eq!(config_maps(&server.client("test").await).await, after);
    assert!(server.terminate().success());
}
