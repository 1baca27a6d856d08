//! CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1`, in which every kube-apiserver still stores them.

use serde_json::{Map, Value, json};

/// Members of a spec that hold for all versions in `v1beta1`, and stand in each version in `v1`.
const OF_ALL_VERSIONS: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Turns a definition of `v1beta1` into one of `v1`, as `Convert_v1beta1_CustomResourceDefinitionSpec_To_apiextensions…` and the
/// conversion from there to `v1` do. A definition of `v1beta1` that `v1` would refuse, such as one without a schema, stays as it is.
pub(super) fn to_v1(object: &mut Value) {
    let Some(spec) = object["spec"].as_object_mut() else { return };
    make_versions(spec);
    let of_all =
        OF_ALL_VERSIONS.map(|(former, name)| (name, spec.remove(former).filter(|value| !value.is_null())));
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(version) = version.as_object_mut() else { continue };
        for (name, value) in of_all.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))) {
            version.entry(name).or_insert_with(|| value.clone());
        }
        rename_paths(version);
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        nest_webhook(conversion);
    }
    // Absent means true in `v1beta1` and false in `v1`.
    let keeps_unknown = spec.get("preserveUnknownFields").and_then(Value::as_bool).unwrap_or(true);
    match keeps_unknown {
        true => drop(spec.insert("preserveUnknownFields".into(), json!(true))),
        false => drop(spec.remove("preserveUnknownFields")),
    }
}

/// Lists the one version that `spec.version` names, if no versions are listed.
fn make_versions(spec: &mut Map<String, Value>) {
    let former = spec.remove("version");
    let has_versions = spec.get("versions").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if let Some(name) =
        former.filter(|name| !has_versions && name.as_str().is_some_and(|name| !name.is_empty()))
    {
        spec.insert("versions".into(), json!([{"name": name, "served": true, "storage": true}]));
    }
}

/// `JSONPath` of a column is `jsonPath` in `v1`.
fn rename_paths(version: &mut Map<String, Value>) {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove("JSONPath") {
            column.entry("jsonPath").or_insert(path);
        }
    }
}

/// `webhookClientConfig` and `conversionReviewVersions` are members of `webhook` in `v1`.
fn nest_webhook(conversion: &mut Map<String, Value>) {
    let mut webhook = Map::new();
    for (former, name) in
        [("webhookClientConfig", "clientConfig"), ("conversionReviewVersions", "conversionReviewVersions")]
    {
        if let Some(value) = conversion.remove(former).filter(|value| !value.is_null()) {
            webhook.insert(name.into(), value);
        }
    }
    if conversion.get("strategy").and_then(Value::as_str) == Some("Webhook") && !webhook.is_empty() {
        conversion.entry("webhook").or_insert(Value::Object(webhook));
    }
}
