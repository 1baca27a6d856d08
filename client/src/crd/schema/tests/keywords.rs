//! The rewriting of single keywords, from JSON to JSON.

use super::super::{SchemaProblem, rewrite};
use super::accepted;
use serde_json::{Value, json};

/// A case: its name, the input schema, the output schema.
type Case = (&'static str, Value, Value);

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let any = || json!({"x-kubernetes-preserve-unknown-fields": true});
    let text = || json!({"type": "string"});
    vec![
        (
            "keywords for people are dropped",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", "description": "d",
                "type": "string", "examples": ["x"], "writeOnly": true, "x-intellij": 1}),
            json!({"description": "d", "type": "string"}),
        ),
        ("any value", json!(true), any()),
        (
            "any value with a text",
            json!({"description": "d"}),
            json!({"description": "d", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "a reference is replaced, and texts beside it win",
            json!({"$ref": "#/$defs/A", "description": "own", "$defs": {"A": {"type": "string", "description": "a"}}}),
            json!({"type": "string", "description": "own"}),
        ),
        (
            "null beside a type",
            json!({"type": ["integer", "null"], "format": "int32"}),
            json!({"type": "integer", "format": "int32", "nullable": true}),
        ),
        (
            "null as an alternative",
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"type": "string", "nullable": true}),
        ),
        (
            "an enumeration is not nullable",
            json!({"type": ["string", "null"], "enum": ["a", "b", null]}),
            json!({"type": "string", "enum": ["a", "b"]}),
        ),
        (
            "an enumeration in a list is nullable",
            json!({"type": "array", "items": {"type": ["string", "null"], "enum": ["a", null]}}),
            json!({"type": "array", "items": {"type": "string", "nullable": true, "allOf": [{"enum": ["a"]}]}}),
        ),
        (
            "a constant is an enumeration with a type",
            json!({"const": "a"}),
            json!({"type": "string", "enum": ["a"]}),
        ),
        (
            "values with texts of their own",
            json!({"description": "d", "oneOf": [{"type": "string", "enum": ["a", "b"]},
                {"type": "string", "const": "c", "description": "the\nlast"}]}),
            json!({"description": "d\n\n- `c`: the last", "type": "string", "enum": ["a", "b", "c"]}),
        ),
        (
            "a default of null says nothing",
            json!({"type": ["string", "null"], "default": null}),
            json!({"type": "string", "nullable": true}),
        ),
        (
            "small integers",
            json!({"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255}),
            json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 255}),
        ),
        (
            "32 bits without sign",
            json!({"type": "integer", "format": "uint32", "minimum": 0}),
            json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u32}),
        ),
        (
            "64 bits without sign",
            json!({"type": "integer", "format": "uint64", "minimum": 0}),
            json!({"type": "integer", "format": "int64", "minimum": 0}),
        ),
        ("128 bits", json!({"type": "integer", "format": "int128"}), json!({"type": "integer"})),
        (
            "excluded bounds are flags",
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
            json!({"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1, "exclusiveMaximum": true}),
        ),
        (
            "the narrower bound stays",
            json!({"type": "number", "minimum": 5, "exclusiveMinimum": 0, "maximum": 5, "exclusiveMaximum": 5}),
            json!({"type": "number", "minimum": 5, "maximum": 5, "exclusiveMaximum": true}),
        ),
        (
            "formats that Kubernetes checks",
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "string", "format": "date-time"}),
        ),
        ("formats that it does not check", json!({"type": "string", "format": "ip"}), text()),
        ("durations of ISO 8601", json!({"type": "string", "format": "duration"}), text()),
        (
            "a map",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        (
            "a map of any values",
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "a map with numbers as keys",
            json!({"type": "object", "patternProperties": {"^\\d+$": {"type": "string"}}, "additionalProperties": false}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        (
            "unknown fields that serde refuses are pruned",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        (
            "fields and a map",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "a set of texts",
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
        ),
        (
            "a set of objects",
            json!({"type": "array", "uniqueItems": true, "items": {"type": "object"}}),
            json!({"type": "array", "items": {"type": "object"}}),
        ),
        ("a list of anything", json!({"type": "array"}), json!({"type": "array", "items": any()})),
        (
            "a tuple of one type",
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
            json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}),
        ),
        (
            "an integer or a text",
            json!({"anyOf": [{"type": "integer", "format": "int32"}, {"type": "string"}]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            "an integer or a text, as a list of types",
            json!({"type": ["string", "integer", "null"]}),
            json!({"x-kubernetes-int-or-string": true, "nullable": true}),
        ),
        (
            "alternatives of a type are told apart by checks",
            json!({"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}),
            json!({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
        ),
        (
            "parts that all hold",
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": ["a", "b"]}),
        ),
        (
            "checks that differ both hold",
            json!({"type": "string", "pattern": "^a", "allOf": [{"pattern": "b$"}]}),
            json!({"type": "string", "pattern": "^a", "allOf": [{"pattern": "b$"}]}),
        ),
        (
            "demands of the author's own on fields",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["a", "b"]}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["a", "b"]}}),
        ),
        (
            "extensions of Kubernetes are kept",
            json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": "has(self.a)"}]}),
            json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": "has(self.a)"}]}),
        ),
        (
            "formats of numbers that differ between variants are given up",
            json!({"anyOf": [{"type": "integer", "format": "int32", "minimum": 1},
                {"type": "integer", "format": "int64", "maximum": 0}]}),
            json!({"type": "integer", "anyOf": [{"minimum": 1}, {"maximum": 0}]}),
        ),
        (
            "a format of numbers that variants have in common",
            json!({"anyOf": [{"type": "integer", "format": "int32", "minimum": 1},
                {"type": "integer", "format": "int32", "maximum": -1}]}),
            json!({"type": "integer", "format": "int32", "anyOf": [{"minimum": 1}, {"maximum": -1}]}),
        ),
        (
            "variants that are named by a field of their own",
            json!({"oneOf": [
            {"type": "object", "description": "By time.", "properties": {"every": {"type": "integer"}},
             "required": ["every"], "additionalProperties": false},
            {"type": "object", "properties": {"on": {"type": "string"}}, "required": ["on"],
             "additionalProperties": false}]}),
            json!({"type": "object", "properties": {"every": {"type": "integer", "description": "By time."},
                "on": {"type": "string"}}, "oneOf": [{"required": ["every"]}, {"required": ["on"]}]}),
        ),
        (
            "variants that are named by a tag",
            json!({"oneOf": [
            {"type": "object", "properties": {"type": {"type": "string", "const": "a"}, "x": {"type": "integer"}},
             "required": ["type", "x"]},
            {"type": "object", "properties": {"type": {"type": "string", "const": "b"}, "x": {"type": "integer", "minimum": 1}},
             "required": ["type"]}]}),
            json!({"type": "object", "required": ["type"],
                "properties": {"type": {"type": "string", "enum": ["a", "b"]}, "x": {"type": "integer"}},
                "oneOf": [{"properties": {"type": {"enum": ["a"]}}, "required": ["x"]},
                          {"properties": {"type": {"enum": ["b"]}, "x": {"minimum": 1}}}]}),
        ),
        (
            "a tag beside a reference",
            json!({"$defs": {"A": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
                "type": "object", "properties": {"type": {"type": "string", "const": "a"}},
                "$ref": "#/$defs/A", "required": ["type"]}),
            json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["a"]}, "x": {"type": "integer"}},
                "required": ["type", "x"]}),
        ),
    ]
}

#[test]
fn keywords_are_rewritten_to_structural_ones() {
    for (name, input, wanted) in cases() {
        assert_eq!(rewrite(&input).map_err(|error| error.to_string()), Ok(wanted), "{name}");
    }
}

#[test]
fn rewriting_the_result_changes_nothing() {
    // In JSON Schema, `allOf` also applies to null.
    let is_same = |name: &str| name != "an enumeration in a list is nullable";
    for (name, _, schema) in cases().into_iter().filter(|case| is_same(case.0)) {
        assert_eq!(rewrite(&schema).map_err(|error| error.to_string()), Ok(schema), "{name}");
    }
}

#[test]
fn every_result_is_a_schema_that_the_api_server_accepts() {
    for (name, input, _) in cases() {
        let field = rewrite(&input).expect(name);
        let spec = json!({"type": "object", "properties": {"field": field}});
        accepted(serde_json::from_value(spec).expect(name));
    }
}

#[test]
fn a_schema_without_structural_form_is_refused_with_its_field() {
    let object =
        |field: Value| json!({"type": "object", "properties": {"a": {"type": "array", "items": field}}});
    let tree = json!({"$defs": {"Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}}},
        "type": "object", "properties": {"tree": {"$ref": "#/$defs/Tree"}}});
    let cases = [
        (tree, "tree.next", SchemaProblem::Recursive("Tree".into())),
        (
            json!({"title": "Tree", "type": "object", "properties": {"next": {"$ref": "#"}}}),
            "next",
            SchemaProblem::Recursive("Tree".into()),
        ),
        (
            object(json!({"oneOf": [{"type": "string"}, {"type": "object"}]})),
            "a[]",
            SchemaProblem::Types("string", "object"),
        ),
        (
            object(json!({"type": ["string", "object"]})),
            "a[]",
            SchemaProblem::TypeList("object, string".into()),
        ),
        (
            object(json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]})),
            "a[]",
            SchemaProblem::Tuple,
        ),
        (object(json!({"type": "object", "properties": {"b": false}})), "a[].b", SchemaProblem::Never),
        (object(json!({"not": {}})), "a[]", SchemaProblem::Never),
        (object(json!({"type": "null"})), "a[]", SchemaProblem::Never),
        (object(json!({"if": {"type": "string"}})), "a[]", SchemaProblem::Keyword("if".into())),
        (
            object(json!({"$ref": "https://example.com/a"})),
            "a[]",
            SchemaProblem::Reference("https://example.com/a".into()),
        ),
        (object(json!({"pattern": "^a"})), "a[]", SchemaProblem::NoType("pattern".into())),
        (
            json!({"type": "object", "additionalProperties": {"type": "text"}}),
            "{}",
            SchemaProblem::Malformed("the type text".into()),
        ),
        (
            json!({"anyOf": [{"type": "object", "x-kubernetes-map-type": "atomic"}, {"type": "object", "required": ["a"]}]}),
            "",
            SchemaProblem::Conflict("x-kubernetes-map-type of the variants of an enum".into()),
        ),
    ];
    for (schema, path, problem) in cases {
        let error = rewrite(&schema).expect_err(&schema.to_string());
        assert_eq!((error.path(), error.problem()), (path.to_owned(), &problem));
    }
}
