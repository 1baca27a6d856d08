//! CertificateApproval: approving or denying a CertificateSigningRequest requires the verb `approve` on the
//! resource `signers`, for the signer's name or for all signers of its domain. Permission to write
//! `/approval` was checked before.

use crate::plugin::{Cluster, Enabled, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_access::authz::{Attributes, Target};
use kstore_api::admission::Operation;
use kstore_api::object::text;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

const GROUP: &str = "certificates.k8s.io";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[(GROUP, "certificatesigningrequests")],
    subresources: &["approval"],
    validates: &[Operation::Update],
    checks_roles: true,
    ..Row::new("CertificateApproval", || Arc::new(CertificateApproval))
};

struct CertificateApproval;

impl Plugin for CertificateApproval {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let Some(new) = new else { return Ok(()) };
        let signer = text(&new["spec"]["signerName"]);
        if may(cluster, subject, "approve", signer) {
            return Ok(());
        }
        subject.refuse(&format!("user not permitted to approve requests with signerName {signer:?}"))
    }
}

/// Whether the user may do this for the signer, or for all signers of its domain (`domain/*`).
pub(super) fn may(cluster: &dyn Cluster, subject: &Subject<'_>, verb: &str, signer: &str) -> bool {
    if subject.user.is_in(kstore_registry::user::MASTERS) {
        return true;
    }
    let policy = cluster.policy();
    let domain = signer.split('/').next().unwrap_or_default();
    [signer, &format!("{domain}/*")].into_iter().any(|name| {
        let target =
            Target::Resource { group: GROUP, resource: "signers", subresource: "", namespace: "", name };
        policy.allows(&Attributes {
            user: subject.user,
            verb,
            target,
            more: kstore_access::authz::More::default(),
        })
    })
}
