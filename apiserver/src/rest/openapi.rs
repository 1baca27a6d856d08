//! `/openapi/v3`: the index, and one document per group and version; `/openapi/v2`: one for everything. A document is made when
//! somebody first asks for it, and kept compressed, as JSON and as protobuf. What is in it is `kstore_api::openapi`'s.

use super::accept;
use super::document::{Document, reply};
use crate::cache::Cache;
use crate::kinds::{CustomVersion, Kinds};
use crate::lookup::Lookup;
use crate::pipeline::definition::definitions;
use bytes::Bytes;
use http::header::{HeaderValue, LOCATION};
use http::{HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use kstore_api::openapi::{self, GroupVersion, Part, ResourceDoc, gnostic};
use kstore_api::status::Status;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

const JSON: &str = "application/json";
const V3: &str = "/openapi/v3";
const V2: &str = "/openapi/v2";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
/// Names of old, answered under the new ones.
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// All documents of one server.
pub struct OpenApi {
    index: Document,
    /// By name, such as `apis/apps/v1`.
    documents: BTreeMap<String, Arc<Entry>>,
    swagger: Forms,
}

/// A part of the documentation that changes only as a whole.
struct Entry {
    part: Part,
    /// The definitions of the custom kinds in it, and their revisions.
    definitions: Vec<(String, i64)>,
    fingerprint: String,
    forms: Forms,
}

/// A document in the encodings asked for so far.
#[derive(Default)]
struct Forms {
    json: OnceLock<Document>,
    protobuf: OnceLock<Document>,
}

/// An encoding of a document.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Protobuf,
}

impl OpenApi {
    /// The documents for what is served; none is made yet. What has not changed since `previous` is taken over. `schema` finds the
    /// schema of a custom kind's version, as its author wrote it.
    pub fn new(kinds: &Kinds, previous: Option<&Self>, schema: impl Fn(&CustomVersion) -> Value) -> Self {
        let documents: BTreeMap<String, Arc<Entry>> = parts(kinds, previous, &schema).collect();
        let index = documents.iter().map(|(name, entry)| (name.as_str(), entry.fingerprint.as_str()));
        let index = encoded(&openapi::index(index));
        Self { index: Document::new(JSON, index), documents, swagger: Forms::default() }
    }

    /// The answer to a GET of an OpenAPI path; `None` if the path is none.
    ///
    /// # Errors
    /// 406 if the caller accepts no form of it.
    pub fn answer(
        &self,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<Result<Response<Bytes>, Status>> {
        if path.trim_end_matches('/') == V2 {
            return Some(self.swagger(headers));
        }
        let name = path.strip_prefix(V3)?.trim_matches('/');
        if name.is_empty() {
            return Some(Ok(self.index.respond(headers)));
        }
        let entry = self.documents.get(name)?;
        Some(entry.answer(name, query.unwrap_or_default(), headers, now))
    }

    fn swagger(&self, headers: &HeaderMap) -> Result<Response<Bytes>, Status> {
        let form = form(headers, [V2_PROTOBUF, V2_PROTOBUF_OLD])?;
        let document = || openapi::swagger(self.documents.values().map(|entry| &entry.part));
        let forms = &self.swagger;
        Ok(forms.of(form, V2_PROTOBUF, document, gnostic::v2).respond(headers))
    }
}

impl Entry {
    fn new(part: Part, definitions: Vec<(String, i64)>) -> (String, Arc<Self>) {
        let fingerprint = part.fingerprint();
        (part.name(), Arc::new(Self { part, definitions, fingerprint, forms: Forms::default() }))
    }

    fn answer(
        &self,
        name: &str,
        query: &str,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Response<Bytes>, Status> {
        let form = form(headers, [V3_PROTOBUF, V3_PROTOBUF_OLD])?;
        let document = || self.forms.of(form, V3_PROTOBUF, || self.part.document(), gnostic::v3);
        let hash = query.split('&').find_map(|pair| pair.strip_prefix("hash=")).unwrap_or_default();
        Ok(match hash {
            "" => document().respond(headers),
            hash if hash == self.fingerprint => document().respond_immutable(headers, now),
            // What the caller knows is gone; the address of what is there now says so to its cache.
            _ => moved(&format!("{V3}/{name}?hash={}", self.fingerprint)),
        })
    }
}

impl Forms {
    fn of(
        &self,
        form: Form,
        protobuf: &'static str,
        document: impl Fn() -> Value,
        encode: fn(&Value) -> Vec<u8>,
    ) -> &Document {
        match form {
            Form::Json => self.json.get_or_init(|| Document::new(JSON, encoded(&document()))),
            Form::Protobuf => self.protobuf.get_or_init(|| Document::new(protobuf, encode(&document()))),
        }
    }
}

/// What there is to document: the same as discovery announces.
fn parts(
    kinds: &Kinds,
    previous: Option<&OpenApi>,
    schema: &impl Fn(&CustomVersion) -> Value,
) -> impl Iterator<Item = (String, Arc<Entry>)> {
    let known = move |name: &str, definitions: &[(String, i64)]| {
        let entry = previous?.documents.get(name).filter(|entry| entry.definitions == definitions)?;
        Some((name.to_owned(), entry.clone()))
    };
    let rows = kinds.rows();
    let groups = rows.groups().filter(|group| !group.is_empty()).map(|group| Part::Group(group.into()));
    let fixed = [Part::Versions, Part::Groups, Part::Version, Part::Issuer, Part::Keys].into_iter();
    let plain = fixed.chain(groups).map(move |part| {
        let name = part.name();
        known(&name, &[]).unwrap_or_else(|| Entry::new(part, Vec::new()))
    });
    let versions = rows.groups().flat_map(|group| rows.versions(group).map(move |version| (group, version)));
    let resources = versions.map(move |(group, version)| {
        let rows = || kinds.rows().resources_of(group, version);
        let custom: Vec<_> = rows().filter_map(|row| kinds.custom(row)).collect();
        let definitions: Vec<_> =
            custom.iter().map(|custom| (custom.kind.key.clone(), custom.kind.revision)).collect();
        let gv = GroupVersion { group: group.into(), version: version.into() };
        known(&gv.path(), &definitions).unwrap_or_else(|| {
            let doc = |row| {
                let custom = kinds.custom(row).map(|custom| schema(&custom));
                ResourceDoc { custom, ..ResourceDoc::from(row) }
            };
            Entry::new(Part::Resources(gv, rows().map(doc).collect()), definitions)
        })
    });
    plain.chain(resources)
}

/// The schema that a stored definition has for a version: any object if there is none.
pub(super) fn schema_of(cache: &Cache, custom: &CustomVersion) -> Value {
    let definition = Lookup::get(cache, definitions(), "", &custom.definition().name);
    let versions = definition.as_ref().and_then(|definition| definition["spec"]["versions"].as_array());
    let version = versions.into_iter().flatten().find(|one| one["name"] == *custom.version().name);
    version.map_or(Value::Null, |version| version["schema"]["openAPIV3Schema"].clone())
}

fn form(headers: &HeaderMap, protobuf: [&str; 2]) -> Result<Form, Status> {
    let clauses = accept::clauses(headers);
    let of = |clause: &accept::Clause| {
        if clause.accepts(JSON) {
            return Some(Form::Json);
        }
        protobuf.iter().any(|media| clause.accepts(media)).then_some(Form::Protobuf)
    };
    clauses.iter().find_map(of).ok_or_else(|| Status::not_acceptable(&[JSON, protobuf[0]]))
}

fn encoded(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value has string keys only")
}

fn moved(to: &str) -> Response<Bytes> {
    let mut response = reply(StatusCode::MOVED_PERMANENTLY, JSON, Bytes::new());
    let to = HeaderValue::from_str(to).expect("names and hashes are plain text");
    response.headers_mut().insert(LOCATION, to);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH};

    fn get(openapi: &OpenApi, url: &str) -> Option<Response<Bytes>> {
        get_as(openapi, url, HeaderMap::new())
    }

    fn get_as(openapi: &OpenApi, url: &str, headers: HeaderMap) -> Option<Response<Bytes>> {
        let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        openapi.answer(path, query, &headers, now).map(Result::unwrap)
    }

    fn accept(media: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, media.parse().unwrap())])
    }

    #[test]
    fn the_index_leads_to_documents_that_may_be_kept() {
        let openapi = OpenApi::new(&Kinds::built_in(), None, |_| Value::Null);
        let index: Value = serde_json::from_slice(get(&openapi, "/openapi/v3").unwrap().body()).unwrap();
        let url = index["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap();
        let response = get(&openapi, url).unwrap();
        assert_eq!(response.headers()[CACHE_CONTROL], "public, immutable");
        assert_eq!(response.headers()[EXPIRES], "Fri, 01 Jan 2027 00:00:00 GMT");
        let document: Value = serde_json::from_slice(response.body()).unwrap();
        assert!(document["components"]["schemas"]["io.k8s.api.coordination.v1.Lease"].is_object());
        for name in ["api", "api/v1", "apis", "apis/coordination.k8s.io", "openid/v1/jwks", "version"] {
            let url = index["paths"][name]["serverRelativeURL"].as_str().unwrap_or_else(|| panic!("{name}"));
            if name != "api/v1" {
                let document: Value = serde_json::from_slice(get(&openapi, url).unwrap().body()).unwrap();
                assert_eq!(document["paths"].as_object().unwrap().len(), 1, "{name}");
            }
        }
    }

    #[test]
    fn an_old_hash_is_redirected_and_no_hash_is_answered() {
        let openapi = OpenApi::new(&Kinds::built_in(), None, |_| Value::Null);
        let moved = get(&openapi, "/openapi/v3/apis/coordination.k8s.io/v1?hash=OLD").unwrap();
        assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
        let target = moved.headers()[LOCATION].to_str().unwrap().to_owned();
        assert_eq!(get(&openapi, &target).unwrap().status(), StatusCode::OK);
        let plain = get(&openapi, "/openapi/v3/apis/coordination.k8s.io/v1").unwrap();
        assert_eq!((plain.status(), plain.headers().get(EXPIRES)), (StatusCode::OK, None));
        let known = HeaderMap::from_iter([(IF_NONE_MATCH, plain.headers()[ETAG].clone())]);
        let again = get_as(&openapi, "/openapi/v3/apis/coordination.k8s.io/v1", known).unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn documents_come_in_protobuf_to_those_who_ask_for_it() {
        let openapi = OpenApi::new(&Kinds::built_in(), None, |_| Value::Null);
        let url = "/openapi/v3/apis/coordination.k8s.io/v1";
        for media in [V3_PROTOBUF, V3_PROTOBUF_OLD] {
            let response = get_as(&openapi, url, accept(media)).unwrap();
            assert_eq!(response.headers()[CONTENT_TYPE], V3_PROTOBUF);
            assert_eq!(response.body()[..7], *b"\x0a\x053.0.0");
        }
        let both = format!("{V3_PROTOBUF}, application/json");
        assert_eq!(get_as(&openapi, url, accept(&both)).unwrap().headers()[CONTENT_TYPE], V3_PROTOBUF);
    }

    #[test]
    fn v2_is_served_in_both_encodings() {
        let openapi = OpenApi::new(&Kinds::built_in(), None, |_| Value::Null);
        let json = get(&openapi, "/openapi/v2").unwrap();
        assert_eq!(
            (&json.headers()[CONTENT_TYPE], json.headers()[ETAG].len() > 100),
            (&HeaderValue::from_static(JSON), true)
        );
        let json: Value = serde_json::from_slice(json.body()).unwrap();
        assert!(json["definitions"].as_object().unwrap().len() > 500);
        assert!(json["paths"]["/version/"].is_object());
        let protobuf = get_as(&openapi, "/openapi/v2", accept(V2_PROTOBUF_OLD)).unwrap();
        assert_eq!(protobuf.headers()[CONTENT_TYPE], V2_PROTOBUF);
        assert_eq!(protobuf.body()[..5], *b"\x0a\x032.0");
    }

    #[test]
    fn other_paths_and_types_are_not_answered() {
        let openapi = OpenApi::new(&Kinds::built_in(), None, |_| Value::Null);
        assert!(get(&openapi, "/openapi/v3/apis/nobody/v1").is_none());
        assert!(get(&openapi, "/openapi/v1").is_none());
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let other = accept("application/x-protobuf");
        assert_eq!(openapi.answer("/openapi/v3/version", None, &other, now).unwrap().unwrap_err().code, 406);
    }
}
