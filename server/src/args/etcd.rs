//! Flags of the etcd API's listener. `etcd_listener` opens it.

use super::{ListenAddress, UsageError};
use std::path::PathBuf;
use std::str::FromStr;

/// The values of the flags of the etcd API.
#[derive(Debug, Default)]
pub(super) struct EtcdOptions {
    pub(super) listen: Option<EtcdAddress>,
    pub(super) advertise: Option<String>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) clients: Option<PathBuf>,
    pub(super) allow_anyone: bool,
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

impl EtcdOptions {
    /// The listener's configuration, if --etcd-listen is given. `given` is the first given flag that needs it.
    pub(super) fn into_listen(self, given: Option<&'static str>) -> Result<Option<EtcdListen>, UsageError> {
        let Self { listen, advertise, certificate, key, clients, allow_anyone } = self;
        let tls = certificate.zip(key).map(|(certificate, key)| EtcdTls { certificate, key, clients });
        match (listen, given) {
            (Some(listen), _) => Ok(Some(EtcdListen { listen, name: None, advertise, tls, allow_anyone })),
            (None, Some(flag)) => Err(UsageError::NeedsEtcdListen(flag)),
            (None, None) => Ok(None),
        }
    }
}

/// Parses the client URL of an etcd.
pub(super) fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest.and_then(|rest| rest.rsplit_once(':')) {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("expected http://HOST:PORT or https://HOST:PORT".into()),
    }
}
