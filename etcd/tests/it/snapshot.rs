//! A snapshot of kstore that etcdctl saves, etcdutl restores, and etcd serves.

use crate::call::Call;
use crate::calls::{delete, put, range};
use crate::comparison::{Comparison, KstoreServer, connect};
use crate::etcd_process::{EtcdProcess, program, tool};
use kstore_proto::etcd::etcdserverpb as pb;
use std::path::Path;

/// A history with every kind of change, compacted in its middle.
fn history() -> Vec<Call> {
    let leased = |key, lease| Call::Put(pb::PutRequest { lease, ..put(key, "leased") });
    vec![
        Call::Put(put("a", "1")),
        Call::Put(put("a", "2")),
        Call::Put(put("b", "1")),
        Call::Delete(delete("a", "")),
        Call::Grant(pb::LeaseGrantRequest { id: 7, ttl: 1000 }),
        Call::Grant(pb::LeaseGrantRequest { id: 8, ttl: 1000 }),
        leased("c", 7),
        leased("d", 8),
        Call::Put(put("a", "3")),
        Call::Compact(pb::CompactionRequest { revision: 5, physical: true }),
        Call::Put(put("b", "2")),
        Call::Revoke(pb::LeaseRevokeRequest { id: 8 }),
    ]
}

fn run(name: &str, arguments: &[&str]) -> String {
    let output = tool(name).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn save(url: &str, file: &Path) {
    let file = file.to_str().unwrap();
    run("etcdctl", &["--endpoints", url, "--dial-timeout", "60s", "snapshot", "save", file]);
    let status = run("etcdutl", &["snapshot", "status", file, "-w", "json"]);
    assert!(status.contains(r#""revision":10"#), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_restored_and_served_by_etcd() {
    if program("etcd").is_none() {
        return;
    }
    let ours = KstoreServer::start().await;
    let channel = connect(&ours.url).await;
    for call in history() {
        let answer = call.perform(&channel).await;
        assert!(answer.contains("header: Some"), "{call:?}: {answer}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.db");
    let (url, saved) = (ours.url.clone(), file.clone());
    tokio::task::spawn_blocking(move || save(&url, &saved)).await.unwrap();
    let etcd = EtcdProcess::restore(&file).unwrap();
    let comparison = Comparison::between(etcd, ours).await;
    let at = |revision| Call::Range(pb::RangeRequest { revision, ..range("a", "z") });
    let script = [
        at(0),
        at(5),
        at(4),
        at(7),
        Call::HashKv(0),
        Call::HashKv(8),
        Call::Leases,
        Call::TimeToLive(pb::LeaseTimeToLiveRequest { id: 7, keys: true }),
        Call::Put(put("a", "after")),
        Call::Revoke(pb::LeaseRevokeRequest { id: 7 }),
        at(0),
        Call::HashKv(0),
    ];
    comparison.all("what was restored", &script).await;
}
