//! ClusterTrustBundleAttest: writing a ClusterTrustBundle with a signer's name requires the verb `attest` on the
//! resource `signers`, for the signer's name or for all signers of its domain. The plugin has nothing to check on
//! servers that do not serve ClusterTrustBundles.

use super::certificate_approval::may;
use super::rbac_escalation::changes_only_references;
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::text;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("certificates.k8s.io", "clustertrustbundles")],
    validates: &[Operation::Create, Operation::Update],
    checks_roles: true,
    ..Row::new("ClusterTrustBundleAttest", || Arc::new(ClusterTrustBundleAttest))
};

struct ClusterTrustBundleAttest;

impl Plugin for ClusterTrustBundleAttest {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let Some(new) = new else { return Ok(()) };
        // Validation refuses a change of the signer's name, so the new object names the right signer.
        let signer = text(&new["spec"]["signerName"]);
        let is_unchanged = || old.is_some_and(|old| changes_only_references(new, old));
        if signer.is_empty() || is_unchanged() || may(cluster, subject, "attest", signer) {
            return Ok(());
        }
        subject.refuse(&format!("user not permitted to attest for signerName {signer:?}"))
    }
}
