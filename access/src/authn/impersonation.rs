//! Impersonation: `Impersonate-*` headers let a permitted caller act as another user. Each part of the other
//! identity needs a permission.

use crate::authz::{Attributes, Authorizer, Decision, More, Target};
use crate::percent_encoding::decode;
use http::HeaderMap;
use kstore_api::name::{dns1123_label, dns1123_subdomain};
use kstore_api::status::{DeniedRequest, Status};
use kstore_registry::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// A permission that an impersonation requires.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequiredPermission {
    group: &'static str,
    resource: &'static str,
    subresource: String,
    namespace: String,
    name: String,
}

/// The user to impersonate; `None` without impersonation headers. Each part of the identity is authorized for
/// the caller.
///
/// # Errors
/// 403 if a part is not allowed; 400 if headers are incomplete or not text.
pub async fn identity(
    caller: &UserInfo,
    headers: &HeaderMap,
    authorizer: &Authorizer,
) -> Result<Option<UserInfo>, Status> {
    let Some(mut user) = requested(headers)? else { return Ok(None) };
    for part in required_permissions(&user) {
        let decision = authorizer.decide(&part.attributes(caller)).await;
        part.check(caller, decision)?;
    }
    complete_groups(&mut user);
    Ok(Some(user))
}

/// The permissions required to impersonate a user.
fn required_permissions(user: &UserInfo) -> Vec<RequiredPermission> {
    let part = |group, resource, subresource: &str, namespace: &str, name: &str| RequiredPermission {
        group,
        resource,
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mut parts = vec![match service_account(&user.username) {
        Some((namespace, name)) => part("", "serviceaccounts", "", namespace, name),
        None => part("", "users", "", "", &user.username),
    }];
    parts.extend(user.groups.iter().map(|group| part("", "groups", "", "", group)));
    if !user.uid.is_empty() {
        parts.push(part(AUTHENTICATION, "uids", "", "", &user.uid));
    }
    for (key, values) in &user.extra {
        parts.extend(values.iter().map(|value| part(AUTHENTICATION, "userextras", key, "", value)));
    }
    parts
}

impl RequiredPermission {
    fn attributes<'a>(&'a self, caller: &'a UserInfo) -> Attributes<'a> {
        let target = Target::Resource {
            group: self.group,
            resource: self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
        };
        Attributes { user: caller, verb: "impersonate", target, more: More::default() }
    }

    fn check(&self, caller: &UserInfo, decision: Decision) -> Result<(), Status> {
        match decision {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(why) | Decision::Deny(why) => {
                let denied = DeniedRequest {
                    user: &caller.username,
                    verb: "impersonate",
                    subresource: &self.subresource,
                    namespace: &self.namespace,
                    name: &self.name,
                    why: &why,
                };
                Err(Status::forbidden_access((self.group, self.resource), &denied))
            }
        }
    }
}

/// The namespace and name of the service account that a user name denotes. A name that no service account can
/// have, such as one with a further colon, is an ordinary user's: permission to impersonate service accounts
/// does not cover it.
fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}

/// The identity in the headers, before implied groups are added.
fn requested(headers: &HeaderMap) -> Result<Option<UserInfo>, Status> {
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

/// Adds implied groups: those of a service account without any groups, and `system:authenticated` or
/// `system:unauthenticated`, of which a user is in one only (upstream's `WithImpersonation`).
fn complete_groups(user: &mut UserInfo) {
    let account = service_account(&user.username);
    if let (Some((namespace, _)), true) = (account, user.groups.is_empty()) {
        user.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let implied = if user.username == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(implied.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair =
            |(k, v): &(&'static str, &'static str)| (HeaderName::from_static(k), HeaderValue::from_static(v));
        pairs.iter().map(pair).collect()
    }

    /// Impersonation with a function in place of the authorizer.
    fn identity(
        caller: &UserInfo,
        headers: &HeaderMap,
        authorize: impl Fn(&Attributes<'_>) -> Decision,
    ) -> Result<Option<UserInfo>, Status> {
        let Some(mut user) = requested(headers)? else { return Ok(None) };
        required_permissions(&user)
            .iter()
            .try_for_each(|part| part.check(caller, authorize(&part.attributes(caller))))?;
        complete_groups(&mut user);
        Ok(Some(user))
    }

    fn allow(_: &Attributes<'_>) -> Decision {
        Decision::Allow(String::new())
    }

    fn deny(_: &Attributes<'_>) -> Decision {
        Decision::NoOpinion(String::new())
    }

    #[test]
    fn without_headers_a_caller_keeps_its_identity() {
        let caller = UserInfo::new("bob", [""; 0]);
        assert_eq!(identity(&caller, &HeaderMap::new(), deny), Ok(None));
    }

    #[test]
    fn an_allowed_caller_acts_as_the_other_user_and_service_accounts_get_their_groups() {
        let caller = UserInfo::new("root", [""; 0]);
        let shown = headers(&[(USER, "jane"), (GROUP, "dev"), (UID, "7"), ("impersonate-extra-a%2fb", "c")]);
        let jane = identity(&caller, &shown, allow).unwrap().unwrap();
        assert_eq!((jane.username.as_str(), jane.uid.as_str()), ("jane", "7"));
        assert_eq!(jane.groups, ["dev", AUTHENTICATED]);
        assert_eq!(jane.extra["a/b"], ["c"]);
        let account =
            identity(&caller, &headers(&[(USER, "system:serviceaccount:ns:sa")]), allow).unwrap().unwrap();
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
        let anonymous = identity(&caller, &headers(&[(USER, ANONYMOUS)]), allow).unwrap().unwrap();
        assert_eq!(anonymous.groups, [UNAUTHENTICATED]);
    }

    #[test]
    fn an_impersonated_user_in_system_unauthenticated_is_not_in_system_authenticated() {
        let caller = UserInfo::new("root", [""; 0]);
        let shown = headers(&[(USER, "jane"), (GROUP, UNAUTHENTICATED)]);
        assert_eq!(identity(&caller, &shown, allow).unwrap().unwrap().groups, [UNAUTHENTICATED]);
        let shown = headers(&[(USER, ANONYMOUS), (GROUP, AUTHENTICATED)]);
        assert_eq!(identity(&caller, &shown, allow).unwrap().unwrap().groups, [AUTHENTICATED]);
    }

    #[test]
    fn permission_for_service_accounts_does_not_cover_names_that_no_service_account_can_have() {
        let caller = UserInfo::new("bob", [""; 0]);
        let accounts_only = |shown: &Attributes<'_>| match shown.target {
            Target::Resource { resource: "serviceaccounts", .. } => Decision::Allow(String::new()),
            _ => Decision::NoOpinion(String::new()),
        };
        let account = headers(&[(USER, "system:serviceaccount:ns:sa")]);
        assert!(identity(&caller, &account, accounts_only).is_ok());
        for name in ["ns:a:b", "ns:", ":sa", "NS:sa", "n.s:sa", "ns"] {
            let mut shown = HeaderMap::new();
            shown.insert(USER, HeaderValue::from_str(&format!("system:serviceaccount:{name}")).unwrap());
            let refused = identity(&caller, &shown, accounts_only).unwrap_err();
            assert!(refused.message.contains("cannot impersonate resource \"users\""), "{}", refused.message);
        }
    }

    #[test]
    fn a_refused_impersonation_names_the_missing_permission() {
        let caller = UserInfo::new("bob", [""; 0]);
        let refused = identity(&caller, &headers(&[(USER, "jane")]), deny).unwrap_err();
        assert_eq!(refused.code, 403);
        let expected = r#"users "jane" is forbidden: User "bob" cannot impersonate resource "users" in API group "" at the cluster scope"#;
        assert_eq!(refused.message, expected);
        assert_eq!(identity(&caller, &headers(&[(GROUP, "dev")]), allow).unwrap_err().code, 400);
    }
}
