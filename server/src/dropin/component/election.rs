//! Leader election of the two programs, by a Lease and with the flags of client-go's: of several that are started, one works.
//! `informer` has the election itself; here is which Lease, and with which durations.

use crate::args::time;
use crate::dropin::UsageError;
use crate::dropin::flags::Parsed;
use crate::dropin::serving::text;
use anyhow::bail;
use kstore_client::{Client, ClientLease};
use kstore_informer::metrics::Registry;
use kstore_informer::{Elector, ElectorOptions, OptionsError, Watchdog};
use kstore_nondet::Nondet;
use serde::Deserialize;
use std::time::Duration;

/// Where the Lease is if nothing else is said.
const NAMESPACE: &str = "kube-system";

/// What flags, or the `leaderElection` of a configuration file, say; the rest is as in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ElectionWords {
    /// Whether there is an election at all.
    pub leader_elect: Option<bool>,
    /// The kind of object that the election is held by: `leases`.
    pub resource_lock: Option<String>,
    /// Namespace of the Lease.
    pub resource_namespace: Option<String>,
    /// Name of the Lease.
    pub resource_name: Option<String>,
    /// How long the others wait for a leader that is silent.
    #[serde(deserialize_with = "duration")]
    pub lease_duration: Option<Duration>,
    /// After this time without a renewal a leader stops.
    #[serde(deserialize_with = "duration")]
    pub renew_deadline: Option<Duration>,
    /// Between two attempts.
    #[serde(deserialize_with = "duration")]
    pub retry_period: Option<Duration>,
}

fn duration<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    let words = Option::<String>::deserialize(source)?;
    words.map(|words| time(&words).map_err(serde::de::Error::custom)).transpose()
}

impl ElectionWords {
    /// Reads the flags.
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

    /// What these words do not say, `others` do.
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

/// The Lease that a program is a candidate for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidacy {
    namespace: String,
    name: String,
    options: ElectorOptions,
}

impl Candidacy {
    /// The candidacy of a program called `program`, which calls itself `identity`; `None` if it is to work without an election.
    ///
    /// # Errors
    /// Another kind of object than a Lease is asked for.
    pub(super) fn of(program: &str, identity: &str, words: ElectionWords) -> anyhow::Result<Option<Self>> {
        if words.leader_elect == Some(false) {
            return Ok(None);
        }
        if let Some(lock) = words.resource_lock.filter(|lock| lock != "leases") {
            bail!("--leader-elect-resource-lock={lock}: an election is held by leases and by nothing else");
        }
        let usual = ElectorOptions::new(identity);
        let options = ElectorOptions {
            lease: words.lease_duration.unwrap_or(usual.lease),
            renew: words.renew_deadline.unwrap_or(usual.renew),
            retry: words.retry_period.unwrap_or(usual.retry),
            ..usual
        };
        let namespace = words.resource_namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        let name = words.resource_name.unwrap_or_else(|| program.to_owned());
        Ok(Some(Self { namespace, name, options }))
    }

    /// The candidate. Work that cannot be stopped before the Lease runs out ends with the process, as Kubernetes' programs do whenever
    /// they lose it.
    ///
    /// # Errors
    /// The durations do not fit together.
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

    fn candidacy(words: &str) -> anyhow::Result<Option<Candidacy>> {
        Candidacy::of("kube-scheduler", "host_1", serde_yaml_ng::from_str(words).unwrap())
    }

    #[test]
    fn an_election_is_as_in_kubernetes_unless_something_else_is_said() {
        let usual = candidacy("{}").unwrap().unwrap();
        assert_eq!((&*usual.namespace, &*usual.name), ("kube-system", "kube-scheduler"));
        assert_eq!(usual.options, ElectorOptions::new("host_1"));
        let other = "{leaderElect: true, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 1m0s, resourceName: a, \
                     resourceNamespace: b, resourceLock: leases}";
        let other = candidacy(&other.replace("1m0s", "4s")).unwrap().unwrap();
        assert_eq!((&*other.namespace, &*other.name), ("b", "a"));
        let seconds =
            [other.options.lease, other.options.renew, other.options.retry].map(|time| time.as_secs());
        assert_eq!(seconds, [30, 20, 4]);
        assert_eq!(candidacy("{leaderElect: false, resourceLock: endpoints}").unwrap(), None);
    }

    #[test]
    fn another_kind_of_lock_and_a_duration_that_is_none_are_refused() {
        let refused = candidacy("{resourceLock: endpoints}").unwrap_err().to_string();
        assert!(refused.contains("held by leases"), "{refused}");
        assert!(serde_yaml_ng::from_str::<ElectionWords>("{leaseDuration: soon}").is_err());
    }

    #[test]
    fn flags_come_before_the_file() {
        let words = |words: &str| serde_yaml_ng::from_str::<ElectionWords>(words).unwrap();
        let both = words("{resourceName: flag}").or(words("{resourceName: file, leaderElect: false}"));
        assert_eq!(both, words("{resourceName: flag, leaderElect: false}"));
    }
}
