//! Formatting of parts of a definition in error messages: JSON of Kubernetes' internal structs, with all
//! members and Go's names.

use super::internal::Internal;
use crate::crd::{go, schema};
use serde_json::{Value, json};

/// How a schema member is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A text; empty if absent.
    Text,
    /// A boolean; false if absent.
    Flag,
    /// The value unchanged; null if absent.
    Any,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrBool,
    SchemaOrList,
    SchemaOrTexts,
    Docs,
    Rules,
}

/// Members of a schema in Go's order: Go's name, JSON name, form.
const MEMBERS: [(&str, &str, Form); 44] = [
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Any),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Any),
    ("Maximum", "maximum", Form::Any),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Any),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Any),
    ("MinLength", "minLength", Form::Any),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Any),
    ("MinItems", "minItems", Form::Any),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Any),
    ("Enum", "enum", Form::Any),
    ("MaxProperties", "maxProperties", Form::Any),
    ("MinProperties", "minProperties", Form::Any),
    ("Required", "required", Form::Any),
    ("Items", "items", Form::SchemaOrList),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrBool),
    ("PatternProperties", "patternProperties", Form::SchemaMap),
    ("Dependencies", "dependencies", Form::SchemaOrTexts),
    ("AdditionalItems", "additionalItems", Form::SchemaOrBool),
    ("Definitions", "definitions", Form::SchemaMap),
    ("ExternalDocs", "externalDocs", Form::Docs),
    ("Example", "example", Form::Any),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Any),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Any),
    ("XListType", "x-kubernetes-list-type", Form::Any),
    ("XMapType", "x-kubernetes-map-type", Form::Any),
    ("XValidations", "x-kubernetes-validations", Form::Rules),
];

/// The members that a schema has, with Go's names in Go's order.
pub(super) fn members(schema: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    MEMBERS.into_iter().filter_map(move |(go, name, form)| {
        let value = &schema[name];
        let is_zero = match form {
            Form::Text => value.as_str().is_none_or(str::is_empty),
            Form::Flag => value != true,
            _ => value.is_null(),
        };
        (!is_zero).then_some((go, value))
    })
}

/// Formats a schema.
pub(super) fn schema(schema: &Value) -> String {
    let mut out = String::new();
    write_schema(schema, &mut out);
    out
}

fn write_schema(schema: &Value, out: &mut String) {
    if !schema.is_object() {
        return out.push_str("null");
    }
    out.push('{');
    for (i, (go, name, form)) in MEMBERS.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_name(go, out);
        write_member(form, &schema[name], out);
    }
    out.push('}');
}

fn write_name(name: &str, out: &mut String) {
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
}

fn write_member(form: Form, value: &Value, out: &mut String) {
    match form {
        Form::Text => out.push_str(&text(value)),
        Form::Flag => out.push_str(if *value == true { "true" } else { "false" }),
        Form::Any => out.push_str(&go::json(value)),
        Form::Schema => write_schema(value, out),
        Form::Schemas => write_list(value, out, write_schema),
        Form::SchemaMap => write_map(value, out, write_schema),
        Form::SchemaOrTexts => write_map(value, out, |one, out| match one {
            Value::Array(_) => pair(out, ("Schema", &Value::Null), ("Property", &go::json(one))),
            one => pair(out, ("Schema", one), ("Property", "null")),
        }),
        Form::SchemaOrBool => match value {
            Value::Null => out.push_str("null"),
            Value::Bool(allows) => write_allows(*allows, &Value::Null, out),
            value => write_allows(true, value, out),
        },
        Form::SchemaOrList => match value {
            Value::Null => out.push_str("null"),
            Value::Array(_) => {
                let mut list = String::new();
                write_list(value, &mut list, write_schema);
                pair(out, ("Schema", &Value::Null), ("JSONSchemas", &list));
            }
            value => pair(out, ("Schema", value), ("JSONSchemas", "null")),
        },
        Form::Docs => match value {
            Value::Null => out.push_str("null"),
            docs => {
                let text = |member: &str| self::text(&docs[member]);
                out.push_str(&format!("{{\"Description\":{},\"URL\":{}}}", text("description"), text("url")));
            }
        },
        Form::Rules => write_list(value, out, |rule, out| out.push_str(&self::rule(rule))),
    }
}

fn write_allows(allows: bool, schema: &Value, out: &mut String) {
    out.push_str(&format!("{{\"Allows\":{allows},\"Schema\":"));
    write_schema(schema, out);
    out.push('}');
}

fn pair(out: &mut String, (name, schema): (&str, &Value), (other, value): (&str, &str)) {
    out.push('{');
    write_name(name, out);
    write_schema(schema, out);
    out.push(',');
    write_name(other, out);
    out.push_str(value);
    out.push('}');
}

fn write_list(value: &Value, out: &mut String, write: impl Fn(&Value, &mut String)) {
    let Some(items) = value.as_array() else { return out.push_str("null") };
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

fn write_map(value: &Value, out: &mut String, write: impl Fn(&Value, &mut String)) {
    if !value.is_object() {
        return out.push_str("null");
    }
    out.push('{');
    for (i, (name, member)) in schema::members(value).into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&json!(name).to_string());
        out.push(':');
        write(member, out);
    }
    out.push('}');
}

/// Formats a rule of `x-kubernetes-validations`, for errors of rules that do not compile.
pub(in crate::crd) fn rule(rule: &Value) -> String {
    let text = |member: &str| self::text(&rule[member]);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        rule["reason"],
        text("fieldPath"),
        rule["optionalOldSelf"]
    )
}

/// Formats `spec.versions` without the members that moved to the spec; null if there are none.
pub(super) fn versions(internal: &Internal<'_>) -> String {
    if !internal.spec["versions"].is_array() {
        return "null".to_owned();
    }
    let version = |version: &super::internal::InternalVersion<'_>| {
        let own = version.value;
        let flag = |member: &str| own[member] == true;
        let list = |items: &[Value], form: fn(&Value) -> String| match items {
            [] => "null".to_owned(),
            items => format!("[{}]", items.iter().map(form).collect::<Vec<_>>().join(",")),
        };
        let schema = version.schema.map_or_else(
            || "null".to_owned(),
            |own| format!("{{\"OpenAPIV3Schema\":{}}}", self::schema(&own["openAPIV3Schema"])),
        );
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            text_of(own, "name"),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            go::json(&own["deprecationWarning"]),
            version.subresources.map_or_else(|| "null".to_owned(), subresources),
            list(version.columns, column),
            list(version.selectable, |field| format!("{{\"JSONPath\":{}}}", text_of(field, "jsonPath"))),
        )
    };
    format!("[{}]", internal.versions.iter().map(version).collect::<Vec<_>>().join(","))
}

fn text_of(value: &Value, member: &str) -> String {
    text(&value[member])
}

/// Formats a text as JSON; empty if absent.
fn text(value: &Value) -> String {
    go::json(&json!(value.as_str().unwrap_or_default()))
}

fn subresources(own: &Value) -> String {
    let status = if own["status"].is_null() { "null" } else { "{}" };
    let scale = match &own["scale"] {
        Value::Null => "null".to_owned(),
        scale => format!(
            "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
            text_of(scale, "specReplicasPath"),
            text_of(scale, "statusReplicasPath"),
            scale["labelSelectorPath"]
        ),
    };
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}

fn column(own: &Value) -> String {
    format!(
        "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
        text_of(own, "name"),
        text_of(own, "type"),
        text_of(own, "format"),
        text_of(own, "description"),
        own["priority"].as_i64().unwrap_or(0),
        text_of(own, "jsonPath")
    )
}
