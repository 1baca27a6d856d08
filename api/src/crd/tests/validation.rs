//! Tests of validation errors of definitions, with literal messages.

use crate::crd::{strategy, validate};
use crate::field::ErrorList;
use crate::patch::merge;
use serde_json::{Value, json};

/// A valid definition; its one version has a schema with `spec.a`.
fn base() -> Value {
    json!({"metadata": {"name": "foos.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                "properties": {"a": {"type": "string"}}}}}}}]}})
}

fn prepared(mut crd: Value) -> Value {
    strategy::set_defaults(&mut crd);
    strategy::prepare_create(&mut crd);
    crd
}

/// The definition with a patch of its spec.
fn with_spec(patch: Value) -> Value {
    prepared(merge::apply(&base(), &json!({"spec": patch})).unwrap())
}

/// The definition with a patch of its version.
fn with_version(patch: Value) -> Value {
    let version = merge::apply(&base()["spec"]["versions"][0], &patch).unwrap();
    with_spec(json!({"versions": [version]}))
}

/// The definition with a schema at `spec.a`.
fn with_field(schema: Value) -> Value {
    with_version(
        json!({"schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"a": schema}}}}}}),
    )
}

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused(crd: &Value, expected: &[&str]) {
    assert_eq!(texts(&validate::create(crd)), expected);
}

#[test]
fn valid_definition_is_accepted() {
    refused(&prepared(base()), &[]);
    refused(
        &with_field(json!({"format": "date-time", "enum": ["a"], "default": "a"})),
        &[
            "spec.validation.openAPIV3Schema.properties[spec].properties[a].default: Invalid value: \"a\":  in body must be of type date-time: \"a\"",
        ],
    );
    refused(&with_field(json!({"enum": ["a"], "default": "a"})), &[]);
}

#[test]
fn group_scope_and_names_are_validated() {
    let group = |group: &str| {
        let mut crd = with_spec(json!({"group": group}));
        crd["metadata"]["name"] = json!(format!("foos.{group}"));
        crd
    };
    refused(
        &group("flat"),
        &["spec.group: Invalid value: \"flat\": should be a domain with at least one dot"],
    );
    refused(
        &with_spec(json!({"scope": "Galaxy"})),
        &["spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\""],
    );
    refused(
        &with_spec(json!({"names": {"listKind": "Foo"}})),
        &["spec.names.listKind: Invalid value: \"Foo\": kind and listKind may not be the same"],
    );
    refused(
        &with_spec(json!({"names": {"plural": "bars"}})),
        &["metadata.name: Invalid value: \"foos.x.dev\": must be spec.names.plural+\".\"+spec.group"],
    );
    refused(
        &with_spec(json!({"names": {"kind": "Foo Bar", "listKind": "L"}})),
        &[
            "spec.names.singular: Invalid value: \"foo bar\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            "spec.names.kind: Invalid value: \"Foo Bar\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ],
    );
}

#[test]
fn protected_groups_need_an_approval() {
    let mut crd = with_spec(json!({"group": "foo.k8s.io"}));
    crd["metadata"]["name"] = json!("foos.foo.k8s.io");
    refused(
        &crd,
        &[
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ],
    );
    assert_eq!(texts(&validate::update(&crd, &crd)), [""; 0]);
    for (own, is_good) in
        [("https://github.com/kubernetes/x/pull/1", true), ("unapproved, trial", true), ("maybe", false)]
    {
        crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": own});
        assert_eq!(validate::create(&crd).is_empty(), is_good, "{own}");
    }
}

#[test]
fn version_errors_refer_to_the_internal_form() {
    refused(
        &with_version(json!({"deprecationWarning": "x"})),
        &[
            "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions",
        ],
    );
    refused(
        &with_version(json!({"deprecated": true, "deprecationWarning": ""})),
        &["spec.versions[0].deprecationWarning: Invalid value: \"\": must not be an empty string"],
    );
    let warning = |text: &str| with_version(json!({"deprecated": true, "deprecationWarning": text}));
    refused(&warning("é 漢 e\u{301} \"quoted\" \\"), &[]);
    for (text, shown) in
        [("ab\u{200b}", "\"ab\u{200b}\""), ("ab\n", "\"ab\\n\""), ("ab\u{a0}", "\"ab\u{a0}\"")]
    {
        refused(
            &warning(text),
            &[&format!(
                "spec.versions[0].deprecationWarning: Invalid value: {shown}: must only contain printable UTF-8 characters; non-printable character found at index 2"
            )],
        );
    }
    refused(
        &warning(&"x".repeat(257)),
        &[&format!(
            "spec.versions[0].deprecationWarning: Invalid value: \"{}\": must be <= 256 characters long",
            "x".repeat(257)
        )],
    );
    let one = base()["spec"]["versions"][0].clone();
    let two = json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "string"}},
        "additionalPrinterColumns": [{"name": "A", "type": "x", "jsonPath": "a"}]});
    // Different schemas and columns are reported below their versions.
    refused(
        &with_spec(json!({"versions": [one, two]})),
        &[
            "spec.versions[1].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
            "spec.versions[1].additionalPrinterColumns[0].type: Invalid value: \"x\": must be one of boolean,date,integer,number,string",
            "spec.versions[1].additionalPrinterColumns[0].JSONPath: Invalid value: \"a\": must be a simple json path starting with .",
        ],
    );
    let twin = json!({"name": "v1", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let found = texts(&validate::create(&with_spec(json!({"versions": [twin, one]}))));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("spec.versions: Invalid value: [{\"Name\":\"v1\",\"Served\":false,\"Storage\":false,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":{\"OpenAPIV3Schema\":{\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,\"Description\":\"\",\"Type\":\"object\",\"Nullable\":false"), "{}", found[0]);
    assert!(found[0].ends_with("must contain unique version names"));
}

#[test]
fn selectable_fields_must_be_scalars() {
    let fields = |paths: &[&str]| {
        let fields: Vec<Value> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
        with_version(json!({"selectableFields": fields}))
    };
    refused(&fields(&[".spec.a"]), &[]);
    refused(
        &fields(&[".spec", ".spec.b", ".spec.a[0]", ".spec.a", ".spec.a", ""]),
        &[
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            "spec.selectableFields[1].jsonPath: Invalid value: \".spec.b\": is an invalid path: does not refer to a valid field",
            "spec.selectableFields[2].jsonPath: Invalid value: \".spec.a[0]\": is an invalid path: array notation is not allowed",
            "spec.selectableFields[4].jsonPath: Duplicate value: \".spec.a\"",
            "spec.selectableFields[5].jsonPath: Required value",
        ],
    );
    let names: Vec<String> = (0..9).map(|i| format!("p{i}")).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"type": "integer"}))).collect();
    let fields: Vec<Value> = names.iter().map(|name| json!({"jsonPath": format!(".spec.{name}")})).collect();
    let many = with_version(json!({"selectableFields": fields,
        "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": properties}}}}}));
    refused(&many, &["spec.selectableFields: Too many: 9: must have at most 8 items"]);
    assert_eq!(texts(&validate::update(&many, &many)), [""; 0], "an old excess passes unchanged");
}

#[test]
fn conversion_errors_name_the_internal_members() {
    let conversion = |conversion: Value| with_spec(json!({"conversion": conversion}));
    refused(
        &conversion(json!({"strategy": "Magic"})),
        &["spec.conversion.strategy: Unsupported value: \"Magic\": supported values: \"None\", \"Webhook\""],
    );
    refused(
        &conversion(
            json!({"strategy": "None", "webhook": {"clientConfig": {"url": "https://h"}, "conversionReviewVersions": ["v1"]}}),
        ),
        &[
            "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
        ],
    );
    refused(
        &conversion(
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "s", "namespace": "n"}}, "conversionReviewVersions": ["v7"]}}),
        ),
        &[
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v7\"]: must include at least one of v1, v1beta1",
        ],
    );
    // CA bundles are checked after the definition is established.
    let hook = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://h", "caBundle": "Ym9ndXM="}, "conversionReviewVersions": ["v1"]}});
    let new = conversion(hook);
    refused(&new, &[]);
    let mut old = prepared(base());
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    assert_eq!(
        texts(&validate::update(&new, &old)),
        [
            "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"Ym9ndXM=\": unable to load root certificates: data does not contain any valid RSA or ECDSA certificates"
        ]
    );
}

#[test]
fn schemas_with_a_status_subresource_have_a_plain_root() {
    let crd = with_version(
        json!({"subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"allOf": [{"required": ["spec"]}]}}}),
    );
    let found = texts(&validate::create(&crd));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("spec.validation.openAPIV3Schema: Invalid value: {\"ID\":\"\","),
        "{}",
        found[0]
    );
    assert!(found[0].ends_with(": only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled"));
}

#[test]
fn structural_rules_and_completeness_are_enforced() {
    const A: &str = "spec.validation.openAPIV3Schema.properties[spec].properties[a]";
    for (schema, member, expected) in [
        (json!({"type": null}), ".type", "Required value: must not be empty for specified object fields"),
        (json!({"type": "array"}), ".items", "Required value: must be specified"),
        (json!({"not": {"nullable": true}}), ".not.nullable", "Forbidden: must be false to be structural"),
        (
            json!({"anyOf": [{"type": "string"}]}),
            ".anyOf[0].type",
            "Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": null, "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            "",
            "",
        ),
        (
            json!({"type": null, "x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minLength": 1}]}),
            "",
            "",
        ),
        (
            json!({"oneOf": [{"properties": {"metadata": {}}}]}),
            ".oneOf[0].properties[metadata]",
            "Forbidden: must not be specified in a nested context",
        ),
        (
            json!({"uniqueItems": true}),
            ".uniqueItems",
            "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (json!({"$ref": "x"}), ".$ref", "Forbidden: $ref is not supported"),
        (json!({"$schema": "x"}), "", ""),
        (
            json!({"type": "null"}),
            ".type",
            "Unsupported value: \"null\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}),
            ".x-kubernetes-list-map-keys",
            "Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, "x-kubernetes-list-type": "set"}),
            ".items.x-kubernetes-list-type",
            "Invalid value: \"set\": must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            json!({"default": 5}),
            ".default",
            "Invalid value: \"integer\":  in body must be of type string: \"integer\"",
        ),
    ] {
        let found = texts(&validate::create(&with_field(schema.clone())));
        if expected.is_empty() {
            let only = "spec.validation.openAPIV3Schema: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported";
            assert!(found.iter().all(|own| own == only), "{schema} {found:?}");
        } else {
            assert_eq!(found.first(), Some(&format!("{A}{member}: {expected}")), "{schema} {found:?}");
        }
    }
    let root = json!({"anyOf": [{"properties": {"spec": {"properties": {"b": {"minLength": 1}}}}}]});
    refused(
        &with_version(json!({"schema": {"openAPIV3Schema": root}})),
        &[
            "spec.validation.openAPIV3Schema.properties[spec].properties[b]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[spec].properties[b]",
        ],
    );
}

/// Go joins the path of a default and the path within it by a dot, also if that begins with an index.
#[test]
fn errors_in_items_of_a_default_have_the_paths_of_kubernetes() {
    const A: &str = "spec.validation.openAPIV3Schema.properties[spec].properties[a]";
    let item = json!({"type": "object", "properties": {"type": {"type": "string"}}});
    refused(
        &with_field(json!({"type": "array", "items": item, "default": [{"type": 5}]})),
        &[&format!(
            "{A}.default.[0].type: Invalid value: \"integer\": [0].type in body must be of type string: \"integer\""
        )],
    );
}

#[test]
fn defaults_of_embedded_objects_have_valid_metadata() {
    const A: &str = "spec.validation.openAPIV3Schema.properties[spec].properties[a]";
    let embedded = |metadata: Value, default: Value| {
        with_field(json!({"type": "object", "x-kubernetes-embedded-resource": true, "default": default,
            "x-kubernetes-preserve-unknown-fields": true, "properties": {"metadata": metadata}}))
    };
    let name = |default: &str| json!({"type": "object", "properties": {"name": {"type": "string", "default": default}}});
    refused(&embedded(name("good"), Value::Null), &[]);
    let found = texts(&validate::create(&embedded(name("a/b"), Value::Null)));
    assert_eq!(found.len(), 1, "{found:?}");
    let start = format!(
        "{A}.properties[metadata].properties[name].default: Invalid value: \"a/b\": must result in valid metadata: metadata.name: Invalid value: \"a/b\": "
    );
    assert!(found[0].starts_with(&start), "{found:?}");
    let object = |kind: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}});
    refused(&embedded(json!({"type": "object"}), object(json!("Foo"))), &[]);
    refused(
        &embedded(json!({"type": "object"}), object(Value::Null)),
        &[&format!("{A}.default.kind: Required value")],
    );
}

#[test]
fn updates_may_keep_breaking_rules() {
    let broken = [
        json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
        json!({"type": "object", "default": {"x": 1}}),
        json!({"type": "tuple"}),
        json!({"type": null}),
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "nullable": true, "required": ["k"], "properties": {"k": {"type": "string"}}}}),
    ];
    for schema in broken {
        let old = with_field(schema.clone());
        assert!(!validate::create(&old).is_empty(), "{schema}");
        let mut new = old.clone();
        new["spec"]["names"]["shortNames"] = json!(["f"]);
        // A schema that is not structural stays refused, since unknown fields are pruned.
        let is_structural = schema["type"] != Value::Null;
        assert_eq!(
            validate::update(&new, &old).is_empty(),
            is_structural,
            "{schema} {:?}",
            texts(&validate::update(&new, &old))
        );
        assert!(!validate::update(&new, &prepared(base())).is_empty(), "{schema}");
    }
}

#[test]
fn immutable_fields_never_change_or_not_after_establishment() {
    let old = prepared(base());
    let mut new = with_spec(json!({"scope": "Cluster", "names": {"kind": "Bar"}}));
    new["metadata"] = old["metadata"].clone();
    assert_eq!(texts(&validate::update(&new, &old)), [""; 0]);
    let mut established = old;
    established["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    assert_eq!(
        texts(&validate::update(&new, &established)),
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind: Invalid value: \"Bar\": field is immutable"
        ]
    );
}

#[test]
fn members_of_cel_rules_are_validated() {
    const R: &str =
        "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-validations[0]";
    for (rule, expected) in [
        (json!({"rule": " "}), ".rule: Required value: rule is not specified"),
        (
            json!({"rule": "a\nb"}),
            ".message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "a", "message": "x\ny"}),
            ".message: Invalid value: \"x\\ny\": must not contain line breaks",
        ),
        (
            json!({"rule": "a", "message": " "}),
            ".message: Invalid value: \" \": must be non-empty if specified",
        ),
        (
            json!({"rule": "a", "messageExpression": " "}),
            ".messageExpression: Required value: messageExpression must be non-empty if specified",
        ),
        (
            json!({"rule": "a", "reason": "Bad"}),
            ".reason: Unsupported value: \"Bad\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (json!({"rule": "a", "fieldPath": ".b"}), ".fieldPath: Invalid value: \".b\": must be a valid path"),
    ] {
        refused(&with_field(json!({"x-kubernetes-validations": [rule]})), &[&format!("{R}{expected}")]);
    }
}

#[test]
fn cel_rules_that_do_not_compile_are_reported_with_their_path() {
    let rule = json!([{"rule": "self.x", "reason": "FieldValueInvalid"}, {"rule": "self != oldSelf"}]);
    let items = json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rule});
    let crd = with_field(json!({"type": "array", "maxItems": 10, "items": items}));
    let list = "spec.validation.openAPIV3Schema.properties[spec].properties[a]";
    let errors = texts(&validate::check_rules(&crd, None));
    assert_eq!(
        errors,
        [
            format!(
                "{list}.items.x-kubernetes-validations[0].rule: Invalid value: {{\"Rule\":\"self.x\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":\"FieldValueInvalid\",\"FieldPath\":\"\",\"OptionalOldSelf\":null}}: compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection\n | self.x\n | ....^"
            ),
            format!(
                "{list}.items.x-kubernetes-validations[1].rule: Invalid value: \"self != oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
            ),
        ]
    );
    let broken = with_field(json!({"type": "tuple", "x-kubernetes-validations": [{"rule": "true"}]}));
    assert!(validate::check_rules(&broken, None).is_empty());
}
