//! The CEL library `kubernetes.format`: named formats and their validation of texts.

use super::row::{self, Named, Row};
use crate::format::Format;
use crate::name;
use crate::name::NameRule;
use kstore_cel::{CallEstimate, CostEstimate, CostRule, EnvBuilder, Overload, SizeEstimate, Type, Val};

/// Format by name.
struct NamedFormat {
    name: &'static str,
    /// Returns the faults of a text.
    faults: fn(&str) -> Vec<String>,
    /// Length of a regular expression with the cost of the check.
    pattern: u64,
}

/// Length of the longest pattern that estimates assume.
const PATTERN_MAX: u64 = 128;
/// Longest name of a format; comparing two formats reads the names.
const NAME_MAX: u64 = 64;

fn is(format: Format, text: &str, fault: &str) -> Vec<String> {
    if format.matches(text) { Vec::new() } else { vec![fault.to_owned()] }
}

const FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", faults: name::dns1123_label, pattern: 30 },
    NamedFormat { name: "dns1123Subdomain", faults: name::dns1123_subdomain, pattern: 60 },
    NamedFormat { name: "dns1035Label", faults: name::dns1035_label, pattern: 30 },
    NamedFormat { name: "qualifiedName", faults: name::qualified_name, pattern: 60 },
    NamedFormat { name: "dns1123LabelPrefix", faults: |text| name::dns1123_label(&stem(text)), pattern: 30 },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        faults: |text| name::object_name_prefix(NameRule::Subdomain, text),
        pattern: 60,
    },
    NamedFormat { name: "dns1035LabelPrefix", faults: |text| name::dns1035_label(&stem(text)), pattern: 30 },
    NamedFormat { name: "labelValue", faults: name::label_value, pattern: 40 },
    NamedFormat {
        name: "uri",
        faults: |text| {
            let why = if text.is_empty() { "empty url" } else { "invalid URI for request" };
            is(Format::Uri, text, &format!("parse {text:?}: {why}"))
        },
        pattern: 1103,
    },
    NamedFormat {
        name: "uuid",
        faults: |text| is(Format::Uuid, text, "does not match the UUID format"),
        pattern: 77,
    },
    NamedFormat { name: "byte", faults: |text| is(Format::Byte, text, "invalid base64"), pattern: 84 },
    NamedFormat { name: "date", faults: |text| is(Format::Date, text, "invalid date"), pattern: 103 },
    NamedFormat {
        name: "datetime",
        faults: |text| is(Format::DateTime, text, "invalid datetime"),
        pattern: 103,
    },
];

/// Complete name for the validation of a name prefix such as `web-`: a letter replaces the trailing dash.
fn stem(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => format!("{stem}a"),
        _ => text.to_owned(),
    }
}

/// Format value: its index in [`FORMATS`].
#[derive(Clone, Copy, Debug, PartialEq)]
struct FormatValue(usize);

impl Named for FormatValue {
    const TYPE: &'static str = "kubernetes.NamedFormat";
}

/// Functions of the library.
pub(super) fn overloads() -> Vec<Row> {
    let ty = || Type::opaque(FormatValue::TYPE);
    let faults = Type::optional(Type::list(Type::String));
    let validate = Overload::method("format-validate", [ty(), Type::String], faults, |args| {
        let format = row::opaque::<FormatValue>(args, 0)?;
        let faults = (FORMATS[format.0].faults)(row::text(args, 1)?);
        if faults.is_empty() {
            return Ok(Val::none());
        }
        Ok(Val::some(Val::list(faults.into_iter().map(Val::string).collect())))
    });
    let validate = validate.cost(CostRule::new(
        |call| {
            let pattern = PATTERN_MAX as f64 * row::PATTERN;
            Some(CallEstimate::of(call.arg_size(0).cost(row::TRAVERSAL).scaled(pattern)))
        },
        |call| {
            let format = call.target?.as_opaque::<FormatValue>()?;
            let text = row::scaled(call.arg_size(0).saturating_add(1), row::TRAVERSAL);
            Some(text.saturating_mul(row::scaled(FORMATS[format.0].pattern, row::PATTERN)))
        },
    ));
    let named = Overload::function("format-named", [Type::String], Type::optional(ty()), |args| {
        let name = row::text(args, 0)?;
        let at = FORMATS.iter().position(|format| format.name == name);
        Ok(at.map_or_else(Val::none, |at| Val::some(row::value(FormatValue(at)))))
    });
    let mut rows = vec![("validate", validate), ("format.named", named)];
    rows.extend(FUNCTIONS.iter().enumerate().map(|(at, function)| {
        let overload =
            Overload::function(function, Vec::new(), ty(), move |_| Ok(row::value(FormatValue(at))));
        (*function, overload)
    }));
    rows
}

/// Functions that return the formats, in the order of [`FORMATS`].
const FUNCTIONS: [&str; 13] = [
    "format.dns1123Label",
    "format.dns1123Subdomain",
    "format.dns1035Label",
    "format.qualifiedName",
    "format.dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
];

/// Sets the estimated cost of comparing two formats, which differs from that of other Kubernetes types.
pub(super) fn equality(builder: EnvBuilder) -> EnvBuilder {
    let ty = Type::opaque(FormatValue::TYPE);
    let names = SizeEstimate { min: 1, max: NAME_MAX };
    let cost: CostEstimate = names.cost(row::TRAVERSAL);
    let rule = CostRule::new(
        move |call| {
            let is_format = call.args.iter().all(|arg| arg.ty == ty);
            is_format.then_some(CallEstimate::of(cost))
        },
        |_| None,
    );
    builder.function_cost("_==_", rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::tests::check;

    #[test]
    fn every_format_has_a_function() {
        for (format, function) in FORMATS.iter().zip(FUNCTIONS) {
            assert_eq!(format!("format.{}", format.name), function);
        }
    }

    #[test]
    fn texts_are_checked_against_named_formats() {
        check(&[
            ("format.dns1123Label().validate('a-b')", "none"),
            ("format.dns1123Label().validate('a_b').hasValue()", "true"),
            ("format.named('dns1123Subdomain').value() == format.dns1123Subdomain()", "true"),
            ("format.named('dns1123Subdomain').value() == format.dns1123Label()", "false"),
            ("format.named('nothing').hasValue()", "false"),
            ("format.dns1035Label().validate('1a').hasValue()", "true"),
            ("format.dns1123LabelPrefix().validate('a-').hasValue()", "false"),
            ("format.dns1035LabelPrefix().validate('a-').hasValue()", "false"),
            ("format.dns1123SubdomainPrefix().validate('a.b-').hasValue()", "false"),
            ("format.qualifiedName().validate('a.b/c').hasValue()", "false"),
            ("format.labelValue().validate('-').hasValue()", "true"),
            ("format.uri().validate('/a').hasValue()", "false"),
            ("format.uuid().validate('x').value()", r#"["does not match the UUID format"]"#),
            ("format.byte().validate('?').value()", r#"["invalid base64"]"#),
            ("format.date().validate('2024-02-30').value()", r#"["invalid date"]"#),
            ("format.datetime().validate('x').value()", r#"["invalid datetime"]"#),
        ]);
    }
}
