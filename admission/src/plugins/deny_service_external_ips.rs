//! DenyServiceExternalIPs: refuses new external addresses of Services; existing ones may stay.

use crate::plugin::{Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::list;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    kinds: &[("", "services")],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("DenyServiceExternalIPs", || Arc::new(DenyServiceExternalIps))
};

struct DenyServiceExternalIps;

impl Plugin for DenyServiceExternalIps {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { subject, old, .. } = *review;
        let Some(new) = new else { return Ok(()) };
        let addresses = |service: &Value| list(&service["spec"]["externalIPs"]).to_vec();
        let before = old.map(addresses).unwrap_or_default();
        if addresses(new).iter().all(|address| before.contains(address)) {
            return Ok(());
        }
        subject.refuse("Use of external IPs is denied by admission control.")
    }
}
