//! [`ClientLease`]: a lease of the `coordination.k8s.io` group as the place where an election is held.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kstore_informer::{LeaseError, LeaseRecord, LeaseStore, Revision};

use crate::{Api, ApiError, Client, typed::revision_of};

/// One lease by namespace and name. Other Kubernetes clients can be candidates for it too.
#[derive(Clone)]
pub struct ClientLease {
    api: Api<Lease>,
    namespace: String,
    name: String,
}

impl ClientLease {
    /// The lease of this name.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self { api: client.api(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn lease(&self, record: &LeaseRecord, at: Option<Revision>) -> Lease {
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            resource_version: at.map(|revision| revision.to_string()),
            ..ObjectMeta::default()
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
}

impl LeaseStore for ClientLease {
    async fn get(&self) -> Result<Option<(LeaseRecord, Revision)>, LeaseError> {
        match self.api.get(&self.namespace, &self.name).await {
            Ok(lease) => Ok(Some((record(&lease), revision_of(&lease)))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn create(&self, record: &LeaseRecord) -> Result<Revision, LeaseError> {
        let created = self.api.create(&self.namespace, &self.lease(record, None)).await;
        created.map(|lease| revision_of(&lease)).map_err(|error| failed(&error))
    }

    async fn replace(&self, record: &LeaseRecord, at: Revision) -> Result<Revision, LeaseError> {
        let updated = self.api.update(&self.lease(record, Some(at))).await;
        updated.map(|lease| revision_of(&lease)).map_err(|error| failed(&error))
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
