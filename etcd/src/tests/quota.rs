//! Tests of recovery from a full quota as in etcd's manual: delete, compact, defragment, disarm.

use super::*;
use kstore_store::Limits;

const QUOTA: u64 = 4 << 20;
const NO_SPACE: (Code, &str) = (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");

fn refused<T: std::fmt::Debug>(result: Result<T, Status>) {
    let (code, text) = seen(result);
    assert_eq!((code, text.as_str()), NO_SPACE);
}

/// Writes a value per key until one is refused. Returns the number of accepted values.
async fn fill(server: &Server) -> usize {
    let value = bytes::Bytes::from(vec![b'v'; 50_000]);
    for at in 0..1_000 {
        let put = pb::PutRequest { key: format!("filler{at}").into(), value: value.clone(), ..put("", "") };
        if let Err(status) = server.kv().put(put).await {
            refused::<()>(Err(status));
            return at;
        }
    }
    panic!("the quota is never reached");
}

async fn alarm(server: &Server, action: pb::alarm_request::AlarmAction) -> Vec<pb::AlarmType> {
    let alarm = match action {
        pb::alarm_request::AlarmAction::Get => pb::AlarmType::None,
        _ => pb::AlarmType::Nospace,
    };
    let request = pb::AlarmRequest { action: action.into(), member_id: 0, alarm: alarm.into() };
    let answer = server.maintenance().alarm(request).await.unwrap().into_inner();
    answer.alarms.iter().map(pb::AlarmMember::alarm).collect()
}

async fn status(server: &Server) -> pb::StatusResponse {
    server.maintenance().status(pb::StatusRequest {}).await.unwrap().into_inner()
}

async fn the_way_back(server: &Server) {
    use pb::alarm_request::AlarmAction::{Deactivate, Get};
    let room = fill(server).await;
    assert_eq!(alarm(server, Get).await, [pb::AlarmType::Nospace]);
    let full = status(server).await;
    assert!(full.errors[0].contains("NOSPACE"), "{full:?}");
    assert_eq!(full.db_size_quota as u64, QUOTA);
    assert!(full.db_size_in_use as u64 > QUOTA - 100_000, "{full:?}");
    refused(server.kv().put(put("k", "")).await);
    refused(server.lease().lease_grant(pb::LeaseGrantRequest { ttl: 60, id: 0 }).await);

    let deleted = server.kv().delete_range(delete("\0", "\0")).await.unwrap().into_inner();
    assert_eq!(deleted.deleted as usize, room);
    let revision = deleted.header.unwrap().revision;
    server.kv().compact(pb::CompactionRequest { revision, physical: true }).await.unwrap();
    let compacted = status(server).await;
    assert!(compacted.db_size_in_use < 100_000, "what was deleted is not wanted any more: {compacted:?}");
    refused(server.kv().put(put("k", "")).await);

    server.maintenance().defragment(pb::DefragmentRequest {}).await.unwrap();
    let small = status(server).await;
    assert!(small.db_size < full.db_size / 4, "{} of {}", small.db_size, full.db_size);
    assert_eq!(alarm(server, Deactivate).await, [pb::AlarmType::Nospace]);
    assert_eq!(alarm(server, Get).await, []);
    assert!(status(server).await.errors.is_empty());
    assert_eq!(server.put("k", "v").await, revision + 1);
    server.kv().delete_range(delete("k", "")).await.unwrap();

    // All of the space is free again.
    assert!(fill(server).await + 1 >= room);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_on_disk_recovers_from_a_full_quota() {
    let folder = tempfile::tempdir().unwrap();
    // Only the quota must be reached, not the end of a disk that other programs use.
    let limits =
        Limits { quota_bytes: Some(QUOTA), disk_free_bytes: 0, reserve_bytes: 0, ..Limits::default() };
    let server = Server::with(Config { limits, ..Config::durable(folder.path()) }).await;
    the_way_back(&server).await;
}

#[tokio::test]
async fn a_store_in_memory_recovers_from_a_full_quota() {
    let limits = Limits { quota_bytes: Some(QUOTA), ..Limits::default() };
    the_way_back(&Server::with(Config { limits, ..Config::memory() }).await).await;
}
