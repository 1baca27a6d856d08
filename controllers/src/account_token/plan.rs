//! The content of a Secret with a service account token. Pure.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// Annotation of a Secret: the uid of its account.
pub(crate) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const TOKEN: &str = "token";
const CA: &str = "ca.crt";
const NAMESPACE: &str = "namespace";

fn annotation<'s>(secret: &'s Secret, name: &str) -> &'s str {
    secret.metadata.annotations.as_ref().and_then(|all| all.get(name)).map_or("", String::as_str)
}

fn entry<'s>(secret: &'s Secret, key: &str) -> &'s [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map_or(&[], |value| &value.0)
}

/// The name of the account that a Secret names.
pub(crate) fn account_name(secret: &Secret) -> &str {
    annotation(secret, ACCOUNT_NAME)
}

/// Whether an account of the right name is the account of the Secret: the Secret names its uid, or none.
pub(crate) fn belongs_to(secret: &Secret, account: &ServiceAccount) -> bool {
    let uid = annotation(secret, ACCOUNT_UID);
    uid.is_empty() || account.metadata.uid.as_deref() == Some(uid)
}

/// Whether the Secret has no token.
pub(crate) fn needs_token(secret: &Secret) -> bool {
    entry(secret, TOKEN).is_empty()
}

/// The Secret with everything that it lacks: the new token, the certificate authority (PEM; empty: none is
/// known), the namespace, and the annotations. `None` if it lacks nothing; an annotation alone is not added.
pub(crate) fn filled(
    secret: &Secret,
    account: &ServiceAccount,
    root_ca: &str,
    token: Option<String>,
) -> Option<Secret> {
    let needs_ca = !root_ca.is_empty() && entry(secret, CA) != root_ca.as_bytes();
    let needs_namespace = entry(secret, NAMESPACE).is_empty();
    if !needs_ca && !needs_namespace && token.is_none() {
        return None;
    }
    let mut filled = secret.clone();
    let data = filled.data.get_or_insert_default();
    let mut put = |key: &str, value: &str| data.insert(key.to_owned(), ByteString(value.into()));
    if needs_ca {
        put(CA, root_ca);
    }
    if needs_namespace {
        put(NAMESPACE, secret.metadata.namespace.as_deref().unwrap_or_default());
    }
    if let Some(token) = token {
        put(TOKEN, &token);
    }
    let annotations = filled.metadata.annotations.get_or_insert_default();
    let of = &account.metadata;
    annotations.insert(ACCOUNT_NAME.to_owned(), of.name.clone().unwrap_or_default());
    annotations.insert(ACCOUNT_UID.to_owned(), of.uid.clone().unwrap_or_default());
    Some(filled)
}

/// The account without a Secret in its list; `None` if the list does not have it.
pub(crate) fn without_reference(account: &ServiceAccount, secret: &str) -> Option<ServiceAccount> {
    let listed = account.secrets.as_deref().unwrap_or_default();
    let kept: Vec<_> =
        listed.iter().filter(|reference| reference.name.as_deref() != Some(secret)).cloned().collect();
    (kept.len() < listed.len()).then(|| ServiceAccount { secrets: Some(kept), ..account.clone() })
}
