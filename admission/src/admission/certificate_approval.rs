//! CertificateApproval: approving or denying a CertificateSigningRequest requires the verb `approve` on the
//! resource `signers`, for the signer's name or for all signers of its domain. Permission to write
//! `/approval` was checked before.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_access::authz::{Attributes, Target};
use kstore_api::object::text;
use kstore_api::status::Status;
use serde_json::Value;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

pub(super) struct CertificateApproval;

impl Plugin for CertificateApproval {
    fn validate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(new) = new.filter(|_| is_update_of(subject, "approval")) else { return Ok(()) };
        let signer = text(&new["spec"]["signerName"]);
        if may(cluster, subject, "approve", signer) {
            return Ok(());
        }
        Err(subject.forbidden(&format!("user not permitted to approve requests with signerName {signer:?}")))
    }
}

/// Whether the request updates a CertificateSigningRequest through this subresource.
pub(super) fn is_update_of(subject: &Subject<'_>, subresource: &str) -> bool {
    subject.operation == Operation::Update
        && subject.resource.is(GROUP, REQUESTS)
        && subject.subresource == subresource
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
