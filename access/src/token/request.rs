//! TokenRequests: defaults, validation, and binding to objects. Pure; [`super::Tokens`] signs.

use super::{Bound, Claims, Tokens};
use jiff::Timestamp;
use kstore_api::field::{ErrorList, Path};
use kstore_api::meta;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::lookup::core;
use serde_json::{Value, json};
use std::sync::Arc;

const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The expiration that kubelets request for pods. Old clients do not read a renewed token, so these tokens
/// last longer and contain the time at which they should have been renewed.
const POD_SECONDS: i64 = 3607;
const POD_EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// A function that finds an object by resource, namespace and name.
pub type Find<'a> = dyn Fn(&'static Resource, &str, &str) -> Option<Arc<Value>> + 'a;

/// Fills in the defaults of `request`, and returns the claims of its token. Sets `status.expirationTimestamp`
/// to the expiration that the client should assume.
///
/// # Errors
/// 422 for an invalid request, 400 and 409 for objects that the token cannot be bound to, 404 for absent
/// ones.
pub fn claims(
    request: &mut Value,
    account: &Value,
    find: &Find<'_>,
    (now, id): (Timestamp, String),
    tokens: &Tokens,
) -> Result<Claims, Status> {
    complete(request, tokens.audiences());
    check(request, meta::name(account))?;
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let audiences: Vec<String> = strings(&request["spec"]["audiences"]);
    let namespace = meta::namespace(account);
    let mut claims = Claims::new((namespace, &this(account)), &audiences, now, seconds, id);
    tokens.issuer().clone_into(&mut claims.iss);
    let expires = Timestamp::from_second(claims.exp).unwrap_or(Timestamp::MAX);
    bind(&mut claims, &request["spec"]["boundObjectRef"], account, find)?;
    if claims.cluster.pod.is_some() && seconds == POD_SECONDS {
        claims.cluster.warnafter = Some(claims.exp);
        claims.exp = claims.iat + POD_EXTENDED_SECONDS;
    }
    request["status"] = json!({"expirationTimestamp": meta::format_time(expires)});
    Ok(claims)
}

fn complete(request: &mut Value, audiences: &[String]) {
    if strings(&request["spec"]["audiences"]).is_empty() {
        request["spec"]["audiences"] = json!(audiences);
    }
    if request["spec"]["expirationSeconds"].is_null() {
        request["spec"]["expirationSeconds"] = json!(DEFAULT_SECONDS);
    }
}

fn check(request: &Value, account: &str) -> Result<(), Status> {
    let seconds = &request["spec"]["expirationSeconds"];
    let spec = Path::new("spec");
    let path = spec.child("expirationSeconds");
    let mut errors = ErrorList::new();
    match seconds.as_i64().unwrap_or_default() {
        short if short < MIN_SECONDS => {
            errors.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
        }
        long if long > MAX_SECONDS => {
            errors.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
        _ => return Ok(()),
    }
    Err(Status::invalid("authentication.k8s.io", "TokenRequest", account, &errors))
}

fn bind(claims: &mut Claims, wanted: &Value, account: &Value, find: &Find<'_>) -> Result<(), Status> {
    if wanted.is_null() {
        return Ok(());
    }
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let namespace = claims.cluster.namespace.clone();
    let found = |plural: &str, namespace: &str| -> Result<Arc<Value>, Status> {
        let row = core(plural);
        let object =
            find(row, namespace, text("name")).ok_or_else(|| Status::not_found(row, text("name")))?;
        if !text("uid").is_empty() && text("uid") != meta::uid(&object) {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                text("uid")
            );
            return Err(Status::conflict(row, text("name"), &why));
        }
        Ok(object)
    };
    match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => {
            let pod = found("pods", &namespace)?;
            let runs_as = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
            if runs_as != meta::name(account) {
                let name = meta::name(account);
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {name:?} to pod running with different serviceaccount name."
                )));
            }
            claims.cluster.node = node_of(&pod, find);
            claims.cluster.pod = Some(this(&pod));
        }
        ("v1", "Secret") => claims.cluster.secret = Some(this(&*found("secrets", &namespace)?)),
        ("v1", "Node") => claims.cluster.node = Some(this(&*found("nodes", "")?)),
        (version, kind) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    }
    Ok(())
}

/// The node of a pod; without a uid if the node does not exist.
fn node_of(pod: &Value, find: &Find<'_>) -> Option<Bound> {
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let uid = find(core("nodes"), "", name).map(|node| meta::uid(&node).to_owned()).unwrap_or_default();
    Some(Bound { name: name.into(), uid })
}

fn this(object: &Value) -> Bound {
    Bound { name: meta::name(object).into(), uid: meta::uid(object).into() }
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::ISSUER;
    use crate::token::tests::tokens;

    const NOW: i64 = 1_700_000_000;

    fn account() -> Value {
        json!({"metadata": {"namespace": "ns", "name": "builder", "uid": "u1"}})
    }

    fn cluster(row: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let object = match (row.plural, namespace, name) {
            ("pods", "ns", "p") => json!({"metadata": {"name": "p", "uid": "u2"},
                "spec": {"serviceAccountName": "builder", "nodeName": "n"}}),
            ("pods", "ns", "other") => json!({"metadata": {"name": "other", "uid": "u3"}, "spec": {}}),
            ("nodes", "", "n") => json!({"metadata": {"name": "n", "uid": "u4"}}),
            ("secrets", "ns", "s") => json!({"metadata": {"name": "s", "uid": "u5"}}),
            _ => return None,
        };
        Some(Arc::new(object))
    }

    fn ask(spec: Value) -> Result<(Claims, Value), Status> {
        let mut request = json!({"spec": spec});
        let now = Timestamp::from_second(NOW).unwrap();
        claims(&mut request, &account(), &cluster, (now, "id".into()), &tokens())
            .map(|claims| (claims, request))
    }

    fn bound(kind: &str, name: &str, uid: &str) -> Value {
        json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}})
    }

    #[test]
    fn an_empty_token_request_yields_an_hour_for_this_api() {
        let (claims, request) = ask(json!({})).unwrap();
        assert_eq!((claims.aud, claims.exp), (vec![ISSUER.to_owned()], NOW + 3600));
        assert_eq!(claims.sub, "system:serviceaccount:ns:builder");
        assert_eq!(request["spec"]["expirationSeconds"], 3600);
        assert_eq!(request["status"]["expirationTimestamp"], "2023-11-14T23:13:20Z");
    }

    #[test]
    fn tokens_are_bound_to_objects_by_uid() {
        let (claims, _) = ask(bound("Pod", "p", "u2")).unwrap();
        assert_eq!(claims.cluster.pod, Some(Bound { name: "p".into(), uid: "u2".into() }));
        assert_eq!(claims.cluster.node, Some(Bound { name: "n".into(), uid: "u4".into() }));
        assert!(ask(bound("Secret", "s", "")).unwrap().0.cluster.secret.is_some());
        assert!(ask(bound("Node", "n", "u4")).unwrap().0.cluster.node.is_some());
        for (kind, name, uid, code) in [
            ("Pod", "p", "u9", 409),
            ("Pod", "other", "", 400),
            ("Pod", "gone", "", 404),
            ("ConfigMap", "c", "", 400),
        ] {
            assert_eq!(ask(bound(kind, name, uid)).unwrap_err().code, code, "{kind} {name}");
        }
    }

    #[test]
    fn pod_tokens_last_longer_than_their_stated_expiration() {
        let mut spec = bound("Pod", "p", "u2");
        spec["expirationSeconds"] = json!(3607);
        let (claims, request) = ask(spec).unwrap();
        assert_eq!((claims.exp, claims.cluster.warnafter), (NOW + POD_EXTENDED_SECONDS, Some(NOW + 3607)));
        assert_eq!(request["status"]["expirationTimestamp"], "2023-11-14T23:13:27Z");
    }

    #[test]
    fn times_have_bounds() {
        for (seconds, text) in
            [(MIN_SECONDS - 1, "less than 10 minutes"), (MAX_SECONDS + 1, "larger than 2^32 seconds")]
        {
            let refused = ask(json!({"expirationSeconds": seconds})).unwrap_err();
            assert!(refused.code == 422 && refused.message.contains(text), "{}", refused.message);
        }
    }
}
