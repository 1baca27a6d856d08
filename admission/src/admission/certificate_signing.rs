//! CertificateSigning: issuing a certificate or setting conditions through `/status` requires the verb `sign`
//! on the resource `signers`.

use super::certificate_approval::{is_update_of, may};
use super::{Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::object::{semantically_equal, text};
use kstore_api::status::Status;
use serde_json::Value;

pub(super) struct CertificateSigning;

impl Plugin for CertificateSigning {
    fn validate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (Some(new), Some(old)) = (new, old) else { return Ok(()) };
        let same = |member: &str| semantically_equal(&new["status"][member], &old["status"][member]);
        if !is_update_of(subject, "status") || (same("certificate") && same("conditions")) {
            return Ok(());
        }
        // The stored signer name counts: the update must not choose the signer whose permission is checked.
        let signer = text(&old["spec"]["signerName"]);
        if may(cluster, subject, "sign", signer) {
            return Ok(());
        }
        Err(subject.forbidden(&format!("user not permitted to sign requests with signerName {signer:?}")))
    }
}
