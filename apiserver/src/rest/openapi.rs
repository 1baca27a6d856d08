//! `/openapi/v3`: the index, and one document per group and version; `/openapi/v2`: one document for
//! everything. A document is built when a client first requests it, and kept compressed, as JSON and as
//! protobuf. A change of a definition rebuilds the documents of its own group only, and its own part of v2.
//! `kstore_api::openapi` defines the contents.

use super::accept;
use super::chunk::Chunk;
use super::document::{Document, reply};
use crate::aggregator::{AggregatedApi, AggregatedApis, ApiDocuments};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use http::{HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use kstore_api::openapi::{
    self, DocumentScope, GroupVersion, Piece, ResourceDoc, definition as crd, gnostic,
};
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_pipeline::pipeline::definition::definitions;
use kstore_registry::cache::Cache;
use kstore_registry::entry::Entry as Stored;
use kstore_registry::kinds::{CustomVersion, Kinds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// The largest number of threads that build one document.
const THREADS: usize = 4;
/// Pieces of custom kinds whose building takes longer than starting a thread.
const WORTH_A_THREAD: usize = 8;
/// Pieces of the built-in part, so that several threads can build them: the models, and about the same number
/// of paths in each of the others.
const BUILT_IN_PIECES: usize = 4;
const JSON: &str = "application/json";
const V3: &str = "/openapi/v3";
const V2: &str = "/openapi/v2";
const V2_PROTOBUF: &str = gnostic::V2_MEDIA;
const V3_PROTOBUF: &str = gnostic::V3_MEDIA;
/// Deprecated media types, answered with the present ones.
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// All OpenAPI documents of one server.
pub struct OpenApi {
    /// The version of Kubernetes that the v2 document states.
    minor: Minor,
    index: Document,
    /// Documents by name, such as `apis/apps/v1`.
    documents: BTreeMap<String, DocumentEntry>,
    /// The v2 document of built-in kinds, in [`BUILT_IN_PIECES`].
    built_in: Arc<OnceLock<Vec<Chunked>>>,
    /// The documents of aggregated API servers.
    aggregated: Vec<Arc<ApiDocuments>>,
    swagger: Arc<EncodedDocuments>,
}

/// The v3 document of a group and version, or of a few paths outside of groups.
struct DocumentEntry {
    /// Storage keys and revisions of the definitions of its custom kinds.
    definitions: Vec<(String, i64)>,
    content: Arc<DocumentContent>,
}

/// The content of a v3 document and of the corresponding part of v2; it is built as a whole.
struct DocumentContent {
    /// The built-in part.
    part: Option<DocumentScope>,
    custom: Vec<CustomDoc>,
    fingerprint: String,
    forms: EncodedDocuments,
    /// The part of v2 with its custom kinds.
    piece: OnceLock<Chunked>,
}

/// A part of the v2 document in chunks.
struct Chunked {
    /// Shared parameters in JSON, by name.
    parameters: BTreeMap<String, String>,
    paths: Arc<Chunk>,
    definitions: Arc<Chunk>,
}

/// A version of a custom kind and its stored definition, which has the schema as its author wrote it.
pub(super) struct CustomDoc {
    version: CustomVersion,
    stored: Option<Arc<Stored>>,
}

/// A document in the encodings requested so far.
#[derive(Default)]
struct EncodedDocuments {
    json: OnceLock<Document>,
    protobuf: OnceLock<Document>,
}

#[derive(Clone, Copy)]
enum DocumentEncoding {
    Json,
    Protobuf,
}

impl OpenApi {
    /// The documents for all kinds; they are built on demand. Contents that have not changed since `previous`
    /// are reused. `stored` returns the stored definition of a custom kind.
    pub(crate) fn new(
        kinds: &Kinds,
        apis: &AggregatedApis,
        previous: Option<&Self>,
        stored: impl Fn(&CustomVersion) -> Option<Arc<Stored>>,
    ) -> Self {
        let mut documents: BTreeMap<String, DocumentEntry> = entries(kinds, previous, &stored).collect();
        let remotes: Vec<(String, AggregatedApi)> =
            apis.apis.iter().map(|remote| (remote.service.path()[1..].to_owned(), remote.clone())).collect();
        remotes.iter().for_each(|(name, _)| drop(documents.remove(name)));
        let here = documents.iter().map(|(name, entry)| (name.as_str(), entry.content.fingerprint.as_str()));
        let there = remotes.iter().filter_map(|(name, remote)| {
            Some((name.as_str(), remote.documents.as_ref()?.openapi_hash.as_deref()?))
        });
        let fingerprints: BTreeMap<&str, &str> = here.chain(there).collect();
        let index = Document::new(JSON, encoded(&openapi::index(fingerprints)));
        let aggregated: Vec<_> = remotes.iter().filter_map(|(_, remote)| remote.documents.clone()).collect();
        let same = |previous: &&Self| {
            let contents = |all: &BTreeMap<String, DocumentEntry>| {
                all.values().map(|entry| Arc::as_ptr(&entry.content)).collect::<Vec<_>>()
            };
            let said = |all: &[Arc<ApiDocuments>]| all.iter().map(Arc::as_ptr).collect::<Vec<_>>();
            contents(&previous.documents) == contents(&documents)
                && said(&previous.aggregated) == said(&aggregated)
        };
        let swagger = previous.filter(same).map(|previous| previous.swagger.clone()).unwrap_or_default();
        let built_in = previous.map(|previous| previous.built_in.clone()).unwrap_or_default();
        let minor = kinds.rows().opt_in().minor();
        Self { minor, index, documents, built_in, aggregated, swagger }
    }

    /// Whether both have the same documents, so that one can replace the other.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let definitions = |all: &Self| {
            all.documents.values().flat_map(|entry| entry.definitions.clone()).collect::<Vec<_>>()
        };
        // `swagger` is shared if all contents are.
        Arc::ptr_eq(&self.swagger, &other.swagger)
            && self.index.is_as(&other.index)
            && definitions(self) == definitions(other)
    }

    /// Answers a GET of an OpenAPI path; `None` for other paths.
    ///
    /// # Errors
    /// 406 if the caller accepts no encoding of it.
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
        Some(entry.content.answer(name, query.unwrap_or_default(), headers, now))
    }

    fn swagger(&self, headers: &HeaderMap) -> Result<Response<Bytes>, Status> {
        let form = form(headers, [V2_PROTOBUF, V2_PROTOBUF_OLD])?;
        let document = self.swagger.of(form, V2_PROTOBUF, || self.swagger_json(), gnostic::v2);
        let mut response = document.respond(headers);
        // The content changes at the same URL, so clients revalidate it by its tag each time.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Ok(response)
    }

    /// The v2 parts of aggregated API servers. They may share models with `here`.
    fn aggregated(&self, here: &[&Chunked]) -> Vec<Chunked> {
        let cuts: Vec<_> = self.aggregated.iter().filter_map(|said| said.swagger.as_ref()).collect();
        if cuts.is_empty() {
            return Vec::new();
        }
        let mut taken = BTreeMap::new();
        let mut take = |definitions: &[u8]| {
            let members = String::from_utf8_lossy(definitions);
            taken.extend(openapi::models(members.trim_start_matches(',')));
        };
        here.iter().for_each(|chunked| take(chunked.definitions.plain()));
        let mut pieces = Vec::new();
        for cut in cuts {
            let piece = cut.piece(&taken);
            taken.extend(openapi::models(&piece.definitions));
            pieces.push(Chunked::new(piece, ","));
        }
        pieces
    }

    fn swagger_json(&self) -> Document {
        let contents = || self.documents.values().map(|entry| &*entry.content);
        let custom = || contents().filter(|content| !content.custom.is_empty());
        let parts: Vec<&DocumentScope> = contents().filter_map(|content| content.part.as_ref()).collect();
        let built_in: [OnceLock<Chunked>; BUILT_IN_PIECES] = Default::default();
        let new_built_in = if self.built_in.get().is_some() { 0 } else { BUILT_IN_PIECES };
        let missing: Vec<&DocumentContent> =
            custom().filter(|content| content.piece.get().is_none()).collect();
        let threads = if new_built_in > 0 { THREADS } else { missing.len() / WORTH_A_THREAD + 1 };
        run_parallel(new_built_in + missing.len(), threads, |index| match index.checked_sub(new_built_in) {
            Some(index) => drop(missing[index].piece()),
            None => drop(built_in[index].get_or_init(|| built_in_piece(&parts, index))),
        });
        let built_in = self.built_in.get_or_init(|| {
            let made = built_in.into_iter().map(OnceLock::into_inner).enumerate();
            made.map(|(index, made)| made.unwrap_or_else(|| built_in_piece(&parts, index))).collect()
        });
        let mut all: Vec<&Chunked> = built_in.iter().chain(custom().map(DocumentContent::piece)).collect();
        let aggregated = self.aggregated(&all);
        all.extend(&aggregated);
        let [before, between, after] =
            openapi::frame(self.minor, all.iter().map(|chunked| &chunked.parameters))
                .map(|text| Chunk::new(text.into_bytes()));
        let paths = all.iter().map(|chunked| chunked.paths.clone());
        let definitions = all.iter().map(|chunked| chunked.definitions.clone());
        let chunks = std::iter::once(before).chain(paths).chain([between]).chain(definitions).chain([after]);
        Document::joined(JSON, chunks.collect())
    }
}

/// Runs `count` pieces of work, each once, on several threads if there are enough processors: building the
/// first v2 document takes a while.
fn run_parallel(count: usize, threads: usize, work: impl Fn(usize) + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(threads);
    let next = AtomicUsize::new(0);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count);
    let take_all = || std::iter::from_fn(take).for_each(&work);
    thread::scope(|scope| {
        for _ in 1..threads {
            let builder = thread::Builder::new().name("kstore-openapi".to_owned());
            // If no thread can be started, this one does all the work.
            drop(builder.spawn_scoped(scope, take_all));
        }
        take_all();
    });
}

/// Builds a piece of the built-in parts. The first piece has all models, the others have paths.
fn built_in_piece(parts: &[&DocumentScope], index: usize) -> Chunked {
    let Some(index) = index.checked_sub(1) else { return Chunked::new(Piece::models_of(parts), "") };
    let mut shares = parts.chunks(parts.len().div_ceil(BUILT_IN_PIECES - 1).max(1));
    let separator = if index == 0 { "" } else { "," };
    Chunked::new(Piece::paths_of(shares.nth(index).unwrap_or_default()), separator)
}

impl Chunked {
    /// Splits a piece into chunks. Members follow `separator`, since built-in kinds always precede them.
    fn new(piece: Piece, separator: &str) -> Self {
        let chunk = |members: String| match members.is_empty() {
            true => Chunk::new(Vec::new()),
            false => Chunk::new([separator, &members].concat().into_bytes()),
        };
        Self {
            parameters: piece.parameters,
            paths: chunk(piece.paths),
            definitions: chunk(piece.definitions),
        }
    }
}

impl DocumentContent {
    fn new(part: Option<DocumentScope>, custom: Vec<CustomDoc>) -> Arc<Self> {
        let fingerprint = match (&part, custom.as_slice()) {
            (Some(part), []) => part.fingerprint(),
            (part, custom) => {
                let facts = custom.iter().filter_map(CustomDoc::facts);
                let built_in = part.as_ref().map(DocumentScope::fingerprint).into_iter();
                openapi::fingerprint(&built_in.chain(facts).collect::<Vec<_>>().join("\n"))
            }
        };
        Arc::new(Self {
            part,
            custom,
            fingerprint,
            forms: EncodedDocuments::default(),
            piece: OnceLock::new(),
        })
    }

    /// Builds the v3 document.
    fn document(&self) -> Value {
        let fragments: Vec<_> = self.custom.iter().map(|custom| custom.fragment(crd::v3)).collect();
        match &self.part {
            Some(part) if fragments.is_empty() => part.document(),
            Some(part) => openapi::with_custom(part.document(), &fragments),
            None => openapi::custom_document(&fragments),
        }
    }

    fn piece(&self) -> &Chunked {
        self.piece.get_or_init(|| {
            let fragments: Vec<_> = self.custom.iter().map(|custom| custom.fragment(crd::v2)).collect();
            Chunked::new(Piece::of_custom(&fragments), ",")
        })
    }

    fn answer(
        &self,
        name: &str,
        query: &str,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Response<Bytes>, Status> {
        let form = form(headers, [V3_PROTOBUF, V3_PROTOBUF_OLD])?;
        let document = || {
            self.forms.of(form, V3_PROTOBUF, || Document::new(JSON, encoded(&self.document())), gnostic::v3)
        };
        let hash = query.split('&').find_map(|pair| pair.strip_prefix("hash=")).unwrap_or_default();
        Ok(match hash {
            "" => document().respond(headers),
            hash if hash == self.fingerprint => document().respond_immutable(headers, now),
            // The requested version no longer exists; redirect to the URL of the present one.
            _ => moved(&format!("{V3}/{name}?hash={}", self.fingerprint)),
        })
    }
}

impl CustomDoc {
    fn facts(&self) -> Option<String> {
        crd::facts(self.version.definition(), &self.version.version().name)
    }

    fn fragment(
        &self,
        make: fn(&kstore_api::crd::Definition, &Value, &str) -> crd::Fragment,
    ) -> crd::Fragment {
        let stored = self.stored.as_ref().map(|entry| entry.parse()).unwrap_or_default();
        make(self.version.definition(), &stored, &self.version.version().name)
    }
}

impl EncodedDocuments {
    /// The document in an encoding. `json` builds it, and `encode` converts it to protobuf.
    fn of(
        &self,
        form: DocumentEncoding,
        protobuf: &'static str,
        json: impl Fn() -> Document,
        encode: fn(&Value) -> Vec<u8>,
    ) -> &Document {
        match form {
            DocumentEncoding::Json => self.json.get_or_init(json),
            DocumentEncoding::Protobuf => self.protobuf.get_or_init(|| {
                let json = self.json.get_or_init(json);
                let value = serde_json::from_slice(&json.content()).expect("it was written as JSON");
                Document::new(protobuf, encode(&value))
            }),
        }
    }
}

/// All v3 documents. As in Kubernetes, only built-in groups have a document of the group alone.
fn entries(
    kinds: &Kinds,
    previous: Option<&OpenApi>,
    stored: &impl Fn(&CustomVersion) -> Option<Arc<Stored>>,
) -> impl Iterator<Item = (String, DocumentEntry)> {
    let known = move |name: &str, definitions: &[(String, i64)]| {
        let entry = previous?.documents.get(name).filter(|entry| entry.definitions == definitions)?;
        Some(entry.content.clone())
    };
    let minor = kinds.rows().opt_in().minor();
    let groups = kinds
        .listed_rows()
        .built_in_groups()
        .filter(|group| !group.is_empty())
        .map(move |group| DocumentScope::Group(group.into(), minor));
    let fixed = [
        DocumentScope::Versions(minor),
        DocumentScope::Groups(minor),
        DocumentScope::Version(minor),
        DocumentScope::Issuer(minor),
        DocumentScope::Keys(minor),
    ]
    .into_iter();
    let plain = fixed.chain(groups).map(move |part| {
        let name = part.name();
        let content = known(&name, &[]).unwrap_or_else(|| DocumentContent::new(Some(part), Vec::new()));
        (name, DocumentEntry { definitions: Vec::new(), content })
    });
    let rows = kinds.listed_rows();
    let versions = rows.groups().flat_map(|group| rows.versions(group).map(move |version| (group, version)));
    let resources = versions.map(move |(group, version)| {
        let rows = || kinds.listed_rows().resources_of(group, version);
        let custom: Vec<_> = rows().filter_map(|row| kinds.custom(row)).collect();
        let definitions: Vec<_> =
            custom.iter().map(|custom| (custom.kind.key.clone(), custom.kind.revision)).collect();
        let gv = GroupVersion { group: group.into(), version: version.into() };
        let name = gv.path();
        let content = known(&name, &definitions).unwrap_or_else(|| {
            let built_in: Vec<_> = rows().filter(|row| !row.is_custom()).map(ResourceDoc::from).collect();
            let part = (!built_in.is_empty()).then_some(DocumentScope::Resources(gv, built_in));
            let custom = custom.into_iter().map(|version| CustomDoc { stored: stored(&version), version });
            let content = DocumentContent::new(part, custom.collect());
            // A definition may change without affecting the document, for example in its status.
            let before = previous.and_then(|previous| previous.documents.get(&name));
            match before.filter(|entry| entry.content.fingerprint == content.fingerprint) {
                Some(entry) => entry.content.clone(),
                None => content,
            }
        });
        (name, DocumentEntry { definitions, content })
    });
    plain.chain(resources)
}

/// Returns the stored definition of a custom kind.
pub(super) fn stored_definition(cache: &Cache, custom: &CustomVersion) -> Option<Arc<Stored>> {
    custom.kind.unstored.clone().or_else(|| cache.get(definitions(), &custom.kind.key))
}

fn form(headers: &HeaderMap, protobuf: [&str; 2]) -> Result<DocumentEncoding, Status> {
    let clauses = accept::clauses(headers);
    let of = |clause: &accept::Clause| {
        if clause.accepts(JSON) {
            return Some(DocumentEncoding::Json);
        }
        protobuf.iter().any(|media| clause.accepts(media)).then_some(DocumentEncoding::Protobuf)
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
    fn the_index_links_to_immutable_documents() {
        let openapi = OpenApi::new(&Kinds::built_in(), &AggregatedApis::default(), None, |_| None);
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
    fn documents_of_equal_kinds_can_be_shared() {
        let new = |previous| OpenApi::new(&Kinds::built_in(), &AggregatedApis::default(), previous, |_| None);
        let first = new(None);
        assert!(new(Some(&first)).is_as(&first));
        assert!(!new(None).is_as(&first), "nothing was shared");
    }

    #[test]
    fn outdated_hashes_are_redirected() {
        let openapi = OpenApi::new(&Kinds::built_in(), &AggregatedApis::default(), None, |_| None);
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
    fn documents_are_served_in_protobuf_on_request() {
        let openapi = OpenApi::new(&Kinds::built_in(), &AggregatedApis::default(), None, |_| None);
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
    fn openapi_v2_is_served_in_json_and_protobuf() {
        let openapi = OpenApi::new(&Kinds::built_in(), &AggregatedApis::default(), None, |_| None);
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
        let openapi = OpenApi::new(&Kinds::built_in(), &AggregatedApis::default(), None, |_| None);
        assert!(get(&openapi, "/openapi/v3/apis/absent/v1").is_none());
        assert!(get(&openapi, "/openapi/v1").is_none());
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let other = accept("application/x-protobuf");
        assert_eq!(openapi.answer("/openapi/v3/version", None, &other, now).unwrap().unwrap_err().code, 406);
    }
}
