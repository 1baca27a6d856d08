//! Rules for a node's PodCertificateRequests: only for pods that run on it, and for signers whose certificates these pods mount. The
//! texts are those of Kubernetes 1.36. That the pod mounts the signer's certificates is asked since 1.37, in words of this server.

use super::pod::MIRROR;
use super::{NodeRequest, Verdict, is_on, refuse, require, row};
use crate::plugins::certificate_approval::may;
use kstore_access::pod_references;
use kstore_api::meta;
use kstore_api::object::text;
use serde_json::Value;

/// The verb on a signer that lets a user request certificates which no volume of the pod names.
const ANY_POD: &str = "request-podcertificate-signer";

impl NodeRequest<'_> {
    /// Checks a new PodCertificateRequest.
    pub(super) fn certificate_request(&self) -> Verdict {
        let (node, spec) = (self.name, &self.new["spec"]);
        let named = text(&spec["nodeName"]);
        require(named == node, || {
            format!(
                "PodCertificateRequest.Spec.NodeName={named:?}, which is not the requesting node {node:?}"
            )
        })?;
        let namespace = self.subject.namespace;
        let pod_name = text(&spec["podName"]);
        let about = format!("PodCertificateRequest for pod \"{namespace}/{pod_name}\"");
        let own = self.get(row("", "v1", "nodes"), "", node)?;
        same_uid(&spec["nodeUID"], &own, |asked, own| {
            format!("{about} names node UID {asked:?}, inconsistent with the running node ({own:?})")
        })?;
        let pod = self.get(row("", "v1", "pods"), namespace, pod_name)?;
        same_uid(&spec["podUID"], &pod, |asked, own| {
            format!("{about} contains pod UID ({asked:?}) which differs from running pod {own:?}")
        })?;
        require(is_on(&pod, node), || {
            format!(
                "pod \"{namespace}/{pod_name}\" is not running on node {node:?} named in the PodCertificateRequest"
            )
        })?;
        if meta::annotation(&pod, MIRROR).is_some() {
            return refuse(format!("pod \"{namespace}/{pod_name}\" is a mirror pod"));
        }
        let (account, own) = (text(&spec["serviceAccountName"]), text(&pod["spec"]["serviceAccountName"]));
        require(account == own, || {
            format!(
                "{about} contains serviceAccountName ({account:?}) that differs from running pod ({own:?})"
            )
        })?;
        let account = self.get(row("", "v1", "serviceaccounts"), namespace, account)?;
        same_uid(&spec["serviceAccountUID"], &account, |asked, own| {
            format!(
                "{about} names service account UID {asked:?}, which differs from the running service account ({own:?})"
            )
        })?;
        let signer = text(&spec["signerName"]);
        require(mounts(&pod, signer) || may(self.cluster, self.subject, ANY_POD, signer), || {
            format!("{about} names signer {signer:?}, of which the pod mounts no certificate")
        })
    }
}

/// Refuses a uid that is not the object's. Kubernetes answers 500 there, since its cache may be behind; this server reads the newest
/// object.
fn same_uid(asked: &Value, object: &Value, refusal: impl FnOnce(&str, &str) -> String) -> Verdict {
    let (asked, own) = (text(asked), meta::uid(object));
    require(asked == own, || refusal(asked, own))
}

/// Whether a projected volume of the pod shows a certificate of the signer.
fn mounts(pod: &Value, signer: &str) -> bool {
    let mut sources = pod_references::projections(&pod["spec"]);
    sources.any(|source| source["podCertificate"]["signerName"] == signer)
}
