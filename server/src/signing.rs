//! Has the cluster sign a certificate: creates a CertificateSigningRequest, approves it, and waits for the signer. Everything goes
//! through the API, so it is authorized and audited like `kubectl`.

use crate::watched_object::watch_until;
use anyhow::{Context, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_client::{Client, DynamicApi, Gvr, WatchParams};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use std::time::Duration;

/// Time that the cluster has to sign. A running signer needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate to be signed.
pub(crate) struct WantedCertificate {
    /// Subject and names.
    pub(crate) params: CertificateParams,
    /// The signer, by Kubernetes' name.
    pub(crate) signer: &'static str,
    /// Kubernetes' names of the usages.
    pub(crate) usages: &'static [&'static str],
    /// Validity; `None` lets the signer choose.
    pub(crate) expires: Option<Duration>,
    /// The subcommand that asks, for the condition of the approval.
    pub(crate) command: &'static str,
}

/// Has the cluster sign a certificate for this key. Returns it as PEM.
///
/// # Errors
/// The request cannot be created or approved, is refused, or nobody signs it in time.
pub(crate) async fn sign(
    client: &Client,
    key: &KeyPair,
    wanted: WantedCertificate,
) -> anyhow::Result<String> {
    let gvr = Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests");
    let requests = client.dynamic(gvr);
    let mut created =
        requests.create("", &request(key, &wanted)?).await.map_err(|error| anyhow!("{error}"))?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    created["status"]["conditions"] = json!([{
        "type": "Approved", "status": "True", "reason": "ApprovedByCommand",
        "message": format!("approved by kstore-server {}", wanted.command),
    }]);
    let approved = requests.replace(&created, "approval").await;
    approved.map_err(|error| anyhow!("cannot approve the request {name}: {error}"))?;
    let signed = tokio::time::timeout(PATIENCE, signed(&requests, &name)).await;
    let encoded = signed.map_err(|_| {
        anyhow!("{name} is approved, but no controller has signed it within {} s", PATIENCE.as_secs())
    })??;
    let pem = STANDARD.decode(encoded).context("the certificate is not base64")?;
    String::from_utf8(pem).context("the certificate is not PEM")
}

/// The CertificateSigningRequest.
fn request(key: &KeyPair, wanted: &WantedCertificate) -> anyhow::Result<Value> {
    let pem = wanted.params.serialize_request(key)?.pem()?;
    let mut spec = json!({
        "request": STANDARD.encode(pem),
        "signerName": wanted.signer,
        "usages": wanted.usages,
    });
    if let Some(expires) = wanted.expires {
        spec["expirationSeconds"] = i32::try_from(expires.as_secs()).unwrap_or(i32::MAX).into();
    }
    Ok(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "generateName": format!("{}-", wanted.command) }, "spec": spec,
    }))
}

/// Waits for the certificate of a request; returns it in base64.
async fn signed(requests: &DynamicApi, name: &str) -> anyhow::Result<String> {
    let decide = |request: &Value| {
        let status = &request["status"];
        if let Some(certificate) = status["certificate"].as_str().filter(|text| !text.is_empty()) {
            return Some(Ok(certificate.to_owned()));
        }
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let refused = conditions.find(|condition| condition["type"] == "Failed")?;
        let why = refused["message"].as_str().unwrap_or("no reason");
        Some(Err(anyhow!("the request {name} was refused: {why}")))
    };
    let decided = watch_until(requests, WatchParams::default().name(name), decide).await;
    decided.map_err(|error| anyhow!("cannot watch the request {name}: {error}"))?
}
