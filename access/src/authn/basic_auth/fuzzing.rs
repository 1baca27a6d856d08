//! Fuzz target for basic authentication: arbitrary bytes as a header and as a file of users.

use super::file::BasicAuthFile;
use super::of_headers;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use kstore_storage::limits::{BASIC_AUTH_PASSWORD_BYTES, BASIC_AUTH_USER_BYTES};

/// Checks the first line as the value of a header, as the credentials of one, and everything as a file.
/// Accepted credentials are what the header encodes; a refused file is refused with a line that it has. No
/// password is checked, since that takes long.
pub fn basic_auth(bytes: &[u8]) {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    check_header(line);
    check_header(format!("Basic {}", STANDARD.encode(line)).as_bytes());
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = BasicAuthFile::parse(&text) {
        let shown = error.to_string();
        let number = shown.strip_prefix("line ").and_then(|rest| rest.split(':').next());
        let number: usize =
            number.and_then(|number| number.parse().ok()).expect("a refusal has a line number");
        assert!((1..=text.lines().count()).contains(&number), "{shown}");
    }
}

fn check_header(value: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value.clone())]);
    let Some(Ok(given)) = of_headers(&headers) else { return };
    assert!((1..=BASIC_AUTH_USER_BYTES).contains(&given.user.len()) && !given.user.contains(':'));
    assert!((1..=BASIC_AUTH_PASSWORD_BYTES).contains(&given.password.len()));
    let both = format!("{}:{}", given.user, given.password);
    assert!(!both.contains(char::is_control), "control characters are refused");
    let value = value.to_str().expect("base64 is ASCII");
    assert!(value.trim().ends_with(&STANDARD.encode(both)), "the header has these credentials");
}
