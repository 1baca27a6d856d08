//! Tests of the Maintenance and Cluster services, and of a server's shutdown.

use super::*;
use sha2::Digest as _;

#[tokio::test]
async fn the_status_is_that_of_a_single_leader() {
    let server = Server::start().await;
    server.put("a", "1").await;
    let status = server.maintenance().status(pb::StatusRequest {}).await.unwrap().into_inner();
    let header = status.header.unwrap();
    assert_eq!((status.leader, header.revision, status.raft_term), (header.member_id, 2, 2));
    assert!(status.version.starts_with("3.6.") && status.db_size > 0 && status.errors.is_empty());
}

#[tokio::test]
async fn the_member_list_has_the_client_url() {
    let server = Server::start().await;
    let request = pb::MemberListRequest { linearizable: true };
    let list = server.cluster().member_list(request).await.unwrap().into_inner();
    assert_eq!(list.members.len(), 1);
    assert_eq!(list.members[0].client_ur_ls, [server.url.as_str()]);
    assert_eq!((list.members[0].id, list.header.unwrap().revision), (list.header.unwrap().member_id, 0));
    let unknown = seen(server.cluster().member_remove(pb::MemberRemoveRequest { id: 1 }).await);
    assert_eq!(unknown, (Code::NotFound, "etcdserver: member not found".to_owned()));
}

#[tokio::test]
async fn a_snapshot_is_sent_in_pieces_followed_by_their_digest() {
    let server = Server::start().await;
    let value = bytes::Bytes::from(vec![7; 100_000]);
    server.kv().put(pb::PutRequest { value, ..put("k", "") }).await.unwrap();
    let mut stream = server.maintenance().snapshot(pb::SnapshotRequest {}).await.unwrap().into_inner();
    let (mut data, mut pieces) = (Vec::new(), Vec::new());
    while let Some(piece) = stream.message().await.unwrap() {
        assert!(piece.blob.len() <= 32 << 10 && piece.header.is_none());
        data.extend_from_slice(&piece.blob);
        pieces.push(piece);
    }
    assert_eq!(data.len() % 512, 32, "as etcdctl checks it");
    let sum = data.split_off(data.len() - 32);
    assert_eq!(sum, sha2::Sha256::digest(&data).to_vec());
    assert_eq!(pieces[0].remaining_bytes as usize, data.len() - pieces[0].blob.len());
    assert_eq!(pieces.last().unwrap().remaining_bytes, 0);
}

#[tokio::test]
async fn streams_end_with_an_error_when_the_server_stops() {
    let server = Server::start().await;
    let (mut watches, requests) = super::watch::open(&server).await;
    super::watch::create(&requests, super::watch::on("k")).await;
    assert!(watches.message().await.unwrap().unwrap().created);
    server.stop.cancel();
    let stopped = seen(watches.message().await);
    assert_eq!(stopped, (Code::Unavailable, "etcdserver: server stopped".to_owned()));
}
