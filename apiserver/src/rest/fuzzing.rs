//! Fuzz target for routing and content negotiation: lines that are parsed as the head of a request.

use super::content::{self, Offer};
use super::query::Query;
use super::router::{self, ResourcePath, Route};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use kstore_api::status::Status;
use kstore_registry::kinds::Kinds;
use kstore_registry::registry::ContinueToken;
use std::fmt::Write;

/// Parses the lines as path, query, `Accept` and `Content-Type`. Each must be accepted or refused as a client
/// error. A location in the resource tree must have a URL that routes back to it, and the operations allowed
/// there must fit its form.
pub(crate) fn routing(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let [path, query, accept, content_type] = [(); 4].map(|()| lines.next().unwrap_or_default());
    let query = Query::parse(Some(query));
    let headers = headers(accept, content_type);
    if let Route::Resource(location) = router::route(&Kinds::built_in(), path) {
        leads_back(&location);
        operations_fit(&location);
        filters(&query, &location);
        forms(&headers, &query, Offer::of(location.resource, &location.subresource, location.watch));
    }
    options(&query);
    forms(&headers, &query, Offer { tables: true, protobuf: true, stream: false });
}

fn headers(accept: &str, content_type: &str) -> HeaderMap {
    let pairs = [(ACCEPT, accept), (CONTENT_TYPE, content_type)];
    pairs.into_iter().filter_map(|(name, text)| Some((name, HeaderValue::from_str(text).ok()?))).collect()
}

fn leads_back(location: &ResourcePath) {
    let url = url(location);
    let Route::Resource(again) = router::route(&Kinds::built_in(), &url) else {
        panic!("{url} leads nowhere, {location:?}")
    };
    let parts = |p: &ResourcePath| {
        (
            p.resource.group,
            p.resource.plural,
            p.namespace.clone(),
            p.name.clone(),
            p.subresource.clone(),
            p.watch,
        )
    };
    assert_eq!(parts(&again), parts(location), "{url}");
}

/// The URL of a location, with all client input percent-encoded.
fn url(location: &ResourcePath) -> String {
    let row = location.resource;
    let mut url = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
    let _ = write!(url, "/{}", row.version);
    let watch = if location.watch { "watch" } else { "" };
    let namespaces = if location.namespace.is_empty() { "" } else { "namespaces" };
    let (namespace, name) = (escaped(&location.namespace), escaped(&location.name));
    let subresource = escaped(&location.subresource);
    for segment in [watch, namespaces, &namespace, row.plural, &name, &subresource] {
        if !segment.is_empty() {
            let _ = write!(url, "/{segment}");
        }
    }
    url
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn operations_fit(location: &ResourcePath) {
    use router::Operation::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    for (method, watch) in methods.iter().flat_map(|method| [(method, false), (method, true)]) {
        let named = !location.name.is_empty();
        match router::operation(method, location, watch) {
            Some(Get | Update | Patch | Delete) => assert!(named, "{method} {location:?}"),
            Some(List | DeleteCollection) => assert!(!named, "{method} {location:?}"),
            Some(Watch) => assert!(watch || location.watch, "{method} {location:?}"),
            Some(Create) => assert_eq!(method, Method::POST),
            None => {}
        }
    }
}

/// Unwraps a parsed query. A query may be refused with 400 or 422 only; that of a watch also with 500, for an
/// invalid revision.
fn clients_mistake<T>(read: Result<T, Status>) -> Option<T> {
    let is_expected = |status: &Status| match status.code {
        500 => status.message.starts_with("resourceVersion: Invalid value: "),
        code => matches!(code, 400 | 422),
    };
    read.inspect_err(|status| assert!(is_expected(status), "{status:?}")).ok()
}

fn filters(query: &Query, location: &ResourcePath) {
    let filter = clients_mistake(query.filter(location.resource, &location.namespace, &location.name));
    if let Some(filter) = filter {
        clients_mistake(query.list_options(filter.clone()));
        clients_mistake(query.watch_options(filter, true));
    }
}

fn options(query: &Query) {
    clients_mistake(query.get_options());
    clients_mistake(query.delete_options());
    if let Some(options) = clients_mistake(query.write_options("CreateOptions", "agent/1")) {
        assert!(options.field_manager.len() <= 128, "{options:?}");
    }
    if let Some(token) = clients_mistake(ContinueToken::decode(query.get("continue"))) {
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token), "a token is what it was written from");
    }
}

fn forms(headers: &HeaderMap, query: &Query, offer: Offer) {
    if let Err(status) = content::accepted(headers, query.pretty(), offer) {
        assert_eq!(status.code, 406);
    }
    let refused = [content::body_format(headers).err(), content::patch_type(headers).err()];
    refused.iter().flatten().for_each(|status| assert_eq!(status.code, 415));
}
