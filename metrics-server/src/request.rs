//! Parsing of requests: path, query and Accept header. Pure.

use crate::discovery::AGGREGATED;
use crate::openapi::Document;
use crate::resource::{GROUP, Resource};
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, Method};
use kstore_api::selector::{field, label};
use kstore_api::status::Status;

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedRequest {
    /// All groups, as aggregated discovery.
    AggregatedGroups,
    /// All groups, as a list.
    Groups(Encoding),
    /// The group and its version.
    Group(Encoding),
    /// The resources of a version.
    Resources(&'static str, Encoding),
    /// An OpenAPI document.
    OpenApi { document: Document, is_protobuf: bool },
    /// One object.
    Object { version: &'static str, resource: Resource, namespace: String, name: String, form: Form },
    /// The objects that the selectors match.
    List {
        version: &'static str,
        resource: Resource,
        namespace: String,
        labels: String,
        fields: String,
        form: Form,
    },
}

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

/// The form of objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// The encoding.
    pub encoding: Encoding,
    /// Present if the objects are requested as a table.
    pub table: Option<TableForm>,
}

/// A `Table` of a version of meta.k8s.io.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableForm {
    /// The version, such as `meta.k8s.io/v1`.
    pub version: &'static str,
    /// The objects in the table's rows.
    pub rows: RowObjects,
}

/// The objects that a table's rows include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowObjects {
    None,
    Metadata,
    Whole,
}

impl ParsedRequest {
    /// Parses a request to a server with these versions.
    ///
    /// # Errors
    /// The error response of a request that is not served.
    pub(crate) fn of(request: &Parts, versions: &'static [&'static str]) -> Result<Self, Status> {
        let path: Vec<&str> = request.uri.path().trim_matches('/').split('/').collect();
        let query = Query::parse(request.uri.query().unwrap_or_default());
        let below = match path[..] {
            ["openapi", ..] => return Self::of_openapi(&path, request, versions),
            ["apis"] | ["apis", GROUP] => return Self::of_discovery(&path, None, request),
            ["apis", GROUP, version, ref below @ ..] => {
                versions.iter().find(|own| **own == version).map(|own| (*own, below))
            }
            _ => None,
        };
        let Some((version, below)) = below else { return Err(Status::no_such_route()) };
        let (resource, namespace, name) = match *below {
            [] => return Self::of_discovery(&path, Some(version), request),
            ["nodes"] => (Resource::Nodes, "", None),
            ["nodes", name] => (Resource::Nodes, "", Some(name)),
            ["pods"] => (Resource::Pods, "", None),
            ["namespaces", namespace, "pods"] => (Resource::Pods, namespace, None),
            ["namespaces", namespace, "pods", name] => (Resource::Pods, namespace, Some(name)),
            _ => return Err(Status::no_such_route()),
        };
        let verb = verb(&request.method, name.is_some(), query.is_set("watch"));
        if !matches!(verb, "get" | "list") {
            return Err(Status::method_not_allowed((GROUP, resource.plural()), verb));
        }
        let form = form(&request.headers, &query)?;
        let namespace = decode(namespace);
        if let Some(name) = name {
            return Ok(Self::Object { version, resource, namespace, name: decode(name), form });
        }
        let (labels, fields) = (query.get("labelSelector").to_owned(), query.get("fieldSelector").to_owned());
        check_selectors(resource, &labels, &fields)?;
        Ok(Self::List { version, resource, namespace, labels, fields, form })
    }
}

impl ParsedRequest {
    fn of_discovery(path: &[&str], version: Option<&'static str>, request: &Parts) -> Result<Self, Status> {
        readable(&request.method)?;
        let clauses = clauses(&request.headers);
        let encoding = clauses.iter().find_map(Clause::encoding).unwrap_or(Encoding::Json);
        Ok(match (path.len(), version) {
            (_, Some(version)) => Self::Resources(version, encoding),
            (1, None) if takes_aggregated(&clauses) => Self::AggregatedGroups,
            (1, None) => Self::Groups(encoding),
            _ => Self::Group(encoding),
        })
    }

    fn of_openapi(path: &[&str], request: &Parts, versions: &'static [&'static str]) -> Result<Self, Status> {
        let document = match *path {
            ["openapi", "v2"] => Document::V2(versions),
            ["openapi", "v3"] => Document::Index(versions),
            ["openapi", "v3", "apis", GROUP, version] => {
                let own = versions.iter().find(|own| **own == version);
                Document::V3(own.ok_or_else(Status::no_such_route)?)
            }
            _ => return Err(Status::no_such_route()),
        };
        readable(&request.method)?;
        let is_protobuf = |clause: &Clause| match clause.encoding() {
            Some(Encoding::Json) => Some(false),
            _ => document.protobuf().is_some_and(|media| clause.media == media).then_some(true),
        };
        let accepted = clauses(&request.headers).iter().find_map(is_protobuf);
        let is_protobuf = accepted.ok_or_else(|| Status::not_acceptable(&["application/json"]))?;
        Ok(Self::OpenApi { document, is_protobuf })
    }
}

fn readable(method: &Method) -> Result<(), Status> {
    match *method {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(Status::method_not_allowed((GROUP, ""), method.as_str())),
    }
}

/// The Kubernetes verb of a request.
fn verb(method: &Method, is_one: bool, is_watch: bool) -> &'static str {
    match (method, is_one) {
        (&Method::GET | &Method::HEAD, _) if is_watch => "watch",
        (&Method::GET | &Method::HEAD, true) => "get",
        (&Method::GET | &Method::HEAD, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => "",
    }
}

fn check_selectors(resource: Resource, labels: &str, fields: &str) -> Result<(), Status> {
    label::Selector::parse(labels).map_err(|error| Status::bad_request(error.to_string()))?;
    let fields = field::Selector::parse(fields).map_err(|error| Status::bad_request(error.to_string()))?;
    match fields.terms().iter().find(|term| !resource.has_field(&term.field)) {
        None => Ok(()),
        Some(term) => Err(Status::bad_request(format!("field label not supported: {}", term.field))),
    }
}

/// The decoded parameters of a URL. The first value of a repeated parameter counts.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decoded = |text: &str| decode(&text.replace('+', " "));
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(key, value)| (decoded(key), decoded(value)))
                .collect(),
        )
    }

    fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(other, _)| other == key).map_or("", |(_, value)| value)
    }

    /// Parses a flag as Kubernetes does: present, and neither `false` nor `0`.
    fn is_set(&self, key: &str) -> bool {
        let found = self.0.iter().find(|(other, _)| other == key);
        found.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// Decodes percent escapes. Malformed escapes stay unchanged; bytes that are not UTF-8 become replacement
/// characters, which no name has.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        let digits =
            tail.get(..2).filter(|_| *byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A clause of an Accept header.
struct Clause {
    media: String,
    parameters: Vec<(String, String)>,
    quality: f32,
}

impl Clause {
    fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let mut clause = Self { media, parameters: Vec::new(), quality: 1.0 };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                _ => clause.parameters.push((key.to_owned(), value.to_owned())),
            }
        }
        clause
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The encoding that the clause accepts; `None` if this server lacks it.
    fn encoding(&self) -> Option<Encoding> {
        match &*self.media {
            "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            _ => None,
        }
    }
}

/// The clauses of the Accept header, best first; without a header, a clause that accepts anything.
fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let texts = texts.flat_map(|text| text.split(',')).filter(|text| !text.trim().is_empty());
    let mut clauses: Vec<Clause> = texts.map(Clause::parse).collect();
    if clauses.is_empty() {
        clauses.push(Clause::parse("*/*"));
    }
    clauses.retain(|clause| clause.quality > 0.0);
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

fn takes_aggregated(clauses: &[Clause]) -> bool {
    let wanted = Clause::parse(AGGREGATED);
    let is_wanted = |clause: &Clause| {
        clause.encoding() == Some(Encoding::Json)
            && wanted.parameters.iter().all(|(key, value)| clause.parameter(key) == value)
    };
    clauses.iter().any(is_wanted)
}

/// The first served form that the client accepts. Unsupported forms are skipped, as Kubernetes does.
fn form(headers: &HeaderMap, query: &Query) -> Result<Form, Status> {
    for clause in clauses(headers) {
        let Some(encoding) = clause.encoding() else { continue };
        let version = match clause.parameter("v") {
            "v1" => "meta.k8s.io/v1",
            "v1beta1" => "meta.k8s.io/v1beta1",
            _ => "",
        };
        match clause.parameter("as") {
            "" => return Ok(Form { encoding, table: None }),
            "Table" if clause.parameter("g") == "meta.k8s.io" && !version.is_empty() => {
                let rows = row_objects(query)?;
                return Ok(Form { encoding, table: Some(TableForm { version, rows }) });
            }
            _ => {}
        }
    }
    Err(Status::not_acceptable(&["application/json", "application/yaml"]))
}

fn row_objects(query: &Query) -> Result<RowObjects, Status> {
    match query.get("includeObject") {
        "None" => Ok(RowObjects::None),
        "" | "Metadata" => Ok(RowObjects::Metadata),
        "Object" => Ok(RowObjects::Whole),
        other => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::VERSION;
    use http::Request;
    use kstore_api::openapi::gnostic;

    const JSON: Form = Form { encoding: Encoding::Json, table: None };

    fn ask(method: &str, target: &str, accept: &str) -> Result<ParsedRequest, Status> {
        let request = Request::builder().method(method).uri(target).header(ACCEPT, accept);
        ParsedRequest::of(&request.body(()).unwrap().into_parts().0, &[VERSION])
    }

    fn list(resource: Resource, namespace: &str, labels: &str, fields: &str) -> ParsedRequest {
        let text = str::to_owned;
        ParsedRequest::List {
            version: VERSION,
            resource,
            namespace: text(namespace),
            labels: text(labels),
            fields: text(fields),
            form: JSON,
        }
    }

    #[test]
    fn paths_name_documents_objects_and_lists() {
        let object = |resource, namespace: &str, name: &str| ParsedRequest::Object {
            version: VERSION,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            form: JSON,
        };
        let openapi = |document| ParsedRequest::OpenApi { document, is_protobuf: false };
        let cases = [
            ("/apis", ParsedRequest::Groups(Encoding::Json)),
            ("/apis/metrics.k8s.io/", ParsedRequest::Group(Encoding::Json)),
            ("/apis/metrics.k8s.io/v1beta1", ParsedRequest::Resources(VERSION, Encoding::Json)),
            ("/openapi/v2", openapi(Document::V2(&[VERSION]))),
            ("/openapi/v3", openapi(Document::Index(&[VERSION]))),
            ("/openapi/v3/apis/metrics.k8s.io/v1beta1?hash=AB", openapi(Document::V3(VERSION))),
            ("/apis/metrics.k8s.io/v1beta1/nodes", list(Resource::Nodes, "", "", "")),
            ("/apis/metrics.k8s.io/v1beta1/nodes/n%2D0", object(Resource::Nodes, "", "n-0")),
            ("/apis/metrics.k8s.io/v1beta1/pods?limit=500", list(Resource::Pods, "", "", "")),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods?labelSelector=app%3Dweb%2Ctier+in+(x)&watch=false",
                list(Resource::Pods, "a", "app=web,tier in (x)", ""),
            ),
            (
                "/apis/metrics.k8s.io/v1beta1/pods?fieldSelector=metadata.namespace!%3Da,metadata.name%3Db",
                list(Resource::Pods, "", "", "metadata.namespace!=a,metadata.name=b"),
            ),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/web", object(Resource::Pods, "a", "web")),
        ];
        for (target, wanted) in cases {
            assert_eq!(ask("GET", target, "*/*"), Ok(wanted.clone()), "{target}");
            assert_eq!(ask("HEAD", target, "application/json"), Ok(wanted), "{target}");
        }
    }

    #[test]
    fn requests_that_are_not_served_are_refused_with_a_status() {
        let nodes = "/apis/metrics.k8s.io/v1beta1/nodes";
        let pods = "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods";
        let deletion = "delete is not supported on resources of kind \"pods.metrics.k8s.io\"";
        let cases = [
            ("GET", "/", "*/*", 404, "the server could not find the requested resource"),
            ("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/a/nodes", "*/*", 404, ""),
            ("GET", "/apis/metrics.k8s.io/v1beta1/nodes/a/status", "*/*", 404, ""),
            ("GET", "/apis/metrics.k8s.io/v1/nodes", "*/*", 404, ""),
            ("POST", "/apis/metrics.k8s.io/v1beta1", "*/*", 405, ""),
            ("DELETE", &format!("{pods}/web"), "*/*", 405, deletion),
            (
                "POST",
                nodes,
                "*/*",
                405,
                "create is not supported on resources of kind \"nodes.metrics.k8s.io\"",
            ),
            ("GET", &format!("{nodes}?watch=1"), "*/*", 405, "watch is not supported"),
            ("GET", nodes, "application/vnd.kubernetes.protobuf", 406, "application/json"),
            ("GET", "/openapi/v3/apis/metrics.k8s.io/v1", "*/*", 404, ""),
            ("POST", "/openapi/v2", "*/*", 405, ""),
            ("GET", "/openapi/v2", "application/yaml", 406, "application/json"),
            ("GET", "/openapi/v3", gnostic::V3_MEDIA, 406, "application/json"),
            ("GET", nodes, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", 406, ""),
            ("GET", nodes, "application/json;q=0", 406, ""),
            ("GET", &format!("{nodes}?labelSelector=a%3D%3D%3Db"), "*/*", 400, ""),
            (
                "GET",
                &format!("{nodes}?fieldSelector=metadata.namespace%3Da"),
                "*/*",
                400,
                "metadata.namespace",
            ),
            ("GET", &format!("{pods}?fieldSelector=spec.nodeName%3Da"), "*/*", 400, "spec.nodeName"),
        ];
        for (method, target, accept, code, text) in cases {
            let status = ask(method, target, accept).expect_err(target);
            assert_eq!(status.code, code, "{method} {target}: {status:?}");
            assert!(status.message.contains(text), "{method} {target}: {status:?}");
        }
    }

    #[test]
    fn the_accept_header_chooses_between_encodings_tables_and_aggregated_discovery() {
        let nodes = "/apis/metrics.k8s.io/v1beta1/nodes";
        let form = |accept: &str, query: &str| match ask("GET", &format!("{nodes}?{query}"), accept).unwrap()
        {
            ParsedRequest::List { form, .. } => form,
            other => panic!("{other:?}"),
        };
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let table =
            |version, rows| Form { encoding: Encoding::Json, table: Some(TableForm { version, rows }) };
        assert_eq!(form(kubectl, ""), table("meta.k8s.io/v1", RowObjects::Metadata));
        assert_eq!(form(kubectl, "includeObject=Object"), table("meta.k8s.io/v1", RowObjects::Whole));
        assert_eq!(
            form("application/json;as=Table;v=v1beta1;g=meta.k8s.io", "includeObject=None"),
            table("meta.k8s.io/v1beta1", RowObjects::None)
        );
        assert_eq!(form("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", ""), JSON);
        assert_eq!(form("application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io", ""), {
            table("meta.k8s.io/v1", RowObjects::Metadata)
        });
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json", ""), JSON);
        let yaml = Form { encoding: Encoding::Yaml, table: None };
        assert_eq!(form("application/yaml,application/json;q=0.9", ""), yaml);
        assert_eq!(
            form("application/yaml;as=Table;v=v1;g=meta.k8s.io", ""),
            Form { encoding: Encoding::Yaml, ..table("meta.k8s.io/v1", RowObjects::Metadata) }
        );
        for (accept, wanted) in [
            (AGGREGATED, ParsedRequest::AggregatedGroups),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
                ParsedRequest::Groups(Encoding::Json),
            ),
            ("application/json", ParsedRequest::Groups(Encoding::Json)),
            ("application/yaml", ParsedRequest::Groups(Encoding::Yaml)),
        ] {
            assert_eq!(ask("GET", "/apis", accept), Ok(wanted), "{accept}");
        }
        let v3 = "/openapi/v3/apis/metrics.k8s.io/v1beta1";
        for (accept, is_protobuf) in [(gnostic::V3_MEDIA, true), ("application/json", false)] {
            let wanted = ParsedRequest::OpenApi { document: Document::V3(VERSION), is_protobuf };
            assert_eq!(ask("GET", v3, accept), Ok(wanted), "{accept}");
        }
    }

    #[test]
    fn percent_escapes_are_decoded_and_other_percent_signs_stay() {
        for (text, wanted) in [("a%2Fb", "a/b"), ("%", "%"), ("%zz", "%zz"), ("%+1", "%+1"), ("%C3%A4", "ä")]
        {
            assert_eq!(decode(text), wanted);
        }
    }
}
