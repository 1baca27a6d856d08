//! [`Config`]: what the program that runs the controllers decides for them.

use crate::accounts::Accounts;
use crate::networks::Networks;
use crate::signing_authority::SigningAuthority;
use crate::token_signer::TokenSigner;
use jiff::SignedDuration;
use kstore_api::gate::GateSet;
use kstore_api::version::Minor;
use kstore_informer::CacheSet;
use kstore_informer::metrics::Registry;
use std::collections::BTreeSet;
use std::time::Duration;

/// Configuration of the controllers.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Certificate (PEM) of the API server's CA: published in every namespace as `kube-root-ca.crt`. Empty:
    /// not published.
    pub root_ca: String,
    /// The Kubernetes version of the API server.
    pub minor: Minor,
    /// The feature gates of the API server.
    pub gates: GateSet,
    /// The controllers to run.
    pub controllers: Selection,
    /// The identity of each controller's writes.
    pub accounts: Accounts,
    /// Time limits of the node lifecycle controller (`--node-monitor-grace-period` and others).
    pub patience: NodeMonitorConfig,
    /// Address pools of the controllers.
    pub networks: Networks,
    /// Authority that signs CertificateSigningRequests. None: the signer does not run.
    pub signing: Option<Signing>,
    /// Signs service account tokens for Secrets. None: the token controller does not run.
    pub token_signer: Option<TokenSigner>,
    /// Time without use after which generated service account tokens are invalidated, and later deleted.
    pub unused_tokens: UnusedTokenPeriod,
    /// Whether claims show since when no pod refers to them: Kubernetes' feature PersistentVolumeClaimUnusedSinceTime.
    pub unused_claims: bool,
    /// Registry for the metrics of controllers and caches.
    pub metrics: Registry,
    /// The caches of the controllers, perhaps from an image.
    pub caches: CacheSet,
}

impl Config {
    /// The version of Kubernetes by whose rules a feature of the controllers works that is on from `since` on: the API server's, or one
    /// before `since` if the feature's gate is off.
    pub(crate) fn version_with(&self, gate: &str, since: Minor) -> Minor {
        let before = Minor::ALL.into_iter().rev().find(|minor| *minor < since).unwrap_or(self.minor);
        match self.gates.lacks(self.minor, gate) {
            true => self.minor.min(before),
            false => self.minor,
        }
    }
}

/// The controllers to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// Every controller.
    #[default]
    All,
    /// Those of these names, which are not all.
    Only(BTreeSet<&'static str>),
}

impl Selection {
    /// Whether the controller of this name is selected.
    pub(crate) fn runs(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// The authority that signs, and for how long at most.
#[derive(Clone, Debug)]
pub struct Signing {
    /// The authority.
    pub authority: SigningAuthority,
    /// The longest life of a certificate: `--cluster-signing-duration`.
    pub longest: SignedDuration,
}

impl Signing {
    /// The longest life unless a flag says otherwise: a year.
    pub const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);
}

/// Time limits of the node lifecycle controller (`--node-monitor-grace-period` and others).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMonitorConfig {
    /// Silence after which a node's status is unknown.
    pub grace: Duration,
    /// Silence after which the status of a node that never reported is unknown.
    pub startup: Duration,
    /// Interval of checks of an unhealthy node.
    pub recheck: Duration,
}

impl Default for NodeMonitorConfig {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(50),
            startup: Duration::from_secs(60),
            recheck: Duration::from_secs(5),
        }
    }
}

/// Time without use after which a generated token becomes invalid, and time after that until it is deleted:
/// `--legacy-service-account-token-clean-up-period`. Positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedTokenPeriod(SignedDuration);

impl UnusedTokenPeriod {
    /// A period; `None` if it is not positive.
    pub fn new(period: SignedDuration) -> Option<Self> {
        period.is_positive().then_some(Self(period))
    }

    pub(crate) fn get(self) -> SignedDuration {
        self.0
    }
}

impl Default for UnusedTokenPeriod {
    /// A year, as upstream.
    fn default() -> Self {
        Self(SignedDuration::from_hours(365 * 24))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_is_off_is_that_of_the_version_before_it() {
        let of = |minor, is_on: bool| {
            let gates =
                GateSet::of(minor, |gate| if gate.name == "HPAScaleToZero" { is_on } else { gate.is_on });
            Config { minor, gates, ..Config::default() }.version_with("HPAScaleToZero", Minor::V37)
        };
        assert_eq!((of(Minor::V37, true), of(Minor::V37, false)), (Minor::V37, Minor::V36));
        assert_eq!((of(Minor::V35, true), of(Minor::V35, false)), (Minor::V35, Minor::V35));
    }
}
