//! Content negotiation: the form of an answer and the encoding of a body. Pure.

use super::accept::{self, Clause};
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use kstore_api::patch::PatchType;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::wire::protobuf;
use kstore_registry::cache::MetaVersion;
use kstore_registry::request::Format;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = protobuf::MEDIA_TYPE;

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON, compact.
    Json,
    /// JSON, indented.
    PrettyJson,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf.
    Protobuf,
}

impl Encoding {
    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
        }
    }
}

/// The transformation of the objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The object itself.
    None,
    /// A table of rows for people.
    Table(MetaVersion),
    /// The metadata of objects only.
    Partial(MetaVersion),
}

/// The negotiated form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The encoding of the body.
    pub encoding: Encoding,
    /// The transformation of the objects.
    pub transform: Transform,
}

/// The forms that an endpoint can serve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Whether objects can be shown as table rows.
    pub tables: bool,
    /// Whether objects have a protobuf encoding.
    pub protobuf: bool,
    /// Whether the answer is a stream.
    pub stream: bool,
}

impl Offer {
    /// The forms of a resource's endpoint, or of one of its subresources.
    pub(super) fn of(resource: &Resource, subresource: &str, stream: bool) -> Self {
        let below = resource.subresource(subresource);
        let kind = below.map_or(resource.kind, |sub| sub.kind);
        let shown = below.is_none() || kind == resource.kind || kind == "Scale";
        Self {
            // ComponentStatus is the only readable kind that is not stored.
            tables: (resource.is_stored() || resource.kind == "ComponentStatus") && shown,
            protobuf: resource.body_type(subresource).is_some(),
            stream,
        }
    }

    /// The forms of a Status.
    const STATUS: Self = Self { tables: false, protobuf: true, stream: false };

    fn encodings(self) -> impl Iterator<Item = Encoding> {
        let yaml = (!self.stream).then_some(Encoding::Yaml);
        let protobuf = self.protobuf.then_some(Encoding::Protobuf);
        [Some(Encoding::Json), yaml, protobuf].into_iter().flatten()
    }

    fn refusal(self) -> Status {
        match self.stream {
            true => Status::not_acceptable(&[
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ]),
            false => Status::not_acceptable(&[JSON, YAML, PROTOBUF]),
        }
    }
}

/// Negotiates a form: the first clause of `Accept` (by quality, then order) that can be served. `pretty` is
/// the query parameter.
pub(super) fn accepted(headers: &HeaderMap, pretty: Option<bool>, offer: Offer) -> Result<Accepted, Status> {
    let clauses = accept::clauses(headers);
    let found = clauses.iter().find_map(|clause| {
        let accepted = offer.encodings().filter(|encoding| clause.accepts(encoding.content_type()));
        accepted.filter_map(|encoding| serve(clause, encoding, offer)).next()
    });
    let (mut accepted, is_pretty) = found.ok_or_else(|| offer.refusal())?;
    let indented = is_pretty || pretty.unwrap_or_else(|| is_interactive(headers));
    if accepted.encoding == Encoding::Json && indented && !offer.stream {
        accepted.encoding = Encoding::PrettyJson;
    }
    Ok(accepted)
}

/// The encoding of a refusal before a form was negotiated.
pub(super) fn of_status(headers: &HeaderMap) -> Encoding {
    accepted(headers, None, Offer::STATUS).map_or(Encoding::Json, |accepted| accepted.encoding)
}

/// The form of a clause in an encoding, and whether the clause asks for indented text; `None` if it cannot be
/// served.
fn serve(clause: &Clause, encoding: Encoding, offer: Offer) -> Option<(Accepted, bool)> {
    let [kind, group, version, stream] = ["as", "g", "v", "stream"].map(|name| clause.parameter(name));
    if !stream.is_empty() && (stream != "watch" || encoding == Encoding::Yaml) {
        return None;
    }
    let meta = (group == "meta.k8s.io").then(|| MetaVersion::parse(version)).flatten();
    let transform = match (kind, meta) {
        ("", _) if group.is_empty() && version.is_empty() => Transform::None,
        ("Table", Some(version)) if offer.tables && encoding != Encoding::Protobuf => {
            Transform::Table(version)
        }
        ("PartialObjectMetadata" | "PartialObjectMetadataList", Some(version)) => Transform::Partial(version),
        _ => return None,
    };
    Some((Accepted { encoding, transform }, clause.parameter("pretty") == "1"))
}

/// The encoding of a request body; JSON if the header is absent.
pub(super) fn body_format(headers: &HeaderMap) -> Result<Format, Status> {
    match media_type(headers) {
        "" | JSON | "*/*" => Ok(Format::Json),
        YAML | "application/x-yaml" | "text/yaml" => Ok(Format::Yaml),
        PROTOBUF => Ok(Format::Protobuf),
        _ => Err(Status::unsupported_media_type(&[JSON, YAML, PROTOBUF])),
    }
}

/// The patch type of a request body.
pub(super) fn patch_type(headers: &HeaderMap) -> Result<PatchType, Status> {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let all = PatchType::ALL.map(PatchType::media_type);
    PatchType::from_content_type(header).ok_or_else(|| Status::unsupported_media_type(&all))
}

/// Whether the client accepts gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let header = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(',').any(|coding| coding.split(';').next().is_some_and(|c| c.trim() == "gzip"))
}

fn media_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim()
}

/// Whether the client is a terminal program or a browser: Kubernetes indents JSON for these.
fn is_interactive(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::ACCEPT;
    use kstore_api::kind;

    const POD: Offer = Offer { tables: true, protobuf: true, stream: false };

    fn agree(accept: &'static str, offer: Offer) -> Option<(Encoding, Transform)> {
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        accepted(&headers, None, offer).ok().map(|a| (a.encoding, a.transform))
    }

    #[test]
    fn the_preferred_clause_that_can_be_served_is_chosen() {
        use Encoding::{Json, PrettyJson, Protobuf, Yaml};
        let table = Transform::Table(MetaVersion::V1);
        let partial = Transform::Partial(MetaVersion::V1Beta1);
        let cases = [
            ("", Some((Json, Transform::None))),
            ("*/*", Some((Json, Transform::None))),
            ("application/*", Some((Json, Transform::None))),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some((Json, table))),
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Some((Yaml, table))),
            ("*/*;as=Table;v=v1;g=meta.k8s.io", Some((Json, table))),
            // Clauses that cannot be served are skipped, not refused.
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some((Json, Transform::None))),
            ("application/json;as=Table;v=v1,application/yaml", Some((Yaml, Transform::None))),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,*/*",
                Some((Json, Transform::None)),
            ),
            ("application/vnd.kubernetes.protobuf,application/json", Some((Protobuf, Transform::None))),
            ("application/json;q=0.5,application/yaml", Some((Yaml, Transform::None))),
            ("application/json;pretty=1", Some((PrettyJson, Transform::None))),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
                Some((Protobuf, partial)),
            ),
            ("image/png", None),
            ("application/json;as=Gadget;g=meta.k8s.io;v=v1", None),
        ];
        for (accept, want) in cases {
            assert_eq!(agree(accept, POD), want, "{accept}");
        }
    }

    #[test]
    fn forms_depend_on_the_endpoint() {
        let no_protobuf = Offer { protobuf: false, ..POD };
        let both = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(agree(both, no_protobuf), Some((Encoding::Json, Transform::None)));
        let stream = Offer { stream: true, ..POD };
        assert_eq!(agree("application/yaml", stream), None);
        let protobuf = Some((Encoding::Protobuf, Transform::None));
        assert_eq!(agree("application/vnd.kubernetes.protobuf;stream=watch", stream), protobuf);
        let review =
            Offer::of(kind::lookup("authorization.k8s.io", "v1", "subjectaccessreviews").unwrap(), "", false);
        assert_eq!(agree("application/json;as=Table;v=v1;g=meta.k8s.io", review), None);
        let deployments = kind::lookup("apps", "v1", "deployments").unwrap();
        for (sub, tables) in [("", true), ("status", true), ("scale", true)] {
            assert_eq!(Offer::of(deployments, sub, false).tables, tables, "{sub}");
        }
        assert!(!Offer::of(kind::lookup("", "v1", "pods").unwrap(), "binding", false).tables);
    }

    #[test]
    fn json_is_indented_for_browsers_and_curl_unless_disabled() {
        let headers = HeaderMap::from_iter([(USER_AGENT, "curl/8".parse().unwrap())]);
        let encoding = |pretty| accepted(&headers, pretty, POD).unwrap().encoding;
        assert_eq!((encoding(None), encoding(Some(false))), (Encoding::PrettyJson, Encoding::Json));
        let program = accepted(&HeaderMap::new(), Some(true), POD).unwrap();
        assert_eq!(program.encoding, Encoding::PrettyJson);
    }
}
