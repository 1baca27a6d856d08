//! ClusterTrustBundleAttest: writing a ClusterTrustBundle with a signer's name requires the verb `attest` on the
//! resource `signers`, for the signer's name or for all signers of its domain. The plugin has nothing to check on
//! servers that do not serve ClusterTrustBundles.

use super::certificate_approval::may;
use super::rbac_escalation::changes_only_references;
use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::object::text;
use kstore_api::status::Status;
use serde_json::Value;

/// Name of the plugin.
pub(super) const NAME: &str = "ClusterTrustBundleAttest";
/// Group and plural of ClusterTrustBundles.
pub(super) const BUNDLES: (&str, &str) = ("certificates.k8s.io", "clustertrustbundles");

pub(super) struct ClusterTrustBundleAttest;

impl Plugin for ClusterTrustBundleAttest {
    fn validate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(new) = new.filter(|_| subject.operation != Operation::Delete) else { return Ok(()) };
        // Validation refuses a change of the signer's name, so the new object names the right signer.
        let signer = text(&new["spec"]["signerName"]);
        let is_unchanged = || old.is_some_and(|old| changes_only_references(new, old));
        if signer.is_empty() || is_unchanged() || may(cluster, subject, "attest", signer) {
            return Ok(());
        }
        Err(subject.forbidden(&format!("user not permitted to attest for signerName {signer:?}")))
    }
}
