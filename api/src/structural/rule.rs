//! Expressions of a schema (`x-kubernetes-validations`) as plain data. They are compiled and evaluated elsewhere.

use serde_json::Value;

/// The class of error that a failed rule reports.
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

/// One entry of `x-kubernetes-validations`. Texts are as written; empty ones count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// `rule`: the expression that must be true.
    pub rule: Box<str>,
    /// `message`.
    pub message: Option<Box<str>>,
    /// `messageExpression`.
    pub message_expression: Option<Box<str>>,
    /// `reason`.
    pub reason: RuleReason,
    /// `fieldPath`, such as `.spec.x`.
    pub field_path: Option<Box<str>>,
    /// `optionalOldSelf`: a rule that mentions `oldSelf` also runs without an old value.
    pub optional_old_self: bool,
}

impl Rule {
    /// Reads one entry; members of the wrong type count as absent.
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
