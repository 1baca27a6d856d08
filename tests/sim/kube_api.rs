//! `Client::over_kubernetes`: a client that uses the REST API alone gets the answers of a client of kstore's API. Two equal clusters get
//! the same generated requests, one in each way.

use kstore_client::{
    ApiError, Check, Client, DeleteParams, DynamicApi, Each, Gvr, ListParams, Patch, Propagation, Transaction,
};
use kstore_informer::{Causes, Revision};
use kstore_nondet::Rng;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::num::NonZeroU32;

/// The steps of one case.
const STEPS: usize = 60;

/// One generated request, from few names so that most meet an object.
#[derive(Clone, Debug)]
enum Step {
    Create(&'static str, Value),
    Get(&'static str, String),
    List(&'static str, ListParams),
    First(&'static str, NonZeroU32),
    /// Replaces an object, with the revision that it has or an old one.
    Replace(&'static str, String, bool),
    Patch(&'static str, String, &'static str, Patch),
    Delete(&'static str, String, DeleteParams),
    DeleteAll(&'static str, ListParams),
    Bind(String),
    Evict(String),
    Scale(String, i64),
    Token,
    Each(Vec<Value>),
    Single(Value),
    Several(Vec<Value>),
    Checked(Value),
}

fn gvr(plural: &'static str) -> Gvr {
    match plural {
        "deployments" => Gvr::new("apps", "v1", plural),
        _ => Gvr::new("", "v1", plural),
    }
}

fn name(rng: &Rng) -> String {
    format!("o{}", rng.below(4))
}

fn kind(rng: &Rng) -> &'static str {
    ["configmaps", "pods", "deployments", "services"][rng.below(4) as usize]
}

fn object(kind: &str, rng: &Rng) -> Value {
    let (name, number) = (name(rng), rng.below(3).to_string());
    let mut object = match kind {
        "configmaps" => manifests::config_map(&name, &number),
        // The volume of a token would get a name that is drawn, after operations of `Each` in no order.
        "pods" => manifests::pod(&name, json!({ "automountServiceAccountToken": false })),
        "deployments" => manifests::deployment(&name, 1),
        _ => {
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } })
        }
    };
    object["metadata"]["labels"] = json!({ "n": number });
    if rng.below(8) == 0 {
        // An invalid object.
        object["metadata"]["name"] = json!("No Name");
    }
    object
}

fn patch(rng: &Rng) -> Patch {
    let number = rng.below(5).to_string();
    let labels = json!({ "metadata": { "labels": { "p": number } } });
    match rng.below(5) {
        0 => Patch::Merge(labels),
        1 => Patch::Strategic(labels),
        2 => Patch::Json(json!([{ "op": "test", "path": "/metadata/labels/n", "value": number }])),
        3 => Patch::Merge(json!({ "metadata": { "uid": "another", "labels": { "p": number } } })),
        _ => Patch::Apply {
            object: json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "o0" }, "data": { "k": number } }),
            force: rng.below(2) == 0,
        },
    }
}

fn step(rng: &Rng) -> Step {
    let kind = kind(rng);
    let params = || ListParams::default().labels(&format!("n={}", rng.below(3)));
    match rng.below(17) {
        0..4 => Step::Create(kind, object(kind, rng)),
        4 => Step::Get(kind, name(rng)),
        5 => Step::List(kind, if rng.below(2) == 0 { params() } else { ListParams::default() }),
        6 => Step::First(kind, [NonZeroU32::MIN, NonZeroU32::MAX][rng.below(2) as usize]),
        7 => Step::Replace(kind, name(rng), rng.below(2) == 0),
        8 => Step::Patch(kind, name(rng), ["", "status", "nothing"][rng.below(3) as usize], patch(rng)),
        9 => {
            let params = DeleteParams::default();
            let params = if rng.below(3) == 0 { params.uid("another") } else { params.grace(0) };
            Step::Delete(kind, name(rng), params.propagation(Propagation::Background))
        }
        10 => Step::DeleteAll(kind, params()),
        11 => Step::Bind(name(rng)),
        12 => [Step::Evict(name(rng)), Step::Token][rng.below(2) as usize].clone(),
        13 => Step::Scale(name(rng), 2),
        14 => Step::Each((0..3).map(|_| object("configmaps", rng)).collect()),
        15 => Step::Single(object("configmaps", rng)),
        _ => match rng.below(2) {
            0 => Step::Several(vec![object("configmaps", rng), object("configmaps", rng)]),
            _ => Step::Checked(object("configmaps", rng)),
        },
    }
}

/// An answer that can be compared: without what differs from object to object.
fn shown(answer: Result<Value, ApiError>) -> Value {
    match answer {
        Ok(mut value) => {
            remove_identity(&mut value);
            value
        }
        Err(error) => json!({
            "error": error.code(), "reason": error.reason(), "message": without_uid(&error.to_string()),
            "causes": format!("{:?}", error.causes()), "wait": error.retry_after().map(|wait| wait.as_secs()),
        }),
    }
}

/// The text of a conflict of UIDs without the UID that the object has.
fn without_uid(message: &str) -> String {
    match message.split_once("the UID in record (") {
        Some((before, after)) => {
            format!("{before}the UID in record {}", after.split_once(')').map_or("", |(_, rest)| rest))
        }
        None => message.to_owned(),
    }
}

fn remove_identity(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for member in [
                "uid",
                // The operations of `Each` get their revisions in no order.
                "resourceVersion",
                "creationTimestamp",
                "time",
                "token",
                "expirationTimestamp",
                "clusterIP",
                "clusterIPs",
            ] {
                members.remove(member);
            }
            members.values_mut().for_each(remove_identity);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_identity),
        _ => {}
    }
}

/// The answer to a step.
async fn answer(client: &Client, step: &Step) -> Value {
    let api = |kind: &'static str| -> DynamicApi { client.dynamic(gvr(kind)) };
    let ns = "default";
    shown(match step.clone() {
        Step::Create(kind, object) => api(kind).create(ns, &object).await,
        Step::Get(kind, name) => api(kind).get(ns, &name).await,
        Step::List(kind, params) => api(kind)
            .list(ns, &params)
            .await
            .map(|(items, revision)| json!({ "items": items, "at": revision.0 })),
        Step::First(kind, count) => {
            api(kind).list_first(ns, &ListParams::default(), count).await.map(|items| json!(items))
        }
        Step::Replace(kind, name, is_current) => replace(&api(kind), &name, is_current).await,
        Step::Patch(kind, name, below, patch) => api(kind).patch(ns, &name, below, &patch).await,
        Step::Delete(kind, name, params) => {
            api(kind).delete(ns, &name, &params).await.map(|revision| json!(revision > Revision(0)))
        }
        Step::DeleteAll(kind, which) => api(kind)
            .delete_collection(ns, &which, &DeleteParams::default().grace(0))
            .await
            .map(|_| json!("deleted")),
        Step::Bind(name) => {
            let done = client.api::<k8s_openapi::api::core::v1::Pod>().bind(ns, &name, "", "node-0").await;
            done.map(|_| json!("bound"))
        }
        Step::Evict(name) => {
            let eviction =
                json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
            api("pods").create_subresource(ns, &name, "eviction", &eviction).await.map(|_| json!("evicted"))
        }
        Step::Scale(name, replicas) => {
            let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
            api("deployments").patch(ns, &name, "scale", &patch).await
        }
        Step::Token => {
            let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 3600 } });
            api("serviceaccounts").create_subresource(ns, "none", "token", &request).await
        }
        Step::Each(objects) => each(client, &objects).await,
        Step::Single(object) => {
            let transaction = Transaction::new(client).create_value(&gvr("configmaps"), ns, &object);
            let done = transaction.commit().await.map_err(|refused| refused.error);
            done.map(|committed| committed.value(0).unwrap())
        }
        // Not executed in either: the steps after them meet the same objects.
        Step::Several(objects) => {
            let several = objects.iter().fold(Transaction::new(client).dry_run(), |transaction, object| {
                transaction.create_value(&gvr("configmaps"), ns, object)
            });
            return refused(several).await;
        }
        Step::Checked(object) => {
            let checked = Transaction::new(client).dry_run().create_value(&gvr("configmaps"), ns, &object);
            return refused(checked.check_value(&gvr("configmaps"), ns, "o0", Check::Present)).await;
        }
    })
}

/// Replaces an object, at the revision that it has or at an old one.
async fn replace(api: &DynamicApi, name: &str, is_current: bool) -> Result<Value, ApiError> {
    let mut object = api.get("default", name).await?;
    if !is_current {
        object["metadata"]["resourceVersion"] = json!("1");
    }
    object["metadata"]["annotations"] = json!({ "replaced": "yes" });
    api.update(&object).await
}

/// Creates the objects by one call, under other names, because the operations run in no order, and binds a pod that does not exist.
async fn each(client: &Client, objects: &[Value]) -> Result<Value, ApiError> {
    let each = objects.iter().enumerate().fold(Each::new(client), |each, (index, object)| {
        let (mut object, name) = (object.clone(), format!("each-{index}"));
        object["metadata"]["name"] = json!(name);
        each.create_text(&gvr("configmaps"), "default", &name, &object.to_string())
    });
    let each = each.bind("default", "missing", "", "node-0", &Causes::default());
    let outcome = |stored: Result<kstore_client::Stored, ApiError>| shown(stored.map(|_| json!("stored")));
    Ok(each.execute().await?.into_iter().map(outcome).collect())
}

/// The index of the operation that has no place before a server without transactions.
async fn refused(transaction: Transaction) -> Value {
    match transaction.commit().await {
        Err(refused) if refused.error.code() == Some(405) => {
            assert_eq!(refused.operation, Some(1), "{refused}");
            json!("not executed")
        }
        Ok(_) | Err(_) => json!("not executed"),
    }
}

/// The answers of a cluster to the steps, through the client that `connect` makes.
fn answers(steps: &[Step], connect: impl Fn(&Cluster) -> Client) -> Vec<Value> {
    simulate(Setup::api_alone(), async |cluster| {
        let client = connect(cluster);
        let mut answers = Vec::new();
        for step in steps {
            answers.push(answer(&client, step).await);
        }
        answers
    })
}

#[test]
fn answers_are_those_of_kstores_api() {
    for seed in 0..6 {
        let rng = Rng::seeded(seed);
        let steps: Vec<_> = (0..STEPS).map(|_| step(&rng)).collect();
        let native = answers(&steps, |cluster| Client::over(cluster.in_process(), "same"));
        let rest = answers(&steps, |cluster| Client::over_kubernetes(cluster.in_process(), "same"));
        let refused = native.iter().filter(|answer| answer["error"].is_number()).count();
        assert!((5..STEPS - 10).contains(&refused), "seed {seed}: {refused} refusals of {STEPS}");
        for ((step, native), rest) in steps.iter().zip(&native).zip(&rest) {
            assert_eq!(rest, native, "seed {seed}: {step:?}");
        }
    }
}

#[test]
fn lists_are_read_in_pages_at_one_revision_and_objects_of_lists_have_their_type() {
    simulate(Setup::api_alone(), async |cluster| {
        let count = usize::try_from(kstore_client::limits::KUBE_PAGE).unwrap() + 3;
        for number in 0..count {
            cluster.create(manifests::config_map(&format!("m{number:04}"), "1")).await;
        }
        let client = Client::over_kubernetes(cluster.in_process(), "pages");
        let maps = client.dynamic(gvr("configmaps"));
        let (items, revision) = maps.list("default", &ListParams::default()).await.unwrap();
        let (same, at) =
            cluster.resource("configmaps").list("default", &ListParams::default()).await.unwrap();
        assert_eq!((items.len(), revision), (same.len(), at));
        assert!(items.len() >= count);
        assert!(items.iter().all(|item| item["kind"] == "ConfigMap" && item["apiVersion"] == "v1"));
        assert_eq!(items, same);
    });
}

#[test]
fn what_kubernetes_does_not_have_is_refused_with_a_reason() {
    simulate(Setup::api_alone(), async |cluster| {
        let client = Client::over_kubernetes(cluster.in_process(), "refused");
        let tunnel = client.tunnel(vec!["node-0".to_owned()]).await.err().unwrap();
        assert_eq!(tunnel.code(), Some(405), "{tunnel}");
        for bad in ["a/b", "..", "a%2fb"] {
            let error = client.dynamic(gvr("configmaps")).get("default", bad).await.unwrap_err();
            assert_eq!(error.code(), Some(400), "{bad}: {error}");
        }
        let transaction = Transaction::new(&client)
            .create_value(&gvr("configmaps"), "default", &manifests::config_map("one", "1"))
            .create_value(&gvr("configmaps"), "default", &manifests::config_map("two", "1"));
        let refused = transaction.commit().await.unwrap_err();
        assert_eq!((refused.operation, refused.error.code()), (Some(1), Some(405)), "{refused}");
        let maps = cluster.resource("configmaps");
        assert!(maps.get("default", "one").await.unwrap_err().is_not_found(), "nothing was written");
    });
}
