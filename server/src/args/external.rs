//! Flags of an external etcd, with kube-apiserver's names. The module `external` connects to it.

use super::{EXTERNAL_ETCD, UsageError};
use clap::Args;
use kstore_storage::storage::etcd::Url;
use std::path::PathBuf;
use std::time::Duration;

/// Default prefix of keys in an external etcd, as in Kubernetes.
const PREFIX: &str = "/registry";
/// Default compaction interval, as in Kubernetes.
const COMPACTION: Duration = Duration::from_secs(300);

#[derive(Debug, Args)]
pub(super) struct ExternalArgs {
    /// Store objects in an external etcd (3.5 or later) at these client URLs; several apiservers can share it
    #[arg(long, value_name = "URL", value_delimiter = ',', help_heading = EXTERNAL_ETCD)]
    etcd_servers: Vec<Url>,
    /// Certificate authority of --etcd-servers (PEM)
    #[arg(long, value_name = "FILE", help_heading = EXTERNAL_ETCD)]
    etcd_cafile: Option<PathBuf>,
    /// Client certificate for --etcd-servers (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile", requires = "etcd_cafile", help_heading = EXTERNAL_ETCD)]
    etcd_certfile: Option<PathBuf>,
    /// Private key of --etcd-certfile (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_certfile", help_heading = EXTERNAL_ETCD)]
    etcd_keyfile: Option<PathBuf>,
    /// Prefix of all keys in --etcd-servers [default: /registry]
    #[arg(long, value_name = "PREFIX", help_heading = EXTERNAL_ETCD)]
    etcd_prefix: Option<String>,
    /// Interval at which --etcd-servers are compacted, such as 5m; 0s disables [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = EXTERNAL_ETCD)]
    etcd_compaction_interval: Option<Duration>,
    /// User name for --etcd-servers
    #[arg(long, value_name = "NAME", requires = "etcd_password_file", help_heading = EXTERNAL_ETCD)]
    etcd_user: Option<String>,
    /// File with the password of --etcd-user
    #[arg(long, value_name = "FILE", requires = "etcd_user", help_heading = EXTERNAL_ETCD)]
    etcd_password_file: Option<PathBuf>,
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

impl ExternalArgs {
    /// Whether --etcd-servers is given.
    fn is_given(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// The external etcd, if --etcd-servers is given.
    pub(super) fn into_external(self) -> Result<Option<ExternalEtcd>, UsageError> {
        if !self.is_given() {
            let lost = [
                ("--etcd-cafile", self.etcd_cafile.is_some()),
                ("--etcd-prefix", self.etcd_prefix.is_some()),
                ("--etcd-compaction-interval", self.etcd_compaction_interval.is_some()),
                ("--etcd-user", self.etcd_user.is_some()),
            ];
            return match lost.into_iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(UsageError::NeedsEtcdServers(flag)),
                None => Ok(None),
            };
        }
        if self.etcd_cafile.is_none() && self.etcd_servers.iter().any(|url| url.secure) {
            return Err(UsageError::NeedsAuthority);
        }
        Ok(Some(ExternalEtcd {
            servers: self.etcd_servers,
            authority: self.etcd_cafile,
            identity: self.etcd_certfile.zip(self.etcd_keyfile),
            prefix: self.etcd_prefix.unwrap_or_else(|| PREFIX.into()),
            compaction: self.etcd_compaction_interval.unwrap_or(COMPACTION),
            user: self.etcd_user.zip(self.etcd_password_file),
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
    use clap::Parser as _;

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
            assert!(matches!(refusal, UsageError::OwnStoreOnly(flag) if flag == name), "{flag}: {refusal}");
        }
        for (line, refusal) in [
            ("--etcd-prefix /b", UsageError::NeedsEtcdServers("--etcd-prefix")),
            ("--etcd-servers https://a:1", UsageError::NeedsAuthority),
            (
                "--etcd-servers http://a:1 --components scheduler --kubeconfig f",
                UsageError::NeedsApiserver("--etcd-servers"),
            ),
            (
                "--etcd-servers http://a:1 --components store --etcd-listen :0",
                UsageError::NeedsApiserver("--etcd-servers"),
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
