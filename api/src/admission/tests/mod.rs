//! Tests of dynamic admission: tables per rule, hostile answers, and recorded answers of a Kubernetes server.

mod conversion;
mod matching;
mod policies;
mod reinvocation;
mod replay;
mod review;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::attributes::{Attributes, GroupVersionKind, GroupVersionResource, Operation, UserInfo};
use super::webhook::{Hooks, Phase, Webhook};

static NO_EXTRA: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(BTreeMap::new);

/// A request of `admin` to create a ConfigMap `a` in the namespace `default`.
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

/// A hook of one rule for ConfigMaps, with these members besides.
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
