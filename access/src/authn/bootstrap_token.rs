//! Bootstrap tokens, with which nodes join: `ID.SECRET`, valid while the Secret
//! `kube-system/bootstrap-token-ID` says so.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kstore_registry::lookup::{Lookup, core};
use kstore_registry::user::UserInfo;
use serde_json::Value;

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID: usize = 6;
const SECRET: usize = 16;
/// The longest name of a group without its prefix.
const GROUP_NAME: usize = 255;

/// The user of a bootstrap token; `None` if the token is not a bootstrap token, or is invalid or expired.
pub(super) fn user(token: &str, cluster: &dyn Lookup, now: Timestamp) -> Option<UserInfo> {
    let (id, secret) = parts(token)?;
    let object = cluster.get(core("secrets"), NAMESPACE, &format!("bootstrap-token-{id}"))?;
    let is_being_deleted = !object["metadata"]["deletionTimestamp"].is_null();
    if object["type"] != TYPE || is_being_deleted {
        return None;
    }
    let data = |key: &str| data(&object, key);
    let is_good = data("token-id")? == id && is_same(data("token-secret")?.as_bytes(), secret.as_bytes());
    if !is_good || data("usage-bootstrap-authentication")? != "true" || is_expired(data("expiration"), now) {
        return None;
    }
    let more = data("auth-extra-groups").unwrap_or_default();
    let more: Vec<&str> = more.split(',').filter(|group| !group.is_empty()).collect();
    if more.iter().any(|group| !is_group(group)) {
        return None;
    }
    Some(UserInfo::new(format!("system:bootstrap:{id}"), [GROUP].into_iter().chain(more)))
}

/// The id and secret of a token that has the form of a bootstrap token.
pub(super) fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_word = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (is_word(id, ID) && is_word(secret, SECRET)).then_some((id, secret))
}

fn data(secret: &Value, key: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(secret["data"][key].as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

/// Whether a token is expired. An unreadable expiration counts as expired.
fn is_expired(expiration: Option<String>, now: Timestamp) -> bool {
    let Some(text) = expiration.filter(|text| !text.is_empty()) else { return false };
    text.parse::<Timestamp>().map_or(true, |end| end <= now)
}

fn is_group(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=GROUP_NAME).contains(&rest.len())
        && rest.bytes().all(|byte| is_word(byte) || matches!(byte, b':' | b'-'))
        && rest.ends_with(|last: char| last.is_ascii() && is_word(last as u8))
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |differs, (l, r)| differs | (l ^ r)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_registry::testing::MapLookup;
    use kstore_registry::user::AUTHENTICATED;
    use serde_json::json;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    fn secret(changes: &[(&str, Option<&str>)]) -> Value {
        let mut data = json!({});
        let plain = [
            ("token-id", Some("abcdef")),
            ("token-secret", Some("0123456789abcdef")),
            ("usage-bootstrap-authentication", Some("true")),
        ];
        for (key, value) in plain.iter().chain(changes) {
            match value {
                Some(value) => data[key] = json!(BASE64_STANDARD.encode(value)),
                None => drop(data.as_object_mut().unwrap().remove(*key)),
            }
        }
        json!({"apiVersion": "v1", "kind": "Secret", "type": TYPE, "data": data,
            "metadata": {"namespace": NAMESPACE, "name": "bootstrap-token-abcdef"}})
    }

    fn name(token: &str, secret: Value) -> Option<UserInfo> {
        user(token, &*MapLookup::of([secret]), "2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_valid_token_authenticates_a_bootstrapper() {
        let groups = [("auth-extra-groups", Some("system:bootstrappers:a,system:bootstrappers:b:c-d"))];
        let user = name(TOKEN, secret(&groups)).unwrap();
        assert_eq!(user.username, "system:bootstrap:abcdef");
        let want = [GROUP, "system:bootstrappers:a", "system:bootstrappers:b:c-d", AUTHENTICATED];
        assert_eq!(user.groups, want);
        assert!(name(TOKEN, secret(&[("expiration", Some("2026-01-01T00:00:01Z"))])).is_some());
    }

    #[test]
    fn invalid_secrets_and_tokens_authenticate_no_user() {
        for changes in [
            ("token-id", Some("other1")),
            ("token-id", None),
            ("token-secret", Some("0123456789abcdee")),
            ("token-secret", Some("")),
            ("token-secret", None),
            ("usage-bootstrap-authentication", Some("false")),
            ("usage-bootstrap-authentication", None),
            ("expiration", Some("2026-01-01T00:00:00Z")),
            ("expiration", Some("tomorrow")),
            ("auth-extra-groups", Some("system:masters")),
            ("auth-extra-groups", Some("system:bootstrappers:")),
            ("auth-extra-groups", Some("system:bootstrappers:a-")),
            ("auth-extra-groups", Some("system:bootstrappers:a,system:nodes")),
        ] {
            assert_eq!(name(TOKEN, secret(&[changes])), None, "{changes:?}");
        }
        let mut opaque = secret(&[]);
        opaque["type"] = json!("Opaque");
        assert_eq!(name(TOKEN, opaque), None);
        let mut deleted = secret(&[]);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(name(TOKEN, deleted), None);
        for token in
            ["", "abcdef", "abcdef.", "abcdeF.0123456789abcdef", "abcdef.0123456789abcdef0", "ab/../.0"]
        {
            assert_eq!(name(token, secret(&[])), None, "{token}");
        }
    }
}
