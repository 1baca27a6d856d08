//! Independent operations in one call: each is authorized, charged, committed and answered alone.

use crate::etcd_rerun::is_rerun;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::provenance::Note;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use pb::each_operation::Kind;
use pb::each_result::Result as Done;
use pb::kstore_client::KstoreClient;
use serde_json::{Value, json};

fn reference(resource: &str, namespace: &str, name: &str) -> Option<pb::Ref> {
    let (resource, namespace, name) = (resource.to_owned(), namespace.to_owned(), name.to_owned());
    Some(pb::Ref { version: "v1".into(), resource, namespace, name, ..Default::default() })
}

fn create(namespace: &str, object: &Value) -> Kind {
    let reference = reference("configmaps", namespace, "");
    Kind::Create(pb::CreateRequest {
        r#ref: reference,
        json: object.to_string().into(),
        ..Default::default()
    })
}

fn set(name: &str, value: &str) -> Kind {
    let patch = json!({"data": {"value": value}}).to_string().into();
    Kind::Patch(pb::PatchRequest {
        r#ref: reference("configmaps", "default", name),
        patch,
        ..Default::default()
    })
}

fn delete(name: &str) -> Kind {
    Kind::Delete(pb::DeleteRequest { r#ref: reference("configmaps", "default", name), ..Default::default() })
}

fn message(kinds: impl IntoIterator<Item = Kind>) -> pb::EachRequest {
    let operation = |(n, kind)| pb::EachOperation { kind: Some(kind), causes: format!("{}", n + 1) };
    pb::EachRequest { operations: (0..).zip(kinds).map(operation).collect() }
}

/// Revision of each operation, or code of its refusal.
async fn execute(cluster: &Cluster, kinds: impl IntoIterator<Item = Kind>) -> Vec<Result<i64, u64>> {
    let response = KstoreClient::new(cluster.in_process()).each(message(kinds)).await.unwrap().into_inner();
    response.results.iter().map(result).collect()
}

fn result(result: &pb::EachResult) -> Result<i64, u64> {
    match result.result.as_ref().unwrap() {
        Done::Object(object) => Ok(object.revision),
        Done::RefusalJson(json) => {
            let status: Value = serde_json::from_slice(json).unwrap();
            assert_eq!(status["kind"], "Status");
            Err(status["code"].as_u64().unwrap())
        }
    }
}

#[test]
fn each_operation_has_its_own_revision_causes_and_result() {
    simulate(Setup::api_alone(), async |cluster| {
        for name in ["old", "gone"] {
            cluster.create(manifests::config_map(name, "1")).await;
        }
        let before = cluster.store().revision().0;
        let operations = [
            create("default", &manifests::config_map("new", "1")),
            create("default", &manifests::config_map("Not Good", "1")),
            set("old", "2"),
            set("absent", "2"),
            delete("gone"),
            create("none", &manifests::config_map("a", "1")),
        ];
        let results = execute(cluster, operations).await;
        let [Ok(new), Err(422), Ok(old), Err(404), Ok(gone), Err(404)] = results[..] else {
            panic!("{results:?}")
        };
        let key = |name: &str| format!("/registry/configmaps/default/{name}");
        let mut expected = [(new, key("new")), (old, key("old")), (gone, key("gone"))];
        expected.sort();
        let written: Vec<_> =
            cluster.history().into_iter().filter(|change| change.revision > before).collect();
        let keys: Vec<_> = written.iter().map(|change| (change.revision, change.key.clone())).collect();
        assert_eq!(keys, expected);
        assert!(expected.windows(2).all(|two| two[0].0 < two[1].0), "each has a revision: {expected:?}");
        // An etcd executes several commits at a time, and keeps notes in a form that only the storage reads.
        if !is_rerun() {
            assert_eq!([new, old, gone], [before + 1, before + 2, before + 3]);
            let notes = written.iter().map(|change| Note::decode(change.note.as_ref().unwrap()).unwrap());
            assert_eq!(notes.map(|note| note.causes).collect::<Vec<_>>(), [vec![1], vec![3], vec![5]]);
        }
        assert_eq!(cluster.get("configmaps", "default", "old").await.unwrap()["data"]["value"], "2");
    });
}

#[test]
fn operations_on_one_object_are_serialized() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("one", "0")).await;
        let label = |n: usize| {
            let patch = json!({"metadata": {"labels": {format!("l{n}"): "x"}}}).to_string().into();
            let reference = reference("configmaps", "default", "one");
            Kind::Patch(pb::PatchRequest { r#ref: reference, patch, ..Default::default() })
        };
        let results = execute(cluster, (0..20).map(label)).await;
        let mut revisions: Vec<i64> = results.into_iter().map(Result::unwrap).collect();
        revisions.sort_unstable();
        revisions.dedup();
        assert_eq!(revisions.len(), 20, "no update is lost, each has a revision");
        let one = cluster.get("configmaps", "default", "one").await.unwrap();
        assert_eq!(one["metadata"]["labels"].as_object().unwrap().len(), 20);
    });
}

#[test]
fn operations_beyond_a_quota_are_refused_alone() {
    simulate(Setup::api_alone(), async |cluster| {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
            "spec": {"hard": {"count/configmaps": "3"}}, "status": {"hard": {"count/configmaps": "3"}, "used": {"count/configmaps": "0"}}});
        cluster.create(quota.clone()).await;
        let api = cluster.resource("resourcequotas");
        let mut stored = cluster.get("resourcequotas", "default", "few").await.unwrap();
        stored["status"] = quota["status"].clone();
        api.replace(&stored, "status").await.unwrap();
        let maps = (0..10).map(|n| create("default", &manifests::config_map(&format!("m{n}"), "1")));
        let results = execute(cluster, maps).await;
        let (done, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!((done.len(), refused), (3, vec![Err(403); 7]));
    });
}

#[test]
fn each_operation_is_authorized_alone() {
    simulate(Setup::api_alone(), async |cluster| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "writer"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
        cluster.create(role).await;
        cluster.create(binding).await;
        let jane = cluster.apiserver().in_process(UserInfo::new("jane", ["system:authenticated"]));
        let operations = [
            create("default", &manifests::config_map("a", "1")),
            delete("a"),
            create("kube-system", &manifests::config_map("a", "1")),
            Kind::Bind(pb::BindRequest {
                namespace: "default".into(),
                pod: "p".into(),
                node: "n".into(),
                ..Default::default()
            }),
            create("default", &manifests::config_map("b", "1")),
        ];
        let response = KstoreClient::new(jane).each(message(operations)).await.unwrap().into_inner();
        let results: Vec<_> = response.results.iter().map(result).collect();
        assert!(matches!(results[..], [Ok(_), Err(403), Err(403), Err(403), Ok(_)]), "{results:?}");
    });
}

#[test]
fn a_fence_holds_for_each_operation() {
    simulate(Setup::api_alone(), async |cluster| {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "office", "namespace": "kube-system"},
            "spec": {"holderIdentity": "a", "leaseTransitions": 3}});
        cluster.create(lease).await;
        for (fence, fits) in [("kube-system/office/2/a", false), ("kube-system/office/3/a", true)] {
            let maps = ["a", "b"].map(|name| create("default", &manifests::config_map(name, "1")));
            let mut request = tonic::Request::new(message(maps));
            request.metadata_mut().insert("kstore-fence", fence.parse().unwrap());
            let done = KstoreClient::new(cluster.in_process()).each(request).await.unwrap().into_inner();
            let results: Vec<_> = done.results.iter().map(result).collect();
            assert!(results.iter().all(|result| result.is_ok() == fits), "{fence}: {results:?}");
        }
    });
}

#[test]
fn calls_without_operations_or_with_too_many_are_refused() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc = KstoreClient::new(cluster.in_process());
        for count in [0, 129] {
            let maps = (0..count).map(|n| create("default", &manifests::config_map(&format!("m{n}"), "1")));
            let refused = grpc.each(message(maps)).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{count}");
        }
        let empty = pb::EachOperation::default();
        let account = reference("serviceaccounts", "default", "default").unwrap();
        let account = pb::Ref { subresource: "token".into(), ..account };
        let token = pb::CreateRequest { r#ref: Some(account), json: "{}".into(), ..Default::default() };
        let token = pb::EachOperation { kind: Some(Kind::Create(token)), ..Default::default() };
        let good = message([create("default", &manifests::config_map("good", "1"))]).operations.remove(0);
        let request = pb::EachRequest { operations: vec![empty, token, good] };
        let done = grpc.each(request).await.unwrap().into_inner();
        let results: Vec<_> = done.results.iter().map(result).collect();
        assert!(matches!(results[..], [Err(400), Err(400), Ok(_)]), "{results:?}");
        assert!(cluster.get("configmaps", "default", "good").await.is_some());
    });
}
