//! [`Form`]: how a version of OpenAPI describes parameters, request bodies and responses. `operation` has the
//! contents, which all versions share.

use super::parameters::Parameter;
use super::reference;
use serde_json::{Map, Value, json};

/// Writer for the paths of one OpenAPI version.
pub(super) trait Form {
    /// A parameter as it appears at its use.
    fn parameter(&mut self, parameter: &Parameter) -> Value;

    /// Adds request body and responses to an operation.
    fn add_bodies(&mut self, members: &mut Map<String, Value>, bodies: &Bodies<'_>);
}

/// Request body and responses of an operation.
pub(super) struct Bodies<'a> {
    /// Request body, if there is one.
    pub(super) request: Option<Request<'a>>,
    /// Content of every successful response.
    pub(super) answer: Content<'a>,
    /// Codes of successful responses, with their descriptions.
    pub(super) codes: &'static [(&'static str, &'static str)],
    /// Media types that v2 states for an operation without a request body; empty for none.
    pub(super) consumes: &'static [&'static str],
}

/// Request body of an operation.
pub(super) struct Request<'a> {
    /// Content of the body.
    pub(super) content: Content<'a>,
    /// Whether the body is required.
    pub(super) is_required: bool,
}

/// Value in one of several media types.
pub(super) struct Content<'a> {
    /// Name of the schema; `None` for text.
    pub(super) schema: Option<&'a str>,
    /// Media types.
    pub(super) media: Vec<&'static str>,
}

/// OpenAPI v3, which repeats parameters and bodies in every operation.
pub(super) struct V3;

impl Form for V3 {
    fn parameter(&mut self, parameter: &Parameter) -> Value {
        parameter.to_v3()
    }

    fn add_bodies(&mut self, members: &mut Map<String, Value>, bodies: &Bodies<'_>) {
        let content = content(&bodies.answer);
        let success = bodies.codes.iter().map(|(code, description)| {
            ((*code).to_owned(), json!({"description": description, "content": content}))
        });
        let refusal = ("401".to_owned(), json!({"description": "Unauthorized"}));
        members.insert("responses".to_owned(), Value::Object(success.chain([refusal]).collect()));
        if let Some(request) = &bodies.request {
            let mut body = json!({"content": self::content(&request.content)});
            if request.is_required {
                body["required"] = json!(true);
            }
            members.insert("requestBody".to_owned(), body);
        }
    }
}

fn content(content: &Content<'_>) -> Value {
    let schema = content.schema.map_or_else(|| json!({"type": "string"}), reference);
    let encodings = content.media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema})));
    Value::Object(encodings.collect())
}
