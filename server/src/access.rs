//! The files that flags about webhooks name, read and made into what the apiserver is started with. Errors name the flag and the file.

use anyhow::Context;
use kstore_apiserver::outbound::{Remote, RemoteConfig};
use kstore_client::Kubeconfig;
use std::path::Path;

/// The server that the current context of a kubeconfig describes.
pub(crate) fn remote(flag: &str, file: &Path) -> anyhow::Result<Remote> {
    let cannot = || format!("cannot use {flag} {}", file.display());
    let Kubeconfig { server, ca, tls_server_name, insecure, identity, token, .. } =
        Kubeconfig::read(file).with_context(cannot)?;
    let config = RemoteConfig {
        server,
        authorities: ca.unwrap_or_default(),
        server_name: tls_server_name,
        insecure,
        identity: identity.map(|identity| (identity.certificate, identity.key)),
        token,
    };
    Remote::new(&config).with_context(cannot)
}
