//! Flags of an external etcd, with kube-apiserver's names. The module `external` connects to it.

use super::UsageError;
use kstore_storage::storage::etcd::Url;
use std::path::PathBuf;
use std::time::Duration;

/// Default prefix of keys in an external etcd, as in Kubernetes.
const PREFIX: &str = "/registry";
/// Default compaction interval, as in Kubernetes.
const COMPACTION: Duration = Duration::from_secs(300);

/// The values of the flags of an external etcd.
#[derive(Debug, Default)]
pub(super) struct ExternalOptions {
    pub(super) servers: Vec<Url>,
    pub(super) authority: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) prefix: Option<String>,
    pub(super) compaction: Option<Duration>,
    pub(super) user: Option<String>,
    pub(super) password: Option<PathBuf>,
}

/// Address and credentials of an external etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalEtcd {
    /// Client URLs of the members; at least one.
    pub servers: Vec<Url>,
    /// Certificate authority of the members, for TLS.
    pub authority: Option<PathBuf>,
    /// Client certificate chain and key, if the client shows one.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Prefix of all keys.
    pub prefix: String,
    /// Compaction interval; zero disables compaction.
    pub compaction: Duration,
    /// User name, and the file with its password.
    pub user: Option<(String, PathBuf)>,
}

impl ExternalOptions {
    /// The external etcd, if --etcd-servers is given. `given` is the first given flag that needs it.
    pub(super) fn into_external(
        self,
        given: Option<&'static str>,
    ) -> Result<Option<ExternalEtcd>, UsageError> {
        if self.servers.is_empty() {
            return given.map_or(Ok(None), |flag| Err(UsageError::NeedsEtcdServers(flag)));
        }
        if self.authority.is_none() && self.servers.iter().any(|url| url.secure) {
            return Err(UsageError::NeedsAuthority);
        }
        Ok(Some(ExternalEtcd {
            servers: self.servers,
            authority: self.authority,
            identity: self.certificate.zip(self.key),
            prefix: self.prefix.unwrap_or_else(|| PREFIX.into()),
            compaction: self.compaction.unwrap_or(COMPACTION),
            user: self.user.zip(self.password),
        }))
    }
}

/// Parses a time of a second or more, or zero, in Go's notation: `5m`, `90s`, `0`, `1h30m`. A shorter time is no interval of work that a
/// server repeats.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let is_used = |time: &Duration| time.is_zero() || *time >= Duration::from_secs(1);
    let time = kstore_go_duration::parse_non_negative(text).ok().filter(is_used);
    time.ok_or_else(|| "expected a time such as 5m, 90s or 0s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Config, Storage, UsageError};
    use super::*;

    fn config(flags: &str) -> Result<Config, UsageError> {
        let line = format!("kstore-server {flags}");
        Cli::try_parse_from(line.split(' ')).unwrap().serve.into_config()
    }

    fn external(flags: &str) -> (ExternalEtcd, Option<PathBuf>) {
        let storage = config(flags).unwrap().api.here().unwrap().storage;
        let Storage::External { etcd, dir } = storage else { panic!("no external etcd: {flags}") };
        (etcd, dir)
    }

    #[test]
    fn an_external_etcd_takes_the_flags_of_kube_apiserver() {
        let (etcd, dir) = external("--etcd-servers http://127.0.0.1:2379 --in-memory");
        assert_eq!((etcd.servers.len(), etcd.prefix.as_str(), dir), (1, "/registry", None));
        assert_eq!((etcd.compaction, etcd.authority, etcd.user), (Duration::from_secs(300), None, None));
        let tls = "--etcd-cafile ca --etcd-certfile crt --etcd-keyfile key";
        let more = "--etcd-prefix /b --etcd-compaction-interval 0s --etcd-user u --etcd-password-file p";
        let (etcd, dir) = external(&format!("--etcd-servers https://a:1,https://b:2 {tls} {more}"));
        assert_eq!((etcd.servers.len(), etcd.prefix.as_str()), (2, "/b"));
        assert_eq!(etcd.identity, Some(("crt".into(), "key".into())));
        assert_eq!((etcd.compaction, etcd.user), (Duration::ZERO, Some(("u".into(), "p".into()))));
        assert_eq!(dir, Some("./kstore-data".into()), "certificates and kubeconfigs need a directory");
    }

    #[test]
    fn embedded_store_flags_are_refused_with_an_external_etcd() {
        let etcd = "--etcd-servers http://a:1";
        for flag in
            ["--durability sync", "--engine sled", "--quota-bytes 1", "--history 5m", "--etcd-listen :0"]
        {
            let name = flag.split(' ').next().unwrap();
            let refusal = config(&format!("{etcd} {flag}")).unwrap_err();
            assert!(
                matches!(refusal, UsageError::OwnStoreOnly(flag) if flag == name.trim_start_matches('-')),
                "{flag}: {refusal}"
            );
        }
        for (line, refusal) in [
            ("--etcd-prefix /b", UsageError::NeedsEtcdServers("etcd-prefix")),
            ("--etcd-servers https://a:1", UsageError::NeedsAuthority),
            (
                "--etcd-servers http://a:1 --components scheduler --kubeconfig f",
                UsageError::NeedsApiserver("etcd-servers"),
            ),
            (
                "--etcd-servers http://a:1 --components store --etcd-listen :0",
                UsageError::NeedsApiserver("etcd-servers"),
            ),
        ] {
            assert_eq!(config(line), Err(refusal), "{line}");
        }
        for unreadable in [
            "--etcd-servers 127.0.0.1:2379",
            "--etcd-servers http://a:1 --etcd-certfile c",
            "--etcd-servers http://a:1 --etcd-user u",
            "--etcd-servers http://a:1 --etcd-compaction-interval 5",
        ] {
            let line = format!("kstore-server {unreadable}");
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{unreadable}");
        }
    }

    #[test]
    fn times_are_zero_or_a_second_and_more_in_the_notation_of_go() {
        let seconds = |text| time(text).ok().map(|time| time.as_secs());
        for (text, expected) in [
            ("5m", Some(300)),
            ("5m0s", Some(300)),
            ("1h30m", Some(5400)),
            ("1.5h", Some(5400)),
            ("0", Some(0)),
            ("0s", Some(0)),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        for bad in ["", "5", "m", "5 m", "99999999999999999999s", "18446744073709551615h", "-5m", "500ms"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
