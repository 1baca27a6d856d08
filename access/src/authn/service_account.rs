//! Bearer tokens of service accounts. A token that this cluster signed is valid while its account, and the
//! other objects it is bound to, exist: the same objects (by uid), not others of the same name. A token
//! without expiration is valid while its Secret holds it.

use super::legacy_token::{TokenSecret, UsedSecret};
use super::token_uses::TokenUses;
use super::verified::{Verified, VerifiedTokens, digest};
use crate::rate_limited::RateLimited;
use crate::token::{Claims, LEGACY_ISSUER, Refused, Tokens};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use jiff::Timestamp;
use kstore_registry::lookup::Lookup;
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Prefix of the user's extra fields.
const EXTRA: &str = "authentication.kubernetes.io/";

/// Why a token authenticates no service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The token is invalid.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// An object that the token is bound to does not exist, or is another object of the same name.
    #[error("invalid bearer token: {0} that it is bound to does not exist")]
    Gone(&'static str),
    /// The Secret of the token has a label that makes the token invalid.
    #[error("invalid bearer token: the label kubernetes.io/legacy-token-invalid-since is on its secret")]
    Invalidated,
}

/// Prefix of the WebSocket protocol in which browsers send a token, since they cannot set headers.
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The bearer token of a request, if any: in its header, or among the protocols of a WebSocket.
pub fn bearer(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    in_header(headers).map(Cow::Borrowed).or_else(|| in_protocols(headers).map(Cow::Owned))
}

/// Whether a WebSocket protocol carries a token instead of naming a protocol.
pub fn is_token(protocol: &str) -> bool {
    protocol.trim().starts_with(PROTOCOL)
}

fn in_protocols(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let mut tokens =
        values.flat_map(|list| list.split(',')).filter_map(|name| name.trim().strip_prefix(PROTOCOL));
    let bytes = URL_SAFE_NO_PAD.decode(tokens.next()?).ok()?;
    String::from_utf8(bytes).ok().filter(|token| !token.is_empty() && tokens.next().is_none())
}

fn in_header(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// Authenticates service account tokens: the cluster's key, and a cache of verified tokens. A new key needs a
/// new authenticator, with an empty cache.
#[derive(Debug)]
pub struct TokenAuthenticator {
    tokens: Arc<Tokens>,
    verified: VerifiedTokens,
    uses: Arc<TokenUses>,
    /// Limit of the warning that a use of a token could not be recorded.
    log_limit: Mutex<RateLimited>,
}

impl TokenAuthenticator {
    /// An authenticator of the tokens that this key signed.
    pub fn new(tokens: Arc<Tokens>) -> Self {
        let log_limit = Mutex::new(RateLimited::every(limits::REPEATED_WARNING));
        Self { tokens, verified: VerifiedTokens::default(), uses: Arc::default(), log_limit }
    }

    /// The numbers of uses of tokens.
    pub fn uses(&self) -> &Arc<TokenUses> {
        &self.uses
    }

    /// Whether a warning may be logged now that a use of a token could not be recorded: the number of those
    /// suppressed since the last one.
    pub fn may_warn(&self) -> Option<u64> {
        self.log_limit.lock().allow()
    }

    /// The key.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Authenticates a token: its user, and those of `audiences` (if empty: this API's) for which it is
    /// valid. The signature is verified once; times and bound objects are checked on every call.
    ///
    /// # Errors
    /// See [`Unknown`]. `Gone` depends on the state of `cluster`, which may lag behind the storage.
    pub fn identity(
        &self,
        token: &str,
        audiences: &[&str],
        cluster: &dyn Lookup,
        now: Timestamp,
    ) -> Result<(Arc<UserInfo>, Vec<String>), Unknown> {
        self.check(token, audiences, cluster, now).into_identity()
    }

    /// Authenticates like [`TokenAuthenticator::identity`]; the result also has what a refused token says.
    pub fn check(
        &self,
        token: &str,
        audiences: &[&str],
        cluster: &dyn Lookup,
        now: Timestamp,
    ) -> CheckedToken {
        let own: Vec<&str>;
        let audiences = if audiences.is_empty() {
            own = self.tokens.audiences().iter().map(String::as_str).collect();
            &own
        } else {
            audiences
        };
        match self.verify(token) {
            Ok(verified) => {
                let audiences = accept(&verified, audiences, cluster, now);
                CheckedToken { verified: Some(verified), audiences }
            }
            Err(refused) => CheckedToken { verified: None, audiences: Err(refused.into()) },
        }
    }

    /// The Secret of a token that was just used, if its label does not have the day of this use yet.
    pub fn unmarked_secret(&self, token: &str, cluster: &dyn Lookup, now: Timestamp) -> Option<UsedSecret> {
        // Only tokens of Secrets have this issuer, so that other tokens need no digest here.
        if !has_legacy_issuer(token) {
            return None;
        }
        self.verify(token).ok()?.secret.as_ref()?.unmarked(cluster, now)
    }

    /// The expiry of a token with a valid signature.
    pub fn expires(&self, token: &str) -> Option<Timestamp> {
        let verified = self.verify(token).ok()?;
        Timestamp::from_second(verified.claims.exp).ok()
    }

    fn verify(&self, token: &str) -> Result<Arc<Verified>, Refused> {
        let digest = digest(token);
        if let Some(known) = digest.and_then(|digest| self.verified.get(&digest)) {
            return Ok(known);
        }
        let verified = Arc::new(self.verify_signature(token)?);
        if let Some(digest) = digest {
            self.verified.insert(digest, verified.clone());
        }
        Ok(verified)
    }

    fn verify_signature(&self, token: &str) -> Result<Verified, Refused> {
        if has_legacy_issuer(token)
            && let Ok(legacy) = self.tokens.verify_legacy(token)
        {
            let claims = legacy.unlimited(self.tokens.audiences());
            let user = user(&claims);
            return Ok(Verified::new(claims, user, Some(TokenSecret::new(&legacy, token))));
        }
        let claims = self.tokens.verify(token)?;
        let user = user(&claims);
        Ok(Verified::new(claims, user, None))
    }
}

/// A token whose signature, times, audiences and bound objects were checked.
pub struct CheckedToken {
    /// The token, if its signature is valid.
    pub(super) verified: Option<Arc<Verified>>,
    /// The audiences for which the token is valid.
    pub audiences: Result<Vec<String>, Unknown>,
}

impl CheckedToken {
    /// The user of a valid token, and the audiences.
    pub fn into_identity(self) -> Result<(Arc<UserInfo>, Vec<String>), Unknown> {
        let good = self.audiences?;
        let verified = self.verified.expect("only a token with a valid signature has audiences");
        Ok((verified.user.clone(), good))
    }
}

/// Those of `audiences` for which a token with a valid signature is valid.
fn accept(
    verified: &Verified,
    audiences: &[&str],
    cluster: &dyn Lookup,
    now: Timestamp,
) -> Result<Vec<String>, Unknown> {
    let good = verified.claims.accept(audiences, now)?;
    if let Some(what) = verified.gone(cluster, now) {
        return Err(Unknown::Gone(what));
    }
    if let Some(secret) = &verified.secret {
        secret.check(cluster)?;
    }
    verified.mark_used();
    Ok(good)
}

/// Whether the text looks like a token whose issuer is [`LEGACY_ISSUER`]. Its signature is not verified.
fn has_legacy_issuer(token: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Issued<'t> {
        #[serde(borrow)]
        iss: Cow<'t, str>,
    }
    let payload = token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
    let issued = |bytes: Vec<u8>| {
        serde_json::from_slice::<Issued<'_>>(&bytes).is_ok_and(|issued| issued.iss == LEGACY_ISSUER)
    };
    payload.is_some_and(issued)
}

fn user(claims: &Claims) -> UserInfo {
    let of = &claims.cluster;
    let mut user = UserInfo::service_account(&of.namespace, &of.serviceaccount.name);
    user.uid.clone_from(&of.serviceaccount.uid);
    let id = if claims.jti.is_empty() { String::new() } else { format!("JTI={}", claims.jti) };
    let mut extra = BTreeMap::from([("credential-id".to_owned(), id)]);
    for (what, bound) in [("pod", &of.pod), ("node", &of.node)] {
        for bound in bound.iter() {
            extra.insert(format!("{what}-name"), bound.name.clone());
            extra.insert(format!("{what}-uid"), bound.uid.clone());
        }
    }
    user.extra = extra
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (format!("{EXTRA}{key}"), vec![value]))
        .collect();
    user
}

#[cfg(test)]
mod tests {
    use super::super::token_uses::TokenUse;
    use super::*;
    use crate::token::tests::tokens;
    use crate::token::{Bound, Claims, ISSUER};
    use kstore_registry::testing::MapLookup;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn object(kind: &str, name: &str, uid: &str) -> Value {
        let namespace = if kind == "Node" { "" } else { "ns" };
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name, "uid": uid}})
    }

    fn authenticator() -> TokenAuthenticator {
        TokenAuthenticator::new(Arc::new(tokens()))
    }

    fn claims(pod: Option<Bound>) -> Claims {
        let account = Bound { name: "builder".into(), uid: "u1".into() };
        let mut claims = Claims::new(
            ("ns", &account),
            &[ISSUER.to_owned(), "vault".to_owned()],
            at(1000),
            600,
            "id".into(),
        );
        claims.cluster.pod = pod;
        claims
    }

    #[test]
    fn a_token_authenticates_its_account_and_names_its_pod() {
        let cluster = MapLookup::of([object("ServiceAccount", "builder", "u1"), object("Pod", "p", "u2")]);
        let authenticator = authenticator();
        let bound = claims(Some(Bound { name: "p".into(), uid: "u2".into() }));
        let token = authenticator.tokens().sign(&bound).unwrap();
        let (user, good) = authenticator.identity(&token, &[], &*cluster, at(1000)).unwrap();
        assert_eq!(user.username, "system:serviceaccount:ns:builder");
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
        );
        assert_eq!((user.uid.as_str(), good), ("u1", vec![ISSUER.to_owned()]));
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
        assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=id"]);
        let (_, good) = authenticator.identity(&token, &["vault", "other"], &*cluster, at(1000)).unwrap();
        assert_eq!(good, ["vault"]);
        let refused = authenticator.identity(&token, &["other"], &*cluster, at(1000));
        assert_eq!(refused, Err(Unknown::Refused(Refused::Audience)));
    }

    #[test]
    fn a_token_is_invalid_without_the_exact_objects_it_is_bound_to() {
        let authenticator = authenticator();
        let tokens = authenticator.tokens();
        let bound = tokens.sign(&claims(Some(Bound { name: "p".into(), uid: "u2".into() }))).unwrap();
        let plain = tokens.sign(&claims(None)).unwrap();
        let account = object("ServiceAccount", "builder", "u1");
        let mut leaving = account.clone();
        leaving["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:15:00Z");
        let cases = [
            (vec![account.clone(), object("Pod", "p", "u3")], &bound, 1000, Err(Unknown::Gone("the pod"))),
            (vec![account], &bound, 1000, Err(Unknown::Gone("the pod"))),
            (
                vec![object("ServiceAccount", "builder", "u9")],
                &plain,
                1000,
                Err(Unknown::Gone("the account")),
            ),
            (vec![], &plain, 1000, Err(Unknown::Gone("the account"))),
            (vec![leaving.clone()], &plain, 959 + 41, Err(Unknown::Gone("the account"))),
        ];
        for (objects, token, now, want) in cases {
            let found = authenticator.identity(token, &[], &*MapLookup::of(objects), at(now));
            assert_eq!(found.map(|(user, _)| user.username.clone()), want);
        }
        leaving["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:16:30Z");
        assert!(authenticator.identity(&plain, &[], &*MapLookup::of([leaving]), at(1000)).is_ok());
    }

    #[test]
    fn a_verified_token_is_refused_at_the_first_request_after_its_end() {
        let authenticator = authenticator();
        let pod = Bound { name: "p".into(), uid: "u2".into() };
        let token = authenticator.tokens().sign(&claims(Some(pod))).unwrap();
        let whole = || vec![object("ServiceAccount", "builder", "u1"), object("Pod", "p", "u2")];
        let look = |objects: Vec<Value>, now| {
            let found = authenticator.identity(&token, &[], &*MapLookup::of(objects), at(now));
            found.map(|(user, _)| user.uid.clone())
        };
        let mut leaving = whole();
        leaving[1]["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:16:41Z");
        let cases = [
            (whole(), 1000, Ok("u1".to_owned())),
            (vec![object("ServiceAccount", "builder", "u1")], 1000, Err(Unknown::Gone("the pod"))),
            (whole(), 1000, Ok("u1".to_owned())),
            (vec![object("Pod", "p", "u2")], 1000, Err(Unknown::Gone("the account"))),
            (
                vec![object("ServiceAccount", "builder", "u1"), object("Pod", "p", "u3")],
                1000,
                Err(Unknown::Gone("the pod")),
            ),
            (leaving.clone(), 1060, Ok("u1".to_owned())),
            (leaving, 1061, Err(Unknown::Gone("the pod"))),
            (whole(), 1599, Ok("u1".to_owned())),
            (whole(), 1600, Err(Unknown::Refused(Refused::Expired))),
            (whole(), 999, Err(Unknown::Refused(Refused::NotYet))),
        ];
        for (step, (objects, now, want)) in cases.into_iter().enumerate() {
            assert_eq!(look(objects, now), want, "step {step}");
        }
    }

    fn secret(token: &str, labels: Value) -> Value {
        use base64::engine::general_purpose::STANDARD;
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"namespace": "ns", "name": "builder-token", "uid": "u5", "labels": labels},
            "data": {"token": STANDARD.encode(token)}})
    }

    fn legacy_token(authenticator: &TokenAuthenticator) -> String {
        let account = Bound { name: "builder".into(), uid: "u1".into() };
        let claims = crate::token::LegacyClaims::new("ns", "builder-token", &account);
        authenticator.tokens().sign_legacy(&claims).unwrap()
    }

    #[test]
    fn a_token_of_a_secret_is_valid_while_the_secret_holds_it() {
        let authenticator = authenticator();
        let token = legacy_token(&authenticator);
        let account = || object("ServiceAccount", "builder", "u1");
        let mut leaving = secret(&token, json!({}));
        leaving["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:16:40Z");
        let gone = |what| Err(Unknown::Gone(what));
        let used = json!({"kubernetes.io/legacy-token-last-used": "1970-01-01"});
        let invalid = json!({"kubernetes.io/legacy-token-invalid-since": "1970-01-01"});
        let cases = [
            (vec![account(), secret(&token, used)], Ok("system:serviceaccount:ns:builder".to_owned())),
            (vec![account(), secret("another", json!({}))], gone("the secret")),
            (vec![account(), leaving], gone("the secret")),
            (vec![account()], gone("the secret")),
            (vec![secret(&token, json!({}))], gone("the account")),
            (vec![object("ServiceAccount", "builder", "u2"), secret(&token, json!({}))], gone("the account")),
            (vec![account(), secret(&token, invalid)], Err(Unknown::Invalidated)),
        ];
        for (step, (objects, want)) in cases.into_iter().enumerate() {
            let found = authenticator.identity(&token, &[], &*MapLookup::of(objects), at(1000));
            assert_eq!(found.map(|(user, _)| user.username.clone()), want, "step {step}");
        }
        let cluster = MapLookup::of([account(), secret(&token, json!({}))]);
        let (user, good) = authenticator.identity(&token, &[], &*cluster, at(i64::from(u32::MAX))).unwrap();
        assert_eq!((user.uid.as_str(), &user.extra, good), ("u1", &BTreeMap::new(), vec![ISSUER.to_owned()]));
        let refused = authenticator.identity(&token, &["vault"], &*cluster, at(1000));
        assert_eq!(refused, Err(Unknown::Refused(Refused::Audience)), "it is for this API only");
        assert_eq!(authenticator.expires(&token), None);
    }

    #[test]
    fn a_secret_is_marked_with_the_day_of_the_last_use_of_its_token() {
        let authenticator = authenticator();
        let token = legacy_token(&authenticator);
        let marked = |day: &str| secret(&token, json!({"kubernetes.io/legacy-token-last-used": day}));
        let (day, at) = ("2026-03-01", "2026-03-01T23:59:59Z".parse().unwrap());
        let cases = [
            (secret(&token, json!({})), Some(day)),
            (marked("2026-02-28"), Some(day)),
            (marked("2026-03-01"), None),
            (marked("2026-03-02"), None),
            (marked("2026-03-03"), Some(day)),
            (secret("another", json!({})), None),
        ];
        for (secret, want) in cases {
            let used = authenticator.unmarked_secret(&token, &*MapLookup::of([secret.clone()]), at);
            assert_eq!(used.map(|used| used.day).as_deref(), want, "{secret}");
        }
        let bound = authenticator.tokens().sign(&claims(None)).unwrap();
        assert_eq!(authenticator.unmarked_secret(&bound, &*MapLookup::of([]), at), None);
    }

    #[test]
    fn uses_of_tokens_that_clients_should_replace_are_counted_and_annotated() {
        let authenticator = authenticator();
        let legacy = legacy_token(&authenticator);
        let mut of_pod = claims(None);
        of_pod.cluster.warnafter = Some(1300);
        let of_pod = authenticator.tokens().sign(&of_pod).unwrap();
        let plain = authenticator.tokens().sign(&claims(None)).unwrap();
        let account = |secrets: Value| {
            let mut account = object("ServiceAccount", "builder", "u1");
            account["secrets"] = secrets;
            account
        };
        let invalid = json!({"kubernetes.io/legacy-token-invalid-since": "1970-01-01"});
        let used = |token: &str, secrets: Value, labels: &Value, now: i64| -> Vec<String> {
            let cluster = MapLookup::of([account(secrets), secret(&legacy, labels.clone())]);
            let checked = authenticator.check(token, &[], &*cluster, at(now));
            let Some(used) = TokenUse::of(&checked, &*cluster, at(now)) else { return vec![] };
            authenticator.uses().count(&used);
            used.annotations()
                .into_iter()
                .map(|annotation| format!("{}: {}", annotation.key, annotation.value))
                .collect()
        };
        let (none, subject) = (json!({}), "system:serviceaccount:ns:builder");
        let of = |name: &str, value: &str| format!("authentication.k8s.io/{name}: {value}");
        let with = |annotation: String| vec![of("legacy-token", subject), annotation];
        let cases = [
            (&legacy, json!([]), &none, 1000, with(of("legacy-token-manual-secret", "builder-token"))),
            (
                &legacy,
                json!([{"name": "other"}, {"name": "builder-token"}]),
                &none,
                1000,
                with(of("legacy-token-autogenerated-secret", "builder-token")),
            ),
            (&legacy, json!([]), &invalid, 1000, with(of("legacy-token-invalidated", "builder-token/ns"))),
            (&of_pod, json!([]), &none, 1300, vec![]),
            (
                &of_pod,
                json!([]),
                &none,
                1342,
                vec![of("stale-token", &format!("subject: {subject}, seconds after warning threshold: 42"))],
            ),
            (&of_pod, json!([]), &none, 1600, vec![]),
            (&plain, json!([]), &none, 1000, vec![]),
        ];
        for (step, (token, secrets, labels, now, want)) in cases.into_iter().enumerate() {
            assert_eq!(used(token, secrets, labels, now), want, "step {step}");
        }
        let gone = authenticator.check(&legacy, &[], &*MapLookup::of([account(json!([]))]), at(1000));
        let used = TokenUse::of(&gone, &*MapLookup::of([]), at(1000)).unwrap();
        assert_eq!(used.annotations().len(), 1, "its Secret does not exist");
        authenticator.uses().count(&used);
        let mut page = String::new();
        authenticator.uses().render_metrics(&mut kstore_metrics_text::Page::new(&mut page));
        let lines: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "serviceaccount_invalid_legacy_auto_token_uses_total 1",
                "serviceaccount_legacy_auto_token_uses_total 1",
                "serviceaccount_legacy_manual_token_uses_total 1",
                "serviceaccount_legacy_tokens_total 4",
                "serviceaccount_stale_tokens_total 1",
                "serviceaccount_valid_tokens_total 1",
            ]
        );
    }

    #[test]
    fn a_signature_is_verified_once_and_invalid_tokens_are_not_cached() {
        let authenticator = authenticator();
        let cluster = MapLookup::of([object("ServiceAccount", "builder", "u1")]);
        let token = authenticator.tokens().sign(&claims(None)).unwrap();
        let first = authenticator.verify(&token).unwrap();
        assert!(Arc::ptr_eq(&first, &authenticator.verify(&token).unwrap()));
        // Neither a prefix nor a token with another signature counts as verified.
        let other = super::super::verified::digest(&token[..token.len() - 1]).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { 'B' } else { 'A' };
        let forged = format!("{signed}.{first}{}", &signature[1..]);
        for bad in [&token[..token.len() - 1], &forged, "x"] {
            let refused = authenticator.identity(bad, &[], &*cluster, at(1000));
            assert_eq!(refused, Err(Unknown::Refused(Refused::Foreign)), "{bad}");
        }
        assert!(authenticator.verified.get(&other).is_none());
        let rotated = self::authenticator();
        let refused = rotated.identity(&token, &[], &*cluster, at(1000));
        assert_eq!(refused, Err(Unknown::Refused(Refused::Foreign)), "another key has an empty cache");
    }

    #[test]
    fn the_authorization_scheme_is_case_insensitive() {
        let header = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(bearer(&header("bearer  abc ")).as_deref(), Some("abc"));
        assert_eq!(bearer(&header("Basic abc")), None);
        assert_eq!(bearer(&header("Bearer ")), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_token_can_be_sent_as_a_websocket_protocol() {
        let bearer = |protocols: &str| {
            let headers = HeaderMap::from_iter([(SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap())]);
            bearer(&headers).map(Cow::into_owned)
        };
        let token = "base64url.bearer.authorization.k8s.io.YWJj";
        assert_eq!(bearer(&format!("{token}, v4.channel.k8s.io")).as_deref(), Some("abc"));
        assert_eq!(bearer(&format!("{token},{token}")), None, "ambiguous");
        assert_eq!(bearer("base64url.bearer.authorization.k8s.io.?"), None);
        assert_eq!(bearer("v4.channel.k8s.io"), None);
    }
}
