//! [`ClientLease`]: a Lease of the `coordination.k8s.io` group as the lock of a leader election.

use crate::typed::revision_of;
use crate::{Api, ApiError, Client};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kstore_informer::{LeaseError, LeaseRecord, LeaseStore, Revision};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// One Lease by namespace and name. Other Kubernetes clients can be candidates too. Needs the verbs get,
/// create and update on the Lease. Writes carry no fence: a fence refers to this Lease.
#[derive(Clone)]
pub struct ClientLease {
    api: Api<Lease>,
    namespace: String,
    name: String,
    /// The metadata of the Lease at the last read or write. Updates must keep its labels and owners.
    seen: Arc<Mutex<Option<ObjectMeta>>>,
}

impl ClientLease {
    /// A handle to the Lease `namespace/name` of `coordination.k8s.io`.
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

    fn remember(&self, lease: &Lease) -> Revision {
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
            Ok(lease) => Ok(Some((record(&lease), self.remember(&lease)))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn create(&self, record: &LeaseRecord) -> Result<Revision, LeaseError> {
        let created = self.api.create(&self.namespace, &self.lease(record, None)).await;
        created.map(|lease| self.remember(&lease)).map_err(|error| failed(&error))
    }

    async fn replace(&self, record: &LeaseRecord, at: Revision) -> Result<Revision, LeaseError> {
        let updated = self.api.update(&self.lease(record, Some(at))).await;
        updated.map(|lease| self.remember(&lease)).map_err(|error| failed(&error))
    }
}

/// The record in a stored Lease. A missing field counts as a lease without holder.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::convert::Infallible;

    /// Leases as client-go's `leaderelection` wrote them: a renewal and a release.
    fn recorded() -> [Value; 2] {
        [
            json!({ "acquireTime": "2026-11-21T10:01:45.908313Z", "holderIdentity": "go-1",
                "leaseDurationSeconds": 15, "leaseTransitions": 0, "renewTime": "2026-11-21T10:01:51.962076Z" }),
            json!({ "acquireTime": "2026-11-21T10:02:34.206319Z", "holderIdentity": "",
                "leaseDurationSeconds": 1, "leaseTransitions": 2, "renewTime": "2026-11-21T10:02:34.206319Z" }),
        ]
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_lease_written_by_client_go_round_trips() {
        let nowhere = tower::service_fn(|_: http::Request<tonic::body::Body>| {
            std::future::pending::<Result<http::Response<tonic::body::Body>, Infallible>>()
        });
        let lease = ClientLease::new(&Client::over(nowhere, "test"), "default", "interop");
        let [renewed, released] = recorded().map(|spec| {
            let read: LeaseSpec = serde_json::from_value(spec.clone()).unwrap();
            let record = record(&Lease { spec: Some(read), ..Lease::default() });
            assert_eq!(serde_json::to_value(lease.lease(&record, None).spec).unwrap(), spec);
            record
        });
        assert_eq!(
            (renewed.holder.as_str(), renewed.duration, renewed.transitions),
            ("go-1", Duration::from_secs(15), 0)
        );
        assert_eq!(renewed.acquired, time("2026-11-21T10:01:45.908313Z"));
        assert_eq!(renewed.renewed, time("2026-11-21T10:01:51.962076Z"));
        assert_eq!(
            (released.holder.as_str(), released.duration, released.transitions),
            ("", Duration::from_secs(1), 2)
        );
    }

    #[test]
    fn missing_fields_are_decoded_as_a_lease_without_holder() {
        let empty = record(&Lease::default());
        assert_eq!((empty.holder.as_str(), empty.duration, empty.transitions), ("", Duration::ZERO, 0));
    }
}
