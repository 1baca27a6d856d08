//! Field numbers of gnostic's OpenAPI v2 messages.

use super::Message::{Choice, Members, Strings};
use super::ProtoType::{Any, Anys, Flag, Integer, Many, Named, Number, One, OneOrFlag, Text, Texts, Wrapped};
use super::{Message, ProtoType};
use serde_json::Value;

pub(super) static DOCUMENT: Message = Members {
    members: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Texts),
        ("consumes", 6, Texts),
        ("produces", 7, Texts),
        ("paths", 8, One(&PATHS)),
        ("definitions", 9, Named(&SCHEMA)),
        ("parameters", 10, Named(&PARAMETER)),
        ("responses", 11, Named(&RESPONSE)),
        ("security", 12, Many(&SECURITY_REQUIREMENT)),
        ("securityDefinitions", 13, Named(&SECURITY_DEFINITION)),
    ],
    extensions: 16,
    others: None,
};

static INFO: Message = Members {
    members: &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)],
    extensions: 7,
    others: None,
};

static PATHS: Message = Members { members: &[], extensions: 1, others: Some((2, &PATH_ITEM)) };

static PATH_ITEM: Message = Members {
    members: &[
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Many(&PARAMETERS_ITEM)),
    ],
    extensions: 10,
    others: None,
};

static OPERATION: Message = Members {
    members: &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Many(&PARAMETERS_ITEM)),
        ("responses", 9, One(&RESPONSES)),
        ("schemes", 10, Texts),
        ("deprecated", 11, Flag),
        ("security", 12, Many(&SECURITY_REQUIREMENT)),
    ],
    extensions: 13,
    others: None,
};

static PARAMETERS_ITEM: Message =
    Choice(|value| if value.get("$ref").is_some() { (&[2], &JSON_REFERENCE) } else { (&[1], &PARAMETER) });

static PARAMETER: Message = Choice(|value| match value["in"].as_str().unwrap_or_default() {
    "body" => (&[1], &BODY_PARAMETER),
    "header" => (&[2, 1], &PLAIN_PARAMETER),
    "path" => (&[2, 4], &PLAIN_PARAMETER),
    _ => (&[2, 3], &QUERY_PARAMETER),
});

static BODY_PARAMETER: Message = Members {
    members: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&SCHEMA)),
    ],
    extensions: 6,
    others: None,
};

/// Header and path parameters, which have the same field numbers.
static PLAIN_PARAMETER: Message = Members {
    members: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 18, Flag),
        ("enum", 19, Anys),
    ],
    extensions: 22,
    others: None,
};

static QUERY_PARAMETER: Message = Members {
    members: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("allowEmptyValue", 5, Flag),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
        ("enum", 21, Anys),
    ],
    extensions: 23,
    others: None,
};

static RESPONSES: Message = Members { members: &[], extensions: 2, others: Some((1, &RESPONSE_VALUE)) };

static RESPONSE_VALUE: Message =
    Choice(|value| if value.get("$ref").is_some() { (&[2], &JSON_REFERENCE) } else { (&[1], &RESPONSE) });

static RESPONSE: Message = Members {
    members: &[("description", 1, Text), ("schema", 2, Wrapped(&SCHEMA))],
    extensions: 5,
    others: None,
};

static JSON_REFERENCE: Message =
    Members { members: &[("$ref", 1, Text), ("description", 2, Text)], extensions: 0, others: None };

static SCHEMA_MEMBERS: &[(&str, u32, ProtoType)] = &[
    ("$ref", 1, Text),
    ("format", 2, Text),
    ("title", 3, Text),
    ("description", 4, Text),
    ("default", 5, Any),
    ("multipleOf", 6, Number),
    ("maximum", 7, Number),
    ("exclusiveMaximum", 8, Flag),
    ("minimum", 9, Number),
    ("exclusiveMinimum", 10, Flag),
    ("maxLength", 11, Integer),
    ("minLength", 12, Integer),
    ("pattern", 13, Text),
    ("maxItems", 14, Integer),
    ("minItems", 15, Integer),
    ("uniqueItems", 16, Flag),
    ("maxProperties", 17, Integer),
    ("minProperties", 18, Integer),
    ("required", 19, Texts),
    ("enum", 20, Anys),
    ("additionalProperties", 21, OneOrFlag(&SCHEMA)),
    ("type", 22, Wrapped(&Strings)),
    ("items", 23, Wrapped(&SCHEMA)),
    ("allOf", 24, Many(&SCHEMA)),
    ("properties", 25, Named(&SCHEMA)),
    ("discriminator", 26, Text),
    ("readOnly", 27, Flag),
    ("example", 30, Any),
];

static SCHEMA: Message = Members { members: SCHEMA_MEMBERS, extensions: 31, others: None };

static SECURITY_REQUIREMENT: Message = Members { members: &[], extensions: 0, others: Some((1, &Strings)) };

/// The API key, this server's only security definition (a bearer token in a header).
static SECURITY_DEFINITION: Message = Choice(|_: &Value| (&[2], &API_KEY));

static API_KEY: Message = Members {
    members: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)],
    extensions: 5,
    others: None,
};
