//! Ingresses of `networking.k8s.io/v1beta1`, in which they were stored up to Kubernetes 1.21. One that nothing has changed since still is.

use serde_json::{Map, Value, json};

/// Turns an Ingress of `v1beta1` into one of `v1`, as the conversions of `pkg/apis/networking/v1beta1` do.
pub(super) fn to_v1(object: &mut Value) {
    let Some(spec) = object["spec"].as_object_mut() else { return };
    if let Some(mut backend) = spec.remove("backend") {
        backend_to_v1(&mut backend);
        spec.entry("defaultBackend").or_insert(backend);
    }
    for rule in spec.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        for path in rule["http"]["paths"].as_array_mut().into_iter().flatten() {
            backend_to_v1(&mut path["backend"]);
            if let Some(path) = path.as_object_mut() {
                path.entry("pathType").or_insert_with(|| json!("ImplementationSpecific"));
            }
        }
    }
}

/// A backend names its Service in `service` in `v1`.
fn backend_to_v1(backend: &mut Value) {
    let Some(members) = backend.as_object_mut() else { return };
    let (name, port) = (members.remove("serviceName"), members.remove("servicePort"));
    let is_named = name.as_ref().and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if !is_named {
        return;
    }
    let mut service = Map::from_iter([("name".to_owned(), name.unwrap_or_default())]);
    match port {
        Some(Value::String(port)) => drop(service.insert("port".into(), json!({"name": port}))),
        Some(Value::Number(port)) => drop(service.insert("port".into(), json!({"number": port}))),
        _ => {}
    }
    members.insert("service".into(), Value::Object(service));
}
