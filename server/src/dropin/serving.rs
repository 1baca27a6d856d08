//! Parsing of flag values that the drop-in programs share: the serving certificate, file names, file pairs and IP addresses.

use super::UsageError;
use crate::flags::Parsed;
use crate::pki::{self, Credential};
use anyhow::Context;
use jiff::Timestamp;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Location of the serving certificate and its key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServingFiles {
    /// A certificate file and a key file.
    Pair(PathBuf, PathBuf),
    /// `apiserver.crt` and `apiserver.key` in this directory, which are created if they do not exist.
    Directory(PathBuf),
    /// A new self-signed certificate that is not written to disk.
    InMemory,
}

impl ServingFiles {
    /// Reads `--tls-cert-file` with `--tls-private-key-file`, or else `--cert-dir`.
    pub(super) fn read(flags: &Parsed) -> Result<Self, UsageError> {
        if let Some((certificate, key)) = pair(flags, "tls-cert-file", "tls-private-key-file")? {
            return Ok(Self::Pair(certificate, key));
        }
        Ok(file(flags, "cert-dir").map_or(Self::InMemory, Self::Directory))
    }

    /// The files of the certificate and its key; `None` if it is only in memory.
    pub(super) fn files(&self) -> Option<(PathBuf, PathBuf)> {
        match self {
            Self::Pair(certificate, key) => Some((certificate.clone(), key.clone())),
            Self::Directory(directory) => Some(pki::serving_files(directory)),
            Self::InMemory => None,
        }
    }

    /// Loads or creates the certificate and its key; a new certificate is valid for `names`.
    pub(super) fn load(&self, names: &[String], now: Timestamp) -> anyhow::Result<Credential> {
        match self {
            Self::Pair(certificate, key) => Ok(Credential {
                certificate_pem: content(certificate, "--tls-cert-file")?,
                key_pem: content(key, "--tls-private-key-file")?,
            }),
            Self::Directory(directory) => pki::self_signed(Some(directory), names, now)
                .with_context(|| format!("cannot use --cert-dir {}", directory.display())),
            Self::InMemory => pki::self_signed(None, names, now),
        }
    }
}

/// Reads the file that a flag names.
pub(super) fn content(file: &Path, flag: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {flag} {}", file.display()))
}

/// The value of a flag; `None` if it is empty or not given.
pub(super) fn text<'a>(flags: &'a Parsed, name: &str) -> Option<&'a str> {
    flags.last(name).filter(|value| !value.is_empty())
}

/// The value of a flag as a path; `None` if it is empty or not given.
pub(super) fn file(flags: &Parsed, name: &str) -> Option<PathBuf> {
    text(flags, name).map(PathBuf::from)
}

/// Two file flags that must be given together.
pub(super) fn pair(
    flags: &Parsed,
    first: &'static str,
    second: &'static str,
) -> Result<Option<(PathBuf, PathBuf)>, UsageError> {
    const BOTH: &str = "certificate and key must be given together";
    match (file(flags, first), file(flags, second)) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(UsageError::Missing { name: first, reason: BOTH }),
        (Some(_), None) => Err(UsageError::Missing { name: second, reason: BOTH }),
    }
}

/// The value of a flag as an IP address; `None` if it is empty or not given.
pub(super) fn address(flags: &Parsed, name: &'static str) -> Result<Option<IpAddr>, UsageError> {
    let parse =
        |text: &str| text.parse().map_err(|_| UsageError::value(name, text, "expected an IP address"));
    text(flags, name).map(parse).transpose()
}
