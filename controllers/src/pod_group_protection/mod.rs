//! PodGroup protection: a finalizer keeps a PodGroup that is being deleted while pods name it that have not ended. The admission plugin
//! PodGroupProtection adds it to new groups. The controller runs only if the server serves PodGroups.
//!
//! Follows `processPodGroup`.

use crate::action::Action;
use crate::apply::Executor;
use crate::caches::{LookupKey, Pods};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::object::Object;
use crate::optional_api;
use crate::stable_kinds::PodGroup;
use crate::view::Pod;
use k8s_openapi::api::scheduling::v1alpha2;
use kstore_client::{Kind, Obj};
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object as _};
use std::sync::Arc;

const WORKERS: usize = 2;
const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

/// Runs the controller until the cluster stops, with groups in the version that the server serves.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    if optional_api::is_served::<PodGroup>(&cluster).await {
        protect::<PodGroup>(cluster).await;
    } else if optional_api::is_served::<v1alpha2::PodGroup>(&cluster).await {
        protect::<v1alpha2::PodGroup>(cluster).await;
    }
}

async fn protect<K: Kind + Clone>(cluster: Arc<Cluster>) {
    let groups: Informer<Obj<K>> = cluster.caches.whole();
    let pods: Pods = cluster.caches.get();
    let controller = cluster
        .controller("podgroup-protection")
        .watch(&groups, |group: &Obj<K>| [group.key()])
        .watch_deltas(&pods, |delta: &Delta<Pod>| released(delta).into_iter().collect::<Vec<_>>())
        .workers(WORKERS);
    let executor = cluster.executor("podgroup-protection-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Protection { groups, pods, executor }).await;
}

/// The group that a change of a pod may let go: the pod is gone or has ended.
fn released(delta: &Delta<Pod>) -> Option<Key> {
    let pod = delta.object();
    let lets_go = matches!(delta, Delta::Deleted(_)) || pod.status.phase.is_terminal();
    (lets_go && !pod.spec.pod_group.is_empty())
        .then(|| Key::new(&pod.metadata.namespace, &pod.spec.pod_group))
}

struct Protection<K: Kind> {
    groups: Informer<Obj<K>>,
    pods: Pods,
    executor: Executor,
}

impl<K: Kind + Clone> Reconcile for Protection<K> {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let (groups, pods) = cx.cut((&self.groups, &*self.pods)).await?;
        let Some(group) = groups.get(&cx.key) else { return Ok(Next::Done) };
        let of_group = LookupKey::PodGroup(cx.key.to_string());
        let is_used = || {
            pods.by(&self.pods.by_lookup_key, &of_group).any(|pod: &Arc<Pod>| !pod.status.phase.is_terminal())
        };
        let action = release(&***group, is_used);
        self.executor.execute(&cx, action.as_slice()).await.result()?;
        Ok(Next::Done)
    }
}

/// The update that lets a group go, if it is being deleted and no pod uses it.
fn release<K: Kind + Clone>(group: &K, is_used: impl FnOnce() -> bool) -> Option<Action> {
    let metadata = group.metadata();
    let have = metadata.finalizers.as_deref().unwrap_or_default();
    let is_candidate = metadata.deletion_timestamp.is_some() && have.iter().any(|name| name == FINALIZER);
    if !is_candidate || is_used() {
        return None;
    }
    let finalizers = have.iter().filter(|name| *name != FINALIZER).cloned().collect();
    let mut group = group.clone();
    group.metadata_mut().finalizers = Some(finalizers);
    Some(Action::Update(Object::of(&group)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn group(leaves: bool, finalizers: &[&str]) -> Value {
        let mut group = json!({
            "metadata": {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "3", "finalizers": finalizers},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        });
        if leaves {
            group["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        group
    }

    fn released_by<K: Kind + Clone>(group: Value, is_used: bool) -> Option<K> {
        release::<K>(&from_value(group).unwrap(), || is_used)?.updated()
    }

    #[test]
    fn a_group_that_is_being_deleted_goes_when_no_pod_uses_it() {
        let both = ["x", FINALIZER];
        assert!(released_by::<PodGroup>(group(false, &both), false).is_none());
        assert!(released_by::<PodGroup>(group(true, &both), true).is_none());
        assert!(released_by::<PodGroup>(group(true, &["x"]), false).is_none());
        let released = released_by::<PodGroup>(group(true, &both), false).unwrap();
        assert_eq!(released.metadata.finalizers, Some(vec!["x".to_owned()]));
        assert_eq!(released.metadata.resource_version.as_deref(), Some("3"));
        assert_eq!(released.spec["schedulingPolicy"]["gang"]["minCount"], 2, "the rest stays");
        let former = released_by::<v1alpha2::PodGroup>(group(true, &both), false).unwrap();
        assert_eq!(former.spec.scheduling_policy.gang.unwrap().min_count, 2);
    }

    #[test]
    fn a_pod_lets_its_group_go_when_it_is_gone_or_has_ended() {
        let pod = |phase: &str, group: &str| -> Arc<Pod> {
            let spec = json!({"schedulingGroup": {"podGroupName": group}});
            let pod = json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": spec, "status": {"phase": phase}});
            Arc::new(from_value(pod).unwrap())
        };
        let key = Some(Key::new("ns", "g"));
        assert_eq!(released(&Delta::Added(pod("Running", "g"))), None);
        assert_eq!(released(&Delta::Added(pod("Succeeded", "g"))), key);
        assert_eq!(released(&Delta::Deleted(pod("Running", "g"))), key);
        let alone: Pod = from_value(json!({"spec": {}, "status": {"phase": "Failed"}})).unwrap();
        assert_eq!(released(&Delta::Added(Arc::new(alone))), None);
    }
}
