//! [`ClientLease`]: a lease of the `coordination.k8s.io` group as the place where an election is held.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kstore_informer::{LeaseError, LeaseRecord, LeaseStore, Revision};
use parking_lot::Mutex;

use crate::{Api, ApiError, Client, typed::revision_of};

/// One lease by namespace and name. Other Kubernetes clients can be candidates for it too. Needs the verbs get, create and
/// update on it. Written without a fence: it is what fences are about.
#[derive(Clone)]
pub struct ClientLease {
    api: Api<Lease>,
    namespace: String,
    name: String,
    /// The metadata of the lease as last read or written: labels and owners are not ours to drop.
    seen: Arc<Mutex<Option<ObjectMeta>>>,
}

impl ClientLease {
    /// The lease of this name.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { api: client.without_fence().api(), namespace, name, seen: Arc::default() }
    }

    fn lease(&self, record: &LeaseRecord, at: Option<Revision>) -> Lease {
        let known = self.seen.lock().clone().filter(|_| at.is_some()).unwrap_or_default();
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            resource_version: at.map(|revision| revision.to_string()),
            ..known
        };
        let spec = LeaseSpec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
            acquire_time: Some(MicroTime(record.acquired)),
            renew_time: Some(MicroTime(record.renewed)),
            lease_transitions: i32::try_from(record.transitions).ok(),
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    fn note(&self, lease: &Lease) -> Revision {
        *self.seen.lock() = Some(lease.metadata.clone());
        revision_of(lease)
    }
}

impl LeaseStore for ClientLease {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    async fn get(&self) -> Result<Option<(LeaseRecord, Revision)>, LeaseError> {
        match self.api.get(&self.namespace, &self.name).await {
            Ok(lease) => Ok(Some((record(&lease), self.note(&lease)))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn create(&self, record: &LeaseRecord) -> Result<Revision, LeaseError> {
        let created = self.api.create(&self.namespace, &self.lease(record, None)).await;
        created.map(|lease| self.note(&lease)).map_err(|error| failed(&error))
    }

    async fn replace(&self, record: &LeaseRecord, at: Revision) -> Result<Revision, LeaseError> {
        let updated = self.api.update(&self.lease(record, Some(at))).await;
        updated.map(|lease| self.note(&lease)).map_err(|error| failed(&error))
    }
}

/// What a stored lease says; a field that is missing is as if nobody held it.
fn record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| seconds.try_into().ok()).unwrap_or(0);
    let time = |time: Option<MicroTime>| time.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(seconds),
        acquired: time(spec.acquire_time),
        renewed: time(spec.renew_time),
        transitions: spec.lease_transitions.and_then(|n| n.try_into().ok()).unwrap_or(0),
    }
}

fn failed(error: &ApiError) -> LeaseError {
    match error.is_conflict() || error.is_already_exists() {
        true => LeaseError::Conflict,
        false => LeaseError::Failed(error.to_string()),
    }
}
