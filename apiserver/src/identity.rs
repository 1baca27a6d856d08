//! The Lease that shows that this server runs: `apiserver-<hash>` in `kube-system`, one for each machine,
//! renewed every ten seconds. Any server deletes such Leases an hour after their last renewal. All writes
//! pass through the pipeline, like a client's.

use jiff::Timestamp;
use kstore_api::patch::PatchType;
use kstore_api::resource::Resource;
use kstore_api::status::{Reason, Status};
use kstore_api::{kind, meta, name};
use kstore_pipeline::pipeline::Pipeline;
use kstore_registry::cache::Filter;
use kstore_registry::request::{Action, Body, DeleteOptions, Request, Target, WriteOptions, own_request};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-system";
/// The label of Leases of servers; its value is the kind of server.
const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const SERVER: &str = "kube-apiserver";
const HOSTNAME: &str = "kubernetes.io/hostname";
const AGENT: &str = "kstore-apiserver";
/// How long a server counts as running after its last renewal, as upstream.
const DURATION: Duration = Duration::from_secs(3600);
/// Time between two renewals, as upstream; and the bound of the random addition that keeps servers from
/// renewing at the same moment.
const RENEWAL: Duration = Duration::from_secs(10);
const JITTER_MS: u64 = 400;
/// Time between two searches for expired leases, as upstream.
const SWEEP: Duration = Duration::from_secs(3600);

/// The identity of a server: its Lease, its holder name and its host name.
struct Identity {
    /// The name of the Lease; it stays the same after a restart.
    lease: String,
    /// The holder of the Lease; it changes with each start.
    holder: String,
    hostname: String,
}

/// Renews the Lease of the server on this host, and deletes expired Leases of servers, until `stop` is
/// cancelled. A failed renewal is logged and tried again at the next interval.
pub(crate) async fn keep(pipeline: &Pipeline, hostname: String, stop: CancellationToken) {
    let nondet = pipeline.nondet();
    let lease = lease_name(&hostname);
    let identity = Identity { holder: format!("{lease}_{}", nondet.rng.uuid()), lease, hostname };
    let mut sweep = Instant::now();
    loop {
        if let Err(status) = renew(pipeline, &identity).await {
            tracing::warn!(error = %status.message, "cannot renew the lease {}", identity.lease);
        }
        if Instant::now() >= sweep {
            delete_expired(pipeline).await;
            sweep = Instant::now() + SWEEP;
        }
        let next = Instant::now() + RENEWAL + Duration::from_millis(nondet.rng.below(JITTER_MS));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep_until(next) => {}
        }
    }
}

/// The Lease's name, derived as in Kubernetes: a hash over the host name and the kind of server, each after
/// its length.
fn lease_name(hostname: &str) -> String {
    let mut hash = Sha256::new();
    for part in [hostname, SERVER] {
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        hash.update(length.to_be_bytes());
        hash.update(&part.as_bytes()[..usize::from(length)]);
    }
    format!("apiserver-{}", base32(&hash.finalize()[..16]))
}

/// Encodes bytes in lower-case base32 of RFC 4648, without padding.
fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |i: usize| bytes.get(i / 8).map_or(0, |byte| usize::from(byte >> (7 - i % 8) & 1));
    let digit = |start: usize| (start..start + 5).fold(0, |digit, i| digit << 1 | bit(i));
    (0..bytes.len() * 8).step_by(5).map(|start| char::from(DIGITS[digit(start)])).collect()
}

async fn renew(pipeline: &Pipeline, identity: &Identity) -> Result<(), Status> {
    let lease_object = lease_object(identity, pipeline.nondet().clock.now());
    let bytes = || serde_json::to_vec(&lease_object).expect("a value has string keys only");
    let renewed = Action::Patch(PatchType::Merge, bytes().into(), options());
    match pipeline.serve(request(&identity.lease, renewed)).await {
        Err(refused) if refused.status.reason == Reason::NotFound => {
            let created = Action::Create(Body::json(bytes().into()), options());
            pipeline.serve(request("", created)).await.map(drop).map_err(|refused| refused.status)
        }
        renewed => renewed.map(drop).map_err(|refused| refused.status),
    }
}

/// The Lease object with the current time as renewal time.
fn lease_object(identity: &Identity, now: Timestamp) -> Value {
    let mut labels = json!({ IDENTITY: SERVER });
    // Not every host name is a valid label value.
    if name::label_value(&identity.hostname).is_empty() {
        labels[HOSTNAME] = json!(identity.hostname);
    }
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": identity.lease, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "holderIdentity": identity.holder,
            "leaseDurationSeconds": DURATION.as_secs(),
            "renewTime": meta::format_micro_time(now),
        },
    })
}

/// Deletes expired Leases of servers, unless they have been changed meanwhile.
async fn delete_expired(pipeline: &Pipeline) {
    let now = pipeline.nondet().clock.now();
    let filter = Filter { namespace: NAMESPACE.to_owned(), ..Filter::all(leases()) };
    let (entries, _) = pipeline.cache().scan(&filter);
    let found = entries.iter().map(|entry| (entry.parse(), entry.revision));
    for (lease, revision) in found.filter(|(lease, _)| is_expired(lease, now)) {
        let delete = DeleteOptions {
            uid: Some(meta::uid(&lease).to_owned()),
            resource_version: Some(revision),
            ..DeleteOptions::default()
        };
        let gone = pipeline.serve(request(meta::name(&lease), Action::Delete(delete, options()))).await;
        match gone {
            Ok(_) => {}
            // Another server deleted the Lease first, or its owner has renewed it.
            Err(refused) if matches!(refused.status.reason, Reason::NotFound | Reason::Conflict) => {}
            Err(refused) => {
                tracing::warn!(error = %refused.status.message, "cannot delete an old lease");
            }
        }
    }
}

/// Whether this is an expired Lease of an API server. A Lease without renewal time or duration counts as
/// expired.
fn is_expired(lease: &Value, now: Timestamp) -> bool {
    if lease["metadata"]["labels"][IDENTITY] != SERVER {
        return false;
    }
    let renewed = lease["spec"]["renewTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let seconds = lease["spec"]["leaseDurationSeconds"].as_u64();
    let (Some(renewed), Some(seconds)) = (renewed, seconds) else { return true };
    now.duration_since(renewed) > jiff::SignedDuration::from_secs(seconds.try_into().unwrap_or(i64::MAX))
}

fn leases() -> &'static Resource {
    kind::lookup("coordination.k8s.io", "v1", "leases").expect("Lease is in the table")
}

fn options() -> WriteOptions {
    WriteOptions { field_manager: AGENT.into(), ..WriteOptions::default() }
}

fn request(name: &str, action: Action) -> Request {
    let target = Target {
        resource: leases(),
        custom: None,
        subresource: "",
        namespace: NAMESPACE.into(),
        name: name.into(),
    };
    own_request(target, action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_names_derive_from_the_host_name_as_in_kubernetes() {
        assert_eq!(lease_name("node-1"), "apiserver-lgabes5ywnaqeagh5dny4zlzs4");
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
    }

    #[test]
    fn leases_expire_after_their_duration_or_without_one() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let lease = |spec: Value| json!({ "metadata": { "labels": { IDENTITY: SERVER } }, "spec": spec });
        let renewed =
            |time: &str| is_expired(&lease(json!({ "renewTime": time, "leaseDurationSeconds": 3600 })), now);
        assert!(!renewed("2026-01-01T00:00:00.000000Z"));
        assert!(renewed("2025-12-31T23:59:59.999999Z"));
        assert!(is_expired(&lease(json!({ "renewTime": "2026-01-01T00:59:00.000000Z" })), now));
        assert!(is_expired(&lease(json!({ "leaseDurationSeconds": 3600 })), now));
        let other = json!({ "metadata": { "labels": { IDENTITY: "other" } }, "spec": {} });
        assert!(!is_expired(&other, now) && !is_expired(&json!({}), now));
    }

    #[test]
    fn host_names_that_are_invalid_labels_are_omitted() {
        let of =
            |hostname: &str| Identity { lease: "l".into(), holder: "h".into(), hostname: hostname.into() };
        let labels =
            |hostname| lease_object(&of(hostname), Timestamp::UNIX_EPOCH)["metadata"]["labels"].clone();
        assert_eq!(labels("node-1"), json!({ IDENTITY: SERVER, HOSTNAME: "node-1" }));
        assert_eq!(labels("a b"), json!({ IDENTITY: SERVER }));
    }
}
