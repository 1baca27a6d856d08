//! Deadlines and metrics of calls to `kstore.v1`, equal to those of REST.

use kstore_proto::kstore::v1 as pb;
use kstore_tests::{Setup, simulate};
use pb::kstore_client::KstoreClient;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Code;

fn config_map_ref() -> pb::Ref {
    pb::Ref {
        version: "v1".into(),
        resource: "configmaps".into(),
        namespace: "default".into(),
        ..pb::Ref::default()
    }
}

/// A call with a gRPC timeout header, as tonic's transport would write it.
fn with_timeout<T>(message: T, timeout: &'static str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
    request
}

#[test]
fn a_call_ends_at_the_deadline_of_its_caller() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc = KstoreClient::new(cluster.in_process());
        let list = || pb::ListRequest { r#ref: Some(config_map_ref()), ..Default::default() };
        assert!(grpc.list(with_timeout(list(), "5S")).await.is_ok());
        assert_eq!(grpc.list(with_timeout(list(), "0n")).await.unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(grpc.list(with_timeout(list(), "soon")).await.unwrap_err().code(), Code::InvalidArgument);
        let before = cluster.store().revision();
        let create = || pb::CreateRequest {
            r#ref: Some(config_map_ref()),
            json: r#"{"metadata":{"name":"a"}}"#.into(),
            ..Default::default()
        };
        assert_eq!(
            grpc.create(with_timeout(create(), "0m")).await.unwrap_err().code(),
            Code::DeadlineExceeded
        );
        let operation = pb::Operation { kind: Some(pb::operation::Kind::Create(create())) };
        let transaction = pb::TransactRequest { operations: vec![operation], dry_run: false };
        assert_eq!(
            grpc.transact(with_timeout(transaction, "0u")).await.unwrap_err().code(),
            Code::DeadlineExceeded
        );
        assert_eq!(cluster.store().revision(), before, "an expired call has no effect");
    });
}

#[test]
fn a_watch_ends_at_the_deadline_of_its_caller() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc = KstoreClient::new(cluster.in_process());
        let selector = pb::WatchSelector { r#ref: Some(config_map_ref()), ..Default::default() };
        let watch = pb::WatchRequest {
            selectors: vec![selector],
            after_revision: cluster.store().revision().0,
            ..Default::default()
        };
        let began = Instant::now();
        let mut stream = grpc.watch(with_timeout(watch, "7S")).await.unwrap().into_inner();
        assert_eq!(stream.message().await.unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(began.elapsed().as_secs(), 7);
        assert!(
            tokio::time::timeout(Duration::from_secs(1), stream.message()).await.unwrap().is_ok(),
            "that was its end"
        );
    });
}

#[test]
fn transactions_are_counted_in_metrics() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc = KstoreClient::new(cluster.in_process());
        let create = |name: &str| {
            let json = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            let create =
                pb::CreateRequest { r#ref: Some(config_map_ref()), json: json.into(), ..Default::default() };
            pb::Operation { kind: Some(pb::operation::Kind::Create(create)) }
        };
        let transaction = |names: &[&str], dry_run| pb::TransactRequest {
            operations: names.iter().map(|name| create(name)).collect(),
            dry_run,
        };
        grpc.transact(transaction(&["a", "b"], false)).await.unwrap();
        grpc.transact(transaction(&["c"], true)).await.unwrap();
        grpc.transact(transaction(&["d", "a"], false)).await.unwrap_err();
        let page = cluster.rest().call("GET", "/metrics", "").await;
        let page = String::from_utf8(page.body.to_vec()).unwrap();
        let labels = "verb=\"TRANSACT\",group=\"\",version=\"\",resource=\"\",subresource=\"\",scope=\"\",component=\"apiserver\"";
        for wanted in [
            format!("apiserver_request_total{{{labels},dry_run=\"\",code=\"200\"}} 1\n"),
            format!("apiserver_request_total{{{labels},dry_run=\"\",code=\"409\"}} 1\n"),
            format!("apiserver_request_total{{{labels},dry_run=\"All\",code=\"200\"}} 1\n"),
            format!("apiserver_request_duration_seconds_count{{{labels},dry_run=\"\"}} 2\n"),
        ] {
            assert!(page.contains(&wanted), "{wanted}\n{page}");
        }
    });
}
