//! [`TokenSecret`]: the Secret that a token without expiration is stored in. The token is valid while the
//! Secret holds it and has no label `kubernetes.io/legacy-token-invalid-since`. The label
//! `kubernetes.io/legacy-token-last-used` has the day of its last use, by which the legacy token cleaner finds
//! unused tokens.

use super::service_account::Unknown;
use super::verified::{Digest, ParsedOnce, digest};
use crate::token::LegacyClaims;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kstore_api::meta;
use kstore_registry::lookup::{Lookup, core};
use serde_json::Value;

/// Label of a Secret: the day in UTC at which its token was last used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// Label of a Secret: the day from which its token is invalid.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// The Secret of a token with a valid signature.
#[derive(Debug)]
pub struct TokenSecret {
    namespace: String,
    name: String,
    /// The storage key.
    key: String,
    /// The digest of the token; `None` if the token is too long for a digest and never valid.
    token: Option<Digest>,
    state: ParsedOnce<SecretState>,
    /// The storage key of the account.
    account_key: String,
    /// Whether the account's list of Secrets names this one, as it did when Kubernetes still generated such Secrets.
    is_listed: ParsedOnce<bool>,
}

/// What a Secret says about its token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SecretState {
    /// Whether the Secret holds the token and is not being deleted.
    has_token: bool,
    /// Whether the token is marked as invalid.
    is_invalid: bool,
    last_used: String,
}

/// A Secret whose token was used on a day that its label does not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedSecret {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
    /// The day of the use, as the value of [`LAST_USED`].
    pub day: String,
}

impl TokenSecret {
    /// The Secret that the claims of `token` name.
    pub(super) fn new(claims: &LegacyClaims, token: &str) -> Self {
        let key = core("secrets").storage_key(&claims.namespace, &claims.secret);
        let account_key = core("serviceaccounts").storage_key(&claims.namespace, &claims.account);
        Self {
            namespace: claims.namespace.clone(),
            name: claims.secret.clone(),
            key,
            token: digest(token),
            state: ParsedOnce::default(),
            account_key,
            is_listed: ParsedOnce::default(),
        }
    }

    /// The namespace of the Secret.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the Secret.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the Secret was generated with its account: the account's list of Secrets names it.
    pub(super) fn is_generated(&self, cluster: &dyn Lookup) -> bool {
        let Some(entry) = cluster.entry(core("serviceaccounts"), &self.account_key) else { return false };
        self.is_listed.get(&entry, |account| {
            let account = account.parse();
            let secrets = account["secrets"].as_array().into_iter().flatten();
            secrets.into_iter().any(|secret| secret["name"] == self.name.as_str())
        })
    }

    /// Checks that the Secret holds the token and that the token is not marked as invalid.
    pub(super) fn check(&self, cluster: &dyn Lookup) -> Result<(), Unknown> {
        let state = self.state(cluster);
        match (state.has_token, state.is_invalid) {
            (false, _) => Err(Unknown::Gone("the secret")),
            (true, true) => Err(Unknown::Invalidated),
            (true, false) => Ok(()),
        }
    }

    /// The Secret, if its label does not have the day of a use at `now` yet. The next day counts as well:
    /// another server's clock may be ahead.
    pub(super) fn unmarked(&self, cluster: &dyn Lookup, now: Timestamp) -> Option<UsedSecret> {
        let state = self.state(cluster);
        let today = day(now);
        let is_marked =
            state.last_used == today || now.checked_add(DAY).is_ok_and(|next| state.last_used == day(next));
        (state.has_token && !is_marked).then(|| UsedSecret {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            day: today,
        })
    }

    /// What the Secret says.
    fn state(&self, cluster: &dyn Lookup) -> SecretState {
        let Some(entry) = cluster.entry(core("secrets"), &self.key) else { return SecretState::default() };
        self.state.get(&entry, |secret| self.parse(&secret.parse()))
    }

    fn parse(&self, secret: &Value) -> SecretState {
        let text = secret["data"]["token"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let stored = text.and_then(|bytes| digest(std::str::from_utf8(&bytes).ok()?));
        let label = |name: &str| secret["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
        SecretState {
            has_token: stored.is_some() && stored == self.token && !meta::is_being_deleted(secret),
            is_invalid: !label(INVALID_SINCE).is_empty(),
            last_used: label(LAST_USED),
        }
    }
}

/// The day of a moment in UTC, as Kubernetes writes it: `2006-01-02`.
pub fn day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).date().to_string()
}
