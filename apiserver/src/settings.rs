//! [`Settings`] of an apiserver that kube-apiserver has flags for and that a cluster of kstore's own leaves as they are.

use crate::admission::PluginSwitches;
use crate::audit::Audit;
use crate::authn::{Bearers, FrontProxies};
use crate::authz::Modes;
use std::sync::Arc;

/// What the server is told beside [`crate::Options`]. The default is a cluster of kstore's own: RBAC, tokens of service accounts only, the admission
/// plugins that Kubernetes runs by default, and the endpoints of the Service `default/kubernetes` kept.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What decides about requests.
    pub authorization: Modes,
    /// Who knows bearer tokens, beside the keys of service accounts.
    pub bearers: Bearers,
    /// Proxies in front of the server that name the users of requests.
    pub front_proxies: Option<Arc<FrontProxies>>,
    /// Which admission plugins run.
    pub plugins: PluginSwitches,
    /// `host:port` for the addresses in documents, if not where the server is.
    pub external_address: Option<String>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// Leave the endpoints of the Service `default/kubernetes` as they are.
    pub leaves_endpoints: bool,
}
