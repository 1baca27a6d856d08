//! The in-tree plugins in the order in which they run, with the kinds that each checks and whether it runs by
//! default. Webhooks, policies and quotas run after them and are implemented elsewhere.

use super::configuration::{ConfiguredPlugins, Unconfigured};
use super::deny_exec::DenyExec;
use super::pod_node_selector::PodNodeSelector;
use super::pod_security::PodSecurity;
use super::pod_toleration_restriction::PodTolerationRestriction;
use super::{
    Plugin, Subject, always, always_pull_images, certificate_approval, certificate_requester,
    certificate_signing, certificate_subject_restriction, cluster_trust_bundle_attest, default_ingress_class,
    default_storage_class, default_toleration_seconds, deny_service_external_ips, device_admin_access,
    event_rate_limit, extended_resource_toleration, image_policy_webhook, initializers,
    limit_pod_hard_anti_affinity_topology, limit_ranger, namespace_auto_provision, namespace_exists,
    namespace_lifecycle, node_restriction, owner_references_permission_enforcement,
    persistent_volume_claim_resize, pod_resize_validator, pod_security, pod_topology_labels, priority,
    rbac_escalation, runtime_class, security_context_deny, service_account, storage_object_in_use_protection,
    taint_nodes_by_condition,
};
use kstore_api::kind::OptIn;
use kstore_registry::kinds::Kinds;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Name of the plugin that limits the writes of nodes.
pub(super) const NODE_RESTRICTION: &str = "NodeRestriction";
/// Name of the RBAC escalation check. In Kubernetes it is part of the storage of roles and not a plugin.
pub(super) const RBAC_ESCALATION: &str = "RBACEscalation";
/// Name of the rule that records the requester of a certificate. In Kubernetes it is part of the storage of
/// signing requests and not a plugin.
const CERTIFICATE_REQUESTER: &str = "CertificateRequester";
/// Name of the rule about administrative access to devices. In Kubernetes it is part of the storage of claims and
/// not a plugin.
const DEVICE_ADMIN_ACCESS: &str = "DeviceAdminAccess";
/// Name of the plugin that checks owner references.
pub(super) const OWNER_REFERENCES: &str = "OwnerReferencesPermissionEnforcement";
/// Name of the plugin ResourceQuota. The registry charges quotas, in the commit of the charged object.
pub const RESOURCE_QUOTA: &str = "ResourceQuota";
pub(super) const MUTATING_POLICY: &str = "MutatingAdmissionPolicy";
pub(super) const MUTATING_WEBHOOK: &str = "MutatingAdmissionWebhook";
pub(super) const VALIDATING_POLICY: &str = "ValidatingAdmissionPolicy";
pub(super) const VALIDATING_WEBHOOK: &str = "ValidatingAdmissionWebhook";
const DENY_ESCALATING_EXEC: &str = "DenyEscalatingExec";
const DENY_EXEC_ON_PRIVILEGED: &str = "DenyExecOnPrivileged";
/// Plugins that Kubernetes enables by default and that this server does not have. Three of them are about kinds or fields
/// of features that are off by default.
pub const LEFT_OUT: [&str; 4] =
    ["PodGroupProtection", "PodGroupWorkloadExists", "NodeDeclaredFeatureValidator", "JobValidation"];
/// Plugins that do not implement [`Plugin`]: they wait for webhooks, or are part of a commit.
const ELSEWHERE: [&str; 5] =
    [MUTATING_POLICY, MUTATING_WEBHOOK, VALIDATING_POLICY, VALIDATING_WEBHOOK, RESOURCE_QUOTA];

/// An in-tree plugin with its name and its kinds.
pub(super) struct Registered {
    /// The name in Kubernetes.
    pub(super) name: &'static str,
    pub(super) plugin: &'static dyn Plugin,
    runs_by_default: bool,
    /// Group and plural of the kinds that the plugin checks; empty: all kinds.
    kinds: &'static [(&'static str, &'static str)],
}

impl Registered {
    /// Whether the plugin checks requests about this kind. Other plugins are skipped.
    pub(super) fn concerns(&self, subject: &Subject<'_>) -> bool {
        let resource = subject.resource;
        self.kinds.is_empty()
            || self.kinds.iter().any(|(group, plural)| *plural == resource.plural && *group == resource.group)
    }

    /// Whether the plugin may refuse streams to pods.
    pub(super) fn reviews_streams(&self) -> bool {
        matches!(self.name, DENY_ESCALATING_EXEC | DENY_EXEC_ON_PRIVILEGED)
    }
}

/// An enabled in-tree plugin, with its configuration.
pub(super) struct Running {
    pub(super) registered: &'static Registered,
    configured: Option<Arc<dyn Plugin>>,
}

impl Running {
    /// The plugin with its configuration, or with the defaults.
    pub(super) fn plugin(&self) -> &dyn Plugin {
        self.configured.as_deref().unwrap_or(self.registered.plugin)
    }
}

const fn on(
    name: &'static str,
    plugin: &'static dyn Plugin,
    kinds: &'static [(&'static str, &'static str)],
) -> Registered {
    Registered { name, plugin, runs_by_default: true, kinds }
}

const fn off(
    name: &'static str,
    plugin: &'static dyn Plugin,
    kinds: &'static [(&'static str, &'static str)],
) -> Registered {
    Registered { name, plugin, runs_by_default: false, kinds }
}

const PODS: &[(&str, &str)] = &[("", "pods")];
const CLAIMS: &[(&str, &str)] = &[("", "persistentvolumeclaims")];
const SIGNING_REQUESTS: &[(&str, &str)] = &[("certificates.k8s.io", "certificatesigningrequests")];
const RBAC: &str = "rbac.authorization.k8s.io";

static POD_SECURITY: PodSecurity = PodSecurity::new();
static POD_NODE_SELECTOR: PodNodeSelector = PodNodeSelector::new();
static POD_TOLERATION_RESTRICTION: PodTolerationRestriction = PodTolerationRestriction::new();

/// The plugins in Kubernetes' order.
static PLUGINS: &[Registered] = &[
    off("AlwaysAdmit", &always::AlwaysAdmit, &[]),
    off(namespace_auto_provision::NAME, &namespace_auto_provision::NamespaceAutoProvision, &[]),
    on("NamespaceLifecycle", &namespace_lifecycle::NamespaceLifecycle, &[]),
    off("NamespaceExists", &namespace_exists::NamespaceExists, &[]),
    off(security_context_deny::NAME, &security_context_deny::SecurityContextDeny, PODS),
    off(
        "LimitPodHardAntiAffinityTopology",
        &limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology,
        PODS,
    ),
    on("LimitRanger", &limit_ranger::LimitRanger, &[("", "pods"), ("", "persistentvolumeclaims")]),
    on("ServiceAccount", &service_account::ServiceAccount, PODS),
    on(NODE_RESTRICTION, &node_restriction::NodeRestriction, &[]),
    on("TaintNodesByCondition", &taint_nodes_by_condition::TaintNodesByCondition, &[("", "nodes")]),
    off("AlwaysPullImages", &always_pull_images::AlwaysPullImages, PODS),
    off(image_policy_webhook::NAME, &Unconfigured, PODS),
    on("PodSecurity", &POD_SECURITY, pod_security::KINDS),
    off("PodNodeSelector", &POD_NODE_SELECTOR, PODS),
    on("Priority", &priority::Priority, &[("", "pods"), ("scheduling.k8s.io", "priorityclasses")]),
    on("DefaultTolerationSeconds", &default_toleration_seconds::DefaultTolerationSeconds, PODS),
    off("PodTolerationRestriction", &POD_TOLERATION_RESTRICTION, PODS),
    off(DENY_ESCALATING_EXEC, &DenyExec::ESCALATING, PODS),
    off(DENY_EXEC_ON_PRIVILEGED, &DenyExec::ON_PRIVILEGED, PODS),
    off(event_rate_limit::NAME, &Unconfigured, &[("", "events")]),
    off("ExtendedResourceToleration", &extended_resource_toleration::ExtendedResourceToleration, PODS),
    on("DefaultStorageClass", &default_storage_class::DefaultStorageClass, CLAIMS),
    on(
        "StorageObjectInUseProtection",
        &storage_object_in_use_protection::StorageObjectInUseProtection,
        &[
            ("", "persistentvolumeclaims"),
            ("", "persistentvolumes"),
            ("storage.k8s.io", "volumeattributesclasses"),
        ],
    ),
    off(
        OWNER_REFERENCES,
        &owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement,
        &[],
    ),
    on("PersistentVolumeClaimResize", &persistent_volume_claim_resize::PersistentVolumeClaimResize, CLAIMS),
    on("RuntimeClass", &runtime_class::RuntimeClass, PODS),
    on("CertificateApproval", &certificate_approval::CertificateApproval, SIGNING_REQUESTS),
    on("CertificateSigning", &certificate_signing::CertificateSigning, SIGNING_REQUESTS),
    on(
        cluster_trust_bundle_attest::NAME,
        &cluster_trust_bundle_attest::ClusterTrustBundleAttest,
        &[cluster_trust_bundle_attest::BUNDLES],
    ),
    on(
        "CertificateSubjectRestriction",
        &certificate_subject_restriction::CertificateSubjectRestriction,
        SIGNING_REQUESTS,
    ),
    on(
        "DefaultIngressClass",
        &default_ingress_class::DefaultIngressClass,
        &[("networking.k8s.io", "ingresses")],
    ),
    off("DenyServiceExternalIPs", &deny_service_external_ips::DenyServiceExternalIps, &[("", "services")]),
    // Runs after mutating webhooks, as in Kubernetes, and not as a plugin of this list.
    off(initializers::NAME, &initializers::Initializers, &[]),
    on(pod_topology_labels::NAME, &pod_topology_labels::PodTopologyLabels, PODS),
    on("PodResizeValidator", &pod_resize_validator::PodResizeValidator, PODS),
    on(CERTIFICATE_REQUESTER, &certificate_requester::CertificateRequester, SIGNING_REQUESTS),
    on(DEVICE_ADMIN_ACCESS, &device_admin_access::DeviceAdminAccess, &device_admin_access::KINDS),
    on(
        RBAC_ESCALATION,
        &rbac_escalation::RbacEscalation,
        &[(RBAC, "clusterroles"), (RBAC, "roles"), (RBAC, "clusterrolebindings"), (RBAC, "rolebindings")],
    ),
    // In Kubernetes it runs after webhooks and quotas.
    off("AlwaysDeny", &always::AlwaysDeny, &[]),
];

/// The names of Kubernetes' admission plugins that this server has.
pub fn plugins() -> impl Iterator<Item = &'static str> {
    const NOT_PLUGINS: [&str; 3] = [RBAC_ESCALATION, CERTIFICATE_REQUESTER, DEVICE_ADMIN_ACCESS];
    let own = PLUGINS.iter().map(|registered| registered.name).filter(|name| !NOT_PLUGINS.contains(name));
    own.chain(ELSEWHERE)
}

/// The enabled plugins: Kubernetes' default set with these changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSwitches {
    /// Plugins of [`plugins`] that run in addition to the default ones.
    pub enabled: BTreeSet<&'static str>,
    /// Plugins of [`plugins`] that do not run.
    pub disabled: BTreeSet<&'static str>,
}

impl PluginSwitches {
    /// The default set without these plugins.
    pub fn without(disabled: impl IntoIterator<Item = &'static str>) -> Self {
        Self { disabled: disabled.into_iter().collect(), ..Self::default() }
    }

    /// Whether a plugin is enabled, including those for webhooks, policies and quotas.
    pub fn runs(&self, plugin: &str) -> bool {
        let by_default = |name: &str| {
            PLUGINS
                .iter()
                .find(|registered| registered.name == name)
                .is_none_or(|registered| registered.runs_by_default)
        };
        !self.disabled.contains(plugin) && (self.enabled.contains(plugin) || by_default(plugin))
    }

    /// The kinds that a server with these plugins and optional kinds serves without any stored definition.
    pub fn kinds(&self, opt_in: OptIn) -> Kinds {
        let kinds = Kinds::with_optional(opt_in);
        if self.runs(initializers::NAME) { kinds.with_initializers() } else { kinds }
    }

    /// The enabled in-tree plugins, in their order.
    pub(super) fn running(&self, configured: &ConfiguredPlugins) -> Arc<[Running]> {
        let running = PLUGINS.iter().filter(|registered| self.runs(registered.name));
        let running =
            running.map(|registered| Running { registered, configured: configured.get(registered.name) });
        running.collect()
    }
}
