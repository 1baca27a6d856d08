//! Preparation of claims: keeps `dataSource` and `dataSourceRef` equal.
//!
//! Follows `NormalizeDataSources`.

use super::remove;
use serde_json::{Value, json};

/// Prepares a claim for create or update.
pub(crate) fn prepare(object: &mut Value, stored: Option<&Value>) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let had = |member: &str| stored.is_some_and(|stored| !stored["spec"][member].is_null());
    if spec["dataSourceRef"].is_null() && !had("dataSource") && !is_known(&spec["dataSource"]) {
        remove(spec, "dataSource");
    }
    match (spec["dataSource"].is_null(), spec["dataSourceRef"].is_null()) {
        (false, true) => spec["dataSourceRef"] = same(&spec["dataSource"]),
        (true, false) if text(&spec["dataSourceRef"], "namespace").is_empty() => {
            spec["dataSource"] = same(&spec["dataSourceRef"]);
        }
        _ => {}
    }
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or_default()
}

/// Whether `dataSource` allows this kind; Kubernetes ignores other kinds.
fn is_known(source: &Value) -> bool {
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    (group.is_empty() && kind == "PersistentVolumeClaim")
        || (group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot")
}

fn same(source: &Value) -> Value {
    let mut same = json!({"kind": source["kind"], "name": source["name"]});
    if !source["apiGroup"].is_null() {
        same["apiGroup"] = source["apiGroup"].clone();
    }
    same
}
