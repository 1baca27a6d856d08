//! Reads the certificate, key and token files that kube-apiserver's flags name, and parses them for the server.

use super::settings::{FrontProxyFiles, ServiceAccounts};
use crate::authorities::{ClientCa, FollowedAuthorities};
use crate::dropin::serving::content;
use crate::tls::ClientAuthorities;
use anyhow::Context;
use kstore_access::authn::{FrontProxies, TokenFile};
use kstore_access::token::{PublicKey, SigningKey, Tokens};
use kstore_registry::outbound::FrontProxy;
use rustls::server::danger::ClientCertVerifier;
use std::path::PathBuf;
use std::sync::Arc;

/// Verifies certificates of users and front proxies in TLS handshakes; `None` if neither flag is given. Returns the authorities to publish,
/// too.
pub(super) fn authorities(
    client_ca: Option<&PathBuf>,
    proxies: Option<&FrontProxyFiles>,
) -> anyhow::Result<(Option<Arc<dyn ClientCertVerifier>>, ClientCa)> {
    let pem = client_ca.map(|file| content(file, "--client-ca-file")).transpose()?;
    let files: Vec<_> =
        client_ca.into_iter().chain(proxies.map(|proxies| &proxies.authorities)).cloned().collect();
    if files.is_empty() {
        return Ok((None, ClientCa::default()));
    }
    let authorities = ClientAuthorities::of_files(files)?;
    let followed = FollowedAuthorities {
        authorities: authorities.clone(),
        published: authorities.current(),
        has_users: client_ca.is_some(),
        has_proxies: proxies.is_some(),
    };
    Ok((Some(authorities), ClientCa { pem, followed: Some(followed) }))
}

/// Reads the authorities of front proxies, which name users in headers. `client_ca` is the file of the authorities for client
/// certificates.
pub(super) fn front_proxies(
    files: Option<&FrontProxyFiles>,
    client_ca: Option<&PathBuf>,
) -> anyhow::Result<Option<FrontProxies>> {
    const FLAG: &str = "--requestheader-client-ca-file";
    let read = |files: &FrontProxyFiles| {
        let authorities_pem = content(&files.authorities, FLAG)?;
        let authorities = ClientAuthorities::of_files(vec![files.authorities.clone()])
            .with_context(|| format!("cannot use {FLAG} {}", files.authorities.display()))?;
        let users = client_ca.map(|file| ClientAuthorities::of_files(vec![file.clone()]));
        let users = users.transpose().context("cannot use --client-ca-file")?;
        let users = users.map(|users| users as Arc<dyn ClientCertVerifier>);
        Ok(FrontProxies { authorities, authorities_pem, allowed_names: files.allowed_names.clone(), users })
    };
    files.map(read).transpose()
}

/// Reads the static bearer tokens of `--token-auth-file`.
pub(super) fn token_file(file: Option<&PathBuf>) -> anyhow::Result<Option<TokenFile>> {
    const FLAG: &str = "--token-auth-file";
    let parse = |file: &PathBuf| {
        let text = content(file, FLAG)?;
        TokenFile::parse(&text).with_context(|| format!("cannot use {FLAG} {}", file.display()))
    };
    file.map(parse).transpose()
}

/// Reads the keys of service account tokens. Without `--service-account-key-file`, the signing key also verifies tokens.
pub(super) fn tokens(accounts: &ServiceAccounts) -> anyhow::Result<Tokens> {
    const SIGNING: &str = "--service-account-signing-key-file";
    const VERIFYING: &str = "--service-account-key-file";
    let file = &accounts.signing;
    let signing = SigningKey::from_pem(content(file, SIGNING)?.as_bytes())
        .with_context(|| format!("cannot use {SIGNING} {}", file.display()))?;
    let mut public = Vec::new();
    for file in &accounts.keys {
        let keys = PublicKey::all_from_pem(content(file, VERIFYING)?.as_bytes());
        public.extend(keys.with_context(|| format!("cannot use {VERIFYING} {}", file.display()))?);
    }
    if public.is_empty() {
        public.push(signing.public().clone());
    }
    Tokens::with(signing, public, accounts.issuers.clone(), accounts.audiences.clone())
        .context("--service-account-issuer is empty")
}

/// Reads the client certificate that the server presents to aggregated API servers.
pub(super) fn front_proxy(files: Option<&(PathBuf, PathBuf)>) -> anyhow::Result<Option<FrontProxy>> {
    let read = |(certificate, key): &(PathBuf, PathBuf)| {
        let certificate = content(certificate, "--proxy-client-cert-file")?;
        let key = content(key, "--proxy-client-key-file")?;
        FrontProxy::from_pem(&certificate, &key).context("--proxy-client-cert-file cannot be used")
    };
    files.map(read).transpose()
}
