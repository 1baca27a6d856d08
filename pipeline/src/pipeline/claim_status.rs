//! Which members of a ResourceClaim's status a user may change (`DRAResourceClaimGranularStatusAuthorization`, on since Kubernetes 1.36).
//! Permission to write `resourceclaims/status` is not enough: the scheduler's part needs `resourceclaims/binding`, and what a driver
//! reports about its devices needs `resourceclaims/driver` with the driver's name. Neither is a subresource that is served.
//!
//! Follows `pkg/registry/resource/utils.go`.

use kstore_access::authz::{self, Attributes, More};
use kstore_admission::dynamic::Calls;
use kstore_api::expression::authorizer::ResourceAccess;
use kstore_api::field::{ErrorList, Path};
use kstore_api::name;
use kstore_api::object::{list, semantically_equal, text};
use kstore_api::resource::Resource;
use kstore_registry::request::{Request, Target};
use kstore_registry::undecided::Undecided;
use kstore_registry::user::UserInfo;
use serde_json::Value;
use std::collections::BTreeSet;

/// The resource whose verbs `update` and `patch` permit changes of allocations and reservations.
const BINDING: &str = "binding";
/// The resource whose verbs, with a prefix, permit changes of devices' statuses.
const DRIVER: &str = "driver";
/// Prefix of the verbs of service accounts on the node of the claim.
const ASSOCIATED: &str = "associated-node:";
/// Prefix of the verbs of all others.
const ARBITRARY: &str = "arbitrary-node:";
/// Attribute of a user whose token is bound to a pod: the pod's node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The changes of a claim's status that the sender of an update may not make. Other objects have none.
///
/// # Errors
/// [`Undecided::Pending`] until an authorization webhook has answered.
pub(super) fn forbidden_changes(
    request: &Request,
    calls: &Calls,
    new: &Value,
    old: &Value,
) -> Result<ErrorList, Undecided> {
    let mut errors = ErrorList::new();
    if !is_checked(&request.target) {
        return Ok(errors);
    }
    let check = Check { request, calls };
    let (new, old) = (&new["status"], &old["status"]);
    check.binding(new, old, &mut errors)?;
    // The strategy drops the statuses of all devices of a claim without an allocation, whoever removed that.
    if !new["allocation"].is_null() {
        check.devices(new, old, &mut errors)?;
    }
    Ok(errors)
}

fn is_checked(target: &Target) -> bool {
    target.subresource == "status" && is_claim(target.resource) && is_gated(target.resource)
}

fn is_claim(resource: &Resource) -> bool {
    resource.is("resource.k8s.io", "resourceclaims")
}

fn is_gated(resource: &Resource) -> bool {
    resource.has_gate("DRAResourceClaimGranularStatusAuthorization")
}

struct Check<'a> {
    request: &'a Request,
    calls: &'a Calls,
}

impl Check<'_> {
    /// Checks a change of the allocation or of the reservations.
    fn binding(&self, new: &Value, old: &Value, errors: &mut ErrorList) -> Result<(), Undecided> {
        let same = |member: &str| semantically_equal(&new[member], &old[member]);
        if same("allocation") && same("reservedFor") {
            return Ok(());
        }
        let verb = self.request.action.verb();
        if let Some(refusal) = self.refusal(verb, BINDING, "", "")? {
            let detail = format!(
                "changing status.allocation or status.reservedFor requires \
                 resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {refusal}"
            );
            errors.forbidden(&Path::new("status.allocation"), detail);
        }
        Ok(())
    }

    /// Checks the changed statuses of devices: one permission of several is enough for a driver.
    fn devices(&self, new: &Value, old: &Value, errors: &mut ErrorList) -> Result<(), Undecided> {
        let verb = self.request.action.verb();
        let mut verbs = vec![format!("{ARBITRARY}{verb}")];
        if is_on_node(&self.request.user, node_of(&new["allocation"])) {
            verbs.insert(0, format!("{ASSOCIATED}{verb}"));
        }
        for driver in changed_drivers(new, old) {
            let mut first = None;
            let mut is_permitted = false;
            for verb in &verbs {
                match self.refusal(verb, DRIVER, &self.request.target.namespace, driver)? {
                    None => is_permitted = true,
                    Some(refusal) => {
                        first.get_or_insert(refusal);
                        continue;
                    }
                }
                break;
            }
            if let (false, Some(refusal)) = (is_permitted, first) {
                let verbs = verbs.join(" ");
                let detail = format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{verbs}]\" \
                     permission: {refusal}"
                );
                errors.forbidden(&Path::new("status.devices"), detail);
            }
        }
        Ok(())
    }

    /// Why the user may not use a verb on a resource below claims; `None` if it may.
    fn refusal(
        &self,
        verb: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>, Undecided> {
        let Request { user, target, .. } = self.request;
        let resource = target.resource;
        let access = ResourceAccess {
            group: resource.group.to_owned(),
            resource: resource.plural.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ResourceAccess::default()
        };
        let decision = self.calls.permission(user, verb, access)?;
        if decision.allowed {
            return Ok(None);
        }
        let more = More { version: resource.version, selects: None };
        let target = authz::Target::Resource {
            group: resource.group,
            resource: resource.plural,
            subresource,
            namespace,
            name,
        };
        let refused = authz::forbidden(&Attributes { user, verb, target, more }, &decision.reason);
        Ok(Some(refused.message))
    }
}

/// The drivers of devices whose status an update adds, changes or removes, in order.
fn changed_drivers<'v>(new: &'v Value, old: &'v Value) -> BTreeSet<&'v str> {
    let (new, old) = (list(&new["devices"]), list(&old["devices"]));
    let is_unknown = |device: &&Value, others: &[Value]| {
        !others.iter().any(|other| key(other) == key(device) && semantically_equal(other, device))
    };
    let changed = new.iter().filter(|device| is_unknown(device, old));
    let removed = old.iter().filter(|device| !new.iter().any(|other| key(other) == key(device)));
    changed.chain(removed).map(|device| text(&device["driver"])).collect()
}

/// What names the device of a status.
fn key(device: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|member| text(&device[member]))
}

/// The node of an allocation that is for one node alone; "" of any other.
fn node_of(allocation: &Value) -> &str {
    let [term] = list(&allocation["nodeSelector"]["nodeSelectorTerms"]) else { return "" };
    let ([], [field]) = (list(&term["matchExpressions"]), list(&term["matchFields"])) else { return "" };
    match list(&field["values"]) {
        [node] if field["key"] == "metadata.name" && field["operator"] == "In" => text(node),
        _ => "",
    }
}

/// Whether a user is a service account whose token is bound to a pod on this node.
fn is_on_node(user: &UserInfo, node: &str) -> bool {
    let is_account = || {
        let names = user.username.strip_prefix("system:serviceaccount:");
        names
            .and_then(|names| names.split_once(':'))
            .is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains(':'))
    };
    let is_named = || user.extra.get(NODE_NAME).is_some_and(|names| names.as_slice() == [node]);
    !node.is_empty() && name::dns1123_subdomain(node).is_empty() && is_account() && is_named()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn device(driver: &str, device: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({"driver": driver, "pool": "p", "device": device, "conditions": [{"type": "Ready", "status": status}]})
    }

    fn changed(new: &[Value], old: &[Value]) -> Vec<String> {
        let (new, old) = (json!({"devices": new}), json!({"devices": old}));
        changed_drivers(&new, &old).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn the_drivers_of_added_changed_and_removed_devices_are_named_once() {
        let (a, b) = (device("a", "1", true), device("b", "1", true));
        assert!(changed(&[a.clone(), b.clone()], &[b.clone(), a.clone()]).is_empty());
        assert_eq!(changed(&[a.clone(), device("a", "2", true)], &[]), ["a"]);
        assert_eq!(changed(&[device("a", "1", false), b.clone()], &[a.clone(), b.clone()]), ["a"]);
        assert_eq!(changed(&[], &[a.clone(), b]), ["a", "b"]);
        let mut shared = a.clone();
        shared["shareID"] = json!("s");
        assert_eq!(changed(&[shared], std::slice::from_ref(&a)), ["a"]);
        let mut empty = a.clone();
        empty["networkData"] = json!(null);
        assert!(changed(&[empty], &[a]).is_empty());
    }

    #[test]
    fn an_account_is_on_the_node_of_an_allocation_for_that_node_alone() {
        let of = |field: Value| json!({"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}});
        let field = |values: &[&str]| json!({"key": "metadata.name", "operator": "In", "values": values});
        assert_eq!(node_of(&of(field(&["n1"]))), "n1");
        assert_eq!(node_of(&of(field(&["n1", "n2"]))), "");
        let labelled = json!({"nodeSelector": {"nodeSelectorTerms": [
            {"matchFields": [field(&["n1"])], "matchExpressions": [{"key": "a", "operator": "Exists"}]}]}});
        assert_eq!(node_of(&labelled), "");
        assert_eq!(node_of(&Value::Null), "");

        let mut account = UserInfo::service_account("kube-system", "driver");
        assert!(!is_on_node(&account, "n1"));
        account.extra.insert(NODE_NAME.to_owned(), vec!["n1".to_owned()]);
        assert!(is_on_node(&account, "n1") && !is_on_node(&account, "n2") && !is_on_node(&account, ""));
        let mut user = account.clone();
        user.username = "driver".to_owned();
        assert!(!is_on_node(&user, "n1"), "a user is no service account");
        account.extra.insert(NODE_NAME.to_owned(), vec!["n1".to_owned(), "n2".to_owned()]);
        assert!(!is_on_node(&account, "n1"));
    }
}
