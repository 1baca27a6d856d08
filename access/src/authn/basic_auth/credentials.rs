//! [`BasicCredentials`]: the user name and the password in a request's header `Authorization`. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use kstore_storage::limits::{BASIC_AUTH_PASSWORD_BYTES, BASIC_AUTH_USER_BYTES};

/// A user name and a password. There is no `Debug`, so that they are never logged.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BasicCredentials {
    pub user: String,
    pub password: String,
}

/// A header of the scheme Basic that has no usable user name and password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedCredentials;

/// The credentials of a request; `None` if its header has another scheme, or if there is none.
pub(crate) fn of_headers(headers: &HeaderMap) -> Option<Result<BasicCredentials, MalformedCredentials>> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let (scheme, encoded) = value.split_at_checked("basic".len())?;
    let is_basic = scheme.eq_ignore_ascii_case(b"basic")
        && encoded.first().is_none_or(|separator| separator.is_ascii_whitespace());
    is_basic.then(|| decode(encoded.trim_ascii()).ok_or(MalformedCredentials))
}

fn decode(encoded: &[u8]) -> Option<BasicCredentials> {
    const LONGEST: usize = BASIC_AUTH_USER_BYTES + 1 + BASIC_AUTH_PASSWORD_BYTES;
    // Base64 makes four characters of three bytes.
    if encoded.len() > LONGEST.div_ceil(3) * 4 {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    let is_usable = is_user(user) && is_password(password);
    is_usable.then(|| BasicCredentials { user: user.to_owned(), password: password.to_owned() })
}

/// Whether a text can be a user name: RFC 7617 allows neither a colon nor control characters.
pub(super) fn is_user(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= BASIC_AUTH_USER_BYTES
        && !text.contains(|c: char| c == ':' || c.is_control())
}

/// Whether a text can be a password.
pub(super) fn is_password(text: &str) -> bool {
    !text.is_empty() && text.len() <= BASIC_AUTH_PASSWORD_BYTES && !text.contains(|c: char| c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(value: &[u8]) -> Option<Result<(String, String), MalformedCredentials>> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap())]);
        of_headers(&headers).map(|read| read.map(|given| (given.user, given.password)))
    }

    fn encoded(text: &[u8]) -> Option<Result<(String, String), MalformedCredentials>> {
        read(format!("Basic {}", STANDARD.encode(text)).as_bytes())
    }

    #[test]
    fn a_header_has_a_user_name_and_a_password_after_the_first_colon() {
        let pair = |user: &str, password: &str| Some(Ok((user.to_owned(), password.to_owned())));
        assert_eq!(encoded(b"Aladdin:open sesame"), pair("Aladdin", "open sesame"));
        assert_eq!(encoded(b"ann:a:b"), pair("ann", "a:b"));
        assert_eq!(encoded("änne:pässwörd".as_bytes()), pair("änne", "pässwörd"));
        assert_eq!(read(b"  bAsIc   YTpi  "), pair("a", "b"));
        for other in [&b"Bearer YTpi"[..], b"Basics YTpi", b"Bas", b"", b"Digest a", b"\xffbasic"] {
            assert_eq!(read(other), None);
        }
        assert!(of_headers(&HeaderMap::new()).is_none());
    }

    #[test]
    fn hostile_headers_are_malformed() {
        let refused = Some(Err(MalformedCredentials));
        for value in
            ["Basic", "Basic ", "Basic %%%", "Basic YTpi=", "Basic YTp", "Basic YT pi", "Basic YTpi,YTpi"]
        {
            assert_eq!(read(value.as_bytes()), refused, "{value}");
        }
        assert_eq!(read(b"Basic \xff\xfe"), refused);
        for text in [
            &b"no colon"[..],
            b"",
            b":",
            b":password",
            b"user:",
            b"user:pass\0word",
            b"us\0er:password",
            b"user:pass\nword",
            b"user:\x7f",
            b"user:\xff\xfe",
            b"\xc3\x28:password",
            "us\u{85}er:password".as_bytes(),
        ] {
            assert_eq!(encoded(text), refused, "{text:?}");
        }
        let long = |user: usize, password: usize| {
            encoded(format!("{}:{}", "u".repeat(user), "p".repeat(password)).as_bytes())
        };
        assert!(long(BASIC_AUTH_USER_BYTES, BASIC_AUTH_PASSWORD_BYTES).unwrap().is_ok());
        assert_eq!(long(BASIC_AUTH_USER_BYTES + 1, 1), refused);
        assert_eq!(long(1, BASIC_AUTH_PASSWORD_BYTES + 1), refused);
        assert_eq!(long(1, 1 << 20), refused);
    }
}
