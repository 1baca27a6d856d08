//! [`ListenAddress`]: the `HOST:PORT` of a listener as flags write it. The module `listen` binds it.

use std::str::FromStr;

/// `HOST:PORT`, not resolved yet. An empty host means every interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// A name or an address, without brackets; empty for every interface.
    pub host: String,
    /// The port; 0 selects a free one.
    pub port: u16,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT, for example 127.0.0.1:6443")?;
        let port = port.parse().map_err(|_| format!("`{port}` is not a port (0 to 65535)"))?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            return Err("put an IPv6 address in brackets, for example [::1]:6443".into());
        }
        Ok(Self { host: bare.unwrap_or(host).into(), port })
    }
}
