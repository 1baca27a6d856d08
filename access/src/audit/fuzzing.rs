//! Fuzz target for audit policies: arbitrary text is parsed as a policy.

use super::decide::{Attributes, decide};
use super::policy::{Level, Policy};
use crate::authz::Target;
use kstore_registry::user::UserInfo;

/// Checks that every text is either a policy or refused with a reason. A policy must decide the same about a
/// request each time, and a rule about users must not match an unauthenticated request.
pub fn policy(bytes: &[u8]) {
    let policy = match Policy::parse(bytes) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            return;
        }
    };
    let ann = UserInfo::new("ann", ["devs"]);
    let pod = Target::Resource { group: "", resource: "pods", subresource: "log", namespace: "a", name: "b" };
    for target in [pod, Target::Path("/healthz"), Target::Path("")] {
        for user in [Some(&ann), None] {
            let attributes = Attributes { user, verb: "get", target };
            assert_eq!(decide(&policy, &attributes), decide(&policy, &attributes));
        }
    }
    let is_about_users =
        policy.rules.iter().all(|rule| !rule.users.is_empty() || !rule.user_groups.is_empty());
    if is_about_users {
        let unauthenticated = Attributes { user: None, verb: "get", target: pod };
        assert_eq!(decide(&policy, &unauthenticated).level, Level::None);
    }
}
