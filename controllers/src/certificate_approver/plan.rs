//! Which CertificateSigningRequests are approved without a human: client certificates of kubelets, if their requester may have them. Pure.

use crate::certificate_request::CertificateRequest;
use crate::certificate_signer::signers::{KUBELET_CLIENT, is_kubelet_client};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A permission that lets its holder have a request approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    /// The subresource of `certificatesigningrequests` that the requester must be allowed to create.
    pub subresource: &'static str,
    /// The message of the condition.
    pub message: &'static str,
}

/// For a certificate in the requester's own name: renewal.
const SELF: Permission = Permission {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
/// For the certificate of any node: the first one, with a bootstrap token.
const ANY: Permission = Permission {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// The permissions that let the requester have the request approved, in the order in which they are tried; one suffices. Empty if the
/// request is not approved automatically, or was answered already.
pub(crate) fn permissions(csr: &CertificateSigningRequest, parsed: &CertificateRequest) -> Vec<Permission> {
    if csr.spec.signer_name != KUBELET_CLIENT || is_answered(csr) {
        return vec![];
    }
    let usages = csr.spec.usages.clone().unwrap_or_default();
    if is_kubelet_client(parsed, &usages).is_err() {
        return vec![];
    }
    let is_self = csr.spec.username.as_deref() == Some(parsed.common_name.as_str());
    if is_self { vec![SELF, ANY] } else { vec![ANY] }
}

/// Whether the request was approved, denied or issued.
pub(crate) fn is_answered(csr: &CertificateSigningRequest) -> bool {
    let Some(status) = &csr.status else { return false };
    let is_issued = status.certificate.as_ref().is_some_and(|certificate| !certificate.0.is_empty());
    let decides = |condition: &CertificateSigningRequestCondition| {
        matches!(condition.type_.as_str(), "Approved" | "Denied")
    };
    is_issued || status.conditions.iter().flatten().any(decides)
}

/// The question whether the requester holds a permission.
pub(crate) fn question(csr: &CertificateSigningRequest, permission: Permission) -> SubjectAccessReview {
    let spec = &csr.spec;
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: spec.username.clone(),
            uid: spec.uid.clone(),
            groups: spec.groups.clone(),
            extra: spec.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                group: Some("certificates.k8s.io".into()),
                resource: Some("certificatesigningrequests".into()),
                verb: Some("create".into()),
                subresource: Some(permission.subresource.into()),
                version: Some("*".into()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// The request with its approval.
pub(crate) fn approved(
    csr: &CertificateSigningRequest,
    permission: Permission,
    now: Timestamp,
) -> CertificateSigningRequest {
    let mut csr = csr.clone();
    let condition = CertificateSigningRequestCondition {
        type_: "Approved".into(),
        status: "True".into(),
        reason: Some("AutoApproved".into()),
        message: Some(permission.message.into()),
        last_update_time: Some(Time(now)),
        last_transition_time: None,
    };
    csr.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
    csr
}
