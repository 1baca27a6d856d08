//! Escalation checks of RBAC: writing a role requires holding its rules (or the verb `escalate`), and writing
//! a binding requires holding the rules of its role (or the verb `bind`). In Kubernetes they are part of the
//! storage of roles and not a plugin.

use crate::plugin::{Enabled, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_access::authz::coverage::Coverage;
use kstore_access::authz::policy::Policy;
use kstore_access::authz::rule::Rule;
use kstore_access::authz::{Attributes, Decision, Target};
use kstore_api::admission::Operation;
use kstore_api::object::semantically_equal;
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::MASTERS;
use kstore_storage::limits::ESCALATION_RULES_SHOWN;
use serde_json::Value;
use std::sync::Arc;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::Always,
    kinds: &[
        (GROUP, "clusterroles"),
        (GROUP, "roles"),
        (GROUP, "clusterrolebindings"),
        (GROUP, "rolebindings"),
    ],
    validates: &[Operation::Create, Operation::Update],
    checks_roles: true,
    ..Row::new("RBACEscalation", || Arc::new(RbacEscalation))
};

struct RbacEscalation;

impl Plugin for RbacEscalation {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let Some(new) = new else { return Ok(()) };
        if subject.user.is_in(MASTERS) || old.is_some_and(|old| changes_only_references(new, old)) {
            return Ok(());
        }
        match subject.resource.plural {
            "clusterroles" | "roles" => Ok(may_write_role(&cluster.policy(), subject, new, old)?),
            _ => Ok(may_bind(&cluster.policy(), subject, new)?),
        }
    }
}

/// Metadata that the garbage collector changes, and metadata that the server sets with every write.
const REFERENCES: [&str; 5] =
    ["ownerReferences", "finalizers", "selfLink", "managedFields", "resourceVersion"];

/// Whether an update changes only metadata that the garbage collector needs to change, and thus cannot grant
/// anything. Every other update is checked as a whole, as in Kubernetes: a label can make a role part of an
/// aggregated one.
pub(super) fn changes_only_references(new: &Value, old: &Value) -> bool {
    let same = |new: &Value, old: &Value, free: &[&str]| match (new.as_object(), old.as_object()) {
        (Some(left), Some(right)) => {
            let mut members =
                left.keys().chain(right.keys()).filter(|member| !free.contains(&member.as_str()));
            members.all(|member| semantically_equal(&new[member], &old[member]))
        }
        _ => semantically_equal(new, old),
    };
    same(new, old, &["metadata"]) && same(&new["metadata"], &old["metadata"], &REFERENCES)
}

fn may_write_role(
    policy: &Policy,
    subject: &Subject<'_>,
    role: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if allowed(policy, subject, "escalate", subject.resource.plural, subject.name) {
        return Ok(());
    }
    let rules: Vec<Rule> = role["rules"].as_array().into_iter().flatten().map(Rule::from_value).collect();
    must_hold(policy, subject, &rules)?;
    if aggregates(role) || old.is_some_and(aggregates) {
        // The aggregated rules are unknown, so writing such a role requires all permissions.
        let all = |text: &str| vec![text.to_owned()];
        let everything = [
            Rule { verbs: all("*"), groups: all("*"), resources: all("*"), ..Rule::default() },
            Rule { verbs: all("*"), urls: all("*"), ..Rule::default() },
        ];
        return must_hold(policy, subject, &everything);
    }
    Ok(())
}

fn aggregates(role: &Value) -> bool {
    role["aggregationRule"].is_object()
}

fn may_bind(policy: &Policy, subject: &Subject<'_>, binding: &Value) -> Result<(), Status> {
    let name = binding["roleRef"]["name"].as_str().unwrap_or_default();
    let (plural, home) = match binding["roleRef"]["kind"].as_str() {
        Some("Role") => ("roles", subject.namespace),
        _ => ("clusterroles", ""),
    };
    if allowed(policy, subject, "bind", plural, name) {
        return Ok(());
    }
    let Some(rules) = policy.role(home, name) else {
        let row = super::row(GROUP, "v1", plural);
        return Err(Status::not_found(row, name));
    };
    must_hold(policy, subject, rules)
}

fn allowed(policy: &Policy, subject: &Subject<'_>, verb: &str, resource: &str, name: &str) -> bool {
    let target =
        Target::Resource { group: GROUP, resource, subresource: "", namespace: subject.namespace, name };
    matches!(
        policy.decide(&Attributes {
            user: subject.user,
            verb,
            target,
            more: kstore_access::authz::More::default()
        }),
        Decision::Allow(_)
    )
}

/// Checks that the user holds all that the rules grant, in the namespace of the role or binding.
fn must_hold(policy: &Policy, subject: &Subject<'_>, wanted: &[Rule]) -> Result<(), Status> {
    let mut owned = Coverage::of(policy.rules_of(subject.user, subject.namespace));
    let mut missing: Vec<&Rule> = Vec::new();
    for rule in wanted {
        if !owned.covers(rule).map_err(|error| subject.forbidden(&error.to_string()))? {
            missing.push(rule);
        }
        if missing.len() == ESCALATION_RULES_SHOWN {
            break;
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = missing.iter().map(|rule| rule.describe()).collect();
    let groups: Vec<String> = subject.user.groups.iter().map(|group| format!("{group:?}")).collect();
    let text = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        subject.user.username,
        groups.join(" "),
        shown.join("\n")
    );
    Err(subject.forbidden(&text))
}
