//! Opening the etcd API: the listener, its certificates, and the URL that clients are told. Not serving: that is `etcd`'s.

use crate::args::{EtcdDoor, EtcdTls};
use crate::listen;
use anyhow::{Context, anyhow, bail};
use kstore_etcd::Options;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

const FLAG: &str = "--etcd-listen";

/// A door that is open but at which nobody stands yet.
#[derive(Debug)]
pub(crate) struct OpenDoor {
    /// Already bound.
    pub listener: TcpListener,
    /// How to serve.
    pub options: Options,
}

/// Binds and reads the certificates. Whoever may come from another machine must show a certificate, unless the flags say
/// otherwise.
pub(crate) async fn open(door: &EtcdDoor) -> anyhow::Result<OpenDoor> {
    let tls = door.tls.as_ref().map(tls).transpose()?;
    let listener = listen::bind(&door.listen, FLAG).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let known = door.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
    if !address.ip().is_loopback() && !known && !door.anyone {
        bail!(
            "{FLAG} {address} would be open to other machines, and whoever connects can read and write everything: \
             listen on a loopback address (127.0.0.1:{}), ask for client certificates (--etcd-cert-file, \
             --etcd-key-file, --etcd-trusted-ca-file), or add --etcd-allow-anyone",
            address.port()
        );
    }
    let advertised = match &door.advertise {
        Some(url) => url.clone(),
        None => advertised(door, &listener)?,
    };
    Ok(OpenDoor { listener, options: Options { advertised, tls } })
}

/// The name that was asked for, since certificates are made out for names; for a wildcard, this machine.
fn advertised(door: &EtcdDoor, listener: &TcpListener) -> anyhow::Result<String> {
    let scheme = if door.tls.is_some() { "https" } else { "http" };
    let address = listen::reachable(listener)?;
    let is_name = !door.listen.host.is_empty() && door.listen.host.parse::<std::net::IpAddr>().is_err();
    if is_name {
        return Ok(format!("{scheme}://{}:{}", door.listen.host, address.port()));
    }
    Ok(format!("{scheme}://{address}"))
}

fn tls(files: &EtcdTls) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&files.certificate, "--etcd-cert-file")?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| anyhow!("cannot read --etcd-key-file {}: {error}", files.key.display()))?;
    let config =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let config = match &files.clients {
        None => config.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(file, "--etcd-trusted-ca-file")? {
                roots.add(authority).with_context(|| format!("{} is no authority", file.display()))?;
            }
            let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build()?;
            config.with_client_cert_verifier(clients)
        }
    };
    let mut config =
        config.with_single_cert(chain, key).context("--etcd-cert-file and --etcd-key-file do not fit")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}

fn certificates(file: &Path, flag: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| anyhow!("cannot read {flag} {}: {error}", file.display()))?;
    if found.is_empty() {
        bail!("{flag} {} has no certificate", file.display());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(listen: &str) -> EtcdDoor {
        EtcdDoor { listen: listen.parse().unwrap(), advertise: None, tls: None, anyone: false }
    }

    #[tokio::test]
    async fn what_is_open_to_everybody_is_bound_to_loopback_unless_that_is_wanted() {
        assert!(open(&door("127.0.0.1:0")).await.is_ok());
        let refused = open(&door(":0")).await.unwrap_err().to_string();
        assert!(refused.contains("whoever connects") && refused.contains("--etcd-allow-anyone"), "{refused}");
        assert!(open(&EtcdDoor { anyone: true, ..door(":0") }).await.is_ok());
    }

    #[tokio::test]
    async fn clients_are_told_a_url_that_reaches_us() {
        for (listen, expected) in [
            ("127.0.0.1:0", "http://127.0.0.1:"),
            (":0", "http://127.0.0.1:"),
            ("localhost:0", "http://localhost:"),
        ] {
            let open = open(&EtcdDoor { anyone: true, ..door(listen) }).await.unwrap();
            let port = open.listener.local_addr().unwrap().port();
            assert_eq!(open.options.advertised, format!("{expected}{port}"));
        }
        let url = Some("http://db.example:2379".to_owned());
        let told = open(&EtcdDoor { advertise: url.clone(), ..door("127.0.0.1:0") }).await.unwrap();
        assert_eq!(Some(told.options.advertised), url);
    }
}
