//! The stored policy with the staged changes of a transaction.

use super::policy::Policy;
use bytes::Bytes;
use kstore_nondet::Nondet;
use kstore_registry::cache::Cache;
use kstore_registry::derived::Derive as _;
use kstore_registry::lookup::Lookup as _;
use kstore_registry::stage::{Stage, View};
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::{Guard, Write};
use kstore_store::{Config, Store};
use serde_json::{Value, json};
use std::sync::Arc;

fn object(kind: &str, name: &str, rest: &Value) -> (String, Bytes) {
    let mut object =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    (format!("/registry/{}s/{name}", kind.to_lowercase()), object.to_string().into())
}

fn role(name: &str, verb: &str) -> (String, Bytes) {
    let rules = json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
    object("ClusterRole", name, &json!({"rules": rules}))
}

#[tokio::test]
async fn the_stored_policy_with_staged_changes_is_that_of_the_view() {
    let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "new"});
    let subjects = json!([{"kind": "User", "name": "ann"}]);
    let binding = object("ClusterRoleBinding", "b", &json!({"roleRef": role_ref, "subjects": subjects}));
    for (key, value) in [role("old", "get"), role("changed", "get"), role("kept", "get"), binding] {
        store.put(key, value).await.unwrap();
    }
    let (cache, _) = Cache::fill(Arc::new(Embedded::new(store)), |_| {}).await.unwrap();
    let stored = Policy::compile(&*cache);
    let stage = Stage::new(cache.kinds());
    let put = |(key, value): (String, Bytes)| Write::Put { key, value, ttl_seconds: 0 };
    let key = role("old", "").0;
    let guard = Guard { key: key.clone(), revision: cache.get(Policy::kinds()[0], &key).unwrap().revision };
    let writes = vec![Write::Delete { key }, put(role("new", "list")), put(role("changed", "watch"))];
    stage.add(&[guard], writes).unwrap();
    let view = View::new(cache, Some(stage));
    let (seen, expected) = (stored.after(&view.staged(Policy::kinds())), Policy::compile(&view));
    for name in ["old", "new", "changed", "kept"] {
        assert_eq!(seen.role("", name), expected.role("", name), "{name}");
    }
    assert!(seen.role("", "old").is_none() && stored.role("", "old").is_some());
    let ann = UserInfo::new("ann", [""; 0]);
    assert_eq!(
        seen.rules_of(&ann, "").next().unwrap().verbs,
        ["list"],
        "a stored binding has the staged role"
    );
}
