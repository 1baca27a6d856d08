//! Lookup of the objects that a label selector selects, by the label of the selector that the fewest objects
//! have. The cost does not depend on the number of other objects in the namespace.

use super::LookupKey;
use crate::claim::{ControlledObject, controller_of};
use crate::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kstore_informer::{Index, Object, View};
use kstore_nondet::FixedState;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Seed of [`label_hash`]. The hashes never leave the process.
const SEED: u64 = 0;

/// Hash of a label in a namespace. Readers of the index check the labels: two labels may have one hash.
pub(super) fn label_hash(namespace: &str, name: &str, value: &str) -> u64 {
    FixedState::with_seed(SEED).hash_one((namespace, name, value))
}

/// The objects in `view` that the owner `me` may claim: those that it controls, and those without a
/// controller that its selector selects. A selector without requirements selects none of the latter.
pub(crate) fn candidates<T: Object + ControlledObject>(
    view: &View<T>,
    index: &Index<T, LookupKey>,
    me: &ObjectMeta,
    wanted: &LabelSelector,
) -> Vec<Arc<T>> {
    let uid = me.uid.clone().unwrap_or_default();
    let mut found: Vec<Arc<T>> = view.by(index, &LookupKey::Controller(uid)).cloned().collect();
    if !selector::selects_everything(wanted) {
        let all = selected(view, index, me.namespace.as_deref().unwrap_or_default(), wanted);
        found.extend(all.into_iter().filter(|object| controller_of(object.owners()).is_none()));
    }
    found
}

/// The objects of a namespace that a selector selects, in key order. A selector that demands no value of any
/// label examines the whole namespace.
pub(crate) fn selected<T: Object + ControlledObject>(
    view: &View<T>,
    index: &Index<T, LookupKey>,
    namespace: &str,
    wanted: &LabelSelector,
) -> Vec<Arc<T>> {
    let hash = |name: &str, value: &str| LookupKey::Label(label_hash(namespace, name, value));
    let plain = wanted.match_labels.iter().flatten().map(|(name, value)| vec![hash(name, value)]);
    let listed = wanted.match_expressions.iter().flatten().filter(|of| of.operator == "In");
    let listed = listed.map(|of| of.values.iter().flatten().map(|value| hash(&of.key, value)).collect());
    let fewest = plain.chain(listed).min_by_key(|values: &Vec<LookupKey>| {
        values.iter().map(|value| view.count_by(index, value)).sum::<usize>()
    });
    let is_selected = |object: &&Arc<T>| {
        object.key().namespace() == namespace && selector::matches(wanted, object.labels())
    };
    match fewest {
        None => view.namespace(namespace).filter(is_selected).cloned().collect(),
        Some(values) => {
            let found = values.iter().flat_map(|value| view.by(index, value)).filter(is_selected);
            let mut found: Vec<Arc<T>> = found.cloned().collect();
            if values.len() > 1 {
                found.sort_by_key(|object| object.key());
                found.dedup_by(|a, b| Arc::ptr_eq(a, b));
            }
            found
        }
    }
}

/// The objects of a namespace that have all labels of a plain map, in key order. An empty map selects nothing,
/// as in a Service.
pub(crate) fn selected_by_map<T: Object + ControlledObject>(
    view: &View<T>,
    index: &Index<T, LookupKey>,
    namespace: &str,
    wanted: &BTreeMap<String, String>,
) -> Vec<Arc<T>> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let wanted = LabelSelector { match_labels: Some(wanted.clone()), match_expressions: None };
    selected(view, index, namespace, &wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Pod;
    use kstore_informer::{
        Builder, Frames, Informer, ListRequest, ListerWatcher, Page, Revision, SourceError, Start,
    };
    use serde_json::{Value, from_value, json};
    use tokio_util::sync::CancellationToken;

    /// A source of pods that never change.
    struct Fixed(Vec<Value>);

    impl ListerWatcher for Fixed {
        type Obj = Pod;

        async fn list(&self, _: ListRequest) -> Result<Page<Pod>, SourceError> {
            let items = self.0.iter().map(|pod| from_value(pod.clone()).unwrap()).collect();
            Ok(Page { items, undecodable: vec![], revision: Revision(9), next: None })
        }

        async fn watch(&self, _: Start) -> Result<Frames<Pod>, SourceError> {
            Ok(Box::pin(futures::stream::pending()))
        }
    }

    fn pod(namespace: &str, name: &str, labels: Value, owner: Option<&str>) -> Value {
        let owners: Vec<Value> = owner
            .into_iter()
            .map(|uid| json!({"apiVersion": "v1", "kind": "X", "name": uid, "uid": uid, "controller": true}))
            .collect();
        json!({"metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1",
            "labels": labels, "ownerReferences": owners}})
    }

    async fn pods(all: Vec<Value>) -> (Informer<Pod>, Index<Pod, LookupKey>) {
        let index = Index::new(|pod: &Pod, emit: &mut dyn FnMut(LookupKey)| {
            LookupKey::emit(pod, &pod.metadata.namespace, emit);
        });
        let (informer, driver) = Builder::new(Fixed(all)).index(&index).build(&CancellationToken::new());
        tokio::spawn(driver);
        informer.synced().await.unwrap();
        (informer, index)
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|pod| &*pod.metadata.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_by_label_find_what_a_scan_finds() {
        let mut all = Vec::new();
        for (number, app) in ["web", "db", "web", "cache"].into_iter().enumerate() {
            for tier in ["a", "b"] {
                let labels = json!({"app": app, "tier": tier});
                all.push(pod("default", &format!("{app}-{tier}-{number}"), labels.clone(), None));
                all.push(pod("other", &format!("{app}-{tier}-{number}"), labels, None));
            }
        }
        all.push(pod("default", "bare", json!({}), None));
        let (informer, index) = pods(all).await;
        let expression =
            |operator: &str, values: Value| json!({"key": "app", "operator": operator, "values": values});
        for selector in [
            json!({}),
            json!({"matchLabels": {"app": "web"}}),
            json!({"matchLabels": {"app": "web", "tier": "a"}}),
            json!({"matchLabels": {"app": "none"}}),
            json!({"matchExpressions": [expression("In", json!(["web", "cache"]))]}),
            json!({"matchExpressions": [expression("In", json!(["web", "web"]))]}),
            json!({"matchExpressions": [expression("NotIn", json!(["web"]))]}),
            json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
            json!({"matchLabels": {"tier": "a"}, "matchExpressions": [expression("NotIn", json!(["web"]))]}),
        ] {
            let wanted: LabelSelector = from_value(selector.clone()).unwrap();
            let view = informer.view();
            let scan = view.namespace("default").filter(|pod| selector::matches(&wanted, pod.labels()));
            let scan: Vec<Arc<Pod>> = scan.cloned().collect();
            assert_eq!(names(&selected(&view, &index, "default", &wanted)), names(&scan), "{selector}");
        }
        assert!(selected_by_map(&informer.view(), &index, "default", &BTreeMap::new()).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn candidates_are_the_controlled_and_the_free_matching_objects() {
        let labels = json!({"app": "web"});
        let (informer, index) = pods(vec![
            pod("default", "free", labels.clone(), None),
            pod("default", "mine", labels.clone(), Some("me")),
            pod("default", "relabelled", json!({"app": "x"}), Some("me")),
            pod("default", "taken", labels.clone(), Some("you")),
            pod("default", "unrelated", json!({"app": "x"}), None),
            pod("other", "elsewhere", labels.clone(), None),
        ])
        .await;
        let me: ObjectMeta = from_value(json!({"namespace": "default", "name": "me", "uid": "me"})).unwrap();
        let of = |selector: Value| {
            let found = candidates(&informer.view(), &index, &me, &from_value(selector).unwrap());
            names(&found).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(json!({"matchLabels": labels})), ["mine", "relabelled", "free"]);
        assert_eq!(of(json!({})), ["mine", "relabelled"]);
    }
}
