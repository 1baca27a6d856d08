//! [`Form`]: how a version of OpenAPI writes down what operations take and answer. That they are the same in every version is
//! `operation`'s matter.

use serde_json::{Map, Value, json};

use super::parameters::Parameter;
use super::reference;

/// A version of OpenAPI, as far as paths are concerned.
pub(super) trait Form {
    /// A parameter, as it stands where it is used.
    fn parameter(&mut self, parameter: &Parameter) -> Value;

    /// Adds to the members of an operation what it takes and what it answers.
    fn add_bodies(&mut self, members: &mut Map<String, Value>, bodies: &Bodies<'_>);
}

/// What an operation takes and answers.
pub(super) struct Bodies<'a> {
    /// The body of requests, if they have one.
    pub(super) request: Option<Request<'a>>,
    /// What every successful answer has.
    pub(super) answer: Content<'a>,
    /// Codes of successful answers, with their descriptions.
    pub(super) codes: &'static [(&'static str, &'static str)],
    /// Whether it opens a stream, which takes bytes of any type.
    pub(super) connects: bool,
}

/// The body of a request.
pub(super) struct Request<'a> {
    /// What may be in it.
    pub(super) content: Content<'a>,
    /// Whether a request must have one.
    pub(super) is_required: bool,
}

/// A value in one of several encodings.
pub(super) struct Content<'a> {
    /// The name of its schema; `None` for text.
    pub(super) schema: Option<&'a str>,
    /// The encodings.
    pub(super) media: Vec<&'static str>,
}

/// OpenAPI v3: every operation says all of it.
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
