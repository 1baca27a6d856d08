//! [`ClusterCopy`]: the objects of a server that placement depends on, at one revision, read with the rights of the caller.

use crate::revision::time_of;
use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use kstore_api::object::set_type_meta;
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use kstore_client::Client;
use kstore_cluster::list_objects;
use serde_json::Value;
use std::collections::BTreeSet;

/// Most objects of a copy, which are in this process's memory twice: as read, and in the store of the copy.
const OBJECTS: usize = 300_000;

/// The kinds that are copied, in an order in which others refer to them. Without Events, Leases and endpoints, which decide nothing; and
/// without roles and webhooks, which would need the users and servers of the original.
const KINDS: &[(&str, &str)] = &[
    ("", "namespaces"),
    ("", "nodes"),
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "services"),
    ("", "persistentvolumes"),
    ("", "persistentvolumeclaims"),
    ("", "replicationcontrollers"),
    ("", "pods"),
    ("apps", "controllerrevisions"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("policy", "poddisruptionbudgets"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceslices"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
];

/// The kinds without which there is nothing to ask.
const REQUIRED: [&str; 3] = ["namespaces", "nodes", "pods"];

/// The configurations of webhooks, which the copy does not ask.
const WEBHOOKS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
];

/// Objects of a server at one revision.
#[derive(Clone, Debug)]
pub(super) struct ClusterCopy {
    /// The revision.
    pub(super) revision: i64,
    /// The time of the revision, at which the clock of the copy begins.
    pub(super) time: Timestamp,
    /// The objects with their kinds.
    pub(super) objects: Vec<(&'static Resource, Value)>,
    /// The kinds that the caller may not list, by their qualified plurals.
    pub(super) unread: Vec<String>,
    /// The number of webhooks that would be asked about pods.
    pub(super) webhooks: usize,
}

/// Reads a copy, at a revision or now.
///
/// # Errors
/// Namespaces, nodes or pods cannot be listed, the revision is not retained, or the cluster is too large.
pub(super) async fn read(client: &Client, at: Option<i64>) -> anyhow::Result<ClusterCopy> {
    let (mut objects, mut unread, mut revision) = (Vec::new(), Vec::new(), at);
    for (group, plural) in KINDS {
        let stored = kind::stored().find(|row| row.plural == *plural && row.group == *group);
        let row = stored.with_context(|| format!("{plural} are not in the table of kinds"))?;
        match list_objects(client, &path(row), revision).await {
            Ok(found) => {
                revision = Some(found.revision);
                for item in found.items {
                    let mut object: Value = serde_json::from_str(item.get())?;
                    prepare(row, &mut object);
                    objects.push((row, object));
                }
            }
            // A server without the kind has no objects of it.
            Err(error) if error.is_not_found() => {}
            Err(error) if error.reason() == "Forbidden" && !REQUIRED.contains(plural) => {
                unread.push(row.qualified());
            }
            Err(error) => return Err(anyhow!("cannot list {plural}: {error}")),
        }
        if objects.len() > OBJECTS {
            bail!("the cluster has more than {OBJECTS} objects, which is the most that what-if copies");
        }
    }
    forget_unknown_owners(&mut objects);
    let revision = revision.unwrap_or_default();
    let newest = objects.iter().filter_map(|(_, object)| created(object)).max();
    let time =
        time_of(client, revision).await.into_iter().chain(newest).max().unwrap_or(Timestamp::UNIX_EPOCH);
    let webhooks = webhooks(client, revision).await;
    Ok(ClusterCopy { revision, time, objects, unread, webhooks })
}

fn path(row: &Resource) -> String {
    match row.group {
        "" => format!("/api/{}/{}", row.version, row.plural),
        group => format!("/apis/{group}/{}/{}", row.version, row.plural),
    }
}

/// Makes an item of a list an object, without what the copy must not or need not have.
fn prepare(row: &Resource, object: &mut Value) {
    set_type_meta(object, &row.api_version(), row.kind);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if row.is("", "secrets") {
        // Pods only need to find the keys.
        for value in object["data"].as_object_mut().into_iter().flat_map(|data| data.values_mut()) {
            *value = "".into();
        }
    }
}

/// Removes owner references to objects that are not in the copy, such as those of custom kinds: a garbage collector would delete the
/// dependents. A pod keeps the reference to its controller, which says that somebody replaces it.
fn forget_unknown_owners(objects: &mut [(&'static Resource, Value)]) {
    let known: BTreeSet<String> = objects.iter().map(|(_, object)| meta::uid(object).to_owned()).collect();
    for (_, object) in objects.iter_mut().filter(|(row, _)| row.plural != "pods") {
        if let Some(owners) = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) {
            owners.retain(|owner| owner["uid"].as_str().is_some_and(|uid| known.contains(uid)));
        }
    }
}

fn created(object: &Value) -> Option<Timestamp> {
    object["metadata"]["creationTimestamp"].as_str()?.parse().ok()
}

/// The number of webhooks about pods; those that the caller may not list are not counted.
async fn webhooks(client: &Client, revision: i64) -> usize {
    let mut count = 0;
    for path in WEBHOOKS {
        let Ok(found) = list_objects(client, path, Some(revision)).await else { continue };
        for item in &found.items {
            let object: Value = serde_json::from_str(item.get()).unwrap_or_default();
            count += object["webhooks"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|hook| is_about_pods(hook))
                .count();
        }
    }
    count
}

fn is_about_pods(webhook: &Value) -> bool {
    let rules = webhook["rules"].as_array().into_iter().flatten();
    let mut resources = rules.flat_map(|rule| rule["resources"].as_array().into_iter().flatten());
    resources.any(|resource| resource.as_str().is_some_and(|name| matches!(name, "pods" | "*" | "*/*")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_copied_kind_is_in_the_table_with_its_own_storage() {
        for (group, plural) in KINDS {
            let mut rows = kind::stored().filter(|row| row.plural == *plural && row.group == *group);
            assert!(rows.next().is_some(), "{plural}.{group}");
        }
    }

    #[test]
    fn values_of_secrets_do_not_leave_the_server_and_managed_fields_are_left_out() {
        let row = kind::lookup("", "v1", "secrets").unwrap();
        let mut secret =
            json!({ "metadata": { "name": "a", "managedFields": [{}] }, "data": { "key": "dmFsdWU=" } });
        prepare(row, &mut secret);
        let expected = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, "data": { "key": "" } });
        assert_eq!(secret, expected);
    }

    #[test]
    fn references_to_owners_outside_the_copy_are_removed_but_from_pods() {
        let object = |uid: &str| {
            let owners =
                json!([{ "uid": "gone", "kind": "Custom" }, { "uid": "here", "kind": "Deployment" }]);
            json!({ "metadata": { "uid": uid, "ownerReferences": owners } })
        };
        let row = |plural: &str| kind::stored().find(|row| row.plural == plural).unwrap();
        let mut objects = vec![
            (row("deployments"), json!({ "metadata": { "uid": "here" } })),
            (row("replicasets"), object("a")),
            (row("pods"), object("b")),
        ];
        forget_unknown_owners(&mut objects);
        let owners = |at: usize| objects[at].1["metadata"]["ownerReferences"].as_array().unwrap().len();
        assert_eq!((owners(1), owners(2)), (1, 2));
    }

    #[test]
    fn a_webhook_about_pods_is_counted() {
        let hook = |resource: &str| json!({ "rules": [{ "resources": ["services", resource] }] });
        assert!(is_about_pods(&hook("pods")) && is_about_pods(&hook("*")));
        assert!(!is_about_pods(&hook("deployments")) && !is_about_pods(&json!({})));
    }
}
