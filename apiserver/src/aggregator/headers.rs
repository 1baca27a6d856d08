//! The `X-Remote-*` headers in which a front proxy passes the authenticated user to an API server. Pure.

use http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderName, InvalidHeaderValue};
use kstore_access::authn::remote_headers::{EXTRA_PREFIX, GROUP, UID, USER};
use kstore_registry::user::UserInfo;
use std::fmt::Write as _;

/// A user that cannot be encoded in headers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnnamedError {
    /// A value with a line break, for example.
    #[error("the caller's name, uid, groups or extra values cannot be written in a header: {0}")]
    Value(#[from] InvalidHeaderValue),
    /// A key that is empty or too long.
    #[error("a key of the caller's extra values cannot be written in a header: {0}")]
    Key(#[from] InvalidHeaderName),
}

/// Sets the `X-Remote-*` headers to the authenticated user. Such headers of the client's own request are removed.
///
/// # Errors
/// If the user cannot be encoded; the request must then not be proxied.
pub(crate) fn identify(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), UnnamedError> {
    let claims = |name: &HeaderName| {
        matches!(name.as_str(), USER | UID | GROUP) || name.as_str().starts_with(EXTRA_PREFIX)
    };
    let claimed: Vec<HeaderName> = headers.keys().filter(|name| claims(name)).cloned().collect();
    claimed.iter().for_each(|name| drop(headers.remove(name)));
    headers.insert(USER, HeaderValue::from_str(&user.username)?);
    if !user.uid.is_empty() {
        headers.insert(UID, HeaderValue::from_str(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, HeaderValue::from_str(group)?);
    }
    for (key, values) in &user.extra {
        let name: HeaderName = format!("{EXTRA_PREFIX}{}", escape(key)).parse()?;
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value)?);
        }
    }
    Ok(())
}

/// Percent-encodes the bytes of a key that are not allowed in a header name, and the percent sign.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => escaped.push(byte.into()),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|'
            | b'~' => {
                escaped.push(byte.into());
            }
            _ => write!(escaped, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_only_the_authenticated_user() {
        let claimed =
            [("x-remote-user", "admin"), ("x-remote-group", "system:masters"), ("x-remote-extra-a", "b")];
        let mut headers: HeaderMap = claimed
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        headers.insert("x-request-id", "7".parse().unwrap());
        let mut user = UserInfo::new("jane", ["dev", "ops"]);
        user.extra.insert("example.com/Scopes%".into(), vec!["a".into(), "b".into()]);
        identify(&mut headers, &user).unwrap();
        let of = |name: &str| {
            headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of("x-remote-user"), ["jane"]);
        assert_eq!(of("x-remote-group"), ["dev", "ops", "system:authenticated"]);
        assert_eq!(of("x-remote-extra-example.com%2fscopes%25"), ["a", "b"]);
        assert_eq!((of("x-remote-extra-a"), of("x-remote-uid")), (vec![], vec![]));
        assert_eq!(of("x-request-id"), ["7"]);
    }

    #[test]
    fn a_user_with_invalid_header_values_is_an_error() {
        let user = UserInfo::new("jane\r\nx-remote-group: system:masters", ["dev"]);
        assert!(identify(&mut HeaderMap::new(), &user).is_err());
    }
}
