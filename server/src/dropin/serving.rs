//! Flags that Kubernetes' programs share: where the certificate of the server is, and the readers of single flags.

use super::UsageError;
use super::flags::Parsed;
use crate::pki::{self, Credential};
use anyhow::Context;
use jiff::Timestamp;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Where the certificate of the server is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServingFiles {
    /// In these files.
    Pair(PathBuf, PathBuf),
    /// In `apiserver.crt` and `apiserver.key` of this directory, where it is made if it is not there.
    Directory(PathBuf),
    /// In memory.
    Nowhere,
}

impl ServingFiles {
    /// What `--tls-cert-file`, `--tls-private-key-file` and `--cert-dir` say.
    pub(super) fn read(flags: &Parsed) -> Result<Self, UsageError> {
        if let Some((certificate, key)) = pair(flags, "tls-cert-file", "tls-private-key-file")? {
            return Ok(Self::Pair(certificate, key));
        }
        Ok(file(flags, "cert-dir").map_or(Self::Nowhere, Self::Directory))
    }

    /// The server's certificate and key; `names` are for a new one.
    pub(super) fn load(&self, names: &[String], now: Timestamp) -> anyhow::Result<Credential> {
        match self {
            Self::Pair(certificate, key) => Ok(Credential {
                certificate_pem: content(certificate, "--tls-cert-file")?,
                key_pem: content(key, "--tls-private-key-file")?,
            }),
            Self::Directory(directory) => pki::self_signed(Some(directory), names, now)
                .with_context(|| format!("cannot use --cert-dir {}", directory.display())),
            Self::Nowhere => pki::self_signed(None, names, now),
        }
    }
}

/// The text of a file that a flag names.
pub(super) fn content(file: &Path, flag: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {flag} {}", file.display()))
}

/// The value of a flag, if it is not empty.
pub(super) fn text<'a>(flags: &'a Parsed, name: &str) -> Option<&'a str> {
    flags.last(name).filter(|value| !value.is_empty())
}

/// The path in a flag.
pub(super) fn file(flags: &Parsed, name: &str) -> Option<PathBuf> {
    text(flags, name).map(PathBuf::from)
}

/// Two files that only make sense together.
pub(super) fn pair(
    flags: &Parsed,
    first: &'static str,
    second: &'static str,
) -> Result<Option<(PathBuf, PathBuf)>, UsageError> {
    const BOTH: &str = "certificate and key are given together";
    match (file(flags, first), file(flags, second)) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(UsageError::Missing { name: first, reason: BOTH }),
        (Some(_), None) => Err(UsageError::Missing { name: second, reason: BOTH }),
    }
}

/// The IP address in a flag.
pub(super) fn address(flags: &Parsed, name: &'static str) -> Result<Option<IpAddr>, UsageError> {
    let parse =
        |text: &str| text.parse().map_err(|_| UsageError::value(name, text, "expected an IP address"));
    text(flags, name).map(parse).transpose()
}
