//! ResourceQuota: quotas of a namespace bound its objects. The registry charges them, in the commit of the
//! charged object; here are the row of the plugin and its configuration, which names kinds whose objects need a
//! quota that covers them.

use crate::plugin::{Configuration, ConfigurationContext, Enabled, Plugin, Row, read_document};
use kstore_api::quota::{LimitedResource, Selector};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    configuration: Configuration::Optional(ResourceQuota::configured),
    ..Row::new("ResourceQuota", || Arc::new(ResourceQuota(Arc::default())))
};

/// The plugin, with the kinds whose objects need a quota that covers them.
struct ResourceQuota(Arc<[LimitedResource]>);

impl ResourceQuota {
    /// The plugin by its document.
    ///
    /// # Errors
    /// An unknown version, kind or field, or an entry without a resource.
    fn configured(document: Value, _: &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String> {
        Ok(Arc::new(Self(parse(document)?.into())))
    }
}

impl Plugin for ResourceQuota {
    fn limited_resources(&self) -> Option<Arc<[LimitedResource]>> {
        Some(self.0.clone())
    }
}

/// The API versions of the document, each with its kind.
const DOCUMENTS: [(&str, &str); 3] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(default)]
    limited_resources: Vec<LimitedKind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LimitedKind {
    #[serde(default)]
    api_group: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    match_contains: Vec<String>,
    #[serde(default)]
    match_scopes: Vec<Value>,
}

/// Parses the configuration: `limitedResources`.
///
/// # Errors
/// An unknown version, kind or field, or an entry without a resource.
fn parse(document: Value) -> Result<Vec<LimitedResource>, String> {
    let found = document["apiVersion"].as_str().unwrap_or_default();
    let (version, kind) =
        DOCUMENTS.into_iter().find(|(version, _)| *version == found).unwrap_or(DOCUMENTS[0]);
    let Document { limited_resources } = read_document(document, &[version], kind)?;
    limited_resources.into_iter().enumerate().map(|(index, one)| limited(index, one)).collect()
}

fn limited(index: usize, one: LimitedKind) -> Result<LimitedResource, String> {
    let LimitedKind { api_group: group, resource: plural, match_contains, match_scopes } = one;
    if plural.is_empty() {
        return Err(format!("limitedResources[{index}].resource: Required value"));
    }
    let match_scopes = match_scopes.iter().map(Selector::of).collect();
    Ok(LimitedResource { group, plural, match_contains, match_scopes })
}
