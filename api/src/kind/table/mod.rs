//! The rows of the resource table, and the constant builder that writes them. No logic.

use crate::gate::GateSet;
use crate::name::NameRule;
use crate::resource::{
    ALL_VERBS, CREATE_ONLY, DefaultPropagation, Deprecation, GET_PATCH_UPDATE, GenerationRule,
    NO_COLLECTION_VERBS, Resource, ResourceId, Subresource,
};
use crate::schema;
use crate::version::{Minor, Versions};
use DefaultPropagation::{Orphan, Unsupported};
use GenerationRule::{ContentOrLabels, Fixed, Spec, SpecFromZero, SpecOrAnnotations, Template, Webhooks};

/// Row of a namespaced, stored kind with all verbs and the common rules; builder methods set what differs.
macro_rules! row {
    ($group:literal, $package:literal, $version:literal; $plural:literal, $singular:literal, $kind:literal, $rules:expr) => {
        Resource {
            group: $group,
            version: $version,
            plural: $plural,
            singular: $singular,
            kind: $kind,
            short_names: &[],
            categories: &[],
            namespaced: true,
            verbs: ALL_VERBS,
            subresources: &[],
            schema: concat!("io.k8s.api.", $package, ".", $version, ".", $kind),
            object_type: schema::constant($group, $version, $kind),
            storage: Some(concat!("/registry/", $plural)),
            storage_version: None,
            generation: GenerationRule::None,
            unconditional_update: true,
            create_on_update: false,
            graceful_delete: false,
            returns_deleted: false,
            default_propagation: DefaultPropagation::Background,
            name_rule: NameRule::Subdomain,
            list_kind: "",
            rules: $rules,
            custom: None,
            minor: Minor::DEFAULT,
            gates: GateSet::DEFAULT,
            drops_unknown: false,
            deprecated: None,
            name_rule_without: None,
            generation_without: None,
            versions: Versions::ALL,
        }
    };
}

/// Defines a macro that writes rows of one group and version. The last argument of a row is the static with the
/// rules of its kind, in the module of the group in `rules`.
macro_rules! group {
    ($name:ident = $group:literal, $package:literal, $version:literal, $module:ident) => {
        macro_rules! $name {
            ($plural:literal, $singular:literal, $kind:literal, $rules:ident) => {
                row!($group, $package, $version; $plural, $singular, $kind, &crate::rules::$module::$rules)
            };
        }
    };
}

group!(core = "", "core", "v1", core);
group!(apps = "apps", "apps", "v1", apps);
group!(events = "events.k8s.io", "events", "v1", events);
group!(authentication = "authentication.k8s.io", "authentication", "v1", authentication);
group!(authorization = "authorization.k8s.io", "authorization", "v1", authorization);
group!(autoscaling_v2 = "autoscaling", "autoscaling", "v2", autoscaling);
group!(autoscaling_v1 = "autoscaling", "autoscaling", "v1", autoscaling);
group!(batch = "batch", "batch", "v1", batch);
group!(certificates = "certificates.k8s.io", "certificates", "v1", certificates);
group!(networking = "networking.k8s.io", "networking", "v1", networking);
group!(policy = "policy", "policy", "v1", policy);
group!(rbac = "rbac.authorization.k8s.io", "rbac", "v1", rbac);
group!(storage = "storage.k8s.io", "storage", "v1", storage);
group!(admission = "admissionregistration.k8s.io", "admissionregistration", "v1", admission);
group!(scheduling = "scheduling.k8s.io", "scheduling", "v1", scheduling);
group!(coordination = "coordination.k8s.io", "coordination", "v1", coordination);
group!(node = "node.k8s.io", "node", "v1", node);
group!(discovery = "discovery.k8s.io", "discovery", "v1", discovery);
group!(resource = "resource.k8s.io", "resource", "v1", resource);
group!(registration = "apiregistration.k8s.io", "apiregistration", "v1", registration);
group!(extensions = "apiextensions.k8s.io", "apiextensions", "v1", extensions);
group!(flowcontrol = "flowcontrol.apiserver.k8s.io", "flowcontrol", "v1", flowcontrol);

// After the macros, which it uses.
mod opt_in;

pub use opt_in::OPT_IN;

const ALL: &[&str] = &["all"];
const API_EXTENSIONS: &[&str] = &["api-extensions"];
const CREATE_GET: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

impl Resource {
    const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }
    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }
    const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }
    const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }
    const fn subs(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }
    const fn at(mut self, prefix: &'static str) -> Self {
        self.storage = Some(prefix);
        self
    }
    const fn schema(mut self, name: &'static str) -> Self {
        self.schema = name;
        self
    }
    const fn stored_as(mut self, group: &'static str, version: &'static str) -> Self {
        self.storage_version = Some(ResourceId { group, version, plural: self.plural });
        self
    }
    const fn generation(mut self, rule: GenerationRule) -> Self {
        self.generation = rule;
        self
    }
    const fn conditional(mut self) -> Self {
        self.unconditional_update = false;
        self
    }
    const fn upsert(mut self) -> Self {
        self.create_on_update = true;
        self
    }
    const fn returned(mut self) -> Self {
        self.returns_deleted = true;
        self
    }
    const fn propagation(mut self, default: DefaultPropagation) -> Self {
        self.default_propagation = default;
        self
    }
    const fn named(mut self, rule: NameRule) -> Self {
        self.name_rule = rule;
        self
    }
    const fn deprecated(mut self, since: Minor, unavailable: Option<u64>, replacement: &'static str) -> Self {
        self.deprecated = Some(Deprecation { since, unavailable, replacement });
        self
    }
    const fn since(mut self, first: Minor) -> Self {
        self.versions = Versions::since(first);
        self
    }
    const fn only_in(mut self, minor: Minor) -> Self {
        self.versions = Versions::between(minor, minor);
        self
    }
    const fn named_without(mut self, gate: &'static str, rule: NameRule) -> Self {
        self.name_rule_without = Some((gate, rule));
        self
    }
    const fn generation_without(mut self, gate: &'static str, rule: GenerationRule) -> Self {
        self.generation_without = Some((gate, rule));
        self
    }
    const fn graceful(mut self) -> Self {
        self.graceful_delete = true;
        self
    }
    const fn virtual_only(mut self, verbs: &'static [&'static str]) -> Self {
        self.storage = None;
        self.verbs = verbs;
        self
    }
}

const fn sub(
    name: &'static str,
    (group, version, kind): (&'static str, &'static str, &'static str),
    verbs: &'static [&'static str],
) -> Subresource {
    let object_type = schema::constant(group, version, kind);
    Subresource { name, group, version, kind, object_type, verbs, gate: "" }
}

/// The `status` subresource of a kind: get, patch and update, with the kind itself as body.
const fn status(group: &'static str, version: &'static str, kind: &'static str) -> Subresource {
    sub("status", (group, version, kind), GET_PATCH_UPDATE)
}

const SCALE: Subresource = sub("scale", ("autoscaling", "v1", "Scale"), GET_PATCH_UPDATE);

const POD: (&str, &str, &str) = ("", "v1", "Pod");
const POD_SUBS: &[Subresource] = &[
    sub("attach", ("", "v1", "PodAttachOptions"), CREATE_GET),
    sub("binding", ("", "v1", "Binding"), CREATE_ONLY),
    sub("ephemeralcontainers", POD, GET_PATCH_UPDATE),
    sub("eviction", ("policy", "v1", "Eviction"), CREATE_ONLY),
    sub("exec", ("", "v1", "PodExecOptions"), CREATE_GET),
    sub("log", POD, &["get"]),
    sub("portforward", ("", "v1", "PodPortForwardOptions"), CREATE_GET),
    sub("proxy", ("", "v1", "PodProxyOptions"), PROXY),
    Subresource { gate: "InPlacePodVerticalScaling", ..sub("resize", POD, GET_PATCH_UPDATE) },
    sub("status", POD, GET_PATCH_UPDATE),
];
const NAMESPACE: (&str, &str, &str) = ("", "v1", "Namespace");
const CSR: (&str, &str, &str) = ("certificates.k8s.io", "v1", "CertificateSigningRequest");

/// Every resource that each server of the default version serves, in discovery order: groups by priority, versions preferred first, then
/// by plural. `kind::version_rows` has those of other versions.
pub static RESOURCES: &[Resource] = &[
    core!("bindings", "binding", "Binding", BINDING).virtual_only(CREATE_ONLY),
    core!("componentstatuses", "componentstatus", "ComponentStatus", COMPONENT_STATUS)
        .cluster()
        .short(&["cs"])
        .virtual_only(&["get", "list"]),
    core!("configmaps", "configmap", "ConfigMap", CONFIG_MAP).short(&["cm"]),
    core!("endpoints", "endpoints", "Endpoints", ENDPOINTS)
        .short(&["ep"])
        .at("/registry/services/endpoints")
        .deprecated(Minor::V33, None, "discovery.k8s.io/v1 EndpointSlice")
        .upsert(),
    core!("events", "event", "Event", EVENT)
        .short(&["ev"])
        .named(NameRule::PathSegment)
        .upsert()
        .propagation(Unsupported),
    core!("limitranges", "limitrange", "LimitRange", LIMIT_RANGE).short(&["limits"]).upsert(),
    core!("namespaces", "namespace", "Namespace", NAMESPACE)
        .cluster()
        .short(&["ns"])
        .verbs(NO_COLLECTION_VERBS)
        .subs(&[sub("finalize", NAMESPACE, &["update"]), sub("status", NAMESPACE, GET_PATCH_UPDATE)])
        .named(NameRule::Label)
        .returned(),
    core!("nodes", "node", "Node", NODE)
        .cluster()
        .short(&["no"])
        .at("/registry/minions")
        .subs(&[sub("proxy", ("", "v1", "NodeProxyOptions"), PROXY), status("", "v1", "Node")]),
    core!(
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        "PersistentVolumeClaim",
        PERSISTENT_VOLUME_CLAIM
    )
    .short(&["pvc"])
    .subs(&[status("", "v1", "PersistentVolumeClaim")])
    .returned(),
    core!("persistentvolumes", "persistentvolume", "PersistentVolume", PERSISTENT_VOLUME)
        .cluster()
        .short(&["pv"])
        .subs(&[status("", "v1", "PersistentVolume")])
        .returned(),
    core!("pods", "pod", "Pod", POD)
        .short(&["po"])
        .categories(ALL)
        .subs(POD_SUBS)
        .generation(Spec)
        .graceful()
        .returned(),
    core!("podtemplates", "podtemplate", "PodTemplate", POD_TEMPLATE).generation(Template).returned(),
    core!("replicationcontrollers", "replicationcontroller", "ReplicationController", REPLICATION_CONTROLLER)
        .short(&["rc"])
        .categories(ALL)
        .at("/registry/controllers")
        .subs(&[SCALE, status("", "v1", "ReplicationController")])
        .generation(Spec)
        .propagation(Orphan),
    core!("resourcequotas", "resourcequota", "ResourceQuota", RESOURCE_QUOTA)
        .short(&["quota"])
        .subs(&[status("", "v1", "ResourceQuota")])
        .returned(),
    core!("secrets", "secret", "Secret", SECRET),
    core!("serviceaccounts", "serviceaccount", "ServiceAccount", SERVICE_ACCOUNT)
        .short(&["sa"])
        .subs(&[sub("token", ("authentication.k8s.io", "v1", "TokenRequest"), CREATE_ONLY)])
        .returned(),
    core!("services", "service", "Service", SERVICE)
        .short(&["svc"])
        .categories(ALL)
        .at("/registry/services/specs")
        .subs(&[sub("proxy", ("", "v1", "ServiceProxyOptions"), PROXY), status("", "v1", "Service")])
        .named(NameRule::Label)
        .named_without("RelaxedServiceNameValidation", NameRule::Label1035)
        .upsert()
        .returned(),
    registration!("apiservices", "apiservice", "APIService", API_SERVICE)
        .cluster()
        .categories(API_EXTENSIONS)
        .at("/registry/apiregistration.k8s.io/apiservices")
        .schema("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService")
        .subs(&[status("apiregistration.k8s.io", "v1", "APIService")])
        .named(NameRule::PathSegment)
        .conditional(),
    apps!("controllerrevisions", "controllerrevision", "ControllerRevision", CONTROLLER_REVISION),
    apps!("daemonsets", "daemonset", "DaemonSet", DAEMON_SET)
        .short(&["ds"])
        .categories(ALL)
        .subs(&[status("apps", "v1", "DaemonSet")])
        .generation(Spec),
    apps!("deployments", "deployment", "Deployment", DEPLOYMENT)
        .short(&["deploy"])
        .categories(ALL)
        .subs(&[SCALE, status("apps", "v1", "Deployment")])
        .generation(SpecOrAnnotations),
    apps!("replicasets", "replicaset", "ReplicaSet", REPLICA_SET)
        .short(&["rs"])
        .categories(ALL)
        .subs(&[SCALE, status("apps", "v1", "ReplicaSet")])
        .generation(Spec),
    apps!("statefulsets", "statefulset", "StatefulSet", STATEFUL_SET)
        .short(&["sts"])
        .categories(ALL)
        .subs(&[SCALE, status("apps", "v1", "StatefulSet")])
        .generation(Spec),
    events!("events", "event", "Event", EVENT)
        .short(&["ev"])
        .stored_as("", "v1")
        .named(NameRule::PathSegment)
        .upsert()
        .propagation(Unsupported),
    authentication!("selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", SELF_SUBJECT_REVIEW)
        .cluster()
        .virtual_only(CREATE_ONLY),
    authentication!("tokenreviews", "tokenreview", "TokenReview", TOKEN_REVIEW)
        .cluster()
        .virtual_only(CREATE_ONLY),
    authorization!(
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        "LocalSubjectAccessReview",
        LOCAL_SUBJECT_ACCESS_REVIEW
    )
    .virtual_only(CREATE_ONLY),
    authorization!(
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        "SelfSubjectAccessReview",
        SELF_SUBJECT_ACCESS_REVIEW
    )
    .cluster()
    .virtual_only(CREATE_ONLY),
    authorization!(
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        "SelfSubjectRulesReview",
        SELF_SUBJECT_RULES_REVIEW
    )
    .cluster()
    .virtual_only(CREATE_ONLY),
    authorization!(
        "subjectaccessreviews",
        "subjectaccessreview",
        "SubjectAccessReview",
        SUBJECT_ACCESS_REVIEW
    )
    .cluster()
    .virtual_only(CREATE_ONLY),
    autoscaling_v2!(
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "HorizontalPodAutoscaler",
        HORIZONTAL_POD_AUTOSCALER
    )
    .short(&["hpa"])
    .categories(ALL)
    .subs(&[status("autoscaling", "v2", "HorizontalPodAutoscaler")])
    .generation(Spec)
    .generation_without("HPAGeneration", GenerationRule::None),
    autoscaling_v1!(
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        "HorizontalPodAutoscaler",
        HORIZONTAL_POD_AUTOSCALER_V1
    )
    .short(&["hpa"])
    .categories(ALL)
    .subs(&[status("autoscaling", "v1", "HorizontalPodAutoscaler")])
    .stored_as("autoscaling", "v2")
    .generation(Spec)
    .generation_without("HPAGeneration", GenerationRule::None),
    batch!("cronjobs", "cronjob", "CronJob", CRON_JOB)
        .short(&["cj"])
        .categories(ALL)
        .subs(&[status("batch", "v1", "CronJob")])
        .generation(Spec),
    batch!("jobs", "job", "Job", JOB)
        .categories(ALL)
        .subs(&[status("batch", "v1", "Job")])
        .generation(Spec)
        .propagation(Orphan),
    certificates!(
        "certificatesigningrequests",
        "certificatesigningrequest",
        "CertificateSigningRequest",
        CERTIFICATE_SIGNING_REQUEST
    )
    .cluster()
    .short(&["csr"])
    .subs(&[sub("approval", CSR, GET_PATCH_UPDATE), sub("status", CSR, GET_PATCH_UPDATE)])
    .named(NameRule::PathSegment),
    networking!("ingressclasses", "ingressclass", "IngressClass", INGRESS_CLASS).cluster().generation(Spec),
    networking!("ingresses", "ingress", "Ingress", INGRESS)
        .short(&["ing"])
        .at("/registry/ingress")
        .subs(&[status("networking.k8s.io", "v1", "Ingress")])
        .generation(Spec),
    networking!("ipaddresses", "ipaddress", "IPAddress", IP_ADDRESS)
        .cluster()
        .short(&["ip"])
        .named(NameRule::IpAddress),
    networking!("networkpolicies", "networkpolicy", "NetworkPolicy", NETWORK_POLICY)
        .short(&["netpol"])
        .generation(Spec),
    networking!("servicecidrs", "servicecidr", "ServiceCIDR", SERVICE_CIDR).cluster().subs(&[status(
        "networking.k8s.io",
        "v1",
        "ServiceCIDR",
    )]),
    policy!("poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", POD_DISRUPTION_BUDGET)
        .short(&["pdb"])
        .subs(&[status("policy", "v1", "PodDisruptionBudget")])
        .named(NameRule::PathSegment)
        .generation(Spec)
        .conditional(),
    rbac!("clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding", CLUSTER_ROLE_BINDING)
        .cluster()
        .named(NameRule::PathSegment)
        .upsert(),
    rbac!("clusterroles", "clusterrole", "ClusterRole", CLUSTER_ROLE)
        .cluster()
        .named(NameRule::PathSegment)
        .upsert(),
    rbac!("rolebindings", "rolebinding", "RoleBinding", ROLE_BINDING).named(NameRule::PathSegment).upsert(),
    rbac!("roles", "role", "Role", ROLE).named(NameRule::PathSegment).upsert(),
    storage!("csidrivers", "csidriver", "CSIDriver", CSI_DRIVER)
        .cluster()
        .generation(SpecFromZero)
        .conditional()
        .returned(),
    storage!("csinodes", "csinode", "CSINode", CSI_NODE).cluster().conditional().returned(),
    storage!("csistoragecapacities", "csistoragecapacity", "CSIStorageCapacity", CSI_STORAGE_CAPACITY)
        .conditional(),
    storage!("storageclasses", "storageclass", "StorageClass", STORAGE_CLASS)
        .cluster()
        .short(&["sc"])
        .returned(),
    storage!("volumeattachments", "volumeattachment", "VolumeAttachment", VOLUME_ATTACHMENT)
        .cluster()
        .subs(&[status("storage.k8s.io", "v1", "VolumeAttachment")])
        .conditional()
        .returned(),
    storage!(
        "volumeattributesclasses",
        "volumeattributesclass",
        "VolumeAttributesClass",
        VOLUME_ATTRIBUTES_CLASS
    )
    .cluster()
    .short(&["vac"])
    .returned()
    .since(Minor::V34),
    admission!(
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicy",
        "MutatingAdmissionPolicy",
        MUTATING_ADMISSION_POLICY
    )
    .cluster()
    .categories(API_EXTENSIONS)
    .generation(Spec)
    .conditional()
    .since(Minor::V36),
    admission!(
        "mutatingadmissionpolicybindings",
        "mutatingadmissionpolicybinding",
        "MutatingAdmissionPolicyBinding",
        MUTATING_ADMISSION_POLICY_BINDING
    )
    .cluster()
    .categories(API_EXTENSIONS)
    .generation(Spec)
    .conditional()
    .since(Minor::V36),
    admission!(
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
        "MutatingWebhookConfiguration",
        MUTATING_WEBHOOK_CONFIGURATION
    )
    .cluster()
    .categories(API_EXTENSIONS)
    .generation(Webhooks)
    .conditional(),
    admission!(
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        "ValidatingAdmissionPolicy",
        VALIDATING_ADMISSION_POLICY
    )
    .cluster()
    .categories(API_EXTENSIONS)
    .subs(&[status("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy")])
    .generation(Spec)
    .conditional(),
    admission!(
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        "ValidatingAdmissionPolicyBinding",
        VALIDATING_ADMISSION_POLICY_BINDING
    )
    .cluster()
    .categories(API_EXTENSIONS)
    .generation(Spec)
    .conditional(),
    admission!(
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "ValidatingWebhookConfiguration",
        VALIDATING_WEBHOOK_CONFIGURATION
    )
    .cluster()
    .categories(API_EXTENSIONS)
    .generation(Webhooks)
    .conditional(),
    extensions!(
        "customresourcedefinitions",
        "customresourcedefinition",
        "CustomResourceDefinition",
        CUSTOM_RESOURCE_DEFINITION
    )
    .cluster()
    .short(&["crd", "crds"])
    .categories(API_EXTENSIONS)
    .at("/registry/apiextensions.k8s.io/customresourcedefinitions")
    .schema("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
    .subs(&[status("apiextensions.k8s.io", "v1", "CustomResourceDefinition")])
    .generation(Spec)
    .conditional(),
    scheduling!("priorityclasses", "priorityclass", "PriorityClass", PRIORITY_CLASS)
        .cluster()
        .short(&["pc"])
        .generation(Fixed),
    coordination!("leases", "lease", "Lease", LEASE).conditional().upsert(),
    node!("runtimeclasses", "runtimeclass", "RuntimeClass", RUNTIME_CLASS).cluster().conditional().upsert(),
    discovery!("endpointslices", "endpointslice", "EndpointSlice", ENDPOINT_SLICE)
        .generation(ContentOrLabels),
    resource!("deviceclasses", "deviceclass", "DeviceClass", DEVICE_CLASS)
        .cluster()
        .generation(Spec)
        .returned()
        .since(Minor::V34),
    resource!("resourceclaims", "resourceclaim", "ResourceClaim", RESOURCE_CLAIM)
        .subs(&[status("resource.k8s.io", "v1", "ResourceClaim")])
        .returned()
        .since(Minor::V34),
    resource!(
        "resourceclaimtemplates",
        "resourceclaimtemplate",
        "ResourceClaimTemplate",
        RESOURCE_CLAIM_TEMPLATE
    )
    .returned()
    .since(Minor::V34),
    resource!("resourceslices", "resourceslice", "ResourceSlice", RESOURCE_SLICE)
        .cluster()
        .generation(Spec)
        .returned()
        .since(Minor::V34),
    flowcontrol!("flowschemas", "flowschema", "FlowSchema", FLOW_SCHEMA)
        .cluster()
        .subs(&[status("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema")])
        .generation(Spec),
    flowcontrol!(
        "prioritylevelconfigurations",
        "prioritylevelconfiguration",
        "PriorityLevelConfiguration",
        PRIORITY_LEVEL_CONFIGURATION
    )
    .cluster()
    .subs(&[status("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration")])
    .generation(Spec),
];
