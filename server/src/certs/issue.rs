//! `kstore-server certs issue`: serving certificates of the cluster's authority, such as for webhooks of a test.

use crate::args::IssueArgs;
use crate::files::write_private;
use crate::kubeconfig::kubeconfig_path;
use crate::pki::{Credential, Pki};
use crate::runtime;
use crate::signing::{self, WantedCertificate};
use anyhow::{Context, anyhow, bail};
use kstore_client::{Client, Kubeconfig};
use kstore_nondet::Nondet;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Most names of a certificate: a request has to fit into an object.
const NAMES: usize = 100;

/// Carries out the command.
pub(super) fn issue(args: &IssueArgs) -> anyhow::Result<()> {
    check(&args.names)?;
    let (credential, ca) = match &args.data_dir {
        Some(dir) => {
            let pki = Pki::open(&super::folder(dir)?, Nondet::real().clock.now())?;
            (pki.issue_serving(&args.names)?, pki.ca_pem().to_owned())
        }
        None => of_cluster(args)?,
    };
    let folder = args.folder.clone().unwrap_or_else(|| PathBuf::from(&args.names[0]));
    write(&folder, &credential, &ca)?;
    println!("{}: tls.crt, tls.key and ca.crt for {}", folder.display(), args.names.join(", "));
    Ok(())
}

/// Checks the names: those that a client may connect to.
fn check(names: &[String]) -> anyhow::Result<()> {
    if names.len() > NAMES {
        bail!("a certificate has at most {NAMES} names");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:*".contains(c);
    let is_name = |name: &String| {
        !name.is_empty() && name.len() <= 253 && name.chars().all(is_plain) && name != "." && name != ".."
    };
    match names.iter().find(|name| !is_name(name)) {
        Some(wrong) => {
            bail!("{wrong:?} is neither a host name nor an address, such as localhost or 127.0.0.1")
        }
        None => Ok(()),
    }
}

/// Has the cluster sign. Returns the certificate and the authority.
fn of_cluster(args: &IssueArgs) -> anyhow::Result<(Credential, String)> {
    let path = kubeconfig_path(args.kubeconfig.clone(), std::env::var_os("KUBECONFIG"))?;
    let admin = Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use the kubeconfig: {error}"))?;
    let ca = admin.ca.as_deref().map(String::from_utf8_lossy);
    let ca = ca.with_context(|| format!("{} has no certificate authority", path.display()))?.into_owned();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut pem = None;
    runtime::block_on(async {
        let client = Client::connect(&admin, "kstore-certs").await;
        let client = client.with_context(|| format!("cannot reach {}", admin.server))?;
        pem = Some(signing::sign(&client, &key, wanted(&args.names)?).await?);
        Ok(ExitCode::SUCCESS)
    })?;
    let certificate_pem = pem.context("the cluster has signed nothing")?;
    check_issuer(&certificate_pem, &ca)?;
    Ok((Credential { certificate_pem, key_pem: key.serialize_pem() }, ca))
}

/// A certificate by Kubernetes' rules for the signer of kubelets: the only one whose certificates are for serving.
fn wanted(names: &[String]) -> anyhow::Result<WantedCertificate> {
    let mut params = CertificateParams::new(names)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "system:nodes");
    subject.push(DnType::CommonName, format!("system:node:{}", names[0]));
    params.distinguished_name = subject;
    Ok(WantedCertificate {
        params,
        signer: "kubernetes.io/kubelet-serving",
        usages: &["digital signature", "server auth"],
        expires: None,
        command: "certs-issue",
    })
}

/// A cluster may sign with another authority than that of its API server; the caller could not verify the certificate.
fn check_issuer(certificate: &str, ca: &str) -> anyhow::Result<()> {
    let (_, leaf) = x509_parser::pem::parse_x509_pem(certificate.as_bytes())?;
    let (_, authority) = x509_parser::pem::parse_x509_pem(ca.as_bytes())?;
    let (leaf, authority) = (leaf.parse_x509()?, authority.parse_x509()?);
    if leaf.issuer() != authority.subject() {
        bail!(
            "the cluster signs with the authority {}, not with that of its API server, {}",
            leaf.issuer(),
            authority.subject()
        );
    }
    Ok(())
}

fn write(folder: &Path, credential: &Credential, ca: &str) -> anyhow::Result<()> {
    // The key first: a certificate in the folder always has its key.
    let (key, certificate) = (credential.key_pem.as_str(), credential.certificate_pem.as_str());
    for (name, text) in [("tls.key", key), ("tls.crt", certificate), ("ca.crt", ca)] {
        let path = folder.join(name);
        write_private(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(names: &str, folder: &Path, data_dir: &Path) -> IssueArgs {
        let names = names.split(',').map(str::to_owned).collect();
        let (folder, data_dir) = (Some(folder.to_owned()), Some(data_dir.to_owned()));
        IssueArgs { names, folder, data_dir, kubeconfig: None }
    }

    #[test]
    fn a_certificate_of_the_directory_has_the_names_and_a_private_key_of_its_own() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (data, out) = (dir.path().join("data"), dir.path().join("out"));
        let missing = issue(&args("localhost", &out, &data)).unwrap_err();
        assert!(missing.to_string().contains("has no certificates"), "{missing}");
        let pki = Pki::open(&data.join("pki"), Nondet::real().clock.now()).unwrap();
        issue(&args("localhost,127.0.0.1,hooks.default.svc", &out, &data)).unwrap();
        let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(read("ca.crt"), pki.ca_pem());
        check_issuer(&read("tls.crt"), pki.ca_pem()).unwrap();
        let certificate = read("tls.crt");
        let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).unwrap();
        let names =
            format!("{:?}", pem.parse_x509().unwrap().subject_alternative_name().unwrap().unwrap().value);
        for name in ["DNSName(\"localhost\")", "DNSName(\"hooks.default.svc\")", "IPAddress"] {
            assert!(names.contains(name), "{names}");
        }
        KeyPair::from_pem(&read("tls.key")).unwrap();
        let mode = std::fs::metadata(out.join("tls.key")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        for wrong in ["", "a b", "../x", "..", &"a".repeat(254)] {
            let refused = issue(&args(wrong, &out, &data)).unwrap_err().to_string();
            assert!(refused.contains("is neither a host name nor an address"), "{wrong:?}: {refused}");
        }
    }
}
