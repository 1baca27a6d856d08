//! Content negotiation (apiserver.md §1.3): which form an answer takes, and what encoding a body has. Pure.

use crate::request::Format;
use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use kstore_api::patch::PatchType;
use kstore_api::status::Status;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON, compact.
    Json,
    /// JSON, indented.
    PrettyJson,
    /// YAML.
    Yaml,
}

impl Encoding {
    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson => JSON,
            Self::Yaml => YAML,
        }
    }
}

/// What an answer is made into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The object itself.
    None,
    /// Rows for people; the version of the Table.
    Table(String),
    /// Only the metadata; the version.
    Partial(String),
}

/// The form that was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The encoding.
    pub encoding: Encoding,
    /// The transformation.
    pub transform: Transform,
}

/// Agrees on a form: the first clause of `Accept` (by quality, then order) that can be served.
pub(super) fn accepted(headers: &HeaderMap, pretty: bool) -> Result<Accepted, Status> {
    let header = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut clauses: Vec<Clause> =
        header.split(',').map(Clause::parse).filter(|c| !c.media.is_empty()).collect();
    if clauses.is_empty() {
        clauses.push(Clause::parse(JSON));
    }
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality));
    let found = clauses.iter().find_map(Clause::serve);
    let mut accepted = found.ok_or_else(|| Status::not_acceptable(&[JSON, YAML]))?;
    if accepted.encoding == Encoding::Json && (pretty || is_interactive(headers)) {
        accepted.encoding = Encoding::PrettyJson;
    }
    Ok(accepted)
}

/// The encoding of a request body; absent means JSON.
pub(super) fn body_format(headers: &HeaderMap) -> Result<Format, Status> {
    match media_type(headers) {
        "" | JSON | "*/*" => Ok(Format::Json),
        YAML | "application/x-yaml" | "text/yaml" => Ok(Format::Yaml),
        PROTOBUF => Ok(Format::Protobuf),
        _ => Err(Status::unsupported_media_type(&[JSON, YAML, PROTOBUF])),
    }
}

/// The algorithm of a patch body.
pub(super) fn patch_type(headers: &HeaderMap) -> Result<PatchType, Status> {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let all = PatchType::ALL.map(PatchType::media_type);
    PatchType::from_content_type(header).ok_or_else(|| Status::unsupported_media_type(&all))
}

/// Whether the client takes gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let header = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(',').any(|coding| coding.split(';').next().is_some_and(|c| c.trim() == "gzip"))
}

fn media_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim()
}

/// A person at a terminal or a browser: Kubernetes indents for them.
fn is_interactive(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

/// One clause of `Accept`.
struct Clause<'a> {
    media: &'a str,
    quality: u32,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause =
            Self { media: parts.next().unwrap_or_default(), quality: 1000, group: "", version: "", kind: "" };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "q" => clause.quality = value.parse::<f64>().map_or(1000, |q| (q * 1000.0) as u32),
                "g" => clause.group = value,
                "v" => clause.version = value,
                "as" => clause.kind = value,
                _ => {}
            }
        }
        clause
    }

    fn serve(&self) -> Option<Accepted> {
        let encoding = match self.media {
            JSON | "*/*" | "application/*" => Encoding::Json,
            YAML => Encoding::Yaml,
            _ => return None,
        };
        let of_meta = self.group == "meta.k8s.io" && matches!(self.version, "v1" | "v1beta1");
        let transform = match self.kind {
            "" => Transform::None,
            "Table" if of_meta => Transform::Table(self.version.to_owned()),
            "PartialObjectMetadata" | "PartialObjectMetadataList" if of_meta => {
                Transform::Partial(self.version.to_owned())
            }
            _ => return None,
        };
        Some(Accepted { encoding, transform })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(accept: &'static str) -> Option<(Encoding, Transform)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        accepted(&headers, false).ok().map(|a| (a.encoding, a.transform))
    }

    #[test]
    fn the_best_clause_that_can_be_served_wins() {
        let table = Transform::Table("v1".into());
        let partial = Transform::Partial("v1".into());
        let cases = [
            ("", Some((Encoding::Json, Transform::None))),
            ("*/*", Some((Encoding::Json, Transform::None))),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some((Encoding::Json, table))),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
                Some((Encoding::Json, Transform::None)),
            ),
            ("application/vnd.kubernetes.protobuf,application/json", Some((Encoding::Json, Transform::None))),
            ("application/json;q=0.5,application/yaml", Some((Encoding::Yaml, Transform::None))),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Some((Encoding::Json, partial)),
            ),
            ("image/png", None),
        ];
        for (accept, want) in cases {
            assert_eq!(agree(accept), want, "{accept}");
        }
    }
}
