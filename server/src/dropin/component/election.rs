//! Settings of leader election: which Lease the programs compete for, and with which durations, by the flags of Kubernetes' programs.
//! `kstore_informer` implements the election.

use crate::args::time;
use crate::dropin::UsageError;
use crate::dropin::serving::text;
use crate::flags::Parsed;
use anyhow::bail;
use kstore_client::{Client, ClientLease};
use kstore_cluster::LEASE_NAMESPACE;
use kstore_informer::metrics::Registry;
use kstore_informer::{Elector, ElectorOptions, OptionsError, Watchdog};
use kstore_nondet::Nondet;
use std::time::Duration;

/// Leader election settings of the flags or of `leaderElection` in a configuration file; absent ones have Kubernetes' defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ElectionSettings {
    /// Whether the component runs only while it is the leader.
    pub leader_elect: Option<bool>,
    /// Kind of the lock object; only `leases` is supported.
    pub resource_lock: Option<String>,
    /// Namespace of the Lease.
    pub resource_namespace: Option<String>,
    /// Name of the Lease.
    pub resource_name: Option<String>,
    /// Time after the last renewal until another candidate may become the leader.
    pub lease_duration: Option<Duration>,
    /// Time without a successful renewal after which a leader stops.
    pub renew_deadline: Option<Duration>,
    /// Pause between two attempts to acquire or renew the Lease.
    pub retry_period: Option<Duration>,
}

impl ElectionSettings {
    /// Reads the `--leader-elect*` flags.
    pub(super) fn read(flags: &Parsed) -> Result<Self, UsageError> {
        let duration = |name: &'static str| {
            let parse = |words: &str| time(words).map_err(|reason| UsageError::value(name, words, reason));
            text(flags, name).map(parse).transpose()
        };
        let owned = |name| text(flags, name).map(str::to_owned);
        Ok(Self {
            leader_elect: flags.bool("leader-elect"),
            resource_lock: owned("leader-elect-resource-lock"),
            resource_namespace: owned("leader-elect-resource-namespace"),
            resource_name: owned("leader-elect-resource-name"),
            lease_duration: duration("leader-elect-lease-duration")?,
            renew_deadline: duration("leader-elect-renew-deadline")?,
            retry_period: duration("leader-elect-retry-period")?,
        })
    }

    /// These settings, with those of `others` where absent.
    pub(super) fn or(self, others: Self) -> Self {
        Self {
            leader_elect: self.leader_elect.or(others.leader_elect),
            resource_lock: self.resource_lock.or(others.resource_lock),
            resource_namespace: self.resource_namespace.or(others.resource_namespace),
            resource_name: self.resource_name.or(others.resource_name),
            lease_duration: self.lease_duration.or(others.lease_duration),
            renew_deadline: self.renew_deadline.or(others.renew_deadline),
            retry_period: self.retry_period.or(others.retry_period),
        }
    }
}

/// The Lease that a program competes for, with its election options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidacy {
    namespace: String,
    name: String,
    options: ElectorOptions,
}

impl Candidacy {
    /// The candidacy of the program named `program` under the holder identity `identity`; `None` with `--leader-elect=false`.
    ///
    /// # Errors
    /// The settings ask for a lock other than a Lease.
    pub(super) fn of(program: &str, identity: &str, words: ElectionSettings) -> anyhow::Result<Option<Self>> {
        if words.leader_elect == Some(false) {
            return Ok(None);
        }
        if let Some(lock) = words.resource_lock.filter(|lock| lock != "leases") {
            bail!("--leader-elect-resource-lock={lock}: an election is held by leases only");
        }
        let usual = ElectorOptions::new(identity);
        let options = ElectorOptions {
            lease: words.lease_duration.unwrap_or(usual.lease),
            renew: words.renew_deadline.unwrap_or(usual.renew),
            retry: words.retry_period.unwrap_or(usual.retry),
            ..usual
        };
        let namespace = words.resource_namespace.unwrap_or_else(|| LEASE_NAMESPACE.to_owned());
        let name = words.resource_name.unwrap_or_else(|| program.to_owned());
        Ok(Some(Self { namespace, name, options }))
    }

    /// The elector for this candidacy. If the component cannot be stopped before the Lease expires, the process aborts, as Kubernetes'
    /// programs exit whenever they lose their Lease.
    ///
    /// # Errors
    /// The durations contradict each other.
    pub(super) fn elector(
        self,
        client: &Client,
        nondet: &Nondet,
        metrics: &Registry,
    ) -> Result<Elector<ClientLease>, OptionsError> {
        let lease = ClientLease::new(client, &self.namespace, &self.name);
        let elector = Elector::with(lease, self.options, nondet)?;
        Ok(elector.metrics(metrics).watchdog(Watchdog::abort()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidacy(words: ElectionSettings) -> anyhow::Result<Option<Candidacy>> {
        Candidacy::of("kube-scheduler", "host_1", words)
    }

    #[test]
    fn leader_election_has_kubernetes_defaults_and_accepts_overrides() {
        let usual = candidacy(ElectionSettings::default()).unwrap().unwrap();
        assert_eq!((&*usual.namespace, &*usual.name), ("kube-system", "kube-scheduler"));
        assert_eq!(usual.options, ElectorOptions::new("host_1"));
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let other = ElectionSettings {
            leader_elect: Some(true),
            resource_lock: Some("leases".to_owned()),
            resource_namespace: Some("b".to_owned()),
            resource_name: Some("a".to_owned()),
            lease_duration: seconds(30),
            renew_deadline: seconds(20),
            retry_period: seconds(4),
        };
        let other = candidacy(other).unwrap().unwrap();
        assert_eq!((&*other.namespace, &*other.name), ("b", "a"));
        let seconds =
            [other.options.lease, other.options.renew, other.options.retry].map(|time| time.as_secs());
        assert_eq!(seconds, [30, 20, 4]);
        let off = ElectionSettings { leader_elect: Some(false), ..lock("endpoints") };
        assert_eq!(candidacy(off).unwrap(), None);
    }

    fn lock(kind: &str) -> ElectionSettings {
        ElectionSettings { resource_lock: Some(kind.to_owned()), ..ElectionSettings::default() }
    }

    #[test]
    fn other_lock_kinds_are_refused() {
        let refused = candidacy(lock("endpoints")).unwrap_err().to_string();
        assert!(refused.contains("held by leases"), "{refused}");
    }

    #[test]
    fn flags_take_precedence_over_the_configuration_file() {
        let named = |name: &str, leads| ElectionSettings {
            resource_name: Some(name.to_owned()),
            leader_elect: leads,
            ..ElectionSettings::default()
        };
        assert_eq!(named("flag", None).or(named("file", Some(false))), named("flag", Some(false)));
    }
}
