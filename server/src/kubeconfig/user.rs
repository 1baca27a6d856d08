//! `kstore-server kubeconfig USER`: makes a key, has the cluster sign a certificate for it, and prints a
//! kubeconfig with both. Everything goes through the API, so it is authorized and audited like `kubectl`.

use super::{ServerAddress, kubeconfig_path, merge, render};
use crate::args::KubeconfigArgs;
use crate::files::write_private;
use crate::pki::Credential;
use crate::runtime;
use crate::signing::{self, WantedCertificate};
use anyhow::{Context, anyhow, bail};
use kstore_client::{Client, Kubeconfig};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Shortest validity that a CertificateSigningRequest may ask for, by Kubernetes' rule.
const SHORTEST: Duration = Duration::from_secs(600);

/// Carries out the command.
pub(crate) fn kubeconfig(args: &KubeconfigArgs) -> anyhow::Result<ExitCode> {
    let user = match args.user.as_deref() {
        None => return merge::merge_admin(args),
        Some(user) if user.trim().is_empty() => bail!("say for which user: kstore-server kubeconfig USER"),
        Some(user) => user,
    };
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
    runtime::block_on(async {
        let client = Client::connect(&admin, "kstore-kubeconfig").await;
        let client = client.with_context(|| format!("cannot reach {}", admin.server))?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate_pem = signing::sign(&client, &key, wanted(args, user)).await?;
        let credential = Credential { certificate_pem, key_pem: key.serialize_pem() };
        let server = ServerAddress {
            url: &admin.server,
            ca_pem: admin.ca.as_deref(),
            tls_server_name: admin.tls_server_name.as_deref(),
        };
        let text = render(&server, &admin.cluster, user, &credential)?;
        match &args.file {
            _ if args.merge => merge::merge_into(args.file.as_deref(), &text, Path::new(""))?,
            Some(file) => write_private(file, text.as_bytes())
                .with_context(|| format!("cannot write {}", file.display()))?,
            None => std::io::stdout().write_all(text.as_bytes()).context("cannot write the kubeconfig")?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The certificate to ask for: one of a client.
fn wanted(args: &KubeconfigArgs, user: &str) -> WantedCertificate {
    let mut subject = DistinguishedName::new();
    if let Some(group) = &args.group {
        subject.push(DnType::OrganizationName, group.as_str());
    }
    subject.push(DnType::CommonName, user);
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    WantedCertificate {
        params,
        signer: "kubernetes.io/kube-apiserver-client",
        usages: &["client auth"],
        expires: args.expires,
        command: "kubeconfig",
    }
}
