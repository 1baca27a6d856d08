//! The gRPC API `kstore.v1`: every call in process with the wire types.

use kstore_apiserver::InProcess;
use kstore_client::DeleteParams;
use kstore_proto::kstore::v1 as pb;
use kstore_store::Revision;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use pb::kstore_client::KstoreClient;
use pb::patch_request::Type as PatchType;
use pb::watch_event::Type;
use serde_json::{Value, json};

fn grpc_client(cluster: &Cluster) -> KstoreClient<InProcess> {
    KstoreClient::new(cluster.in_process())
}

fn reference(resource: &str, name: &str) -> Option<pb::Ref> {
    let row = kstore_api::kind::stored().find(|row| row.plural == resource).unwrap();
    Some(pb::Ref {
        group: row.group.into(),
        version: row.version.into(),
        resource: resource.into(),
        namespace: if row.namespaced { "default".into() } else { String::new() },
        name: name.into(),
        subresource: String::new(),
    })
}

fn value(object: &pb::Object) -> Value {
    let value: Value = serde_json::from_slice(&object.json).unwrap();
    assert_eq!(
        value["metadata"]["resourceVersion"],
        object.revision.to_string(),
        "both say the same revision"
    );
    value
}

fn create(resource: &str, object: &Value) -> pb::CreateRequest {
    pb::CreateRequest {
        r#ref: reference(resource, ""),
        json: object.to_string().into(),
        ..Default::default()
    }
}

fn update(resource: &str, object: &Value) -> pb::UpdateRequest {
    let name = object["metadata"]["name"].as_str().unwrap();
    pb::UpdateRequest {
        r#ref: reference(resource, name),
        json: object.to_string().into(),
        ..Default::default()
    }
}

fn patch(resource: &str, name: &str, kind: PatchType, document: &Value) -> pb::PatchRequest {
    pb::PatchRequest {
        r#ref: reference(resource, name),
        r#type: kind.into(),
        patch: document.to_string().into(),
        ..Default::default()
    }
}

#[test]
fn objects_are_created_read_replaced_and_deleted_over_grpc() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        let object = manifests::config_map("one", "1");
        let dry = pb::CreateRequest { dry_run: true, ..create("configmaps", &object) };
        grpc_client.create(dry).await.unwrap();
        let get = |revision| pb::GetRequest { r#ref: reference("configmaps", "one"), revision };
        assert_eq!(
            grpc_client.get(get(0)).await.unwrap_err().code(),
            tonic::Code::NotFound,
            "a dry run stores nothing"
        );

        let created = grpc_client.create(create("configmaps", &object)).await.unwrap().into_inner();
        let again = grpc_client.create(create("configmaps", &object)).await.unwrap_err();
        assert_eq!(again.code(), tonic::Code::AlreadyExists);
        let mut object = value(&created);
        object["data"]["value"] = json!("2");
        let updated = grpc_client.update(update("configmaps", &object)).await.unwrap().into_inner();
        assert!(updated.revision > created.revision);
        assert_eq!(value(&grpc_client.get(get(0)).await.unwrap().into_inner())["data"]["value"], "2");
        let old = grpc_client.get(get(created.revision)).await.unwrap().into_inner();
        assert_eq!(
            (value(&old)["data"]["value"].as_str(), old.revision),
            (Some("1"), created.revision),
            "history is readable"
        );

        let delete =
            pb::DeleteRequest { r#ref: reference("configmaps", "one"), options_json: Default::default() };
        let deleted = grpc_client.delete(delete).await.unwrap().into_inner();
        let answer: Value = serde_json::from_slice(&deleted.json).unwrap();
        assert_eq!(answer["kind"], "Status");
        assert!(deleted.revision > updated.revision, "a client can wait for its own write");
        assert_eq!(grpc_client.get(get(0)).await.unwrap_err().code(), tonic::Code::NotFound);
    });
}

#[test]
fn grpc_errors_carry_the_status_of_rest() {
    simulate(Setup::api_alone(), async |cluster| {
        let api = cluster.resource("configmaps");
        let first = cluster.create(manifests::config_map("one", "1")).await;
        cluster.merge("configmaps", "one", json!({ "data": { "value": "2" } })).await;
        let mut stale = first.clone();
        stale["data"]["value"] = json!("3");
        let error = api.update(&stale).await.unwrap_err();
        assert_eq!((error.code(), error.is_conflict()), (Some(409), true));

        let path = "/api/v1/namespaces/default/configmaps";
        let bad = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "Not Good" } });
        let cases = [
            (
                api.update(&stale).await.unwrap_err(),
                cluster.rest().call("PUT", &format!("{path}/one"), stale.to_string()).await,
            ),
            (
                api.create("default", &bad).await.unwrap_err(),
                cluster.rest().call("POST", path, bad.to_string()).await,
            ),
            (
                api.get("default", "none").await.unwrap_err(),
                cluster.rest().call("GET", &format!("{path}/none"), "").await,
            ),
        ];
        for (grpc, rest) in cases {
            assert_eq!(grpc.code(), Some(rest.code));
            assert_eq!(grpc.to_string(), rest.text("/message"));
            assert_eq!(grpc.reason(), rest.text("/reason"));
            assert_eq!(
                json!(grpc.causes()),
                rest.json().pointer("/details/causes").cloned().unwrap_or(json!([]))
            );
        }
    });
}

#[test]
fn every_patch_type_has_the_effect_of_rest() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        cluster.create(manifests::deployment("web", 1)).await;
        let mut send = async |kind, document: Value| {
            value(
                &grpc_client.patch(patch("deployments", "web", kind, &document)).await.unwrap().into_inner(),
            )
        };
        let merged =
            send(PatchType::Merge, json!({ "metadata": { "labels": { "a": "1", "app": null } } })).await;
        assert_eq!(merged["metadata"]["labels"], json!({ "a": "1" }));
        let edited =
            send(PatchType::Json, json!([{ "op": "replace", "path": "/spec/replicas", "value": 4 }])).await;
        assert_eq!(edited["spec"]["replicas"], 4);
        let added = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "side", "image": "side:1" }] } } } });
        let strategic = send(PatchType::Strategic, added).await;
        assert_eq!(
            strategic["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(),
            2,
            "lists merge by name"
        );
        let applied = send(
            PatchType::Apply,
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "labels": { "b": "2" } } }),
        )
        .await;
        assert_eq!(applied["metadata"]["labels"], json!({ "a": "1", "b": "2" }));
    });
}

#[test]
fn spec_and_status_are_written_separately() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        let mut object = cluster.create(manifests::deployment("web", 1)).await;
        object["spec"]["replicas"] = json!(7);
        object["status"] = json!({ "observedGeneration": 1, "replicas": 1 });
        let status =
            value(&grpc_client.update_status(update("deployments", &object)).await.unwrap().into_inner());
        assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(1), &json!(1)));
        assert_eq!(status["metadata"]["generation"], 1);
        let mut object = status;
        object["spec"]["replicas"] = json!(7);
        object["status"]["replicas"] = json!(9);
        let spec = value(&grpc_client.update(update("deployments", &object)).await.unwrap().into_inner());
        assert_eq!((&spec["spec"]["replicas"], &spec["status"]["replicas"]), (&json!(7), &json!(1)));
        assert_eq!(spec["metadata"]["generation"], 2);
    });
}

#[test]
fn a_list_comes_in_chunks_of_one_revision() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        for n in 0..1100 {
            cluster.create(manifests::config_map(&format!("c{n:04}"), "1")).await;
        }
        let before = cluster.store().revision().0;
        let request = |limit, revision, token: &str| pb::ListRequest {
            r#ref: reference("configmaps", ""),
            limit,
            revision,
            r#continue: token.into(),
            ..Default::default()
        };
        let chunks = collect(grpc_client.list(request(0, 0, "")).await.unwrap().into_inner()).await;
        assert!(chunks.len() > 2 && chunks.iter().all(|chunk| chunk.revision == before), "{}", chunks.len());
        let names = names(&chunks);
        assert!(names.len() == 1100 && names.is_sorted());

        // Pages of one list during other writes: still one state.
        let (mut pages, mut token) = (Vec::new(), String::new());
        loop {
            let page = collect(grpc_client.list(request(400, 0, &token)).await.unwrap().into_inner()).await;
            token = page.last().unwrap().r#continue.clone();
            pages.extend(page);
            cluster
                .delete("configmaps", &format!("c{:04}", 1099 - pages.len()), DeleteParams::default())
                .await;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(self::names(&pages), names);
        let past = collect(grpc_client.list(request(0, before - 100, "")).await.unwrap().into_inner()).await;
        assert_eq!(self::names(&past), names[..1000]);
    });
}

async fn collect<T>(mut stream: tonic::Streaming<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(next) = stream.message().await.unwrap() {
        all.push(next);
    }
    all
}

fn names(chunks: &[pb::ListChunk]) -> Vec<String> {
    let items = chunks.iter().flat_map(|chunk| &chunk.items);
    items
        .map(|json| {
            serde_json::from_slice::<Value>(json).unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn watch(resources: &[&str], after_revision: i64) -> pb::WatchRequest {
    let selectors = resources
        .iter()
        .map(|resource| pb::WatchSelector { r#ref: reference(resource, ""), ..Default::default() });
    pb::WatchRequest { selectors: selectors.collect(), after_revision, progress: false }
}

/// The next `count` events of a stream: revision, selector, type and name.
async fn events(
    stream: &mut tonic::Streaming<pb::WatchBatch>,
    count: usize,
) -> Vec<(i64, u32, Type, String)> {
    let (mut seen, mut at) = (Vec::new(), 0);
    while seen.len() < count {
        let batch = stream.message().await.unwrap().expect("the stream continues");
        assert!(batch.revision >= at, "progress never decreases");
        at = batch.revision;
        for event in batch.events {
            let object: Value = serde_json::from_slice(&event.json).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            seen.push((event.revision, event.selector, event.r#type(), name));
        }
    }
    seen
}

#[test]
fn one_watch_stream_carries_several_kinds_in_revision_order_and_resumes_anywhere() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        let begin = cluster.store().revision().0;
        let kinds = ["configmaps", "namespaces", "deployments"];
        let mut live = grpc_client.watch(watch(&kinds, begin)).await.unwrap().into_inner();
        for n in 0..20 {
            cluster.create(manifests::config_map(&format!("c{n}"), "1")).await;
            cluster.create(manifests::namespace(&format!("n{n}"))).await;
            cluster.create(manifests::deployment(&format!("d{n}"), 1)).await;
            cluster.merge("configmaps", &format!("c{n}"), json!({ "data": { "value": "2" } })).await;
            cluster.delete("configmaps", &format!("c{n}"), DeleteParams::default()).await;
        }
        let seen = events(&mut live, 100).await;
        assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "one order for all kinds");
        assert_eq!(seen.iter().filter(|event| event.2 == Type::Gone).count(), 20);
        for (at, (revision, ..)) in seen.iter().enumerate().step_by(7) {
            let mut resumed = grpc_client.watch(watch(&kinds, *revision)).await.unwrap().into_inner();
            let rest = &seen[at + 1..];
            assert_eq!(events(&mut resumed, rest.len()).await, rest, "resumed after {revision}");
        }
    });
}

#[test]
fn a_watch_without_a_revision_begins_with_the_current_objects_and_marks_their_end() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        for n in 0..3 {
            cluster.create(manifests::config_map(&format!("c{n}"), "1")).await;
        }
        let mut stream = grpc_client.watch(watch(&["configmaps"], 0)).await.unwrap().into_inner();
        let (mut puts, mut done) = (0, 0);
        while done == 0 {
            let batch = stream.message().await.unwrap().unwrap();
            puts += batch.events.len();
            done += usize::from(batch.initial_done);
        }
        assert_eq!(puts, 3);
        cluster.create(manifests::config_map("later", "1")).await;
        let batch = stream.message().await.unwrap().unwrap();
        assert!(!batch.initial_done && batch.events.len() == 1);
    });
}

#[test]
fn objects_leaving_a_selector_are_gone_and_entering_ones_are_put() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        let mut request = watch(&["configmaps"], cluster.store().revision().0);
        request.selectors[0].label_selector = "tier=front".into();
        let mut stream = grpc_client.watch(request).await.unwrap().into_inner();
        cluster.create(manifests::config_map("one", "1")).await;
        for tier in ["front", "front", "back", "front"] {
            let patch =
                json!({ "metadata": { "labels": { "tier": tier } }, "data": { "value": format!("{tier}") } });
            cluster.merge("configmaps", "one", patch).await;
        }
        let seen: Vec<_> = events(&mut stream, 3).await.into_iter().map(|event| event.2).collect();
        // The second, equal write changed nothing.
        assert_eq!(seen, [Type::Put, Type::Gone, Type::Put]);
    });
}

#[test]
fn a_quiet_stream_reports_progress_on_request() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut request = watch(&["secrets"], cluster.store().revision().0);
        request.progress = true;
        let mut stream = grpc_client(cluster).watch(request).await.unwrap().into_inner();
        cluster.create(manifests::config_map("other", "1")).await;
        let batch = stream.message().await.unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.revision), (0, cluster.store().revision().0));
    });
}

#[test]
fn compacted_revisions_are_expired_over_rest_and_grpc() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        let old = cluster.store().revision().0;
        // More than the apiserver caches, so that it reads from the storage.
        cluster.create(manifests::config_map("one", "0")).await;
        for n in 0..17_000 {
            let key = format!("/registry/configmaps/default/fill{}", n % 3);
            let name = format!("fill{}", n % 3);
            let object = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}},"data":{{"n":"{n}"}}}}"#
            );
            cluster.store().put(&key, object).await.unwrap();
            if n % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        cluster.apiserver().pipeline().cache().fresh().await.unwrap();
        cluster.store().compact(Revision(cluster.store().revision().0 - 1)).await.unwrap();
        let refused = match grpc_client.watch(watch(&["configmaps"], old)).await {
            Ok(stream) => stream.into_inner().message().await.unwrap_err(),
            Err(refused) => refused,
        };
        assert_eq!(refused.code(), tonic::Code::OutOfRange, "{refused}");
        let get = pb::GetRequest { r#ref: reference("configmaps", "one"), revision: old };
        assert_eq!(grpc_client.get(get).await.unwrap_err().code(), tonic::Code::OutOfRange);
        let reply = cluster
            .rest()
            .call("GET", &format!("/api/v1/configmaps?resourceVersion={old}&resourceVersionMatch=Exact"), "")
            .await;
        assert_eq!((reply.code, reply.text("/reason")), (410, "Expired".to_owned()));
    });
}

#[test]
fn a_pod_is_bound_once_and_only_with_the_right_uid() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc_client = grpc_client(cluster);
        let account =
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
        cluster.create(account).await;
        let pod = cluster.create(manifests::pod("one", json!({}))).await;
        let bind = |uid: &str| pb::BindRequest {
            namespace: "default".into(),
            pod: "one".into(),
            uid: uid.into(),
            node: "node-7".into(),
        };
        assert_eq!(grpc_client.bind(bind("another")).await.unwrap_err().code(), tonic::Code::Aborted);
        grpc_client.bind(bind(pod["metadata"]["uid"].as_str().unwrap())).await.unwrap();
        let bound = cluster.get("pods", "default", "one").await.unwrap();
        assert_eq!(bound["spec"]["nodeName"], "node-7");
        assert_eq!(
            grpc_client.bind(bind("")).await.unwrap_err().code(),
            tonic::Code::Aborted,
            "a pod is bound once"
        );
    });
}

#[test]
fn reflection_lists_the_services_and_health_is_serving() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1 as reflection;
    simulate(Setup::api_alone(), async |cluster| {
        let mut health = HealthClient::new(cluster.in_process());
        let answer = health.check(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);

        let mut client =
            reflection::server_reflection_client::ServerReflectionClient::new(cluster.in_process());
        let ask = reflection::server_reflection_request::MessageRequest::ListServices(String::new());
        let request = reflection::ServerReflectionRequest { host: String::new(), message_request: Some(ask) };
        let answers =
            client.server_reflection_info(futures::stream::iter([request])).await.unwrap().into_inner();
        let answer = collect(answers).await.remove(0).message_response.unwrap();
        let reflection::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer
        else {
            panic!("not a list of services: {answer:?}")
        };
        assert!(list.service.iter().any(|service| service.name == "kstore.v1.Kstore"), "{list:?}");
        assert!(list.service.iter().all(|service| service.name != "kstore.lab.v1.Lab"), "{list:?}");
    });
}
