//! `kstore-server kubeconfig USER`: makes a key, has the cluster sign a certificate for it, and prints a
//! kubeconfig with both. Everything goes through the API, so it is authorized and audited like `kubectl`.

use super::{ServerAddress, render};
use crate::args::KubeconfigArgs;
use crate::explain::kubeconfig_path;
use crate::files::write_private;
use crate::pki::Credential;
use crate::wiring;
use anyhow::{Context, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use kstore_client::{Client, DynamicApi, Gvr, Kubeconfig, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, ReadAt, SourceError, Start};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Time that the cluster has to sign. A running signer needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Shortest validity that a CertificateSigningRequest may ask for, by Kubernetes' rule.
const SHORTEST: Duration = Duration::from_secs(600);

/// Carries out the command.
pub(crate) fn kubeconfig(args: &KubeconfigArgs) -> anyhow::Result<ExitCode> {
    if args.user.trim().is_empty() {
        bail!("say for which user: kstore-server kubeconfig USER");
    }
    if args.expires.is_some_and(|expires| expires < SHORTEST) {
        bail!("--expires must be at least 10m");
    }
    let path = kubeconfig_path(args.kubeconfig.clone(), std::env::var_os("KUBECONFIG"))?;
    let admin = Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use the kubeconfig: {error}"))?;
    if admin.insecure {
        bail!(
            "{} does not verify the server's certificate, and the new kubeconfig could not either",
            path.display()
        );
    }
    wiring::block_on(async {
        let client = Client::connect(&admin, "kstore-kubeconfig").await;
        let client = client.with_context(|| format!("cannot reach {}", admin.server))?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate_pem = certificate(&client, &request(args, &key)?).await?;
        let credential = Credential { certificate_pem, key_pem: key.serialize_pem() };
        let server = ServerAddress {
            url: &admin.server,
            ca_pem: admin.ca.as_deref(),
            tls_server_name: admin.tls_server_name.as_deref(),
        };
        let text = render(&server, &args.user, &credential)?;
        match &args.file {
            Some(file) => write_private(file, text.as_bytes())
                .with_context(|| format!("cannot write {}", file.display()))?,
            None => std::io::stdout().write_all(text.as_bytes()).context("cannot write the kubeconfig")?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The CertificateSigningRequest for this key.
fn request(args: &KubeconfigArgs, key: &KeyPair) -> anyhow::Result<Value> {
    let mut subject = DistinguishedName::new();
    if let Some(group) = &args.group {
        subject.push(DnType::OrganizationName, group.as_str());
    }
    subject.push(DnType::CommonName, args.user.as_str());
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    let pem = params.serialize_request(key)?.pem()?;
    let mut spec = json!({
        "request": STANDARD.encode(pem),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    });
    if let Some(expires) = args.expires {
        spec["expirationSeconds"] = i32::try_from(expires.as_secs()).unwrap_or(i32::MAX).into();
    }
    Ok(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "generateName": "kubeconfig-" }, "spec": spec,
    }))
}

/// Creates and approves the request. Returns the certificate (PEM) when the cluster has signed it.
async fn certificate(client: &Client, request: &Value) -> anyhow::Result<String> {
    let gvr = Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests");
    let requests = client.dynamic(gvr);
    let mut created = requests.create("", request).await.map_err(|error| anyhow!("{error}"))?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    created["status"]["conditions"] = json!([{
        "type": "Approved", "status": "True", "reason": "KubeconfigApproved",
        "message": "approved by kstore-server kubeconfig",
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

/// Waits for the certificate of a request; returns it in base64.
async fn signed(requests: &DynamicApi, name: &str) -> anyhow::Result<String> {
    let source = requests.source(WatchParams::default().name(name));
    loop {
        let failed = |error: SourceError| anyhow!("cannot watch the request {name}: {error}");
        let mut frames = source.watch(Start::Initial(ReadAt::Latest)).await.map_err(failed)?;
        while let Some(batch) = frames.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(SourceError::Expired) => break,
                Err(error) => return Err(failed(error)),
            };
            for frame in batch {
                let Frame::Put(request) = frame else { continue };
                let status = &request.value()["status"];
                if let Some(certificate) = status["certificate"].as_str().filter(|text| !text.is_empty()) {
                    return Ok(certificate.to_owned());
                }
                let mut conditions = status["conditions"].as_array().into_iter().flatten();
                if let Some(refused) = conditions.find(|condition| condition["type"] == "Failed") {
                    bail!(
                        "the request {name} was refused: {}",
                        refused["message"].as_str().unwrap_or("no reason")
                    );
                }
            }
        }
    }
}
