//! Administrative access to devices: a claim may ask for devices that other claims have only in a namespace whose
//! label allows it. In Kubernetes the rule is part of the storage of claims and not a plugin.

use crate::plugin::{Enabled, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::field::{ErrorList, Path};
use kstore_api::object::list;
use kstore_api::status::Status;
use kstore_registry::registry::namespaces;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// Label of the namespaces whose claims may have administrative access.
const LABEL: &str = "resource.kubernetes.io/admin-access";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::Always,
    kinds: &[("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates")],
    subresources: &["", "status"],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("DeviceAdminAccess", || Arc::new(DeviceAdminAccess))
};

struct DeviceAdminAccess;

impl Plugin for DeviceAdminAccess {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let Some(new) = new else { return Ok(()) };
        // A spec does not change, so that an update without an allocation asks for nothing.
        let (path, found) = match (subject.operation, subject.subresource) {
            (Operation::Create, "") => ("spec.devices.requests", requested(subject, new)),
            (Operation::Update, "status") => ("status.allocation.devices.results", allocated(new, old)),
            _ => return Ok(()),
        };
        let Some(at) = found else { return Ok(()) };
        let namespace = cluster.get(namespaces(), "", subject.namespace);
        if namespace.is_some_and(|namespace| namespace["metadata"]["labels"][LABEL] == "true") {
            return Ok(());
        }
        let mut errors = ErrorList::new();
        let detail =
            format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
        errors.forbidden(&Path::new(path).index(at).child("adminAccess"), detail);
        Err(Status::invalid(subject.resource.group, subject.resource.kind, subject.name, &errors).into())
    }
}

/// The index of the first request for administrative access.
fn requested(subject: &Subject<'_>, object: &Value) -> Option<usize> {
    let spec = match subject.resource.plural {
        "resourceclaims" => &object["spec"],
        _ => &object["spec"]["spec"],
    };
    let requests = list(&spec["devices"]["requests"]);
    requests.iter().position(|request| request["exactly"]["adminAccess"] == true)
}

/// The index of the first result with administrative access in a new allocation.
fn allocated(new: &Value, old: Option<&Value>) -> Option<usize> {
    let allocation = &new["status"]["allocation"];
    if old.is_some_and(|old| old["status"]["allocation"] == *allocation) {
        return None;
    }
    list(&allocation["devices"]["results"]).iter().position(|result| result["adminAccess"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::tests::{TestRequest, chain_of, refused};
    use crate::subject::Subject;
    use kstore_api::kind;
    use kstore_registry::testing::MapLookup;
    use kstore_registry::user::UserInfo;
    use serde_json::json;

    fn check(label: Option<&str>, kind: &str, subresource: &str, object: Value) -> Result<(), String> {
        let mut namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" } });
        if let Some(value) = label {
            namespace["metadata"]["labels"] = json!({ LABEL: value });
        }
        let operation = if subresource.is_empty() { Operation::Create } else { Operation::Update };
        let user = UserInfo::new("ann", [""; 0]);
        let subject = Subject {
            user: &user,
            operation,
            resource: kind::lookup_api_version("resource.k8s.io/v1", kind).unwrap(),
            subresource,
            namespace: "a",
            name: "c",
            seed: 1,
        };
        let admission = chain_of(&ROW, (ROW.plugin)(), MapLookup::of([namespace]));
        let judged = TestRequest::new(&admission, subject).validate(Some(&object), Some(&json!({})));
        judged.map_err(|undecided| refused(undecided).message)
    }

    #[test]
    fn administrative_access_to_devices_needs_a_label_of_the_namespace() {
        let requests =
            |admin: bool| json!([{ "name": "b" }, { "name": "a", "exactly": { "adminAccess": admin } }]);
        let claim = |admin| json!({ "spec": { "devices": { "requests": requests(admin) } } });
        let template = json!({ "spec": claim(true) });
        let result = json!({ "adminAccess": true });
        let status = json!({ "status": { "allocation": { "devices": { "results": [result] } } } });
        let why = |path: &str, kind: &str| {
            Err(format!(
                "{kind}.resource.k8s.io \"c\" is invalid: {path}.adminAccess: Forbidden: admin access to devices requires \
                 the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
            ))
        };
        let (claims, templates) = ("ResourceClaim", "ResourceClaimTemplate");
        for label in [None, Some("yes")] {
            assert_eq!(check(label, claims, "", claim(true)), why("spec.devices.requests[1]", claims));
            assert_eq!(
                check(label, templates, "", template.clone()),
                why("spec.devices.requests[1]", templates)
            );
            let path = "status.allocation.devices.results[0]";
            assert_eq!(check(label, claims, "status", status.clone()), why(path, claims));
            assert_eq!(check(label, claims, "", claim(false)), Ok(()));
        }
        for (kind, subresource, object) in
            [(claims, "", claim(true)), (templates, "", template), (claims, "status", status)]
        {
            assert_eq!(check(Some("true"), kind, subresource, object), Ok(()));
        }
    }
}
