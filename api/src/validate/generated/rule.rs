//! The rules about one member, and their errors.
//!
//! Follows `RequiredValue`, `Minimum`, `MaxItems` and their relatives in Kubernetes' package of generated validation.

use crate::check::IMMUTABLE;
use crate::field::{FieldError, FieldErrorKind, Path};
use crate::schema::Field;
use FieldErrorKind::{Invalid, Required, TooLong, TooMany};
use serde_json::Value;

/// The error of a member that changed after it was set.
const MODIFIED: &str = "field cannot be modified once set";

/// A rule about a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Required,
    Minimum(i64),
    Maximum(i64),
    MaxItems(usize),
    /// Characters of a text.
    MaxLength(usize),
    MaxBytes(usize),
    Immutable,
    /// An update must not change the member once it is set.
    NoModify,
}

impl Rule {
    /// The rule with this text in the file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, number) = text.split_once('=').unwrap_or((text, ""));
        Some(match name {
            "required" => Self::Required,
            "minimum" => Self::Minimum(number.parse().ok()?),
            "maximum" => Self::Maximum(number.parse().ok()?),
            "maxItems" => Self::MaxItems(number.parse().ok()?),
            "maxLength" => Self::MaxLength(number.parse().ok()?),
            "maxBytes" => Self::MaxBytes(number.parse().ok()?),
            "immutable" => Self::Immutable,
            "update" if number == "NoModify" => Self::NoModify,
            _ => return None,
        })
    }

    /// The error of a value that is set; `None` if it keeps the rule.
    fn fault(self, new: &Value, old: Option<&Value>) -> Option<(FieldErrorKind, Option<String>, String)> {
        let number = || new.as_i64();
        let text = || new.as_str().unwrap_or_default();
        let items = || new.as_array().map_or(0, Vec::len);
        let invalid = |detail: String| Some((Invalid, Some(new.to_string()), detail));
        match self {
            Self::Minimum(least) if number().is_some_and(|own| own < least) => {
                invalid(format!("must be greater than or equal to {least}"))
            }
            Self::Maximum(most) if number().is_some_and(|own| own > most) => {
                invalid(format!("must be less than or equal to {most}"))
            }
            Self::MaxItems(most) if items() > most => {
                let noun = if most == 1 { "item" } else { "items" };
                Some((TooMany, Some(items().to_string()), format!("must have at most {most} {noun}")))
            }
            Self::MaxLength(most) if text().chars().count() > most => {
                Some((TooLong, None, format!("may not be more than {most} characters")))
            }
            Self::MaxBytes(most) if text().len() > most => {
                Some((TooLong, None, format!("may not be more than {most} bytes")))
            }
            // The walk visits changed members only.
            Self::Immutable if old.is_some() => {
                Some((Invalid, Some("null".to_owned()), IMMUTABLE.to_owned()))
            }
            Self::NoModify if old.is_some_and(|old| !old.is_null()) && !new.is_null() => {
                invalid(MODIFIED.to_owned())
            }
            _ => None,
        }
    }
}

/// Adds the errors of a member, and says whether to judge what is in it. A missing member breaks no rule but that it is required, and that
/// it must not change. No other rule is asked about a member that must not change.
pub(super) fn judge(
    found: &mut Vec<FieldError>,
    path: &Path<'_>,
    field: &Field,
    (new, old): (&Value, Option<&Value>),
    rules: impl Iterator<Item = Rule> + Clone,
) -> bool {
    let mut add =
        |kind, value, detail| found.push(FieldError { kind, field: path.to_string(), value, detail });
    let is_missing = is_missing(field, new);
    if is_missing && rules.clone().any(|rule| rule == Rule::Required) {
        add(Required, None, String::new());
        return false;
    }
    let is_immutable = || rules.clone().any(|rule| rule == Rule::Immutable);
    if let Some((kind, value, detail)) = Rule::Immutable.fault(new, old).filter(|_| is_immutable()) {
        add(kind, value, detail);
        return false;
    }
    for rule in rules.filter(|_| !is_missing) {
        if let Some((kind, value, detail)) = rule.fault(new, old) {
            add(kind, value, detail);
        }
    }
    true
}

/// Whether a member has the zero value of its type in Go.
fn is_missing(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && !field.pointer,
        _ if field.pointer => false,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(is_set) => !is_set,
    }
}

/// Whether a generated error takes the place of a hand-written one: both are about the same fault of the same field.
pub(super) fn is_replaced(written: &FieldError, generated: &FieldError) -> bool {
    let is_bound = |error: &FieldError| {
        ["must be greater than", "must be less than"].iter().any(|start| error.detail.starts_with(start))
    };
    let is_same_rule = || match generated.kind {
        Invalid if is_bound(generated) => is_bound(written),
        // Hand-written rules have one text for both.
        Invalid if generated.detail == MODIFIED => written.detail == IMMUTABLE,
        Invalid => written.detail == generated.detail,
        _ => true,
    };
    (written.kind, &written.field) == (generated.kind, &generated.field) && is_same_rule()
}
