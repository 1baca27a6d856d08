//! Validation of a container's restart policy and restart rules.
//!
//! Follows `validateContainerRestartPolicy`.

use crate::check::given_one_of;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use serde_json::Value;

/// Restart rules of one container.
const RULES_MAX: usize = 20;
/// Exit codes of one rule: all except 0.
const CODES_MAX: usize = 255;

/// Checks the restart policy of a container and its rules.
pub(in crate::validate::pod) fn restart_policy(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    let (policy, rules) = (&container["restartPolicy"], list(&container["restartPolicyRules"]));
    if policy.is_null() {
        if rules.is_empty() {
            return;
        }
        let detail = "must specify restartPolicy when restart rules are used";
        errors.required(&path.child("restartPolicy"), detail);
    }
    given_one_of(errors, &path.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
    let path = path.child("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.too_many(&path, rules.len(), RULES_MAX);
    }
    for (i, rule) in rules.iter().enumerate() {
        one(errors, &path.index(i), rule);
    }
}

fn one(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let (action, actions) = (text(&rule["action"]), ["Restart", "RestartAllContainers"]);
    if !actions.contains(&action) {
        errors.not_supported(&path.child("action"), action, &actions);
    }
    let (path, codes) = (path.child("exitCodes"), &rule["exitCodes"]);
    if codes.is_null() {
        errors.required(&path, "must be specified");
        return;
    }
    let operator = text(&codes["operator"]);
    if !["In", "NotIn"].contains(&operator) {
        errors.not_supported(&path.child("operator"), operator, &["In", "NotIn"]);
    }
    let values = list(&codes["values"]).len();
    if values > CODES_MAX {
        errors.too_many(&path.child("values"), values, CODES_MAX);
    }
}
