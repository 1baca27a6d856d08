//! Executes writes, singly or several in a transaction, and reports their results. The manager decides what
//! follows from a failure.

use super::write::{DevicePools, Failure, Write, Written};
use crate::device::publication::{self, SliceWrite};
use crate::limits::SINGLE_WRITES;
use crate::node::object::LEASE_NAMESPACE;
use crate::sim_api;
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use kstore_client::{
    ApiError, Client, DeleteParams, ListParams, Patch, Transaction, TransactionError, revision_of,
};
use kstore_informer::{Causes, Key, Revision};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

/// The plural name of groups of nodes.
pub(super) const GROUPS: &str = "nodegroups";
/// The plural name of faults of nodes.
pub(super) const FAULTS: &str = "nodefaults";
/// The plural name of annotations of pods from outside.
pub(super) const BEHAVIORS: &str = "podbehaviors";
/// The plural name of loads of Services.
pub(super) const LOADS: &str = "serviceloads";

/// Executes one write once. The result says whether it may be repeated.
pub(crate) async fn apply(client: &Client, write: &Write) -> Result<Written, Failure> {
    match write {
        Write::PodStatus { key, uid, base, cause, status, .. } => {
            let base = base.to_string();
            let patch = StatusPatch { metadata: StatusBase { uid, resource_version: &base }, status };
            let api = client.causes(&Causes::one(*cause)).api::<PodAck>();
            match api.write_status_merge(key.namespace(), key.name(), &patch).await {
                Ok(revision) => Ok(Written { revision, with_status: true }),
                Err(error) => Err(failure(&error)),
            }
        }
        Write::RemovePod { key, uid, cause, .. } => remove(client, key, uid, *cause).await,
        Write::CreateNode(node) => match client.api::<Node>().create("", node).await {
            Ok(node) => {
                let with_status = node.status.as_ref().is_some_and(|status| status.conditions.is_some());
                Ok(Written { revision: revision_of(&node), with_status })
            }
            Err(error) => Err(failure(&error)),
        },
        Write::NodeStatus { node, status } => {
            let patch = Patch::Merge(json!({ "status": status }));
            done(client.api::<NodeAck>().patch_status("", node, &patch).await)
        }
        Write::Lease { node, exists, base, lease } => {
            renew(client, node, *exists, &renewal(lease, *base), lease).await
        }
        Write::DeleteNode { node, uid } => {
            let params = DeleteParams::default();
            let params = if uid.is_empty() { params } else { params.uid(uid) };
            match client.api::<NodeAck>().delete("", node, &params).await {
                Ok(revision) => Ok(Written { revision, with_status: false }),
                Err(error) => Err(failure(&error)),
            }
        }
        Write::ReclaimNotice { node, patch }
        | Write::FaultTimes { node, patch }
        | Write::NodeSpec { node, patch } => {
            done(client.api::<NodeAck>().patch("", node, &Patch::Merge((**patch).clone())).await)
        }
        Write::Devices { node, pools, .. } => match publish(client, node, pools).await {
            Ok(revision) => Ok(Written { revision, with_status: false }),
            Err(error) => Err(failure(&error)),
        },
        Write::GroupStatus { group, status } => {
            patch_custom(client, (GROUPS, "", group, "status"), json!({ "status": status })).await
        }
        Write::FaultStatus { fault, status } => {
            patch_custom(client, (FAULTS, "", fault, "status"), json!({ "status": status })).await
        }
        Write::LoadStatus { load, status } => {
            let object = (LOADS, load.namespace(), load.name(), "status");
            patch_custom(client, object, json!({ "status": status })).await
        }
        Write::GroupSize { group, base, replicas } => {
            let metadata = json!({ "resourceVersion": base.to_string() });
            let patch = json!({ "metadata": metadata, "spec": { "replicas": replicas } });
            patch_custom(client, (GROUPS, "", group, ""), patch).await
        }
    }
}

/// Creates the DeviceClasses that are not there, and brings the ResourceSlices of a node to what its drivers publish. Returns the revision
/// at which the slices were compared.
async fn publish(client: &Client, node: &str, wanted: &DevicePools) -> Result<Revision, ApiError> {
    for class in &wanted.classes {
        match client.api::<DeviceClass>().create("", class).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let api = client.api::<ResourceSlice>();
    let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let (existing, revision) = api.list("", &of_node).await?;
    for write in publication::plan(node, &wanted.uid, &wanted.pools, &existing) {
        match write {
            SliceWrite::Create(slice) => drop(api.create("", &slice).await?),
            SliceWrite::Replace(slice) => drop(api.update(&slice).await?),
            SliceWrite::Delete(name) => match api.delete("", &name, &DeleteParams::default()).await {
                Err(error) if !error.is_not_found() => return Err(error),
                Ok(_) | Err(_) => {}
            },
        }
    }
    Ok(revision)
}

/// Merges `patch` into an object of the API of simulations: its resource, name and subresource.
async fn patch_custom(
    client: &Client,
    (plural, namespace, name, subresource): (&'static str, &str, &str, &str),
    patch: Value,
) -> Result<Written, Failure> {
    let api = client.dynamic(sim_api::resource(plural));
    match api.patch(namespace, name, subresource, &Patch::Merge(patch)).await {
        Ok(object) => {
            let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            Ok(Written { revision: Revision(revision.unwrap_or(0)), with_status: true })
        }
        Err(error) => Err(failure(&error)),
    }
}

/// Executes several writes in one transaction. If the server refuses one of them, or has no transactions, executes each separately, some at
/// the same time: they are of different objects.
pub(crate) async fn apply_batch(
    client: Client,
    writes: Vec<Write>,
) -> Vec<(Write, Result<Written, Failure>)> {
    let together = match &writes[..] {
        [] | [_] => None,
        several => apply_together(&client, several).await,
    };
    let Some(outcomes) = together else {
        let each = writes.into_iter().map(|write| {
            let client = &client;
            async move {
                let outcome = apply(client, &write).await;
                (write, outcome)
            }
        });
        return futures::stream::iter(each).buffered(SINGLE_WRITES).collect().await;
    };
    writes.into_iter().zip(outcomes).collect()
}

/// The results of the writes in one transaction; `None` if nothing was written because one of them was
/// refused.
async fn apply_together(client: &Client, writes: &[Write]) -> Option<Vec<Result<Written, Failure>>> {
    let mut transaction = Transaction::new(client);
    for write in writes {
        transaction = add(transaction, write)?;
    }
    match transaction.commit().await {
        Ok(done) => {
            let revision = done.revision();
            let written = |(index, write): (usize, &Write)| {
                let is_new = matches!(write, Write::CreateNode(_));
                let with_status =
                    !is_new || done.object::<Posted>(index).is_ok_and(|posted| posted.is_complete());
                Ok(Written { revision, with_status })
            };
            Some(writes.iter().enumerate().map(written).collect())
        }
        Err(TransactionError { operation: Some(_), .. }) => None,
        Err(TransactionError { error, .. }) => Some(writes.iter().map(|_| Err(failure(&error))).collect()),
    }
}

/// Adds the operation for `write`; `None` for writes that are not part of transactions.
fn add(transaction: Transaction, write: &Write) -> Option<Transaction> {
    Some(match write {
        Write::CreateNode(node) => transaction.create("", &**node),
        Write::NodeStatus { node, status } => {
            transaction.patch::<Node>("", node, "status", &Patch::Merge(json!({ "status": status })))
        }
        Write::Lease { exists: false, lease, .. } => transaction.create(LEASE_NAMESPACE, &**lease),
        Write::Lease { exists: true, node, base, lease } => {
            transaction.patch::<Lease>(LEASE_NAMESPACE, node, "", &renewal(lease, *base))
        }
        Write::PodStatus { .. } | Write::RemovePod { .. } => return None,
        Write::DeleteNode { .. } | Write::GroupStatus { .. } | Write::GroupSize { .. } => return None,
        Write::FaultStatus { .. } | Write::ReclaimNotice { .. } | Write::FaultTimes { .. } => return None,
        Write::LoadStatus { .. } => return None,
        Write::Devices { .. } | Write::NodeSpec { .. } => return None,
    })
}

/// The part of an answer that shows whether the server accepted the status of a new Node.
#[derive(Deserialize)]
struct Posted {
    #[serde(default)]
    status: PostedStatus,
}

#[derive(Default, Deserialize)]
struct PostedStatus {
    conditions: Option<IgnoredAny>,
}

impl Posted {
    fn is_complete(&self) -> bool {
        self.status.conditions.is_some()
    }
}

/// The status of a pod as a merge patch. It names the pod's uid, so that it does not change a successor of the same
/// name. It also names the revision that it builds on, because it replaces the whole list of conditions,
/// which has conditions of other writers.
#[derive(Serialize)]
struct StatusPatch<'a> {
    metadata: StatusBase<'a>,
    status: &'a PodStatus,
}

/// The state that a status builds on.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusBase<'a> {
    uid: &'a str,
    resource_version: &'a str,
}

async fn remove(client: &Client, key: &Key, uid: &str, cause: Revision) -> Result<Written, Failure> {
    let params = DeleteParams::default().uid(uid).grace(0);
    let api = client.causes(&Causes::one(cause)).api::<PodAck>();
    match api.delete(key.namespace(), key.name(), &params).await {
        Ok(revision) => Ok(Written { revision, with_status: false }),
        Err(error) => Err(failure(&error)),
    }
}

/// Renews a lease if it exists, otherwise creates it; falls back to the other once.
async fn renew(
    client: &Client,
    node: &str,
    exists: bool,
    patch: &Patch,
    lease: &Lease,
) -> Result<Written, Failure> {
    let (api, patched) = (client.api::<Lease>(), client.api::<LeaseAck>());
    if exists {
        match patched.patch(LEASE_NAMESPACE, node, patch).await {
            Err(error) if error.is_not_found() => done(api.create(LEASE_NAMESPACE, lease).await),
            outcome => done(outcome),
        }
    } else {
        match api.create(LEASE_NAMESPACE, lease).await {
            Err(error) if error.is_already_exists() => {
                done(patched.patch(LEASE_NAMESPACE, node, patch).await)
            }
            outcome => done(outcome),
        }
    }
}

fn renewal(lease: &Lease, base: Option<Revision>) -> Patch {
    match base {
        Some(base) => {
            let metadata = json!({ "resourceVersion": base.to_string() });
            Patch::Merge(json!({ "metadata": metadata, "spec": lease.spec }))
        }
        None => Patch::Merge(json!({ "spec": lease.spec })),
    }
}

fn done<K: Metadata<Ty = ObjectMeta>>(outcome: Result<K, ApiError>) -> Result<Written, Failure> {
    match outcome {
        Ok(object) => Ok(Written { revision: revision_of(&object), with_status: true }),
        Err(error) => Err(failure(&error)),
    }
}

fn failure(error: &ApiError) -> Failure {
    if error.is_not_found() {
        return Failure::NotFound;
    }
    if error.is_already_exists() {
        return Failure::AlreadyExists;
    }
    if error.is_conflict() {
        return Failure::Conflict;
    }
    match error.code() {
        None | Some(429 | 500..) => Failure::Passing(error.to_string()),
        Some(_) => Failure::Refused(error.to_string()),
    }
}

/// Decodes only the revision of an object's metadata. Managed fields are most of an answer and are not
/// needed.
fn revision_alone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Versioned {
        resource_version: Option<String>,
    }
    let Versioned { resource_version } = Versioned::deserialize(deserializer)?;
    Ok(ObjectMeta { resource_version, ..ObjectMeta::default() })
}

/// Defines a type that decodes only the metadata of an answer.
macro_rules! ack {
    ($name:ident, $kind:ty) => {
        #[derive(Serialize, Deserialize)]
        struct $name {
            #[serde(deserialize_with = "revision_alone")]
            metadata: ObjectMeta,
        }

        impl Resource for $name {
            const API_VERSION: &'static str = <$kind as Resource>::API_VERSION;
            const GROUP: &'static str = <$kind as Resource>::GROUP;
            const KIND: &'static str = <$kind as Resource>::KIND;
            const VERSION: &'static str = <$kind as Resource>::VERSION;
            const URL_PATH_SEGMENT: &'static str = <$kind as Resource>::URL_PATH_SEGMENT;
            type Scope = <$kind as Resource>::Scope;
        }

        impl Metadata for $name {
            type Ty = ObjectMeta;
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

ack!(PodAck, Pod);
ack!(NodeAck, Node);
ack!(LeaseAck, Lease);
