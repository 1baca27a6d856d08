//! CertificateSigning: issuing a certificate or setting conditions through `/status` requires the verb `sign`
//! on the resource `signers`, for signing requests of users and of pods.

use super::certificate_approval::may;
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::field::{ErrorList, Path};
use kstore_api::object::{semantically_equal, text};
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

const GROUP: &str = "certificates.k8s.io";

/// Pod certificate requests, whose status only their signer writes.
const POD_REQUESTS: &str = "podcertificaterequests";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[(GROUP, "certificatesigningrequests"), (GROUP, POD_REQUESTS)],
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
        if subject.resource.is(GROUP, POD_REQUESTS) {
            return Ok(review_answer(review, old)?);
        }
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

/// Refuses the status of a pod certificate request from users who may not sign for its signer. In Kubernetes validation does.
fn review_answer(review: &Review<'_>, old: &Value) -> Result<(), Status> {
    let Review { cluster, subject, .. } = *review;
    let signer = text(&old["spec"]["signerName"]);
    if may(cluster, subject, "sign", signer) {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    let fault =
        format!("User {:?} is not permitted to \"sign\" for signer {signer:?}", subject.user.username);
    errors.forbidden(&Path::new("spec.signerName"), fault);
    Err(Status::invalid(GROUP, subject.resource.kind, subject.name, &errors))
}
