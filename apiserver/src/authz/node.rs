//! The Node mode: a node may read what its pods refer to, and write its own objects. Pods and references are
//! looked up for each request, so that decisions are as current as the watch cache. The fields that a node
//! may write are checked by admission (NodeRestriction).

use super::rule::Rule;
use super::{Attributes, Decision, Target, bootstrap};
use crate::authn::UserInfo;
use crate::lookup::Lookup;
use crate::pod_references::{self, items};
use kstore_api::kind::{self, Resource};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

const USER: &str = "system:node:";
const GROUP: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";
/// Annotation of mirror pods, which a node creates itself: their references grant nothing.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The node name of a user that is a node.
pub(crate) fn node_of(user: &UserInfo) -> Option<&str> {
    user.username.strip_prefix(USER).filter(|_| user.is_in(GROUP))
}

/// Decides one request, with Kubernetes' reasons.
pub(super) fn decide(asked: &Attributes<'_>, cluster: &dyn Lookup) -> Decision {
    let Some(node) = node_of(asked.user) else { return Decision::NoOpinion(String::new()) };
    if node.is_empty() {
        return none(format!("unknown node for user {:?}", asked.user.username));
    }
    let by_graph = match asked.target {
        Target::Path(_) => None,
        Target::Resource { group, resource, subresource, namespace, name } => {
            let request = NodeRequest { node, verb: asked.verb, subresource, namespace, name };
            request.decide((group, resource), asked, cluster)
        }
    };
    by_graph.unwrap_or_else(|| match rules().iter().any(|rule| rule.allows(asked)) {
        true => allow(),
        false => Decision::NoOpinion(String::new()),
    })
}

/// The rules that are the same for every node.
fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let roles = bootstrap::objects();
        let role = roles
            .iter()
            .find(|role| role["kind"] == "ClusterRole" && role["metadata"]["name"] == "system:node");
        let rules =
            role.map(|role| role["rules"].as_array().into_iter().flatten().map(Rule::from_value).collect());
        rules.unwrap_or_default()
    })
}

fn allow() -> Decision {
    Decision::Allow(String::new())
}

fn none(reason: impl Into<String>) -> Decision {
    Decision::NoOpinion(reason.into())
}

/// The optional kind that every node can read.
const TRUST_BUNDLES: (&str, &str) = ("certificates.k8s.io", "clustertrustbundles");

/// A node's request for a resource.
#[derive(Clone, Copy)]
struct NodeRequest<'a> {
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl NodeRequest<'_> {
    /// Decides the request; `None` if the rules for all nodes decide.
    fn decide(&self, of: (&str, &str), asked: &Attributes<'_>, cluster: &dyn Lookup) -> Option<Decision> {
        Some(match of {
            ("", "secrets") => self.read(cluster, |pods| pods.refer_to_secret(self)),
            ("", "configmaps") => self.read(cluster, |pods| pods.refer_to_config_map(self)),
            ("", "persistentvolumeclaims") if self.subresource == "status" => {
                if !matches!(self.verb, "get" | "update" | "patch") {
                    return Some(none("can only get/update/patch this type"));
                }
                self.related(cluster, |pods| pods.claim(self.namespace, self.name))
            }
            ("", "persistentvolumeclaims") => self.get(cluster, |pods| pods.claim(self.namespace, self.name)),
            ("", "persistentvolumes") => self.get(cluster, |pods| pods.volume(self.name)),
            ("resource.k8s.io", "resourceclaims") => self.get(cluster, |pods| pods.resource_claim(self)),
            ("storage.k8s.io", "volumeattachments") => {
                self.get(cluster, |pods| pods.is_on_node("storage.k8s.io", "volumeattachments", self))
            }
            ("", "serviceaccounts") => self.service_account(cluster),
            TRUST_BUNDLES if self.is_read() && cluster.kinds().rows().opt_in().has(of.0, of.1) => allow(),
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(asked, cluster),
            ("", "nodes") => self.node(),
            ("", "pods") => self.pod(asked, cluster),
            _ => return None,
        })
    }

    fn is_read(&self) -> bool {
        self.subresource.is_empty() && matches!(self.verb, "get" | "list" | "watch")
    }

    /// Allows access to objects that are related to the node.
    fn related(&self, cluster: &dyn Lookup, is_related: impl FnOnce(&NodePods<'_>) -> bool) -> Decision {
        if self.name.is_empty() {
            return none("No Object name found");
        }
        match is_related(&NodePods { node: self.node, cluster }) {
            true => allow(),
            false => none(format!("no relationship found between node '{}' and this object", self.node)),
        }
    }

    fn read(&self, cluster: &dyn Lookup, is_related: impl FnOnce(&NodePods<'_>) -> bool) -> Decision {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return none("can only read resources of this type");
        }
        if !self.subresource.is_empty() {
            return none("cannot read subresource");
        }
        if self.namespace.is_empty() {
            return none("can only read namespaced object of this type");
        }
        self.related(cluster, is_related)
    }

    fn get(&self, cluster: &dyn Lookup, is_related: impl FnOnce(&NodePods<'_>) -> bool) -> Decision {
        if self.verb != "get" {
            return none("can only get individual resources of this type");
        }
        if !self.subresource.is_empty() {
            return none("cannot get subresource");
        }
        self.related(cluster, is_related)
    }

    fn service_account(&self, cluster: &dyn Lookup) -> Decision {
        let is_token = self.verb == "create" && self.subresource == "token";
        let is_read = self.verb == "get" && self.subresource.is_empty();
        if (!is_token && !is_read) || self.name.is_empty() {
            return none("can only create tokens for individual service accounts");
        }
        self.related(cluster, |pods| pods.run_as(self))
    }

    fn lease(&self) -> Decision {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return none("can only get, create, update, patch, or delete a node lease");
        }
        if self.namespace != LEASES {
            return none(format!("can only access leases in the {LEASES:?} system namespace"));
        }
        // The name of a Lease that is being created need not be known yet.
        if self.verb != "create" && self.name != self.node {
            return none("can only access node lease with the same name as the requesting node");
        }
        allow()
    }

    fn csi_node(&self) -> Decision {
        if !self.subresource.is_empty() {
            return none("cannot authorize CSINode subresources");
        }
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return none("can only get, create, update, patch, or delete a CSINode");
        }
        if self.verb != "create" && self.name != self.node {
            return none("can only access CSINode with the same name as the requesting node");
        }
        allow()
    }

    fn resource_slice(&self, asked: &Attributes<'_>, cluster: &dyn Lookup) -> Decision {
        if !self.subresource.is_empty() {
            return none("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            "create" => allow(),
            "get" | "update" | "patch" | "delete" => {
                self.related(cluster, |pods| pods.is_on_node("resource.k8s.io", "resourceslices", self))
            }
            "watch" | "list" | "deletecollection" if selects_node(asked, self.node) => allow(),
            "watch" | "list" | "deletecollection" => {
                none(format!("can only {} ResourceSlices with a field selector for the node name", self.verb))
            }
            _ => none(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn node(&self) -> Decision {
        match (self.subresource, self.verb) {
            // Admission checks which node is written.
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => allow(),
            ("", "get" | "list" | "watch") if self.name == self.node => allow(),
            ("", "get" | "list" | "watch") if self.name.is_empty() => {
                none(format!("node '{}' cannot read all nodes, only its own Node object", self.node))
            }
            ("", "get" | "list" | "watch") => {
                none(format!("node '{}' cannot read '{}', only its own Node object", self.node, self.name))
            }
            _ => none(""),
        }
    }

    fn pod(&self, asked: &Attributes<'_>, cluster: &dyn Lookup) -> Decision {
        match (self.subresource, self.verb) {
            // Admission checks which pods are written.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => allow(),
            ("", "list" | "watch") if selects_node(asked, self.node) => allow(),
            ("", "list" | "watch") if self.name.is_empty() => {
                none("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "get" | "list" | "watch") => self.related(cluster, |pods| {
                let pod = pods.get("", "pods", self.namespace, self.name);
                pod.is_some_and(|pod| pod["spec"]["nodeName"] == self.node)
            }),
            _ => none(""),
        }
    }
}

/// Whether a request selects only objects of this node.
fn selects_node(asked: &Attributes<'_>, node: &str) -> bool {
    asked.more.selects.is_some_and(|selects| selects.fields.required("spec.nodeName") == Some(node))
}

/// The pods of a node, and the objects they refer to.
struct NodePods<'a> {
    node: &'a str,
    cluster: &'a dyn Lookup,
}

impl NodePods<'_> {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.cluster.get(row(group, plural)?, namespace, name)
    }

    /// Whether a pod of the node in a namespace ("" for all) meets a condition. Mirror pods are skipped.
    fn any(&self, namespace: &str, is_meant: impl Fn(&Value) -> bool) -> bool {
        self.cluster.pods_of_node(self.node).iter().any(|pod| {
            let metadata = &pod["metadata"];
            (namespace.is_empty() || metadata["namespace"] == namespace)
                && metadata["annotations"][MIRROR].is_null()
                && is_meant(pod)
        })
    }

    fn refer_to_secret(&self, asked: &NodeRequest<'_>) -> bool {
        self.any(asked.namespace, |pod| pod_references::secrets(&pod["spec"]).any(|name| name == asked.name))
            || self.any("", |pod| {
                let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
                let volumes = self.claims_of(pod).filter_map(|claim| self.volume_of(namespace, &claim));
                volumes.into_iter().any(|volume| volume_has_secret(&volume, namespace, asked))
            })
    }

    fn refer_to_config_map(&self, asked: &NodeRequest<'_>) -> bool {
        let of_node = |node: &Value| {
            let source = &node["spec"]["configSource"]["configMap"];
            source["name"] == asked.name && source["namespace"] == asked.namespace
        };
        self.any(asked.namespace, |pod| {
            pod_references::config_maps(&pod["spec"]).any(|name| name == asked.name)
        }) || self.get("", "nodes", "", self.node).is_some_and(|node| of_node(&node))
    }

    /// The names of a pod's claims, including those of ephemeral volumes.
    fn claims_of<'p>(&self, pod: &'p Value) -> impl Iterator<Item = String> + use<'p> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        items(&pod["spec"]["volumes"]).filter_map(move |volume| {
            let claim = volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
            let ephemeral = volume["ephemeral"]
                .is_object()
                .then(|| format!("{name}-{}", volume["name"].as_str().unwrap_or_default()));
            claim.or(ephemeral)
        })
    }

    fn claim(&self, namespace: &str, name: &str) -> bool {
        !namespace.is_empty() && self.any(namespace, |pod| self.claims_of(pod).any(|claim| claim == name))
    }

    /// The volume that is bound to a claim.
    fn volume_of(&self, namespace: &str, claim: &str) -> Option<Arc<Value>> {
        let claimed = self.get("", "persistentvolumeclaims", namespace, claim)?;
        let volume = self.get("", "persistentvolumes", "", claimed["spec"]["volumeName"].as_str()?)?;
        let reference = &volume["spec"]["claimRef"];
        (reference["namespace"] == namespace && reference["name"] == claim).then_some(volume)
    }

    fn volume(&self, name: &str) -> bool {
        let Some(volume) = self.get("", "persistentvolumes", "", name) else { return false };
        let reference = &volume["spec"]["claimRef"];
        match (reference["namespace"].as_str(), reference["name"].as_str()) {
            (Some(namespace), Some(claim)) => self.claim(namespace, claim),
            _ => false,
        }
    }

    fn resource_claim(&self, asked: &NodeRequest<'_>) -> bool {
        !asked.namespace.is_empty()
            && self.any(asked.namespace, |pod| {
                let direct = items(&pod["spec"]["resourceClaims"])
                    .any(|claim| claim["resourceClaimName"] == asked.name);
                direct
                    || items(&pod["status"]["resourceClaimStatuses"])
                        .any(|claim| claim["resourceClaimName"] == asked.name)
                    || pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == asked.name
            })
    }

    fn run_as(&self, asked: &NodeRequest<'_>) -> bool {
        !asked.namespace.is_empty()
            && self.any(asked.namespace, |pod| pod["spec"]["serviceAccountName"] == asked.name)
    }

    /// Whether an object's `spec.nodeName` is the node.
    fn is_on_node(&self, group: &str, plural: &str, asked: &NodeRequest<'_>) -> bool {
        self.get(group, plural, "", asked.name).is_some_and(|object| object["spec"]["nodeName"] == self.node)
    }
}

/// The table row of a kind.
fn row(group: &str, plural: &str) -> Option<&'static Resource> {
    kind::lookup(group, "v1", plural)
}

/// Whether a volume, bound to a claim in namespace `claimed`, refers to the requested secret.
fn volume_has_secret(volume: &Value, claimed: &str, asked: &NodeRequest<'_>) -> bool {
    const REFERENCES: [&str; 10] = [
        "/cephfs/secretRef",
        "/cinder/secretRef",
        "/flexVolume/secretRef",
        "/iscsi/secretRef",
        "/rbd/secretRef",
        "/scaleIO/secretRef",
        "/storageos/secretRef",
        "/csi/nodePublishSecretRef",
        "/csi/nodeStageSecretRef",
        "/csi/nodeExpandSecretRef",
    ];
    let spec = &volume["spec"];
    let is = |name: &Value, namespace: &Value| {
        *name == asked.name
            && namespace.as_str().filter(|given| !given.is_empty()).unwrap_or(claimed) == asked.namespace
    };
    let file = &spec["azureFile"];
    is(&file["secretName"], &file["secretNamespace"])
        || REFERENCES
            .iter()
            .filter_map(|pointer| spec.pointer(pointer))
            .any(|reference| is(&reference["name"], &reference["namespace"]))
}

#[cfg(test)]
mod tests;
