//! Tests of errors: the text says what to write, and the position is that of the mistake.

use super::{expanded, spec};

/// Checks the error of a source: a part of its text, and the source text at its position.
fn refused(source: &str, text: &str, place: &str) {
    let error = expanded(source).expect_err(source);
    assert!(error.to_string().contains(text), "{source}\nis refused with {error}");
    let (start, end) = (error.span().start(), error.span().end());
    assert_eq!((start.line, end.line), (1, 1));
    let underlined: String = source.chars().skip(start.column).take(end.column - start.column).collect();
    assert_eq!(underlined, place, "{source}\n{error}");
}

/// Keys in addition to the three required ones.
const KEYS: &[(&str, &str, &str)] = &[
    (
        "shortnames = \"ct\"",
        "`kstore` has no key `shortnames`; did you mean shortname = \"ct\"",
        "shortnames",
    ),
    ("print_column(a)", "did you mean printcolumn(name =", "print_column"),
    ("Namespaced", "did you mean namespaced", "Namespaced"),
    ("finalizers", "its keys are group, version, kind,", "finalizers"),
    ("namespaced = true", "`namespaced` takes no value", "namespaced"),
    ("plural", "`plural` takes a string: plural = \"…\"", ")"),
    ("plural = 1", "`plural` takes a string: plural = \"…\"", "1"),
    ("plural = \"CronTabs\"", "lower-case letters", "\"CronTabs\""),
    ("plural = \"a\", plural = \"b\"", "`plural` is given twice", "plural"),
    ("singular = \"-a\"", "lower-case letters", "\"-a\""),
    ("shortname = \"1a\"", "beginning with a letter", "\"1a\""),
    ("category = \"\"", "lower-case letters", "\"\""),
    ("object = \"a b\"", "must be the name of a Rust type", "\"a b\""),
    ("object = \"CronTabSpec\"", "is the type of the spec", "\"CronTabSpec\""),
    ("status = \"a b\"", "`status` is the name of a type", "\"a b\""),
    ("scale", "`scale` takes values in parentheses: scale(spec = \".spec.replicas\"", "scale"),
    (
        "scale(spec = \".spec.r\")",
        "`scale` needs `status`: status = \".status.replicas\"",
        "scale(spec = \".spec.r\")",
    ),
    ("scale(spec = \".status.r\", status = \".status.r\")", "must be below .spec", "\".status.r\""),
    ("scale(spec = \".spec.r\", status = \".spec.r\")", "must be below .status", "\".spec.r\""),
    (
        "scale(spec = \".spec.r\", status = \".status.r\", selector = \".r\")",
        "below .spec or .status",
        "\".r\"",
    ),
    ("scale(spec = \".spec.r[0]\", status = \".status.r\")", "must be below .spec", "\".spec.r[0]\""),
    (
        "scale(spec = \".spec.r\", status = \".status.r\")",
        "the kind has no status: add status",
        "\".status.r\"",
    ),
    ("scale(labels = \"a\")", "its keys are spec, status, selector", "labels"),
    (
        "printcolumn(name = \"A\", type = \"string\")",
        "`printcolumn` needs `json_path`",
        "printcolumn(name = \"A\", type = \"string\")",
    ),
    (
        "printcolumn(name = \"A\", type = \"text\", json_path = \".spec.a\")",
        "must be one of integer, number",
        "\"text\"",
    ),
    (
        "printcolumn(name = \"A\", type = \"date\", jsonpath = \".spec.a\")",
        "did you mean json_path",
        "jsonpath",
    ),
    (
        "printcolumn(name = \"A\", type = \"date\", json_path = \"spec.a\")",
        "must begin with a dot",
        "\"spec.a\"",
    ),
    (
        "printcolumn(name = \"A\", type = \"date\", json_path = \".status.a\")",
        "has no status",
        "\".status.a\"",
    ),
    ("printcolumn(name = \"A\", type = \"date\", json_path = \".a\", priority = \"1\")", "integer", "\"1\""),
    (
        "printcolumn(name = \"A\", type = \"date\", json_path = \".a\", format = \"iso\")",
        "must be one of int32",
        "\"iso\"",
    ),
    ("selectable = \"spec.a\"", "must begin with a dot", "\"spec.a\""),
    ("validation(message = \"a\")", "`validation` needs `rule`", "validation(message = \"a\")"),
    ("validation(rule = \" \")", "must not be empty", "\" \""),
    ("validation(rule = \"a\", message = \"a\\nb\")", "must be one line", "\"a\\nb\""),
    ("validation(rule = \"a\", reason = \"Bad\")", "must be one of FieldValueInvalid", "\"Bad\""),
    ("validation(rule = \"a\", field_path = \"a\")", "must begin with a dot", "\"a\""),
    ("validation(rule = \"a\", optional_old_self = 1)", "boolean", "1"),
    ("deprecated = \"\"", "must not be empty", "\"\""),
    ("crate = \"a-b\"", "", "\"a-b\""),
];

#[test]
fn invalid_keys_are_refused_with_their_position() {
    for (keys, text, place) in KEYS {
        let attribute = format!("#[kstore(group = \"a.b\", version = \"v1\", kind = \"CronTab\", {keys})]");
        refused(&spec(&attribute), text, place);
    }
}

#[test]
fn missing_required_keys_are_reported() {
    let cases = [
        ("", "add #[kstore(group = \"stable.example.com\")] to `CronTabSpec`", "CronTabSpec"),
        ("#[kstore(group = \"a.b\")]", "add #[kstore(version = \"v1\")]", "CronTabSpec"),
        ("#[kstore(group = \"a.b\", version = \"v1\")]", "add #[kstore(kind = \"CronTab\")]", "CronTabSpec"),
        ("#[kstore(group = \"apps\")]", "must be a domain with two parts at least", "\"apps\""),
        ("#[kstore(group = \"a.B\")]", "must be a domain", "\"a.B\""),
        ("#[kstore(version = \"V1\")]", "lower-case letters", "\"V1\""),
        ("#[kstore(kind = \"cronTab\")]", "beginning with a capital", "\"cronTab\""),
        ("#[kstore]", "kstore", "kstore"),
    ];
    for (attribute, text, place) in cases {
        refused(&spec(attribute), text, place);
    }
}

#[test]
fn at_most_eight_selectable_fields_are_accepted() {
    let fields: Vec<_> = (1..10).map(|n| format!("selectable = \".spec.f{n}\"")).collect();
    let keys = |count: usize| {
        format!("#[kstore(group = \"a.b\", version = \"v1\", kind = \"A\", {})]", fields[..count].join(", "))
    };
    assert!(expanded(&spec(&keys(8))).is_ok());
    refused(&spec(&keys(9)), "takes 8 selectable fields at most", "\".spec.f9\"");
}

#[test]
fn unions_and_generic_types_are_refused_as_specs() {
    let attribute = "#[kstore(group = \"a.b\", version = \"v1\", kind = \"A\")]";
    refused(&format!("{attribute} union Spec {{ a: i32 }}"), "a struct or an enum", "union");
    refused(&format!("{attribute} struct Spec<T> {{ a: T }}"), "no generic parameters", "<T>");
}
