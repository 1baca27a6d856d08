//! Lease renewals: merge patches that give a Lease another `renewTime` and repeat its other values. Every
//! node sends one every few seconds. [`Pipeline::renewed`] computes the object that the general update path
//! would store. It skips the diff of managed fields, decoding against the schema, admission and validation:
//! none of them can affect this scalar, unless an admission plugin's row says so. All other patches take the general path. The test
//! `renewals_store_what_the_general_path_stores` compares both paths.

use super::Pipeline;
use super::apply::write;
use kstore_admission::Subject;
use kstore_api::admission::Operation;
use kstore_api::patch::{PatchType, apply};
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use kstore_registry::decode::Patch;
use kstore_registry::request::{ManagedFieldsUpdate, Target, WriteOptions};
use kstore_registry::user::UserInfo;
use serde_json::Value;
use std::sync::OnceLock;

const RENEW_TIME: &str = "renewTime";

impl Pipeline {
    /// The Lease that replaces `current`, if the patch is a renewal; `None` if the patch must take the
    /// general path.
    pub(super) fn renewed(
        &self,
        user: &UserInfo,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
        current: &Value,
    ) -> Option<Value> {
        let is_plain = patch.kind == PatchType::Merge
            && !patch.has_problems()
            && options.managed_fields == ManagedFieldsUpdate::Tracked;
        if !is_lease(target) || !is_plain || has_consequences(&current["metadata"]) {
            return None;
        }
        let subject = Subject {
            user,
            operation: Operation::Update,
            resource: target.resource,
            subresource: "",
            namespace: &target.namespace,
            name: &target.name,
            seed: 0,
        };
        if !self.admission.ignores_renewal(&subject) {
            return None;
        }
        let time = renew_time(&patch.value, &current["spec"])?;
        let mut next = current.clone();
        next["spec"][RENEW_TIME] = time.into();
        let (api_version, now) =
            (target.resource.api_version(), meta::format_time(self.nondet().clock.now()));
        let write = write(target.resource, target.subresource, &api_version, &now, options);
        apply::touch(&mut next, &write, &["spec", RENEW_TIME]).then_some(next)
    }
}

fn is_lease(target: &Target) -> bool {
    static LEASES: OnceLock<Option<&'static Resource>> = OnceLock::new();
    let leases = LEASES.get_or_init(|| kind::lookup("coordination.k8s.io", "v1", "leases"));
    target.subresource.is_empty() && leases.is_some_and(|leases| leases.is_same_version(target.resource))
}

/// Whether an update of an object with this metadata may have side effects: removal of the object, or of
/// duplicate owners.
fn has_consequences(metadata: &Value) -> bool {
    let owners = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
    metadata.get("deletionTimestamp").is_some() || owners > 1
}

/// The new `renewTime`, if the patch changes nothing else.
fn renew_time<'p>(patch: &'p Value, spec: &Value) -> Option<&'p str> {
    let members = patch.as_object().filter(|members| members.len() == 1)?;
    let wanted = members.get("spec")?.as_object()?;
    let is_repeated = |name: &String, value: &Value| !value.is_null() && spec.get(name) == Some(value);
    if !wanted.iter().all(|(name, value)| name == RENEW_TIME || is_repeated(name, value)) {
        return None;
    }
    let (time, before) = (wanted.get(RENEW_TIME)?.as_str()?, spec.get(RENEW_TIME)?.as_str()?);
    (time != before && is_canonical(time)).then_some(time)
}

/// Whether a MicroTime is in its stored format. Times before 1970 are not renewals; the zero time is stored
/// as null.
fn is_canonical(text: &str) -> bool {
    meta::parse_time(text).is_some_and(|time| time.as_second() > 0 && meta::format_micro_time(time) == text)
}

#[cfg(test)]
mod tests;
