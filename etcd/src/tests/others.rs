//! The Maintenance and Cluster services, and the end of a server.

use super::*;

#[tokio::test]
async fn the_status_is_that_of_a_leader_of_one() {
    let server = Server::start().await;
    server.put("a", "1").await;
    let status = server.maintenance().status(pb::StatusRequest {}).await.unwrap().into_inner();
    let header = status.header.unwrap();
    assert_eq!((status.leader, header.revision, status.raft_term), (header.member_id, 2, 2));
    assert!(status.version.starts_with("3.6.") && status.db_size > 0 && status.errors.is_empty());
}

#[tokio::test]
async fn the_one_member_says_where_it_is_reached() {
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
async fn what_is_not_served_says_so() {
    let server = Server::start().await;
    let alarms = pb::AlarmRequest::default();
    assert!(server.maintenance().alarm(alarms).await.unwrap().into_inner().alarms.is_empty());
    let (mut b, mut c) = (server.maintenance(), server.maintenance());
    for (code, text) in
        [seen(b.snapshot(pb::SnapshotRequest {}).await), seen(c.defragment(pb::DefragmentRequest {}).await)]
    {
        assert!(code == Code::Unimplemented && text.starts_with("kstore: "), "{code:?} {text}");
    }
}

#[tokio::test]
async fn when_the_server_stops_streams_are_told_so() {
    let server = Server::start().await;
    let (mut watches, requests) = super::watch::open(&server).await;
    super::watch::create(&requests, super::watch::on("k")).await;
    assert!(watches.message().await.unwrap().unwrap().created);
    server.stop.cancel();
    let stopped = seen(watches.message().await);
    assert_eq!(stopped, (Code::Unavailable, "etcdserver: server stopped".to_owned()));
}
