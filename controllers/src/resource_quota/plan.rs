//! Status of a quota after a count. Pure.

use super::counted::QuotaObject;
use crate::action::{Action, Plan};
use crate::limits::QUOTA_SETTLE;
use crate::object::Object;
use k8s_openapi::api::core::v1::ResourceQuota;
use kstore_api::lenient;
use kstore_api::quota::{Amounts, to_value};
use serde_json::json;

/// The status update, if the status differs.
///
/// Bounds of the spec take effect with this update. Until admission has observed them, an object may still be
/// created without a charge, so a count with changed bounds is repeated soon. A bounded resource that could
/// not be counted keeps its amount, if it had one.
pub(super) fn plan(seen: &QuotaObject, counted: &Amounts) -> Plan {
    let quota = seen.quota();
    let mut used = quota.used.clone();
    used.extend(counted.clone());
    used.retain(|name, _| quota.wanted.contains_key(name));
    if quota.hard == quota.wanted && quota.used == used {
        return Plan::nothing();
    }
    let mut object = seen.object().clone();
    object["status"] = json!({ "hard": to_value(&quota.wanted), "used": to_value(&used) });
    let Ok(object) = lenient::from_value::<ResourceQuota>(&object) else {
        return Plan::nothing();
    };
    let mut plan = Plan::of(vec![Action::UpdateStatus(Object::of(&object))]);
    if quota.hard != quota.wanted {
        plan.wake_in(QUOTA_SETTLE);
    }
    plan
}
