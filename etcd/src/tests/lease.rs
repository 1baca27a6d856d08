//! Tests of the Lease service. The store uses tokio's clock, so tests can advance the time.

use super::*;
use futures::stream;
use std::time::Duration;

fn grant(ttl: i64, id: i64) -> pb::LeaseGrantRequest {
    pb::LeaseGrantRequest { ttl, id }
}

#[tokio::test]
async fn a_lease_is_granted_listed_queried_and_revoked_with_its_keys() {
    let server = Server::start().await;
    let granted = server.lease().lease_grant(grant(0, 7)).await.unwrap().into_inner();
    assert_eq!((granted.id, granted.ttl, granted.header.unwrap().revision), (7, 2, 1));
    let chosen = server.lease().lease_grant(grant(60, 0)).await.unwrap().into_inner();
    assert!(chosen.id > 0);
    server.kv().put(pb::PutRequest { lease: 7, ..put("k", "v") }).await.unwrap();

    let leases = server.lease().lease_leases(pb::LeaseLeasesRequest {}).await.unwrap().into_inner().leases;
    assert_eq!(leases.iter().map(|lease| lease.id).collect::<Vec<_>>(), [7, chosen.id]);
    let ask = |id| pb::LeaseTimeToLiveRequest { id, keys: true };
    let status = server.lease().lease_time_to_live(ask(7)).await.unwrap().into_inner();
    assert_eq!((status.granted_ttl, status.keys), (2, vec!["k".into()]));
    let unknown = server.lease().lease_time_to_live(ask(99)).await.unwrap().into_inner();
    assert_eq!((unknown.id, unknown.ttl, unknown.granted_ttl), (99, -1, 0));

    let revoked = server.lease().lease_revoke(pb::LeaseRevokeRequest { id: 7 }).await.unwrap().into_inner();
    assert_eq!(revoked.header.unwrap().revision, 3);
    assert!(server.kv().range(range("k", "")).await.unwrap().into_inner().kvs.is_empty());
}

#[tokio::test]
async fn lease_errors_have_etcds_codes_and_texts() {
    let server = Server::start().await;
    server.lease().lease_grant(grant(60, 7)).await.unwrap();
    let exists = seen(server.lease().lease_grant(grant(60, 7)).await);
    assert_eq!(exists, (Code::FailedPrecondition, "etcdserver: lease already exists".to_owned()));
    let large = seen(server.lease().lease_grant(grant(9_000_000_001, 8)).await);
    assert_eq!(large, (Code::OutOfRange, "etcdserver: too large lease TTL".to_owned()));
    let gone = seen(server.lease().lease_revoke(pb::LeaseRevokeRequest { id: 9 }).await);
    assert_eq!(gone, (Code::NotFound, "etcdserver: requested lease not found".to_owned()));
}

#[tokio::test]
async fn renewals_are_answered_in_order_and_a_missing_lease_with_ttl_zero() {
    let server = Server::start().await;
    server.lease().lease_grant(grant(60, 7)).await.unwrap();
    let renew = |id| pb::LeaseKeepAliveRequest { id };
    let requests = stream::iter([renew(7), renew(8), renew(7)]);
    let mut answers = server.lease().lease_keep_alive(requests).await.unwrap().into_inner();
    for expected in [(7, 60), (8, 0), (7, 60)] {
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!((answer.id, answer.ttl), expected);
    }
    assert!(answers.message().await.unwrap().is_none());
}

#[tokio::test]
async fn an_unrenewed_lease_expires_and_watches_get_the_deletions() {
    let server = Server::start().await;
    server.lease().lease_grant(grant(5, 7)).await.unwrap();
    server.kv().put(pb::PutRequest { lease: 7, ..put("k", "v") }).await.unwrap();
    let (mut stream, requests) = super::watch::open(&server).await;
    super::watch::create(&requests, super::watch::on("k")).await;
    assert!(stream.message().await.unwrap().unwrap().created);
    // Time is paused only while it advances: the connection needs running time.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    let gone = stream.message().await.unwrap().unwrap();
    assert_eq!((gone.events[0].r#type, gone.header.unwrap().revision), (1, 3));
    let status = pb::LeaseTimeToLiveRequest { id: 7, keys: false };
    assert_eq!(server.lease().lease_time_to_live(status).await.unwrap().into_inner().ttl, -1);
}
