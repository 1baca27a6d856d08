//! Which requests a rule or a route is for: by client and by what is asked for. Names are globs (`*`, `?`). Pure.

use crate::client::identity::{glob, short_agent};
use crate::form::is_default;
use crate::request::{RequestTarget, Verb};
use serde::{Deserialize, Serialize};

/// Users of the cluster's own components: selected only by name.
const OWN_USERS: [&str; 3] =
    ["system:kube-controller-manager", "system:kube-scheduler", "system:kstore:kubelet-sim"];
/// Prefix of the user names of the cluster's own controllers: selected only by name.
const OWN_ACCOUNTS: &str = "system:serviceaccount:kube-system:";

/// The client of a request, as selectors see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity<'a> {
    /// Name of the client in the lab: that of a program, of `PUT /clients/NAME`, or user and agent.
    pub name: &'a str,
    /// Authenticated user; empty if it is unknown.
    pub user: &'a str,
    /// Whole user agent.
    pub agent: &'a str,
}

impl ClientIdentity<'_> {
    /// Whether it is a component of the cluster itself.
    pub fn is_own(&self) -> bool {
        OWN_USERS.contains(&self.user) || self.user.starts_with(OWN_ACCOUNTS)
    }
}

/// Selects clients. A client matches if every given member does; without members, all clients but the cluster's own components match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClientSelector {
    /// Glob of the user name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// User agent up to the first slash, or a glob of all of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Glob of the client's name in the lab, which is that of a program or of `PUT /clients/NAME`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub program: String,
}

impl ClientSelector {
    /// Selects a program, or another named client.
    pub fn program(name: &str) -> Self {
        Self { program: name.to_owned(), ..Self::default() }
    }

    /// Whether the client is selected.
    pub fn matches(&self, client: &ClientIdentity<'_>) -> bool {
        if self == &Self::default() {
            return !client.is_own();
        }
        let is_agent = self.agent.is_empty()
            || self.agent == short_agent(client.agent)
            || glob(&self.agent, client.agent);
        is_agent
            && (self.user.is_empty() || glob(&self.user, client.user))
            && (self.program.is_empty() || glob(&self.program, client.name))
    }
}

/// Selects requests. A request matches if every list that is not empty has a matching entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestSelector {
    /// Verbs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Verb>,
    /// Globs of resources, as `plural.group`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Globs of subresources; an empty text is the object itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<String>,
    /// Globs of namespaces; an empty text is cluster scope, or all namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Globs of names; an empty text is a collection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl RequestSelector {
    /// Whether the request is selected.
    pub fn matches(&self, target: &RequestTarget) -> bool {
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, text))
        };
        (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && any(&self.resources, &target.resource)
            && any(&self.subresources, &target.subresource)
            && any(&self.namespaces, &target.namespace)
            && any(&self.names, &target.name)
    }

    /// Whether every request is selected.
    pub fn is_all(&self) -> bool {
        is_default(self)
    }
}
