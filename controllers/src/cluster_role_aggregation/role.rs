//! [`Role`]: a ClusterRole as the cache keeps it. A cluster has some eighty of them from the start, and the
//! rules of most are never read, so the rules are kept as text and decoded when a selector matches.

use crate::caches::{Sources, Watched};
use crate::resource::CLUSTERROLES;
use crate::view::Meta;
use k8s_openapi::api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule};
use kstore_api::lenient;
use kstore_client::WatchParams;
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A ClusterRole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Role {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) aggregation_rule: Option<AggregationRule>,
    uid: String,
    revision: Revision,
    /// The rules in JSON, as [`PolicyRule`] writes them.
    rules: Box<str>,
}

/// The fields of a ClusterRole that the controller reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RoleFields {
    metadata: Meta,
    aggregation_rule: Option<AggregationRule>,
    rules: Vec<PolicyRule>,
}

impl Role {
    /// Decodes a stored ClusterRole.
    pub(super) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let RoleFields { metadata, aggregation_rule, rules } = lenient::from_slice(json)?;
        let revision = metadata.revision();
        let Meta { name, labels, uid, .. } = metadata;
        let rules = serde_json::to_string(&rules)?.into();
        Ok(Self { name, labels, aggregation_rule, uid, revision, rules })
    }

    /// The role's rules.
    pub(super) fn rules(&self) -> Vec<PolicyRule> {
        serde_json::from_str(&self.rules).expect("written from rules by `decode`")
    }
}

impl Object for Role {
    fn key(&self) -> Key {
        Key::new("", &self.name)
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

/// Cache of the ClusterRoles.
impl Watched for Informer<Role> {
    fn start(from: &Sources<'_>) -> Self {
        let source = from.multi.project::<ClusterRole, _, _>(WatchParams::default(), Role::decode);
        from.start("clusterroles", Some(CLUSTERROLES), Builder::new(source))
    }
}
