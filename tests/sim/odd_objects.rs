//! Unusual objects that the API accepts although no tool writes them. Every component reads all of them and
//! still notices later objects.

use kstore_api::kind;
use kstore_api::schema::{self, Elem, Field, Shape, Type};
use kstore_nondet::Rng;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Number of variations per manifest.
const VARIATIONS: usize = 12;

/// Kinds that at least one informer reads beyond their metadata.
const KINDS: [&str; 18] = [
    "configmaps",
    "deployments.apps",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "ipaddresses.networking.k8s.io",
    "leases.coordination.k8s.io",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "poddisruptionbudgets.policy",
    "pods",
    "replicasets.apps",
    "replicationcontrollers",
    "secrets",
    "serviceaccounts",
    "servicecidrs.networking.k8s.io",
    "services",
    "statefulsets.apps",
];

fn one_in(rng: &Rng, n: u64) -> bool {
    rng.below(n) == 0
}

fn pick<T: Clone>(rng: &Rng, from: &[T]) -> T {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap()].clone()
}

/// A value of the right type, `null`, or the type's zero value.
fn value(rng: &Rng, field: &'static Field, depth: u32) -> Value {
    match field.shape {
        _ if one_in(rng, 8) => Value::Null,
        Shape::One => elem(rng, field.elem, depth),
        Shape::List => (0..rng.below(3)).map(|_| item(rng, field.elem, depth)).collect(),
        Shape::Map => {
            let names = ["a", "cpu", "example.com/x"];
            (0..rng.below(3)).map(|_| (pick(rng, &names), item(rng, field.elem, depth))).collect()
        }
    }
}

fn item(rng: &Rng, of: Elem, depth: u32) -> Value {
    if one_in(rng, 4) { Value::Null } else { elem(rng, of, depth) }
}

fn elem(rng: &Rng, of: Elem, depth: u32) -> Value {
    match of {
        Elem::String => {
            pick(rng, &[json!(""), json!("a"), json!("True"), json!("Running"), json!("10.1.2.3")])
        }
        Elem::Bool => json!(one_in(rng, 2)),
        Elem::Int32 => pick(rng, &[json!(0), json!(3), json!(-1), json!(i32::MAX)]),
        Elem::Int64 => pick(rng, &[json!(0), json!(1), json!(i64::MAX), json!(i64::MIN)]),
        Elem::Float64 => json!(0.5),
        Elem::Bytes => pick(rng, &[json!(""), json!("AAEC")]),
        Elem::Time | Elem::MicroTime => pick(
            rng,
            &[
                json!("2026-01-01T00:00:00Z"),
                json!("0001-01-01T00:00:00Z"),
                json!("2026-01-01T02:00:00.5+02:00"),
            ],
        ),
        Elem::Quantity => pick(rng, &[json!("0"), json!(1), json!("1.5Gi"), json!("100m"), json!("1e3")]),
        Elem::IntOrString => pick(rng, &[json!(0), json!(8080), json!("http"), json!("25%")]),
        Elem::Struct(id) if depth > 0 => object(rng, id.get(), depth - 1),
        _ => json!({}),
    }
}

/// An object with some members of a type.
fn object(rng: &Rng, ty: &'static Type, depth: u32) -> Value {
    let fields = ty.fields.iter().filter(|field| !one_in(rng, 3) && !field.name.starts_with("managed"));
    Value::Object(fields.map(|field| (field.name.to_owned(), value(rng, field, depth))).collect())
}

/// Changes one or two members at any depth; the rest stays, so that some variations remain valid.
fn vary(rng: &Rng, map: &mut Map<String, Value>, ty: &'static Type) {
    let field = pick(rng, &ty.fields.iter().collect::<Vec<_>>());
    let deeper: Vec<&'static Field> = ty.fields.iter().filter(|f| f.struct_type().is_some()).collect();
    if one_in(rng, 3) || deeper.is_empty() {
        if !matches!(field.name, "apiVersion" | "kind" | "metadata" | "name" | "namespace") {
            map.insert(field.name.to_owned(), value(rng, field, 3));
        }
        return;
    }
    let next = pick(rng, &deeper);
    let inner = next.struct_type().unwrap();
    match map.get_mut(next.name) {
        Some(Value::Object(members)) if next.shape == Shape::One => vary(rng, members, inner),
        Some(Value::Array(items)) => {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|members| vary(rng, members, inner));
        }
        _ => drop(map.insert(next.name.to_owned(), value(rng, next, 2))),
    }
}

/// The undecodable objects of each informer, from the components' metrics.
fn undecodable(setup: &Setup) -> Vec<String> {
    let mut page = String::new();
    setup.kubelets.metrics.render(&mut page);
    let gauges = page.lines().filter(|line| line.starts_with("informer_undecodable{"));
    assert!(gauges.clone().count() > 10, "all loops show their informers");
    gauges.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
}

/// Creates one variation of `manifest` and writes a random status. Returns the object if the API accepted it.
async fn admit(cluster: &Cluster, rng: &Rng, manifest: &Value, name: &str) -> Option<Value> {
    let text = |field: &str| manifest[field].as_str().unwrap();
    let row = kind::lookup_api_version(text("apiVersion"), text("kind")).unwrap();
    let ty = schema::of(row.group, row.version, row.kind).unwrap();
    let mut object = manifest.clone();
    if row.plural != "ipaddresses" {
        object["metadata"]["name"] = json!(name);
    }
    for _ in 0..rng.below(4) {
        vary(rng, object.as_object_mut().unwrap(), ty);
    }
    let created = cluster.try_create(object).await.ok()?;
    let Some(status) = ty.field("status").and_then(Field::struct_type) else { return Some(created) };
    for _ in 0..3 {
        let mut next = created.clone();
        next["metadata"]["resourceVersion"] = Value::Null;
        next["status"] = self::object(rng, status, 4);
        if let Ok(written) = cluster.resource(row.plural).replace(&next, "status").await {
            return Some(written);
        }
    }
    Some(created)
}

#[test]
fn every_component_decodes_all_objects_that_the_api_accepts() {
    let setup = Setup::seed(61);
    simulate(setup.clone(), async |cluster| {
        let rng = Rng::seeded(61);
        for file in KINDS {
            let path = crate::workspace_root().join(".ci/manifests").join(format!("{file}.yaml"));
            let manifest: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let mut admitted = 0;
            for at in 0..VARIATIONS {
                let made = admit(cluster, &rng, &manifest, &format!("odd-{at}")).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert_eq!(undecodable(&setup), [""; 0], "{file}: {made:?}");
                admitted += usize::from(made.is_some());
            }
            assert!(admitted > 2 || file.starts_with("ipaddresses"), "{file}: only {admitted} were admitted");
        }
        cluster.create(manifests::deployment("web", 2)).await;
        cluster.wait_rolled_out("web").await;
        assert_eq!(undecodable(&setup), [""; 0]);
    });
}

#[test]
fn a_service_condition_without_a_time_is_decoded_by_controllers() {
    let setup = Setup::seed(62);
    simulate(setup.clone(), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        cluster.create(service).await;
        let condition = json!({"type": "X", "status": "True", "reason": "R", "message": "m"});
        let patch = json!({"status": {"conditions": [condition]}});
        let path = "/api/v1/namespaces/default/services/web/status";
        let kind = "application/merge-patch+json";
        let answer = cluster.rest().call_as("PATCH", path, kind, patch.to_string()).await;
        assert_eq!(answer.code, 200);
        let written = &answer.json()["status"]["conditions"][0];
        assert_eq!(written.get("lastTransitionTime"), Some(&Value::Null), "said to be unset, as upstream");
        let addresses = async || {
            let slices = cluster.list("endpointslices", "default").await;
            let of_web =
                slices.iter().filter(|s| s["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
            of_web.flat_map(|s| s["endpoints"].as_array().cloned().unwrap_or_default()).count()
        };
        for replicas in [3, 1] {
            cluster.merge("deployments", "web", json!({ "spec": { "replicas": replicas } })).await;
            cluster.wait_until("the slice has all addresses", async || addresses().await == replicas).await;
        }
        cluster.merge("services", "web", json!({ "spec": { "ports": [{ "port": 81 }] } })).await;
        let moved = async || {
            let slices = cluster.list("endpointslices", "default").await;
            slices.iter().any(|s| s["ports"][0]["port"] == 81)
        };
        cluster.wait_until("the slice has the new port", moved).await;
        assert_eq!(undecodable(&setup), [""; 0]);
    });
}
