//! The flags of the etcd API's door. Not how it is opened: that is `etcd_door`.

use super::{ListenAddress, UsageError};
use clap::Args;
use std::path::PathBuf;

/// Flags of the etcd API.
#[derive(Debug, Args)]
pub(super) struct EtcdArgs {
    /// Serve the etcd v3 API of the store here; on loopback addresses only, unless clients must show certificates
    #[arg(long, value_name = "ADDR")]
    etcd_listen: Option<ListenAddress>,
    /// The URL that clients are told to come to [default: from --etcd-listen]
    #[arg(long, value_name = "URL", value_parser = url)]
    etcd_advertise: Option<String>,
    /// Certificate chain of the etcd API (PEM); with it, the API is served over TLS only
    #[arg(long, value_name = "FILE", requires = "etcd_key_file")]
    etcd_cert_file: Option<PathBuf>,
    /// Private key of the etcd API (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_cert_file")]
    etcd_key_file: Option<PathBuf>,
    /// Authorities whose certificates clients of the etcd API must show (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_cert_file")]
    etcd_trusted_ca_file: Option<PathBuf>,
    /// Said for those who know the flag from etcd: --etcd-trusted-ca-file alone already asks clients for certificates
    #[arg(long, requires = "etcd_trusted_ca_file")]
    etcd_client_cert_auth: bool,
    /// Open the etcd API to other machines although it knows nobody: whoever connects can read and write everything
    #[arg(long)]
    etcd_allow_anyone: bool,
}

/// Where and to whom the etcd API is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdDoor {
    /// Where it listens.
    pub listen: ListenAddress,
    /// The URL told to clients, if it is not where it listens.
    pub advertise: Option<String>,
    /// With what it is encrypted, if it is.
    pub tls: Option<EtcdTls>,
    /// Clients that show no certificate may come from other machines.
    pub anyone: bool,
}

/// Files of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdTls {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who certifies clients, if they must be certified.
    pub clients: Option<PathBuf>,
}

impl EtcdArgs {
    /// Whether there is to be one.
    pub(super) fn is_given(&self) -> bool {
        self.etcd_listen.is_some()
    }

    /// The door, if there is to be one.
    pub(super) fn into_door(self) -> Result<Option<EtcdDoor>, UsageError> {
        let tls = match (self.etcd_cert_file, self.etcd_key_file) {
            (Some(certificate), Some(key)) => {
                Some(EtcdTls { certificate, key, clients: self.etcd_trusted_ca_file })
            }
            _ => None,
        };
        let (advertise, anyone) = (self.etcd_advertise, self.etcd_allow_anyone);
        match self.etcd_listen {
            Some(listen) => Ok(Some(EtcdDoor { listen, advertise, tls, anyone })),
            None if tls.is_some() => Err(UsageError::NeedsEtcdListen("--etcd-cert-file")),
            None if advertise.is_some() => Err(UsageError::NeedsEtcdListen("--etcd-advertise")),
            None if anyone => Err(UsageError::NeedsEtcdListen("--etcd-allow-anyone")),
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
