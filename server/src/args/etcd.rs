//! Flags of the etcd API's listener. `etcd_listener` opens it.

use super::{ETCD_API, ListenAddress, UsageError};
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
pub(super) struct EtcdArgs {
    /// Serve the etcd v3 API on a Unix socket for the user of this process alone (unix:///path/to.sock, recommended beside an
    /// apiserver), or on HOST:PORT; on loopback only, unless clients must show certificates
    #[arg(long, value_name = "ADDR", help_heading = ETCD_API)]
    etcd_listen: Option<EtcdAddress>,
    /// Client URL that the etcd API reports [default: from --etcd-listen]
    #[arg(long, value_name = "URL", value_parser = url, help_heading = ETCD_API)]
    etcd_advertise: Option<String>,
    /// Server certificate chain (PEM); the etcd API is then served over TLS only
    #[arg(long, value_name = "FILE", requires = "etcd_key_file", help_heading = ETCD_API)]
    etcd_cert_file: Option<PathBuf>,
    /// Private key of --etcd-cert-file (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_cert_file", help_heading = ETCD_API)]
    etcd_key_file: Option<PathBuf>,
    /// Certificate authorities of clients (PEM); clients must then show a certificate
    #[arg(long, value_name = "FILE", requires = "etcd_cert_file", help_heading = ETCD_API)]
    etcd_trusted_ca_file: Option<PathBuf>,
    /// Accepted as etcd's flag; --etcd-trusted-ca-file alone already requires client certificates
    #[arg(long, requires = "etcd_trusted_ca_file", help_heading = ETCD_API)]
    etcd_client_cert_auth: bool,
    /// Serve other machines without client certificates: every client that can connect can read and write everything
    #[arg(long, help_heading = ETCD_API)]
    etcd_allow_anyone: bool,
}

/// Address of the etcd API's listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdAddress {
    /// A TCP address of this machine.
    Tcp(ListenAddress),
    /// A Unix socket with this absolute path.
    Unix(PathBuf),
}

impl FromStr for EtcdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix://") {
            None => text.parse().map(Self::Tcp),
            Some(path) if path.starts_with('/') && !path.ends_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => {
                Err("expected unix:// and an absolute path, for example unix:///run/kstore/etcd.sock".into())
            }
        }
    }
}

/// Configuration of the etcd API's listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdListen {
    /// Address to bind.
    pub listen: EtcdAddress,
    /// Name of the member in the member list, if not the default.
    pub name: Option<String>,
    /// Client URL in the member list, if it differs from the listener's.
    pub advertise: Option<String>,
    /// TLS files; `None` serves plain text.
    pub tls: Option<EtcdTls>,
    /// Whether clients without a certificate may connect from other machines.
    pub allow_anyone: bool,
}

/// TLS files of the etcd API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdTls {
    /// Server certificate chain.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Certificate authorities of clients, if clients must show a certificate.
    pub clients: Option<PathBuf>,
}

impl EtcdArgs {
    /// The listener's configuration, if --etcd-listen is given.
    pub(super) fn into_listen(self) -> Result<Option<EtcdListen>, UsageError> {
        let tls = match (self.etcd_cert_file, self.etcd_key_file) {
            (Some(certificate), Some(key)) => {
                Some(EtcdTls { certificate, key, clients: self.etcd_trusted_ca_file })
            }
            _ => None,
        };
        let (advertise, allow_anyone) = (self.etcd_advertise, self.etcd_allow_anyone);
        match self.etcd_listen {
            Some(listen) => Ok(Some(EtcdListen { listen, name: None, advertise, tls, allow_anyone })),
            None if tls.is_some() => Err(UsageError::NeedsEtcdListen("--etcd-cert-file")),
            None if advertise.is_some() => Err(UsageError::NeedsEtcdListen("--etcd-advertise")),
            None if allow_anyone => Err(UsageError::NeedsEtcdListen("--etcd-allow-anyone")),
            None => Ok(None),
        }
    }
}

fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest.and_then(|rest| rest.rsplit_once(':')) {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("expected http://HOST:PORT or https://HOST:PORT".into()),
    }
}
