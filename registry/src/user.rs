//! [`UserInfo`]: an authenticated caller, and the names of users and groups that Kubernetes reserves. Plain data;
//! `authn` makes it from credentials.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Group of all users that presented valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// User of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// Group that may do everything: its requests skip the authorizer.
pub const MASTERS: &str = "system:masters";

/// The user as which the apiserver writes on its own behalf.
pub const SELF: &str = "system:apiserver";

/// An authenticated caller, with the fields of `authentication.k8s.io/v1 UserInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// The unique name, for example `kubernetes-admin` or `system:serviceaccount:default:builder`.
    pub username: String,
    /// An identifier that outlives renames; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups, `system:authenticated` included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Additional fields of the authentication mechanism.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with this name and these groups; `system:authenticated` is added.
    pub fn new(username: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|g| g == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        Self { username: username.into(), groups, ..Self::default() }
    }

    /// The user of a node's kubelet.
    pub fn node(name: &str) -> Self {
        Self::new(format!("system:node:{name}"), ["system:nodes"])
    }

    /// The user of a service account, as in its token.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        Self::new(format!("system:serviceaccount:{namespace}:{name}"), groups)
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self { username: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Whether the request presented no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.username == ANONYMOUS
    }

    /// Whether the user is a member of `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}
