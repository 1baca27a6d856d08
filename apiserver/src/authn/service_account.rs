//! Bearer tokens of service accounts: a token that this cluster signed speaks for its account for as long as the account, and what
//! else the token is bound to, is there: the same object, not another of the name.

use super::UserInfo;
use crate::lookup::Lookup;
use crate::token::request::core;
use crate::token::{Bound, Claims, ISSUER, Refused, Tokens};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use jiff::{SignedDuration, Timestamp};
use kstore_api::meta;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What is being deleted still counts this long, so that a pod can say goodbye.
const DELETED_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// Where a user's extra fields are.
const EXTRA: &str = "authentication.kubernetes.io/";

/// Why a token speaks for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// It is not good.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// What it speaks of is gone, or is another object of the same name.
    #[error("invalid bearer token, {0} of the service account token is gone")]
    Gone(&'static str),
}

/// As which WebSocket protocol pages in browsers send a token, since they can set no header.
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The bearer token of a request, if it has one: in its header, or among the protocols of a WebSocket.
pub fn bearer(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    in_header(headers).map(Cow::Borrowed).or_else(|| among_protocols(headers).map(Cow::Owned))
}

/// Whether a WebSocket protocol is a token, and none that is spoken.
pub fn is_token(protocol: &str) -> bool {
    protocol.trim().starts_with(PROTOCOL)
}

fn among_protocols(headers: &HeaderMap) -> Option<String> {
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

/// Who a token speaks for, and for which of the audiences asked for (none asked for: this API's) it is good.
///
/// # Errors
/// See [`Unknown`]. `Gone` is judged by what `cluster` shows, which may be a moment old.
pub fn identity(
    tokens: &Tokens,
    token: &str,
    audiences: &[&str],
    cluster: &dyn Lookup,
    now: Timestamp,
) -> Result<(UserInfo, Vec<String>), Unknown> {
    let audiences = if audiences.is_empty() { &[ISSUER] } else { audiences };
    let (claims, good) = tokens.check(token, audiences, now)?;
    let of = &claims.cluster;
    let lives = |plural: &str, namespace: &str, bound: &Bound| lives(cluster, plural, namespace, bound, now);
    let bindings = [
        ("the account", "serviceaccounts", of.namespace.as_str(), Some(&of.serviceaccount)),
        ("the pod", "pods", &of.namespace, of.pod.as_ref()),
        ("the secret", "secrets", &of.namespace, of.secret.as_ref()),
        // The node of a pod is told, not bound to.
        ("the node", "nodes", "", of.node.as_ref().filter(|_| of.pod.is_none())),
    ];
    for (what, plural, namespace, bound) in bindings {
        if bound.is_some_and(|bound| !lives(plural, namespace, bound)) {
            return Err(Unknown::Gone(what));
        }
    }
    Ok((user(&claims), good))
}

fn lives(cluster: &dyn Lookup, plural: &str, namespace: &str, bound: &Bound, now: Timestamp) -> bool {
    cluster.get(core(plural), namespace, &bound.name).is_some_and(|object| {
        let deleted = meta::deletion_timestamp(&object).and_then(meta::parse_time);
        meta::uid(&object) == bound.uid && deleted.is_none_or(|at| now.duration_since(at) < DELETED_GRACE)
    })
}

fn user(claims: &Claims) -> UserInfo {
    let of = &claims.cluster;
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", of.namespace)];
    let mut user = UserInfo::new(&claims.sub, groups);
    user.uid.clone_from(&of.serviceaccount.uid);
    let mut extra = BTreeMap::from([("credential-id".to_owned(), format!("JTI={}", claims.jti))]);
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
    use super::*;
    use crate::testing::MapLookup;
    use crate::token::Claims;
    use crate::token::tests::tokens;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn object(kind: &str, name: &str, uid: &str) -> Value {
        let namespace = if kind == "Node" { "" } else { "ns" };
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name, "uid": uid}})
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
    fn a_token_speaks_for_its_account_and_names_its_pod() {
        let cluster = MapLookup::of([object("ServiceAccount", "builder", "u1"), object("Pod", "p", "u2")]);
        let tokens = tokens();
        let token = tokens.sign(&claims(Some(Bound { name: "p".into(), uid: "u2".into() }))).unwrap();
        let (user, good) = identity(&tokens, &token, &[], &*cluster, at(1000)).unwrap();
        assert_eq!(user.username, "system:serviceaccount:ns:builder");
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
        );
        assert_eq!((user.uid.as_str(), good), ("u1", vec![ISSUER.to_owned()]));
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
        assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=id"]);
        let (_, good) = identity(&tokens, &token, &["vault", "other"], &*cluster, at(1000)).unwrap();
        assert_eq!(good, ["vault"]);
        let refused = identity(&tokens, &token, &["other"], &*cluster, at(1000));
        assert_eq!(refused, Err(Unknown::Refused(Refused::Audience)));
    }

    #[test]
    fn it_ends_with_the_very_object_it_is_bound_to() {
        let tokens = tokens();
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
            let found = identity(&tokens, token, &[], &*MapLookup::of(objects), at(now));
            assert_eq!(found.map(|(user, _)| user.username), want);
        }
        leaving["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:16:30Z");
        assert!(identity(&tokens, &plain, &[], &*MapLookup::of([leaving]), at(1000)).is_ok());
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        let header = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(bearer(&header("bearer  abc ")).as_deref(), Some("abc"));
        assert_eq!(bearer(&header("Basic abc")), None);
        assert_eq!(bearer(&header("Bearer ")), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_token_may_be_among_the_protocols_of_a_websocket() {
        let bearer = |protocols: &str| {
            let headers = HeaderMap::from_iter([(SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap())]);
            bearer(&headers).map(Cow::into_owned)
        };
        let token = "base64url.bearer.authorization.k8s.io.YWJj";
        assert_eq!(bearer(&format!("{token}, v4.channel.k8s.io")).as_deref(), Some("abc"));
        assert_eq!(bearer(&format!("{token},{token}")), None, "which of them?");
        assert_eq!(bearer("base64url.bearer.authorization.k8s.io.?"), None);
        assert_eq!(bearer("v4.channel.k8s.io"), None);
    }
}
