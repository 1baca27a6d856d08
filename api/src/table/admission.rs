//! Rows of webhook configurations and admission policies.

use serde_json::Value;

use super::text::{UNSET, length, of};
use super::{AGE, Column, DEFAULT, NAME, Printer, age, name, number, printer as row, text};

const WEBHOOKS: Printer = row(&[NAME, number("Webhooks", "How many webhooks."), AGE], |object, now| {
    vec![name(object), length(&object["webhooks"]), age(object, now)]
});

const PARAM_KIND: Column = text("ParamKind", "Kind of its parameters.");

fn param_kind(policy: &Value) -> Value {
    match &policy["spec"]["paramKind"] {
        Value::Null => UNSET.into(),
        kind => format!("{}/{}", of(&kind["apiVersion"]), of(&kind["kind"])).into(),
    }
}

const VALIDATING: Printer =
    row(&[NAME, number("Validations", "How many rules."), PARAM_KIND, AGE], |policy, now| {
        vec![name(policy), length(&policy["spec"]["validations"]), param_kind(policy), age(policy, now)]
    });

const MUTATING: Printer =
    row(&[NAME, number("Mutations", "How many changes."), PARAM_KIND, AGE], |policy, now| {
        vec![name(policy), length(&policy["spec"]["mutations"]), param_kind(policy), age(policy, now)]
    });

const BINDING: Printer = row(
    &[NAME, text("PolicyName", "Policy that is bound."), text("ParamRef", "Its parameters."), AGE],
    |binding, now| {
        let reference = &binding["spec"]["paramRef"];
        let parameters = match (of(&reference["name"]), of(&reference["namespace"])) {
            _ if reference.is_null() => UNSET.to_owned(),
            ("", _) if reference["selector"].is_object() => super::text::selector(&reference["selector"]),
            (name, "") => name.to_owned(),
            (name, namespace) => format!("{namespace}/{name}"),
        };
        vec![name(binding), of(&binding["spec"]["policyName"]).into(), parameters.into(), age(binding, now)]
    },
);

pub(super) fn printer(kind: &str) -> Printer {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => WEBHOOKS,
        "ValidatingAdmissionPolicy" => VALIDATING,
        "MutatingAdmissionPolicy" => MUTATING,
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => BINDING,
        _ => DEFAULT,
    }
}
