//! Opens an external etcd: reads the files that its flags name. `apiserver::storage` speaks to it.

use crate::args::ExternalEtcd;
use anyhow::Context;
use kstore_storage::storage::etcd::{Config, Network, User};
use std::path::Path;

/// Reads the files. Nothing is dialled: the first request finds out whether the etcd answers.
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
            Network::tls(&authority, shown).context("cannot set up TLS to --etcd-servers")?
        }
    };
    let user = etcd.user.as_ref().map(|(name, file)| {
        let password = String::from_utf8(read(file, "--etcd-password-file")?);
        let password = password.context("--etcd-password-file is not UTF-8 text")?;
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
