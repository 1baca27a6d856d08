//! Tests of dynamic admission: tables of rules, malformed responses, and recorded answers of a Kubernetes
//! server.

mod conversion;
mod matching;
mod policies;
mod reinvocation;
mod replay;
mod review;

use super::attributes::{Attributes, GroupVersionKind, GroupVersionResource, Operation, UserInfo};
use super::webhook::{Hooks, Phase, Webhook};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

static NO_EXTRA: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(BTreeMap::new);

/// A request of user `admin` to create ConfigMap `a` in namespace `default`.
pub(super) fn request(object: Option<&Value>) -> Attributes<'_> {
    Attributes {
        operation: Operation::Create,
        resource: GroupVersionResource { group: "", version: "v1", resource: "configmaps" },
        subresource: "",
        kind: GroupVersionKind { group: "", version: "v1", kind: "ConfigMap" },
        namespace: "default",
        name: "a",
        user: UserInfo { username: "admin", uid: "admin", groups: &[], extra: &NO_EXTRA },
        dry_run: false,
        options: None,
        object,
        old_object: None,
    }
}

/// A webhook with one rule for ConfigMaps, and these further members.
pub(super) fn hook(phase: Phase, members: &Value) -> Arc<Webhook> {
    let mut hook = json!({"name": "h.rec.dev", "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
        "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10});
    for (name, value) in members.as_object().unwrap() {
        hook[name] = value.clone();
    }
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [hook]});
    let hooks = Hooks::new(phase, [&configuration]);
    hooks.iter().next().unwrap().clone()
}
