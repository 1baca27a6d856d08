//! Transactions over several objects: all operations commit at one revision or none, under concurrent
//! writers; through the client and on the wire.

use super::CONFIG_MAPS;
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kstore_client::{ApiError, Check, Client, DeleteParams, Gvr, Patch, Transaction};
use kstore_informer::Revision;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use pb::kstore_client::KstoreClient;
use serde_json::{Value, json};

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(manifests::config_map(name, value)).unwrap()
}

fn merge(patch: Value) -> Patch {
    Patch::Merge(patch)
}

fn set(value: &str) -> Patch {
    merge(json!({"data": {"value": value}}))
}

/// Revision and key of every write after a revision.
fn written(cluster: &Cluster, after: i64) -> Vec<(i64, String)> {
    let changes = cluster.history().into_iter().filter(|change| change.revision > after);
    changes.map(|change| (change.revision, change.key.trim_start_matches("/registry/").to_owned())).collect()
}

#[test]
fn all_operations_commit_at_one_revision_in_order_with_one_cause() {
    simulate(Setup::api_alone(), async |cluster| {
        let old = cluster.create(manifests::config_map("old", "1")).await;
        cluster.create(manifests::config_map("gone", "1")).await;
        let before = cluster.store().revision().0;
        let done = Transaction::new(cluster.client())
            .create("default", &map("new", "1"))
            .patch::<ConfigMap>("default", "old", "", &set("2"))
            .delete::<ConfigMap>("default", "gone", &DeleteParams::default())
            .check::<Namespace>("", "default", Check::Present)
            .commit()
            .await
            .unwrap();
        let revision = before + 1;
        assert_eq!(done.revision(), Revision(revision.unsigned_abs()));
        let keys = ["configmaps/default/new", "configmaps/default/old", "configmaps/default/gone"];
        assert_eq!(written(cluster, before), keys.map(|key| (revision, key.to_owned())));
        let notes: Vec<_> = cluster
            .history()
            .into_iter()
            .filter(|change| change.revision == revision)
            .map(|change| change.note)
            .collect();
        assert!(notes.iter().all(|note| note.is_some() && *note == notes[0]), "one provenance for all");
        for (index, name) in [(0, "new"), (1, "old")] {
            let answered = done.value(index).unwrap();
            assert_eq!(
                Some(answered),
                cluster.get("configmaps", "default", name).await,
                "the answer equals the stored object"
            );
        }
        assert_eq!(done.value(1).unwrap()["metadata"]["uid"], old["metadata"]["uid"]);
        assert_eq!(done.value(2).unwrap()["status"], "Success");
        assert!(done.value(3).is_err(), "a check has no object");
    });
}

#[test]
fn the_first_failed_operation_fails_the_transaction_and_is_named() {
    simulate(Setup::api_alone(), async |cluster| {
        let there = cluster.create(manifests::config_map("there", "1")).await;
        let uid = there["metadata"]["uid"].as_str().unwrap();
        let before = cluster.store().revision();
        let begin = || Transaction::new(cluster.client()).create("default", &map("new", "1"));
        let stale = serde_json::from_value::<ConfigMap>(
            json!({"metadata": {"name": "there", "namespace": "default", "resourceVersion": "1"}}),
        )
        .unwrap();
        let name = |n: usize| format!("m-{n}");
        let many = (0..129)
            .fold(Transaction::new(cluster.client()), |all, n| all.create("default", &map(&name(n), "1")));
        let cases = [
            ("exists", begin().create("default", &map("there", "1")), Some(1), 409),
            ("invalid", begin().create("default", &map("Not Good", "1")), Some(1), 422),
            ("absent", begin().patch::<ConfigMap>("default", "none", "", &set("1")), Some(1), 404),
            ("stale", begin().update(&stale, ""), Some(1), 409),
            ("no namespace", begin().create("none", &map("a", "1")), Some(1), 404),
            ("not absent", begin().check::<ConfigMap>("default", "there", Check::Absent), Some(1), 409),
            ("not present", begin().check::<ConfigMap>("default", "none", Check::Present), Some(1), 404),
            (
                "another uid",
                begin().check::<ConfigMap>("default", "there", Check::Uid("else".into())),
                Some(1),
                409,
            ),
            (
                "another revision",
                begin().check::<ConfigMap>("default", "there", Check::At(Revision(1))),
                Some(1),
                409,
            ),
            ("twice the same name", begin().create("default", &map("new", "2")), Some(1), 409),
            (
                "removed and made again",
                Transaction::new(cluster.client())
                    .delete::<ConfigMap>("default", "there", &DeleteParams::default().uid(uid))
                    .create("default", &map("there", "2")),
                Some(1),
                400,
            ),
            (
                "a review",
                begin().create_value(
                    &Gvr::new("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
                    "",
                    &json!({}),
                ),
                Some(1),
                400,
            ),
            ("too many", many, None, 400),
            ("none at all", Transaction::new(cluster.client()), None, 400),
        ];
        for (what, transaction, operation, code) in cases {
            let refused = transaction.commit().await.unwrap_err();
            assert_eq!(
                (refused.operation, refused.error.code()),
                (operation, Some(code)),
                "{what}: {refused}"
            );
        }
        assert_eq!(cluster.store().revision(), before, "nothing was written");
        assert_eq!(cluster.get("configmaps", "default", "new").await, None);
    });
}

#[test]
fn later_operations_see_the_effects_of_earlier_ones() {
    simulate(Setup::api_alone(), async |cluster| {
        let before = cluster.store().revision().0;
        let namespace: Namespace = serde_json::from_value(manifests::namespace("team")).unwrap();
        let deployments = Gvr::new("apps", "v1", "deployments");
        let done = Transaction::new(cluster.client())
            .create("", &namespace)
            .create("team", &map("settings", "1"))
            .patch::<ConfigMap>("team", "settings", "", &set("2"))
            .create_value(&deployments, "team", &manifests::deployment("web", 1))
            .patch_value(&deployments, "team", "web", "scale", &merge(json!({"spec": {"replicas": 3}})))
            .patch_value(
                &deployments,
                "team",
                "web",
                "status",
                &merge(json!({"status": {"replicas": 3, "observedGeneration": 2}})),
            )
            .check::<ConfigMap>("team", "settings", Check::Present)
            .commit()
            .await
            .unwrap();
        assert_eq!(
            written(cluster, before).iter().map(|(revision, _)| *revision).collect::<Vec<_>>(),
            [before + 1; 3]
        );
        assert_eq!(done.value(1).unwrap()["data"]["value"], "2", "objects are shown as they were left");
        let web = cluster.get("deployments", "team", "web").await.unwrap();
        assert_eq!(
            (&web["spec"]["replicas"], &web["status"]["replicas"], &web["metadata"]["generation"]),
            (&json!(3), &json!(3), &json!(2))
        );
        let scale = done.value(4).unwrap();
        assert_eq!(
            (&scale["kind"], &scale["metadata"]["resourceVersion"]),
            (&json!("Scale"), &web["metadata"]["resourceVersion"])
        );
    });
}

#[test]
fn services_of_one_transaction_get_different_addresses_and_ports() {
    simulate(Setup::api_alone(), async |cluster| {
        let service = |name: &str, port: Value| -> Service {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}})).unwrap()
        };
        let done = Transaction::new(cluster.client())
            .create("default", &service("a", Value::Null))
            .create("default", &service("b", Value::Null))
            .commit()
            .await
            .unwrap();
        let of = |index: usize| {
            let service = done.value(index).unwrap();
            (
                service["spec"]["clusterIP"].as_str().unwrap().to_owned(),
                service["spec"]["ports"][0]["nodePort"].as_i64().unwrap(),
            )
        };
        assert!(of(0).0 != of(1).0 && of(0).1 != of(1).1);
        let same = Transaction::new(cluster.client())
            .create("default", &service("c", json!(30_500)))
            .create("default", &service("d", json!(30_500)))
            .commit()
            .await
            .unwrap_err();
        assert_eq!((same.operation, same.error.code()), (Some(1), Some(422)), "{same}");
    });
}

#[test]
fn a_dry_run_transaction_answers_and_stores_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        let before = cluster.store().revision();
        let tried = Transaction::new(cluster.client())
            .dry_run()
            .create("default", &map("a", "1"))
            .patch::<ConfigMap>("default", "a", "", &set("2"));
        let done = tried.commit().await.unwrap();
        assert_eq!((done.revision(), cluster.store().revision()), (Revision(0), before));
        assert_eq!(done.value(1).unwrap()["data"]["value"], "2");
        assert_eq!(done.value(0).unwrap()["metadata"]["resourceVersion"], Value::Null);
        let mut grpc = KstoreClient::new(cluster.in_process());
        let create = pb::CreateRequest { dry_run: true, ..Default::default() };
        let create = pb::Operation { kind: Some(pb::operation::Kind::Create(create)) };
        let both =
            grpc.transact(pb::TransactRequest { operations: vec![create], dry_run: true }).await.unwrap_err();
        assert_eq!(both.code(), tonic::Code::InvalidArgument);
    });
}

#[test]
fn each_operation_is_authorized_separately() {
    simulate(Setup::api_alone(), async |cluster| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "writer"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
        cluster.create(role).await;
        cluster.create(binding).await;
        let jane = Client::over(
            cluster.apiserver().in_process(UserInfo::new("jane", ["system:authenticated"])),
            "jane",
        );
        let begin = || Transaction::new(&jane).create("default", &map("a", "1"));
        for refused in [
            begin().delete::<ConfigMap>("default", "a", &DeleteParams::default()),
            begin().check::<ConfigMap>("default", "a", Check::Present),
            begin().create("kube-system", &map("a", "1")),
        ] {
            let refused = refused.commit().await.unwrap_err();
            assert!(refused.error.is_forbidden() && refused.operation == Some(1), "{refused}");
        }
        begin().patch::<ConfigMap>("default", "a", "", &set("2")).commit().await.unwrap();
    });
}

#[test]
fn a_fence_applies_to_the_whole_transaction() {
    simulate(Setup::api_alone(), async |cluster| {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "office", "namespace": "kube-system"},
            "spec": {"holderIdentity": "a", "leaseTransitions": 3}});
        cluster.create(lease).await;
        let create = pb::CreateRequest {
            r#ref: Some(pb::Ref {
                version: "v1".into(),
                resource: "configmaps".into(),
                namespace: "default".into(),
                ..Default::default()
            }),
            json: manifests::config_map("a", "1").to_string().into(),
            ..Default::default()
        };
        for (fence, fits) in [("kube-system/office/2/a", false), ("kube-system/office/3/a", true)] {
            let operations = vec![pb::Operation { kind: Some(pb::operation::Kind::Create(create.clone())) }];
            let mut request = tonic::Request::new(pb::TransactRequest { operations, dry_run: false });
            request.metadata_mut().insert("kstore-fence", fence.parse().unwrap());
            let done = KstoreClient::new(cluster.in_process()).transact(request).await;
            assert_eq!(done.is_ok(), fits, "{fence}: {done:?}");
        }
    });
}

/// Number of accounts between which transactions move money while readers sum up.
const ACCOUNTS: usize = 4;

async fn balance(cluster: &Cluster, account: usize) -> (i64, Revision) {
    let object = cluster.get("configmaps", "default", &format!("account-{account}")).await.unwrap();
    let version = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    (object["data"]["value"].as_str().unwrap().parse().unwrap(), Revision(version))
}

/// Moves one coin from an account to the next. Returns how often a concurrent write made it retry.
async fn transfer(cluster: &Cluster, from: usize) -> usize {
    let to = (from + 1) % ACCOUNTS;
    let mut lost = 0;
    loop {
        let (source, target) = (balance(cluster, from).await, balance(cluster, to).await);
        let account = |n: usize| format!("account-{n}");
        let done = Transaction::new(cluster.client())
            .check::<ConfigMap>("default", &account(from), Check::At(source.1))
            .patch::<ConfigMap>("default", &account(from), "", &set(&(source.0 - 1).to_string()))
            .check::<ConfigMap>("default", &account(to), Check::At(target.1))
            .patch::<ConfigMap>("default", &account(to), "", &set(&(target.0 + 1).to_string()))
            .commit()
            .await;
        match done {
            Ok(_) => return lost,
            Err(refused) if refused.error.is_conflict() => lost += 1,
            Err(refused) => panic!("{refused}"),
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn concurrent_transfers_keep_the_total_and_readers_never_see_a_partial_one() {
    simulate(Setup::api_alone(), async |cluster| {
        for account in 0..ACCOUNTS {
            cluster.create(manifests::config_map(&format!("account-{account}"), "100")).await;
        }
        let before = cluster.store().revision().0;
        let lost: usize = join_all((0..24).map(|n| transfer(cluster, n % ACCOUNTS))).await.into_iter().sum();
        assert!(lost > 0, "the transfers did race");
        let mut balances = [100i64; ACCOUNTS];
        let mut revisions = 0;
        let changes: Vec<_> =
            cluster.history().into_iter().filter(|change| change.revision > before).collect();
        for batch in changes.chunk_by(|a, b| a.revision == b.revision) {
            for change in batch {
                let object: Value = serde_json::from_slice(change.value.as_deref().unwrap()).unwrap();
                let account: usize = change.key.rsplit('-').next().unwrap().parse().unwrap();
                balances[account] = object["data"]["value"].as_str().unwrap().parse().unwrap();
            }
            assert_eq!(
                balances.iter().sum::<i64>(),
                100 * ACCOUNTS as i64,
                "at revision {}",
                batch[0].revision
            );
            revisions += 1;
        }
        assert_eq!(revisions, 24, "one revision for each transfer");
    });
}

#[test]
fn unrelated_writes_make_a_transaction_retry_and_never_fail() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("shared", "0")).await;
        let bump = async |n: usize| {
            let key = format!("w{n}");
            let patch = merge(json!({"data": {key: "1"}}));
            cluster.resource("configmaps").patch("default", "shared", "", &patch).await.map(drop)
        };
        let many = async |n: usize| {
            let key = format!("t{n}");
            let patch = merge(json!({"data": {key: "1"}}));
            let transaction = Transaction::new(cluster.client())
                .patch::<ConfigMap>("default", "shared", "", &patch)
                .create("default", &map(&format!("made-{n}"), "1"));
            transaction.commit().await.map(drop).map_err(|refused| refused.error)
        };
        let (writes, transactions) = futures::join!(join_all((0..20).map(bump)), join_all((0..20).map(many)));
        let all: Result<Vec<()>, ApiError> = writes.into_iter().chain(transactions).collect();
        all.unwrap();
        let shared = cluster.get("configmaps", "default", "shared").await.unwrap();
        assert_eq!(shared["data"].as_object().unwrap().len(), 41, "no write is lost");
    });
}

#[test]
fn a_watcher_sees_a_transaction_as_one_batch() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc = KstoreClient::new(cluster.in_process());
        let selector = |resource: &str, group: &str| pb::WatchSelector {
            r#ref: Some(pb::Ref {
                group: group.into(),
                version: "v1".into(),
                resource: resource.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let after = cluster.store().revision().0;
        let request = pb::WatchRequest {
            selectors: vec![selector("configmaps", ""), selector("leases", "coordination.k8s.io")],
            after_revision: after,
            progress: false,
        };
        let mut watch = grpc.watch(request).await.unwrap().into_inner();
        let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "l"}})).unwrap();
        let begin =
            Transaction::new(cluster.client()).create("default", &map("a", "1")).create("default", &lease);
        let done = begin.create("default", &map("b", "1")).commit().await.unwrap();
        let batch = watch.message().await.unwrap().unwrap();
        assert_eq!((batch.revision.unsigned_abs(), batch.events.len()), (done.revision().0, 3));
        assert!(batch.events.iter().all(|event| event.revision == batch.revision));
    });
}

#[test]
fn grpc_transactions_support_every_option() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut grpc = KstoreClient::new(cluster.in_process());
        let place = |resource: &str, name: &str, subresource: &str| {
            let row = kstore_api::kind::stored().find(|row| row.plural == resource).unwrap();
            Some(pb::Ref {
                group: row.group.into(),
                version: row.version.into(),
                resource: resource.into(),
                namespace: "default".into(),
                name: name.into(),
                subresource: subresource.into(),
            })
        };
        let odd = json!({"metadata": {"generateName": "odd-"}, "dada": 1}).to_string();
        let create = |validation: pb::FieldValidation| pb::CreateRequest {
            r#ref: place("configmaps", "", ""),
            json: odd.clone().into(),
            dry_run: false,
            field_validation: validation.into(),
        };
        let warned = grpc.create(create(pb::FieldValidation::Warn)).await.unwrap();
        let warning = warned.metadata().get_bin("kstore-warning-bin").unwrap().to_bytes().unwrap();
        assert_eq!(&warning[..], b"unknown field \"dada\"");
        let named: Value = serde_json::from_slice(&warned.into_inner().json).unwrap();
        assert!(named["metadata"]["name"].as_str().unwrap().starts_with("odd-"));
        assert_eq!(
            grpc.create(create(pb::FieldValidation::Strict)).await.unwrap_err().code(),
            tonic::Code::InvalidArgument
        );
        assert!(
            grpc.create(create(pb::FieldValidation::Ignore))
                .await
                .unwrap()
                .metadata()
                .get_bin("kstore-warning-bin")
                .is_none()
        );

        cluster.create(manifests::deployment("web", 1)).await;
        let scale = pb::PatchRequest {
            r#ref: place("deployments", "web", "scale"),
            r#type: pb::patch_request::Type::Merge.into(),
            patch: json!({"spec": {"replicas": 4}}).to_string().into(),
            ..Default::default()
        };
        let scaled: Value =
            serde_json::from_slice(&grpc.patch(scale).await.unwrap().into_inner().json).unwrap();
        assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(4)));

        let tried = pb::DeleteRequest {
            r#ref: place("deployments", "web", ""),
            options_json: json!({"dryRun": ["All"]}).to_string().into(),
        };
        grpc.delete(tried).await.unwrap();
        let held = pb::DeleteRequest {
            r#ref: place("deployments", "web", ""),
            options_json: json!({"propagationPolicy": "Foreground"}).to_string().into(),
        };
        let held: Value =
            serde_json::from_slice(&grpc.delete(held).await.unwrap().into_inner().json).unwrap();
        assert_eq!(
            held["metadata"]["finalizers"],
            json!(["foregroundDeletion"]),
            "a dry run deleted nothing"
        );

        let all = pb::DeleteCollectionRequest { r#ref: place("configmaps", "", ""), ..Default::default() };
        let mut chunks = grpc.delete_collection(all).await.unwrap().into_inner();
        assert_eq!(chunks.message().await.unwrap().unwrap().items.len(), 2);
        assert_eq!(super::send(cluster, "GET", CONFIG_MAPS, &Value::Null).await.json()["items"], json!([]));
    });
}
