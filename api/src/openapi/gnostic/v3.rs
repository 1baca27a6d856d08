//! Field numbers of gnostic's OpenAPI v3 messages.

use super::Message::{self, Choice, Members, Strings};
use super::ProtoType::{
    Any, Anys, Flag, Integer, Many, Named, Number, One, OneOrFlag, Scalar, Text, Texts, Wrapped,
};

pub(super) static DOCUMENT: Message = Members {
    members: &[
        ("openapi", 1, Text),
        ("info", 2, One(&INFO)),
        ("paths", 4, One(&PATHS)),
        ("components", 5, One(&COMPONENTS)),
        ("security", 6, Many(&SECURITY_REQUIREMENT)),
    ],
    extensions: 9,
    others: None,
};

static INFO: Message = Members {
    members: &[("title", 1, Text), ("description", 2, Text), ("version", 6, Text)],
    extensions: 7,
    others: None,
};

static COMPONENTS: Message = Members {
    members: &[
        ("schemas", 1, Named(&SCHEMA_OR_REFERENCE)),
        ("securitySchemes", 7, Named(&SECURITY_SCHEME_OR_REFERENCE)),
    ],
    extensions: 10,
    others: None,
};

static PATHS: Message = Members { members: &[], extensions: 2, others: Some((1, &PATH_ITEM)) };

static PATH_ITEM: Message = Members {
    members: &[
        ("summary", 2, Text),
        ("description", 3, Text),
        ("get", 4, One(&OPERATION)),
        ("put", 5, One(&OPERATION)),
        ("post", 6, One(&OPERATION)),
        ("delete", 7, One(&OPERATION)),
        ("options", 8, One(&OPERATION)),
        ("head", 9, One(&OPERATION)),
        ("patch", 10, One(&OPERATION)),
        ("parameters", 13, Many(&PARAMETER_OR_REFERENCE)),
    ],
    extensions: 14,
    others: None,
};

static OPERATION: Message = Members {
    members: &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, Many(&PARAMETER_OR_REFERENCE)),
        ("requestBody", 7, One(&REQUEST_BODY_OR_REFERENCE)),
        ("responses", 8, One(&RESPONSES)),
        ("deprecated", 10, Flag),
        ("security", 11, Many(&SECURITY_REQUIREMENT)),
    ],
    extensions: 13,
    others: None,
};

static PARAMETER_OR_REFERENCE: Message =
    Choice(|value| if value.get("$ref").is_some() { (&[2], &REFERENCE) } else { (&[1], &PARAMETER) });

static PARAMETER: Message = Members {
    members: &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Flag),
        ("deprecated", 5, Flag),
        ("allowEmptyValue", 6, Flag),
        ("schema", 10, One(&SCHEMA_OR_REFERENCE)),
    ],
    extensions: 14,
    others: None,
};

static REQUEST_BODY_OR_REFERENCE: Message =
    Choice(|value| if value.get("$ref").is_some() { (&[2], &REFERENCE) } else { (&[1], &REQUEST_BODY) });

static REQUEST_BODY: Message = Members {
    members: &[("description", 1, Text), ("content", 2, Named(&MEDIA_TYPE)), ("required", 3, Flag)],
    extensions: 4,
    others: None,
};

static MEDIA_TYPE: Message =
    Members { members: &[("schema", 1, One(&SCHEMA_OR_REFERENCE))], extensions: 5, others: None };

static RESPONSES: Message = Members {
    members: &[("default", 1, One(&RESPONSE_OR_REFERENCE))],
    extensions: 3,
    others: Some((2, &RESPONSE_OR_REFERENCE)),
};

static RESPONSE_OR_REFERENCE: Message =
    Choice(|value| if value.get("$ref").is_some() { (&[2], &REFERENCE) } else { (&[1], &RESPONSE) });

static RESPONSE: Message = Members {
    members: &[("description", 1, Text), ("content", 3, Named(&MEDIA_TYPE))],
    extensions: 5,
    others: None,
};

static REFERENCE: Message = Members {
    members: &[("$ref", 1, Text), ("summary", 2, Text), ("description", 3, Text)],
    extensions: 0,
    others: None,
};

static SCHEMA_OR_REFERENCE: Message =
    Choice(|value| if value.get("$ref").is_some() { (&[2], &REFERENCE) } else { (&[1], &SCHEMA) });

static SCHEMA: Message = Members {
    members: &[
        ("nullable", 1, Flag),
        ("readOnly", 3, Flag),
        ("writeOnly", 4, Flag),
        ("example", 7, Any),
        ("deprecated", 8, Flag),
        ("title", 9, Text),
        ("multipleOf", 10, Number),
        ("maximum", 11, Number),
        ("exclusiveMaximum", 12, Flag),
        ("minimum", 13, Number),
        ("exclusiveMinimum", 14, Flag),
        ("maxLength", 15, Integer),
        ("minLength", 16, Integer),
        ("pattern", 17, Text),
        ("maxItems", 18, Integer),
        ("minItems", 19, Integer),
        ("uniqueItems", 20, Flag),
        ("maxProperties", 21, Integer),
        ("minProperties", 22, Integer),
        ("required", 23, Texts),
        ("enum", 24, Anys),
        ("type", 25, Text),
        ("allOf", 26, Many(&SCHEMA_OR_REFERENCE)),
        ("oneOf", 27, Many(&SCHEMA_OR_REFERENCE)),
        ("anyOf", 28, Many(&SCHEMA_OR_REFERENCE)),
        ("not", 29, One(&SCHEMA)),
        ("items", 30, Wrapped(&SCHEMA_OR_REFERENCE)),
        ("properties", 31, Named(&SCHEMA_OR_REFERENCE)),
        ("additionalProperties", 32, OneOrFlag(&SCHEMA_OR_REFERENCE)),
        ("default", 33, Scalar),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    extensions: 36,
    others: None,
};

static SECURITY_REQUIREMENT: Message = Members { members: &[], extensions: 0, others: Some((1, &Strings)) };

static SECURITY_SCHEME_OR_REFERENCE: Message =
    Choice(|value| if value.get("$ref").is_some() { (&[2], &REFERENCE) } else { (&[1], &SECURITY_SCHEME) });

static SECURITY_SCHEME: Message = Members {
    members: &[("type", 1, Text), ("description", 2, Text), ("name", 3, Text), ("in", 4, Text)],
    extensions: 9,
    others: None,
};
