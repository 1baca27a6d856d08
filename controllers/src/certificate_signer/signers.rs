//! The signers of Kubernetes: which requests each of them signs, and what it refuses. Pure.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers>.

use crate::certificate_request::CertificateRequest;

/// Signs client certificates that the API server accepts. Never approved automatically.
pub(crate) const API_SERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signs client certificates of kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signs serving certificates of kubelets.
pub(crate) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Signs anything, without a promise of trust. Clients of `certificates.k8s.io/v1` cannot ask for it.
pub(crate) const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// Whether the request is one for our signers: `Ok(true)` if the named signer signs it, `Ok(false)` if another program's signer is named.
///
/// # Errors
/// The text of the `Failed` condition: one of our signers is named, and refuses the request.
pub(crate) fn signs(signer: &str, parsed: &CertificateRequest, usages: &[String]) -> Result<bool, String> {
    match signer {
        API_SERVER_CLIENT => are_client_usages(usages).map(|()| true),
        KUBELET_CLIENT => is_kubelet_client(parsed, usages).map(|()| true),
        KUBELET_SERVING => is_kubelet_serving(parsed, usages).map(|()| true),
        LEGACY_UNKNOWN => Ok(true),
        _ => Ok(false),
    }
}

fn are_client_usages(usages: &[String]) -> Result<(), String> {
    for usage in usages {
        if !matches!(usage.as_str(), "client auth" | "digital signature" | "key encipherment") {
            return Err(format!("invalid usage for client certificate: {usage}"));
        }
    }
    match usages.iter().any(|usage| usage == "client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

/// Checks that a request has the form of a kubelet's request for a client certificate.
///
/// # Errors
/// The request violates a rule of this signer; the error names it.
pub(crate) fn is_kubelet_client(parsed: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    is_of_nodes(parsed)?;
    for (has, what) in [
        (parsed.has_dns_names, "DNS"),
        (parsed.has_emails, "Email"),
        (parsed.has_ip_addresses, "IP"),
        (parsed.has_uris, "URI"),
    ] {
        if has {
            return Err(format!("{what} subjectAltNames are not allowed"));
        }
    }
    is_named_as_node(parsed)?;
    are_exactly(usages, "client auth")
}

fn is_kubelet_serving(parsed: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    is_of_nodes(parsed)?;
    if !parsed.has_dns_names && !parsed.has_ip_addresses {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (has, what) in [(parsed.has_emails, "Email"), (parsed.has_uris, "URI")] {
        if has {
            return Err(format!("{what} subjectAltNames are not allowed"));
        }
    }
    are_exactly(usages, "server auth")?;
    is_named_as_node(parsed)
}

fn is_of_nodes(parsed: &CertificateRequest) -> Result<(), String> {
    match parsed.organizations.as_slice() {
        [only] if only == "system:nodes" => Ok(()),
        _ => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn is_named_as_node(parsed: &CertificateRequest) -> Result<(), String> {
    match parsed.common_name.starts_with("system:node:") {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node: ".to_owned()),
    }
}

/// Whether the usages are a signature and `purpose`, with or without the encipherment of keys, which only RSA has.
fn are_exactly(usages: &[String], purpose: &str) -> Result<(), String> {
    let known = |usage: &String| {
        matches!(usage.as_str(), "digital signature" | "key encipherment") || usage == purpose
    };
    let has = |wanted: &str| usages.iter().any(|usage| usage == wanted);
    match usages.iter().all(known) && has("digital signature") && has(purpose) {
        true => Ok(()),
        false => Err(format!("usages did not match [{purpose} digital signature key encipherment]")),
    }
}
