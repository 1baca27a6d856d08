//! CEL rules of a schema (`x-kubernetes-validations`) as plain data; `rules` compiles and evaluates them.

use serde_json::Value;

/// Kind of error that a failed rule reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleReason {
    /// `FieldValueInvalid`
    #[default]
    Invalid,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
}

/// Entry of `x-kubernetes-validations`. Texts are unchanged; empty ones count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Value of `rule`: the expression that must be true.
    pub rule: Box<str>,
    /// Value of `message`.
    pub message: Option<Box<str>>,
    /// Value of `messageExpression`.
    pub message_expression: Option<Box<str>>,
    /// Value of `reason`.
    pub reason: RuleReason,
    /// Value of `fieldPath`, such as `.spec.x`.
    pub field_path: Option<Box<str>>,
    /// Value of `optionalOldSelf`: a rule with `oldSelf` also runs without an old value.
    pub optional_old_self: bool,
}

impl Rule {
    /// Parses an entry; members of the wrong type count as absent.
    pub(super) fn read(entry: &Value) -> Self {
        let text = |name: &str| entry[name].as_str().filter(|text| !text.is_empty()).map(Box::from);
        Self {
            rule: text("rule").unwrap_or_default(),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: reason(entry["reason"].as_str()),
            field_path: text("fieldPath"),
            optional_old_self: entry["optionalOldSelf"] == true,
        }
    }
}

fn reason(name: Option<&str>) -> RuleReason {
    match name {
        Some("FieldValueForbidden") => RuleReason::Forbidden,
        Some("FieldValueRequired") => RuleReason::Required,
        Some("FieldValueDuplicate") => RuleReason::Duplicate,
        _ => RuleReason::Invalid,
    }
}
