//! The configuration of the plugin ResourceQuota: kinds whose objects need a quota that covers them. The
//! registry enforces it together with quotas.

use super::configuration;
use kstore_api::quota::{LimitedResource, Selector};
use serde::Deserialize;
use serde_json::Value;

/// The API versions of the document, each with its kind.
const DOCUMENTS: [(&str, &str); 3] = [
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
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

/// Parses the configuration.
///
/// # Errors
/// An unknown version, kind or field, or an entry without a resource.
pub(super) fn parse(document: Value) -> Result<Vec<LimitedResource>, String> {
    let found = document["apiVersion"].as_str().unwrap_or_default();
    let (version, kind) =
        DOCUMENTS.into_iter().find(|(version, _)| *version == found).unwrap_or(DOCUMENTS[0]);
    let Configuration { limited_resources } = configuration::read(document, &[version], kind)?;
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
