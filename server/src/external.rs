//! The connection settings of an external etcd, from flags and files. `apiserver::storage` connects to it.

use crate::args::ExternalEtcd;
use anyhow::Context;
use kstore_apiserver::storage::etcd::{Config, Network, User};
use std::path::Path;

/// Reads the files. It does not connect: the first request finds out whether etcd is available.
pub(crate) fn open(etcd: &ExternalEtcd) -> anyhow::Result<(Config, Network)> {
    let network = match &etcd.authority {
        None => Network::plain(),
        Some(authority) => {
            let authority = read(authority, "--etcd-cafile")?;
            let identity = etcd.identity.as_ref().map(|(certificate, key)| {
                Ok::<_, anyhow::Error>((read(certificate, "--etcd-certfile")?, read(key, "--etcd-keyfile")?))
            });
            let identity = identity.transpose()?;
            let shown = identity.as_ref().map(|(certificate, key)| (&certificate[..], &key[..]));
            Network::tls(&authority, shown).context("TLS to --etcd-servers")?
        }
    };
    let user = etcd.user.as_ref().map(|(name, file)| {
        let password = String::from_utf8(read(file, "--etcd-password-file")?);
        let password = password.context("--etcd-password-file is no text")?;
        let password = password.trim_end_matches(['\n', '\r']).to_owned();
        Ok::<_, anyhow::Error>(User { name: name.clone(), password })
    });
    let config = Config {
        members: etcd.servers.clone(),
        prefix: etcd.prefix.clone(),
        user: user.transpose()?,
        compaction: etcd.compaction,
    };
    Ok((config, network))
}

fn read(file: &Path, flag: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {flag} {}", file.display()))
}
