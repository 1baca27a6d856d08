//! The signatures that the ConfigMap `cluster-info` needs. Pure.

use super::signature::detached;
use crate::action::{Action, Plan};
use crate::bootstrap_token_cleaner::expiry;
use crate::object::Object;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use std::collections::BTreeMap;

const KUBECONFIG: &str = "kubeconfig";
/// Prefix of the ConfigMap's keys with signatures; the identifier of a token follows.
const SIGNATURE: &str = "jws-kubeconfig-";
const TOKEN_NAME: &str = "bootstrap-token-";

/// A bootstrap token that signs.
struct SigningToken<'s> {
    id: &'s str,
    secret: &'s str,
}

impl<'s> SigningToken<'s> {
    /// The token of a Secret, if it may sign. The name of the Secret must have the token's identifier.
    fn of(secret: &'s Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| data.get(key).and_then(|value| std::str::from_utf8(&value.0).ok());
        let id = text("token-id").filter(|id| !id.is_empty())?;
        let named = secret.metadata.name.as_deref()?.strip_prefix(TOKEN_NAME)?;
        let may_sign = named == id && text("usage-bootstrap-signing") == Some("true");
        let secret = text("token-secret").filter(|text| !text.is_empty() && may_sign)?;
        Some(Self { id, secret })
    }
}

/// Replaces the signatures of the ConfigMap with one of each token that signs at `now`, and runs again when
/// the first of them expires. Without a kubeconfig there is nothing to sign, and signatures stay.
pub(crate) fn plan<'s>(
    info: &ConfigMap,
    tokens: impl IntoIterator<Item = &'s Secret>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::nothing();
    let data = info.data.clone().unwrap_or_default();
    let Some(content) = data.get(KUBECONFIG) else { return plan };
    let mut wanted: BTreeMap<String, String> = data
        .iter()
        .filter(|(key, _)| !key.starts_with(SIGNATURE))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for secret in tokens {
        let Some(token) = SigningToken::of(secret) else { continue };
        match expiry(secret) {
            Some(end) if end <= now => continue,
            Some(end) => plan.wake_in(end.duration_since(now).unsigned_abs()),
            None => {}
        }
        wanted.insert(format!("{SIGNATURE}{}", token.id), detached(content, token.id, token.secret));
    }
    if wanted != data {
        plan.actions.push(Action::Update(Object::of(&ConfigMap { data: Some(wanted), ..info.clone() })));
    }
    plan
}
