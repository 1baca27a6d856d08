//! Callers without credentials. A credential that nobody here can verify is not "without": it is refused.

use super::UserInfo;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use kstore_api::status::Status;

/// The anonymous caller, unless the request carries a bearer token, which this server has no way to verify.
pub fn identity(headers: &HeaderMap) -> Result<UserInfo, Status> {
    let bearer = |value: &http::HeaderValue| {
        value.as_bytes().get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
    };
    if headers.get_all(AUTHORIZATION).iter().any(bearer) {
        return Err(Status::unauthorized());
    }
    Ok(UserInfo::anonymous())
}
