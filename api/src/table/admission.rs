//! Table columns of webhook configurations and admission policies.

use super::text::{UNSET, join_or, length, list, of};
use super::{AGE, Column, NAME, Printer, age, name, number, printer as row, text};
use serde_json::Value;

pub(crate) const WEBHOOKS: Printer =
    row(&[NAME, number("Webhooks", "Number of webhooks."), AGE], |object, now| {
        vec![name(object), length(&object["webhooks"]), age(object, now)]
    });

const PARAM_KIND: Column = text("ParamKind", "Kind of the parameters.");

fn param_kind(policy: &Value) -> Value {
    match &policy["spec"]["paramKind"] {
        Value::Null => UNSET.into(),
        kind => format!("{}/{}", of(&kind["apiVersion"]), of(&kind["kind"])).into(),
    }
}

pub(crate) const VALIDATING: Printer =
    row(&[NAME, number("Validations", "Number of validations."), PARAM_KIND, AGE], |policy, now| {
        vec![name(policy), length(&policy["spec"]["validations"]), param_kind(policy), age(policy, now)]
    });

pub(crate) const MUTATING: Printer =
    row(&[NAME, number("Mutations", "Number of mutations."), PARAM_KIND, AGE], |policy, now| {
        vec![name(policy), length(&policy["spec"]["mutations"]), param_kind(policy), age(policy, now)]
    });

pub(crate) const BINDING: Printer = row(
    &[
        NAME,
        text("PolicyName", "Policy of the binding."),
        text("ParamRef", "Parameters of the binding."),
        AGE,
    ],
    |binding, now| {
        let reference = &binding["spec"]["paramRef"];
        let parameters = match (of(&reference["name"]), of(&reference["namespace"])) {
            _ if reference.is_null() => UNSET.to_owned(),
            ("", _) if reference["selector"].is_object() => go_selector(&reference["selector"]),
            ("", _) => UNSET.to_owned(),
            // The parameter kind's scope is unknown here.
            (name, "") => format!("*/{name}"),
            (name, namespace) => format!("{namespace}/{name}"),
        };
        vec![name(binding), of(&binding["spec"]["policyName"]).into(), parameters.into(), age(binding, now)]
    },
);

/// Formats a label selector as Go prints the struct.
fn go_selector(selector: &Value) -> String {
    let mut labels = String::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        labels.push_str(&format!("{key}: {},", of(value)));
    }
    let mut expressions = String::new();
    for expression in list(&selector["matchExpressions"]) {
        let values = join_or(list(&expression["values"]).iter().map(of), " ", "");
        let (key, operator) = (of(&expression["key"]), of(&expression["operator"]));
        expressions.push_str(&format!(
            "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
        ));
    }
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
