//! The files of certificates, keys and tokens that flags of kube-apiserver name, read and made into what the server is started with.

use super::settings::ServiceAccounts;
use crate::dropin::serving::content;
use anyhow::Context;
use kstore_apiserver::authn::TokenFile;
use kstore_apiserver::outbound::FrontProxy;
use kstore_apiserver::token::{PublicKey, SigningKey, Tokens};
use std::path::PathBuf;

/// The authorities of client certificates (PEM), if there are any.
pub(super) fn client_ca(file: Option<&PathBuf>) -> anyhow::Result<Option<String>> {
    file.map(|file| content(file, "--client-ca-file")).transpose()
}

/// Bearer tokens.
pub(super) fn token_file(file: Option<&PathBuf>) -> anyhow::Result<Option<TokenFile>> {
    const FLAG: &str = "--token-auth-file";
    let parse = |file: &PathBuf| {
        let text = content(file, FLAG)?;
        TokenFile::parse(&text).with_context(|| format!("cannot use {FLAG} {}", file.display()))
    };
    file.map(parse).transpose()
}

/// Keys and names of service account tokens. Without keys that verify, the one that signs does.
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

/// What aggregated API servers are shown, if anything.
pub(super) fn front_proxy(files: Option<&(PathBuf, PathBuf)>) -> anyhow::Result<Option<FrontProxy>> {
    let read = |(certificate, key): &(PathBuf, PathBuf)| {
        let certificate = content(certificate, "--proxy-client-cert-file")?;
        let key = content(key, "--proxy-client-key-file")?;
        FrontProxy::from_pem(&certificate, &key).context("--proxy-client-cert-file cannot be used")
    };
    files.map(read).transpose()
}
