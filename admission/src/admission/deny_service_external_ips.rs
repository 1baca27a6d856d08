//! DenyServiceExternalIPs: refuses new external addresses of Services; existing ones may stay.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::object::list;
use kstore_api::status::Status;
use serde_json::Value;

pub(super) struct DenyServiceExternalIps;

impl Plugin for DenyServiceExternalIps {
    fn validate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let is_write = matches!(subject.operation, Operation::Create | Operation::Update);
        let Some(new) = new.filter(|_| is_write && subject.subresource.is_empty()) else { return Ok(()) };
        let addresses = |service: &Value| list(&service["spec"]["externalIPs"]).to_vec();
        let before = old.map(addresses).unwrap_or_default();
        if addresses(new).iter().all(|address| before.contains(address)) {
            return Ok(());
        }
        Err(subject.forbidden("Use of external IPs is denied by admission control."))
    }
}
