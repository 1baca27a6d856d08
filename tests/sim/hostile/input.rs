//! Input of unusual size where names and numbers are expected.

use kstore_proto::kstore::v1 as pb;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use pb::kstore_client::KstoreClient;
use std::time::Duration;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_watch_with_a_huge_timeout_is_served() {
    simulate(Setup::api_alone(), async |cluster| {
        for seconds in ["9223372036854775807", "4611686018427387904"] {
            let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={seconds}");
            // The watch ends at the server's time limit, after a month of virtual time.
            let began = tokio::time::Instant::now();
            let reply = cluster.rest().call("GET", &path, "").await;
            assert_eq!(reply.code, 200, "{}", reply.text("/message"));
            assert_eq!(began.elapsed().as_secs() / 86_400, 30);
        }
    });
}

#[test]
fn a_long_user_agent_is_truncated_in_storage_and_as_field_manager() {
    simulate(Setup::api_alone(), async |cluster| {
        let agent = "a".repeat(60_000);
        let request = http::Request::builder().method("POST").uri(CONFIG_MAPS);
        let request = request.header("user-agent", &agent).header("content-type", "application/json");
        let body = manifests::config_map("one", "1").to_string();
        let reply = cluster.rest().send(request.body(body.into()).unwrap()).await;
        assert_eq!(reply.code, 201, "{}", reply.text("/message"));
        assert_eq!(reply.text("/metadata/managedFields/0/manager"), agent[..128]);
        let notes = cluster.history().into_iter().filter_map(|change| change.note);
        let longest = notes.map(|note| note.len()).max().unwrap();
        assert!(longest < 1024, "a note of {longest} bytes");
    });
}

#[test]
fn an_unprintable_or_long_field_manager_is_refused_over_grpc() {
    simulate(Setup::api_alone(), async |cluster| {
        let create = async |cluster: &Cluster, manager: &[u8], name: &str| {
            let reference = pb::Ref {
                version: "v1".into(),
                resource: "configmaps".into(),
                namespace: "default".into(),
                ..Default::default()
            };
            let json = manifests::config_map(name, "1").to_string().into();
            let mut request =
                tonic::Request::new(pb::CreateRequest { r#ref: Some(reference), json, ..Default::default() });
            request.metadata_mut().insert("kstore-field-manager", manager.try_into().unwrap());
            KstoreClient::new(cluster.in_process()).create(request).await.map(drop)
        };
        create(cluster, &[b'm'; 128], "good").await.unwrap();
        create(cluster, "café".as_bytes(), "named").await.unwrap();
        let named = cluster.get("configmaps", "default", "named").await.unwrap();
        assert_eq!(named["metadata"]["managedFields"][0]["manager"], "café");
        let refused = create(cluster, b"caf\xe9", "bad").await.unwrap_err();
        assert!(refused.message().contains("must be UTF-8"), "{refused}");
        let refused = create(cluster, &[b'm'; 129], "bad").await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("may not be more than 128 bytes"), "{refused}");
        tokio::time::sleep(Duration::ZERO).await;
        assert!(cluster.get("configmaps", "default", "bad").await.is_none());
    });
}
