//! `--event-ttl` of the program: how long Events of both groups are kept, in the store and in an etcd.

use crate::SERVER;
use kstore_client::Gvr;
use kstore_tests::wait::until;
use kstore_tests::{Etcd, Launch};
use serde_json::json;

#[tokio::test]
async fn events_of_both_groups_end_after_event_ttl_in_the_store_and_in_an_etcd() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--components", "apiserver", "--event-ttl", "1s"];
    let mut launches = vec![Launch::in_memory(SERVER, dir.path()).args(&flags)];
    let etcd = Etcd::start(&dir.path().join("etcd"));
    if let Some(etcd) = &etcd {
        let other = Launch::in_memory(SERVER, dir.path()).args(&flags);
        launches.push(other.args(&["--etcd-servers", etcd.url()]));
    }
    for launch in launches {
        let server = launch.start().unwrap();
        let client = server.client("test").await;
        let core = client.dynamic(Gvr::new("", "v1", "events"));
        let new = client.dynamic(Gvr::new("events.k8s.io", "v1", "events"));
        let pod = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        let metadata = |name: &str| json!({"name": name, "namespace": "default"});
        let first = json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata("core"),
            "involvedObject": pod, "reason": "Tested"});
        core.create("default", &first).await.unwrap();
        let second = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata("new"),
            "regarding": pod, "reason": "Tested", "action": "Test", "type": "Normal", "reportingController": "a.example/test",
            "reportingInstance": "test-0", "eventTime": "2026-01-01T00:00:00.000000Z"});
        new.create("default", &second).await.unwrap();
        // Other objects stay.
        let maps = client.dynamic(Gvr::new("", "v1", "configmaps"));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("map")});
        maps.create("default", &map).await.unwrap();
        until("both events have ended", async || {
            let gone = core.get("default", "core").await.is_err() && new.get("default", "new").await.is_err();
            gone.then_some(())
        })
        .await;
        maps.get("default", "map").await.unwrap();
    }
}
