//! OwnerReferencesPermissionEnforcement: an owner reference lets the garbage collector delete an object, so
//! only users that may delete it may change the references of an existing one. A reference that blocks the owner's deletion requires
//! permission to set finalizers on the owner. Permissions are RBAC's.

use crate::plugin::{Cluster, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_access::authz::policy::Policy;
use kstore_access::authz::{Attributes, More, Target};
use kstore_api::admission::Operation;
use kstore_api::meta::owner_references;
use kstore_api::object::{semantically_equal, text};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::MASTERS;
use serde_json::Value;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    subresources: &[],
    validates: &[Operation::Create, Operation::Update],
    checks_roles: true,
    ignores_renewal: |_| true,
    ..Row::new("OwnerReferencesPermissionEnforcement", || Arc::new(OwnerReferencesPermissionEnforcement))
};

struct OwnerReferencesPermissionEnforcement;

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let Some(new) = new else { return Ok(()) };
        // A write to a pod's status cannot change its owners.
        let is_status_of_pod = subject.subresource == "status" && subject.resource.is("", "pods");
        let before = old.map(owner_references).unwrap_or_default();
        if is_status_of_pod || !differ(owner_references(new), before) || subject.user.is_in(MASTERS) {
            return Ok(());
        }
        let policy = cluster.policy();
        let resource = subject.resource;
        let own = PermissionCheck {
            verb: "delete",
            resource,
            subresource: subject.subresource,
            name: subject.name,
        };
        // A new object has no owners to be freed from: upstream's `Validate` asks for updates only.
        if subject.operation != Operation::Create && !own.is_allowed(&policy, subject) {
            return subject.refuse("cannot set an ownerRef on a resource you can't delete: , <nil>");
        }
        for reference in newly_blocking(owner_references(new), before) {
            may_block(cluster, &policy, subject, reference)?;
        }
        Ok(())
    }
}

fn differ(new: &[Value], old: &[Value]) -> bool {
    new.len() != old.len() || new.iter().zip(old).any(|(new, old)| !semantically_equal(new, old))
}

/// The references that block their owner's deletion now and did not before.
fn newly_blocking<'r>(new: &'r [Value], old: &'r [Value]) -> impl Iterator<Item = &'r Value> {
    let blocks = |reference: &Value| reference["blockOwnerDeletion"] == true;
    let blocked_before =
        move |reference: &Value| old.iter().any(|old| old["uid"] == reference["uid"] && blocks(old));
    new.iter().filter(move |reference| blocks(reference) && !blocked_before(reference))
}

fn may_block(
    cluster: &dyn Cluster,
    policy: &Policy,
    subject: &Subject<'_>,
    reference: &Value,
) -> Result<(), Status> {
    let [api_version, kind, name] = ["apiVersion", "kind", "name"].map(|member| text(&reference[member]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(owner) = cluster.kinds().lookup_kind(group, version, kind) else {
        return Err(subject.forbidden(&format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} \
             Kind {kind}: no matches for kind {kind:?} in version {api_version:?}"
        )));
    };
    let check = PermissionCheck { verb: "update", resource: owner.resource, subresource: "finalizers", name };
    if check.is_allowed(policy, subject) {
        return Ok(());
    }
    Err(subject.forbidden(
        "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
    ))
}

struct PermissionCheck<'a> {
    verb: &'a str,
    resource: &'a Resource,
    subresource: &'a str,
    name: &'a str,
}

impl PermissionCheck<'_> {
    fn is_allowed(&self, policy: &Policy, subject: &Subject<'_>) -> bool {
        let Self { verb, resource, subresource, name } = *self;
        let namespace = if resource.namespaced { subject.namespace } else { "" };
        let target = Target::Resource {
            group: resource.group,
            resource: resource.plural,
            subresource,
            namespace,
            name,
        };
        policy.allows(&Attributes { user: subject.user, verb, target, more: More::default() })
    }
}
