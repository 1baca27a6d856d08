//! `/openapi/v3`: the index, and one document per group and version. A document is made when somebody first asks for it, and kept
//! compressed. What is in it is `kstore_api::openapi`'s; `/openapi/v2` is not served.

use super::accept;
use super::document::{Document, reply};
use bytes::Bytes;
use http::header::{HeaderValue, LOCATION};
use http::{HeaderMap, Response, StatusCode};
use kstore_api::kind;
use kstore_api::openapi::{self, GroupVersion, ResourceDoc};
use kstore_api::status::Status;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const JSON: &str = "application/json";
const ROOT: &str = "/openapi/v3";

/// All documents of one server.
pub struct OpenApi {
    index: Document,
    /// By name, such as `apis/apps/v1`.
    documents: BTreeMap<String, Entry>,
}

struct Entry {
    gv: GroupVersion,
    resources: Vec<ResourceDoc>,
    fingerprint: String,
    document: OnceLock<Document>,
}

impl Entry {
    fn new(gv: GroupVersion) -> Self {
        let resources: Vec<ResourceDoc> =
            kind::resources_of(&gv.group, &gv.version).map(ResourceDoc::from).collect();
        let fingerprint = openapi::fingerprint(&gv, &resources);
        Self { gv, resources, fingerprint, document: OnceLock::new() }
    }

    fn document(&self) -> &Document {
        self.document.get_or_init(|| {
            let document = openapi::document(&self.gv, &self.resources);
            let bytes = serde_json::to_vec(&document).expect("a value has string keys only");
            Document::new(JSON, bytes)
        })
    }
}

impl Default for OpenApi {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenApi {
    /// The documents for the table of resources; none is made yet.
    pub fn new() -> Self {
        let gv = |group: &str, version: &str| GroupVersion { group: group.into(), version: version.into() };
        let all =
            kind::groups().flat_map(|group| kind::versions(group).map(move |version| gv(group, version)));
        let documents: BTreeMap<String, Entry> = all.map(|gv| (gv.path(), Entry::new(gv))).collect();
        let index = openapi::index(documents.values().map(|entry| (&entry.gv, entry.resources.as_slice())));
        let index = serde_json::to_vec(&index).expect("a value has string keys only");
        Self { index: Document::new(JSON, index), documents }
    }

    /// The answer to a GET of an OpenAPI path; `None` if the path is none.
    ///
    /// # Errors
    /// 406 if the caller does not accept JSON.
    pub fn answer(
        &self,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<Result<Response<Bytes>, Status>> {
        let name = path.strip_prefix(ROOT)?.trim_matches('/');
        let entry = if name.is_empty() { None } else { Some(self.documents.get(name)?) };
        if !accept::clauses(headers).iter().any(|clause| clause.accepts(JSON)) {
            return Some(Err(Status::not_acceptable(&[JSON])));
        }
        let Some(entry) = entry else { return Some(Ok(self.index.respond(headers))) };
        let hash = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("hash="));
        Some(Ok(match hash {
            None => entry.document().respond(headers),
            Some(hash) if hash == entry.fingerprint => entry.document().respond_immutable(headers),
            // What the caller knows is gone; the address of what is there now says so to its cache.
            Some(_) => moved(&format!("{ROOT}/{name}?hash={}", entry.fingerprint)),
        }))
    }
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
    use http::header::{ACCEPT, CACHE_CONTROL};
    use serde_json::Value;

    fn get(openapi: &OpenApi, url: &str) -> Option<Response<Bytes>> {
        let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
        openapi.answer(path, query, &HeaderMap::new()).map(Result::unwrap)
    }

    #[test]
    fn the_index_leads_to_documents_that_may_be_kept() {
        let openapi = OpenApi::new();
        let index: Value = serde_json::from_slice(get(&openapi, "/openapi/v3").unwrap().body()).unwrap();
        let url = index["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap();
        let response = get(&openapi, url).unwrap();
        assert!(response.headers()[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        let document: Value = serde_json::from_slice(response.body()).unwrap();
        assert!(document["components"]["schemas"]["io.k8s.api.coordination.v1.Lease"].is_object());
        assert!(index["paths"]["api/v1"].is_object());
    }

    #[test]
    fn an_old_hash_is_redirected_and_no_hash_is_answered() {
        let openapi = OpenApi::new();
        let moved = get(&openapi, "/openapi/v3/apis/coordination.k8s.io/v1?hash=OLD").unwrap();
        assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
        let target = moved.headers()[LOCATION].to_str().unwrap().to_owned();
        assert_eq!(get(&openapi, &target).unwrap().status(), StatusCode::OK);
        assert_eq!(
            get(&openapi, "/openapi/v3/apis/coordination.k8s.io/v1").unwrap().status(),
            StatusCode::OK
        );
    }

    #[test]
    fn other_paths_and_types_are_not_answered() {
        let openapi = OpenApi::new();
        assert!(get(&openapi, "/openapi/v3/apis/nobody/v1").is_none());
        assert!(get(&openapi, "/openapi/v2").is_none());
        let protobuf = HeaderMap::from_iter([(ACCEPT, "application/x-protobuf".parse().unwrap())]);
        assert_eq!(openapi.answer("/openapi/v3", None, &protobuf).unwrap().unwrap_err().code, 406);
    }
}
