//! Decodes the resource claims of a pod.

use super::ClaimSource;
use serde::Deserialize;

/// An entry of `spec.resourceClaims`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EntryDoc {
    name: String,
    resource_claim_name: Option<String>,
}

/// An entry of `status.resourceClaimStatuses`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EntryStatusDoc {
    name: String,
    resource_claim_name: Option<String>,
}

/// The claims of the entries. The status says which claims were created from templates.
pub(super) fn read(
    entries: Option<Vec<EntryDoc>>,
    statuses: Option<Vec<EntryStatusDoc>>,
) -> Vec<ClaimSource> {
    let statuses = statuses.unwrap_or_default();
    let source = |entry: EntryDoc| {
        let status = || statuses.iter().find(|status| status.name == entry.name);
        match (entry.resource_claim_name, status) {
            (Some(name), _) => ClaimSource::Named(name),
            (None, status) => match status().map(|status| status.resource_claim_name.clone()) {
                None => ClaimSource::Missing,
                Some(None) => ClaimSource::Unneeded,
                Some(Some(name)) => ClaimSource::Generated(name),
            },
        }
    };
    entries.unwrap_or_default().into_iter().map(source).collect()
}
