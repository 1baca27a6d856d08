//! The identity in the headers `Impersonate-*`. Pure.

use crate::percent_encoding::decode;
use http::HeaderMap;
use kstore_api::status::Status;
use kstore_registry::user::UserInfo;

pub(super) const USER: &str = "impersonate-user";
pub(super) const GROUP: &str = "impersonate-group";
pub(super) const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The identity in the headers, before implied groups are added; `None` without such headers.
///
/// # Errors
/// 400 if the headers are incomplete or not text.
pub(super) fn requested(headers: &HeaderMap) -> Result<Option<UserInfo>, Status> {
    let text = |value: &http::HeaderValue| {
        let text = value.to_str().map(str::to_owned);
        text.map_err(|_| Status::bad_request("an impersonation header is not readable text"))
    };
    let mut user = UserInfo::default();
    for (header, value) in headers {
        let header = header.as_str();
        match header {
            USER => user.username = text(value)?,
            UID => user.uid = text(value)?,
            GROUP => user.groups.push(text(value)?),
            _ => {
                if let Some(key) = header.strip_prefix(EXTRA) {
                    user.extra.entry(decode(key)).or_default().push(text(value)?);
                }
            }
        }
    }
    match (user.username.is_empty(), user == UserInfo::default()) {
        (false, _) => Ok(Some(user)),
        (true, true) => Ok(None),
        (true, false) => {
            let shown = in_go(&user);
            Err(Status::bad_request(format!("requested {shown} without impersonating a user name")))
        }
    }
}

/// Formats an identity as Go does, for the error message.
fn in_go(user: &UserInfo) -> String {
    let texts =
        |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let groups = match &user.groups[..] {
        [] => "(nil)".to_owned(),
        groups => format!("{{{}}}", texts(groups)),
    };
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key:?}:[]string{{{}}}", texts(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    let (name, uid) = (&user.username, &user.uid);
    format!(
        "&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:[]string{groups}, Extra:map[string][]string{extra}}}"
    )
}
