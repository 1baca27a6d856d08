//! [`ImpersonationMode`]: the five sets of verbs by which a role may allow impersonation, and the users to which each applies. Pure.

use kstore_api::name::{dns1123_label, dns1123_subdomain};
use kstore_registry::user::UserInfo;
use std::borrow::Cow;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";
/// The node of the pod to which the token of a service account is bound.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The names of the extra fields of a service account that impersonates its own node. Authorizers see them in place of the fields, so
/// that a decision holds for each node on which the account's pods run.
const ASSOCIATED_NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";

/// A way to be allowed to impersonate. The constrained modes need two permissions: `impersonate:MODE` for the identity, and
/// `impersonate-on:MODE:VERB` for the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImpersonationMode {
    /// A service account acts as the node on which its pod runs.
    AssociatedNode,
    /// A node, named by its user alone.
    ArbitraryNode,
    /// A service account, named by its user alone.
    ServiceAccount,
    /// Any other user, with groups, uid and extra fields.
    UserInfo,
    /// The verb `impersonate`, which allows every request as that user.
    Legacy,
}

impl ImpersonationMode {
    /// The modes in the order in which they are tried: constrained ones first.
    pub(super) const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    /// The mode's name in verbs and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    /// The verb of the permissions for the parts of an identity.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::AssociatedNode => "impersonate:associated-node",
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    /// The verb as audit events record it; `None` for the mode without a constraint.
    pub fn constraint(self) -> Option<&'static str> {
        self.is_constrained().then(|| self.verb())
    }

    /// Whether the mode needs a permission for the request itself.
    pub(super) fn is_constrained(self) -> bool {
        self != Self::Legacy
    }

    /// Whether `caller` can impersonate `wanted` in this mode, given permissions.
    pub(super) fn applies(self, caller: &UserInfo, wanted: &UserInfo) -> bool {
        let is_name_alone = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        match self {
            Self::AssociatedNode => is_name_alone && is_associated_node(caller, &wanted.username),
            Self::ArbitraryNode => is_name_alone && node(&wanted.username).is_some(),
            Self::ServiceAccount => is_name_alone && service_account(&wanted.username).is_some(),
            Self::UserInfo => node(&wanted.username).is_none() && service_account(&wanted.username).is_none(),
            Self::Legacy => true,
        }
    }

    /// The caller as authorizers see it in this mode.
    pub(super) fn requester(self, caller: &UserInfo) -> Cow<'_, UserInfo> {
        match self {
            Self::AssociatedNode => {
                let keys = caller.extra.keys().cloned().collect();
                let extra = [(ASSOCIATED_NODE_KEYS.to_owned(), keys)].into();
                Cow::Owned(UserInfo { extra, ..caller.clone() })
            }
            _ => Cow::Borrowed(caller),
        }
    }
}

/// Whether a user is a service account whose token is bound to a pod on the node that `username` denotes.
fn is_associated_node(caller: &UserInfo, username: &str) -> bool {
    let bound = caller.extra.get(NODE_NAME).map(Vec::as_slice);
    match (node(username), bound) {
        (Some(node), Some([bound])) => service_account(&caller.username).is_some() && bound == node,
        _ => false,
    }
}

/// The node that a user name denotes. A name that no node can have is an ordinary user's.
pub(super) fn node(username: &str) -> Option<&str> {
    username.strip_prefix(NODE).filter(|name| dns1123_subdomain(name).is_empty())
}

/// The namespace and name of the service account that a user name denotes. A name that no service account can
/// have, such as one with a further colon, is an ordinary user's: permission to impersonate service accounts
/// does not cover it.
pub(super) fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}
