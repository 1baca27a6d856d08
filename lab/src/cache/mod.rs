//! Lagging caches (§5.2): forms of the calls. A cache holds, per kind, a revision at which it stands, or follows the newest state; requests
//! are sent to it by routes. `answer` is the pure rule for each form of read, `caches` holds the state.

pub mod answer;
pub mod caches;

use crate::select::{ClientSelector, RequestSelector};
pub use caches::Caches;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Body of `PUT /caches/{name}`: a cache, which follows the newest state until it is frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CacheSpec {
    /// Changes of a kind before the cache's revision that its window has: a watch from further back gets 410. `None`: all that the
    /// cluster's history has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}

/// Body of `POST /caches/{name}/freeze`: the cache stands still.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Freeze {
    /// Kinds, as `plural.group`; empty: every kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Revision; `None`: the newest one. An older one must be retained, and the cache must not have shown a newer one to a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
}

/// Body of `POST /caches/{name}/thaw`: the cache delivers what it held, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Thaw {
    /// Kinds, as `plural.group`; empty: every kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Changes of each kind by which the cache moves, to stand there; `None`: it follows the newest state again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// A route: which requests are answered from which cache. The first route that matches decides; requests without one see the newest state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    /// Clients; by default all but the cluster's own components.
    #[serde(default, skip_serializing_if = "crate::form::is_default")]
    pub client: ClientSelector,
    /// Requests; by default all.
    #[serde(default, skip_serializing_if = "crate::form::is_default")]
    pub request: RequestSelector,
    /// Name of the cache.
    pub cache: String,
}

/// A cache in answers of the lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheReport {
    /// Name.
    pub name: String,
    /// See [`CacheSpec::window`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Newest revision of the cluster.
    pub head: i64,
    /// Kinds that stand still, with the revision; `*` is every kind that is not named.
    pub frozen: BTreeMap<String, i64>,
    /// Newest revision of each kind that a client was shown from this cache.
    pub shown: BTreeMap<String, i64>,
}
