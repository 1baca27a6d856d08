//! [`Settings`] of an API server for which kube-apiserver has flags. A cluster of kstore's own uses the
//! defaults.

use crate::admission::{ConfiguredPlugins, PluginSwitches};
use crate::audit::Audit;
use crate::authn::{AnonymousAccess, Bearers, FrontProxies};
use crate::authz::Modes;
use crate::encryption::Encryption;
use crate::fairness::RequestLimits;
use crate::kinds::Kinds;
use crate::load_progress::LoadProgress;
use kstore_api::kind::OptIn;
use std::sync::Arc;
use std::time::Duration;

/// Settings besides [`crate::Options`]. By default: RBAC, tokens of service accounts only, the admission
/// plugins that Kubernetes enables by default, and maintained endpoints of the Service `default/kubernetes`.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The authorization modes.
    pub authorization: Modes,
    /// Authenticators of bearer tokens, besides the keys of service accounts.
    pub bearers: Bearers,
    /// Which requests without credentials are served; `None`: all or none, as [`crate::Options::anonymous`] says.
    pub anonymous: Option<AnonymousAccess>,
    /// Proxies in front of the server that authenticate the users of requests.
    pub front_proxies: Option<Arc<FrontProxies>>,
    /// The admission plugins that are enabled.
    pub plugins: PluginSwitches,
    /// The admission plugins that have a configuration.
    pub configured_plugins: ConfiguredPlugins,
    /// The `host:port` in documents, if it differs from the server's address.
    pub external_address: Option<String>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// How many requests are served at a time, and whether priority levels divide them.
    pub request_limits: RequestLimits,
    /// Encryption of stored objects, if there is any.
    pub encryption: Option<Arc<Encryption>>,
    /// The optional kinds and features.
    pub opt_in: OptIn,
    /// Bytes of provenance in memory; `None`: [`crate::limits::TRACE_BYTES`].
    pub explain_bytes: Option<usize>,
    /// Counts the stored objects that the server has read while it starts. The caller keeps a clone, and may show it.
    pub load_progress: Arc<LoadProgress>,
    /// How long Events live; `None`: [`crate::limits::EVENT_TTL`].
    pub event_ttl: Option<Duration>,
    /// Whether the endpoints of the Service `default/kubernetes` are left as they are.
    pub leaves_endpoints: bool,
}

impl Settings {
    /// The kinds that the server serves without any stored definition.
    pub(crate) fn kinds(&self) -> Kinds {
        self.plugins.kinds(self.opt_in.clone())
    }
}
