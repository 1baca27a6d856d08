//! Headers of proxied requests and responses: removes headers that belong to one connection or identify the
//! caller. Pure.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use kstore_access::authn::service_account::is_token;
use std::net::IpAddr;

/// Headers that concern a single connection, besides those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
];

/// CORS headers. A backend's permissions for other pages must not apply to this server.
const CORS: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// The protocol that the client asks to upgrade to, if any.
pub(in crate::rest) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = names(headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| asks).cloned()
}

/// The header names in `Connection`.
fn names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|list| list.split(',')).map(str::trim)
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = names(headers).filter_map(|name| name.parse().ok()).collect();
    named.iter().chain(&HOP_BY_HOP).for_each(|name| drop(headers.remove(name)));
}

/// Turns a client's headers into those of the request to the backend: removes credentials and adds the
/// client's address. `forwarded` is the client's path, if the backend receives another one.
pub(in crate::rest) fn to_backend(
    headers: &mut HeaderMap,
    upgrade: Option<HeaderValue>,
    peer: Option<IpAddr>,
    forwarded: Option<&str>,
) {
    strip(headers);
    headers.remove(AUTHORIZATION);
    let ours =
        |name: &HeaderName| name.as_str().starts_with("impersonate-") || name.as_str().starts_with("kstore-");
    let ours: Vec<HeaderName> = headers.keys().filter(|name| ours(name)).cloned().collect();
    ours.iter().for_each(|name| drop(headers.remove(name)));
    hide_token(headers);
    if let Some(peer) = peer {
        let before = headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
        let chain = before.map_or_else(|| peer.to_string(), |before| format!("{before}, {peer}"));
        set(headers, "x-forwarded-for", &chain);
    }
    if let Some(forwarded) = forwarded {
        set(headers, "x-forwarded-uri", forwarded);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
}

/// Removes tokens from the WebSocket protocols: clients may pass a bearer token there.
fn hide_token(headers: &mut HeaderMap) {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let spoken: Vec<&str> =
        values.flat_map(|list| list.split(',')).map(str::trim).filter(|name| !is_token(name)).collect();
    let spoken = spoken.join(", ");
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(spoken) = HeaderValue::from_str(&spoken).ok().filter(|spoken| !spoken.is_empty()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, spoken);
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Turns a backend's headers into those of the response to the client.
pub(in crate::rest) fn to_client(headers: &mut HeaderMap) {
    strip(headers);
    CORS.iter().for_each(|name| drop(headers.remove(name)));
}

/// Whether the headers describe an uncompressed HTML page.
pub(super) fn is_page(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().is_some_and(|media| media.trim() == "text/html")
        && headers.get(CONTENT_ENCODING).is_none()
}
