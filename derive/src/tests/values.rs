//! Tests of the code that each key generates.

use super::{expanded, spec};

const LEAST: &str = r#"group = "stable.example.com", version = "v1", kind = "CronTab""#;

/// Rust code as the macro prints it, without spaces.
fn tokens(code: &str) -> String {
    code.replace(' ', "")
}

/// Keys in addition to the three required ones, and the code they generate.
const CASES: &[(&str, &str)] = &[
    ("", "const API_VERSION: &'static str = \"stable.example.com/v1\";"),
    ("", "plural: \"crontabs\", singular: \"crontab\","),
    ("", "type Scope = ::k8s_openapi::ClusterResourceScope;"),
    (
        "",
        "has_status: false, scale: ::core::option::Option::None, columns: &[], selectable: &[], rules: &[],",
    ),
    ("", "let status = ::core::option::Option::None;"),
    ("", "#[doc = \"An object of the kind `CronTab`.\"] #[derive(Clone, Debug,)] pub(crate) struct CronTab"),
    ("namespaced", "type Scope = ::k8s_openapi::NamespaceResourceScope;"),
    ("namespaced", "is_namespaced: true,"),
    ("plural = \"crons\", singular = \"cron\"", "plural: \"crons\", singular: \"cron\","),
    ("plural = \"crons\"", "const URL_PATH_SEGMENT: &'static str = \"crons\";"),
    ("object = \"Cron\"", "pub(crate) struct Cron {"),
    ("shortname = \"ct\", shortname = \"cron\"", "short_names: &[\"ct\", \"cron\"],"),
    ("category = \"all\"", "categories: &[\"all\"],"),
    ("status = \"crate::CronTabStatus\"", "pub(crate) status: ::core::option::Option<crate::CronTabStatus>,"),
    ("status = \"CronTabStatus\"", "has_status: true,"),
    (
        "status = \"S\", scale(spec = \".spec.replicas\", status = \".status.replicas\", selector = \".status.selector\")",
        "scale: ::core::option::Option::Some(::kstore_client::crd::Scale { spec: \".spec.replicas\", status: \
         \".status.replicas\", selector: ::core::option::Option::Some(\".status.selector\") }),",
    ),
    (
        "printcolumn(name = \"Age\", type = \"date\", json_path = \".metadata.creationTimestamp\", description = \"How old\", \
         priority = 1, format = \"date-time\")",
        "::kstore_client::crd::Column { name: \"Age\", value_type: \"date\", json_path: \".metadata.creationTimestamp\", \
         description: ::core::option::Option::Some(\"How old\"), priority: ::core::option::Option::Some(1), \
         format: ::core::option::Option::Some(\"date-time\"), }",
    ),
    (
        "printcolumn(name = \"A\", type = \"string\", json_path = \".spec.a\"), printcolumn(name = \"B\", type = \"string\", \
         json_path = \".spec.b\")",
        "format: ::core::option::Option::None, }, ::kstore_client::crd::Column { name: \"B\",",
    ),
    (
        "selectable = \".spec.color\", selectable = \".spec.size\"",
        "selectable: &[\".spec.color\", \".spec.size\"],",
    ),
    (
        "validation(rule = \"self.spec.a > 1\", message = \"m\", message_expression = \"'m'\", reason = \
         \"FieldValueForbidden\", field_path = \".spec.a\", optional_old_self = true)",
        "::kstore_client::crd::Rule { rule: \"self.spec.a > 1\", message: ::core::option::Option::Some(\"m\"), \
         message_expression: ::core::option::Option::Some(\"'m'\"), reason: \
         ::core::option::Option::Some(\"FieldValueForbidden\"), field_path: ::core::option::Option::Some(\".spec.a\"), \
         optional_old_self: ::core::option::Option::Some(true), }",
    ),
    ("deprecated", "deprecated: ::core::option::Option::Some(\"\"),"),
    ("deprecated = \"use v2\"", "deprecated: ::core::option::Option::Some(\"use v2\"),"),
    ("derive = \"PartialEq\", derive = \"Eq\"", "#[derive(Clone, Debug, PartialEq, Eq)]"),
    ("crate = \"crate::client\"", "impl crate::client::crd::CustomResource for CronTab"),
];

#[test]
fn every_key_generates_its_code() {
    for (keys, wanted) in CASES {
        let code = expanded(&spec(&format!("#[kstore({LEAST}, {keys})]")))
            .unwrap_or_else(|error| panic!("{keys}: {error}"));
        assert!(code.contains(&tokens(wanted)), "{keys}: {wanted}\nis not in\n{code}");
    }
}

#[test]
fn keys_may_be_split_over_attributes_and_docs_are_kept() {
    let source = spec(&format!("/// Runs.\n #[kstore({LEAST})] #[kstore(namespaced)] #[serde(default)]"));
    let code = expanded(&source).unwrap();
    assert!(code.contains(&tokens("is_namespaced: true,")) && code.contains("Runs."), "{code}");
    assert!(!code.contains("default)]"), "the object type gets no attributes of other macros: {code}");
}

#[test]
fn plurals_follow_english_spelling() {
    for (kind, plural) in [
        ("Lamp", "lamps"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Class", "classes"),
        ("Box", "boxes"),
        ("Switch", "switches"),
    ] {
        let keys = format!("#[kstore(group = \"a.b\", version = \"v1\", kind = \"{kind}\")]");
        let code = expanded(&spec(&keys)).unwrap();
        assert!(code.contains(&tokens(&format!("plural: \"{plural}\","))), "{kind}: {code}");
    }
}

#[test]
fn enums_are_accepted_as_specs() {
    let code = expanded(&format!("#[kstore({LEAST})] enum Shape {{ A {{ x: i32 }}, B {{}} }}")).unwrap();
    assert!(code.contains(&tokens("spec: Shape,")), "{code}");
}
