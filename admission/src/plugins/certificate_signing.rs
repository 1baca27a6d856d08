//! CertificateSigning: issuing a certificate or setting conditions through `/status` requires the verb `sign`
//! on the resource `signers`.

use super::certificate_approval::may;
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::{semantically_equal, text};
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("certificates.k8s.io", "certificatesigningrequests")],
    subresources: &["status"],
    validates: &[Operation::Update],
    checks_roles: true,
    ..Row::new("CertificateSigning", || Arc::new(CertificateSigning))
};

struct CertificateSigning;

impl Plugin for CertificateSigning {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let (Some(new), Some(old)) = (new, old) else { return Ok(()) };
        let same = |member: &str| semantically_equal(&new["status"][member], &old["status"][member]);
        if same("certificate") && same("conditions") {
            return Ok(());
        }
        // The stored signer name counts: the update must not choose the signer whose permission is checked.
        let signer = text(&old["spec"]["signerName"]);
        if may(cluster, subject, "sign", signer) {
            return Ok(());
        }
        subject.refuse(&format!("user not permitted to sign requests with signerName {signer:?}"))
    }
}
