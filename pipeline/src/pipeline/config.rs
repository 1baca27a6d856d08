//! [`PipelineConfig`]: the configuration of a pipeline, and how a pipeline is made from it. The parts that a
//! server's configuration shares with it are structs of their own, so that a new field of one of them reaches
//! the pipeline without any further code.

use super::heavy::Heavy;
use super::in_flight::InFlight;
use super::{LocalComponents, Pipeline};
use crate::fairness::{Fairness, RequestLimits};
use kstore_access::authn::impersonation::{Impersonation, ServedModes};
use kstore_access::authn::service_account::TokenAuthenticator;
use kstore_access::authn::{AnonymousAccess, Bearers};
use kstore_access::authz::{Authorizer, Modes};
use kstore_access::token::Tokens;
use kstore_admission::{Admission, ConfiguredPlugins, PluginSwitches};
use kstore_metrics_text::Page;
use kstore_nondet::Nondet;
use kstore_registry::cache::Cache;
use kstore_registry::conversion::Converter;
use kstore_registry::outbound::{Network, Outbound, ServiceBackends};
use kstore_registry::provenance::Provenance;
use kstore_registry::registry::Registry;
use kstore_registry::service_ranges::ServiceRanges;
use kstore_storage::limits;
use kstore_storage::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Who may send requests, and what they may do. By default RBAC authorizes, tokens of service accounts are
/// neither issued nor accepted, and requests without credentials are served as the user `system:anonymous`.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// The authorization modes.
    pub authorization: Modes,
    /// The keys for tokens of service accounts; without them no token is issued or accepted.
    pub tokens: Option<Arc<Tokens>>,
    /// Authenticators of bearer tokens, besides the keys of service accounts.
    pub bearers: Bearers,
    /// Which requests without credentials are served as the user `system:anonymous`. Others are refused with
    /// 401.
    pub anonymous: AnonymousAccess,
    /// The modes in which callers may impersonate.
    pub impersonation: ServedModes,
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            authorization: Modes::default(),
            tokens: None,
            bearers: Bearers::default(),
            anonymous: AnonymousAccess::Everywhere,
            impersonation: ServedModes::All,
        }
    }
}

/// The admission plugins. By default those that Kubernetes enables by default, without configuration.
#[derive(Clone, Debug, Default)]
pub struct AdmissionConfig {
    /// The plugins that are enabled or disabled. In mode AlwaysAllow the plugins that check roles are
    /// disabled too.
    pub switches: PluginSwitches,
    /// The plugins that have a configuration.
    pub configured: ConfiguredPlugins,
}

/// How objects are stored.
#[derive(Clone, Debug)]
pub struct RegistryConfig {
    /// The networks of Service addresses.
    pub service_ranges: ServiceRanges,
    /// How long Events live after each write, in whole seconds; less than a second is without end.
    pub event_ttl: Duration,
    /// Whether objects that cannot be read are reported by lists and watches, and may be deleted unread by those who may: Kubernetes'
    /// feature AllowUnsafeMalformedObjectDeletion.
    pub unsafe_deletion: bool,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            service_ranges: ServiceRanges::default(),
            event_ttl: limits::EVENT_TTL,
            unsafe_deletion: false,
        }
    }
}

/// Configuration of a [`Pipeline`]. By default the clock and the randomness are real, webhooks are called over
/// this machine's network, and priority levels are not enforced.
#[derive(Clone)]
pub struct PipelineConfig {
    /// Clock and randomness.
    pub nondet: Nondet,
    /// HTTPS client for webhooks.
    pub outbound: Arc<dyn Outbound>,
    /// Authentication and authorization.
    pub access: AccessConfig,
    /// The admission plugins.
    pub admission: AdmissionConfig,
    /// How objects are stored.
    pub registry: RegistryConfig,
    /// How many requests are served at a time; `None`: priority levels are not enforced.
    pub requests: Option<RequestLimits>,
    /// The components that run in this process: the pipeline warns about objects on which none of them acts.
    pub local_components: LocalComponents,
}

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            nondet: Nondet::real(),
            outbound: Arc::new(Network::new(ServiceBackends::default())),
            access: AccessConfig::default(),
            admission: AdmissionConfig::default(),
            registry: RegistryConfig::default(),
            requests: None,
            local_components: LocalComponents::default(),
        }
    }
}

/// The state of the cluster that a pipeline reads, and the metrics that it shares with other parts.
pub struct PipelineState {
    /// A filled cache. All that the pipeline reads about the cluster comes from it.
    pub cache: Arc<Cache>,
    /// The authors and causes of writes.
    pub provenance: Arc<Provenance>,
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
    /// Decides about each request.
    pub authorizer: Authorizer,
}

impl PipelineState {
    /// The state of a cache, with metrics and an RBAC authorizer of its own.
    #[cfg(test)]
    pub(crate) fn of_cache(cache: Arc<Cache>) -> Self {
        let authorizer = Authorizer::new(cache.clone());
        Self { cache, provenance: Arc::default(), metrics: Arc::default(), authorizer }
    }
}

impl Pipeline {
    /// A pipeline over the state of a cluster.
    pub fn new(state: PipelineState, config: PipelineConfig) -> Self {
        let PipelineState { cache, provenance, metrics, authorizer } = state;
        let PipelineConfig { nondet, outbound, access, admission, registry, requests, local_components } =
            config;
        let authorizer = Arc::new(authorizer);
        let AdmissionConfig { mut switches, configured } = admission;
        if authorizer.modes().allow_everything() {
            switches.disable_role_checks();
        }
        let admission = Admission::new(cache.clone(), authorizer.clone(), outbound.clone(), nondet.clone());
        let admission = admission.with(&switches, &configured);
        if registry.unsafe_deletion {
            cache.report_unreadable();
        }
        let registry = Registry::new(cache, nondet.clone())
            .with_service_ranges(registry.service_ranges)
            .with_event_ttl(registry.event_ttl)
            .with_limited_resources(admission.limited_resources());
        metrics.append(admission.render_metrics());
        let converter = Arc::new(Converter::new(outbound, nondet.clone()));
        metrics.append(converter.render_metrics());
        append_access_metrics(&metrics, access.bearers.clone(), access.authorization);
        let impersonation = new_impersonation(access.impersonation, &metrics);
        let (in_flight, fairness) = new_request_limits(requests, &metrics, &nondet);
        Self {
            authorizer,
            admission,
            registry,
            provenance,
            tokens: access.tokens.map(|tokens| new_token_authenticator(tokens, &metrics)),
            metrics,
            in_flight,
            fairness,
            heavy: Heavy::default(),
            converter,
            nondet,
            bearers: access.bearers,
            local: local_components,
            definition_writes: tokio::sync::Mutex::default(),
            created_fields: Default::default(),
            is_frozen: AtomicBool::new(false),
            anonymous: access.anonymous,
            impersonation,
        }
    }
}

/// Appends the metrics of authentication and authorization to those of a server.
fn append_access_metrics(metrics: &Metrics, bearers: Bearers, modes: Modes) {
    metrics.append(move |out| {
        bearers.render_metrics(&mut Page::new(out));
        modes.render_metrics(&mut Page::new(out));
    });
}

fn new_token_authenticator(tokens: Arc<Tokens>, metrics: &Metrics) -> TokenAuthenticator {
    let authenticator = TokenAuthenticator::new(tokens);
    let uses = authenticator.uses().clone();
    metrics.append(move |out| uses.render_metrics(&mut Page::new(out)));
    authenticator
}

fn new_impersonation(served: ServedModes, metrics: &Metrics) -> Arc<Impersonation> {
    let impersonation = Arc::new(Impersonation::new(served));
    let rendered = impersonation.clone();
    metrics.append(move |out| rendered.render_metrics(&mut Page::new(out)));
    impersonation
}

/// The limits of requests from this process, and the priority levels if they are enforced.
fn new_request_limits(
    requests: Option<RequestLimits>,
    metrics: &Metrics,
    nondet: &Nondet,
) -> (InFlight, Option<Arc<Fairness>>) {
    let Some(limits) = requests else { return (InFlight::default(), None) };
    if !limits.is_fair {
        return (InFlight::of(limits.reads, limits.writes), None);
    }
    let total = limits.reads.saturating_add(limits.writes);
    let fairness = Arc::new(Fairness::new(total, nondet.clone()));
    let measured = fairness.clone();
    metrics.append(move |out| measured.render_metrics(&mut Page::new(out)));
    (InFlight::default(), Some(fairness))
}
