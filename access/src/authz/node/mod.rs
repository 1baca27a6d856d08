//! The Node mode: a node may read what its pods refer to, and write its own objects. Decisions are as current
//! as the watch cache: an index of references follows the changes of pods and volumes. The fields that a node
//! may write are checked by admission (NodeRestriction).

mod references;
mod volumes;

use super::rule::Rule;
use super::{Attributes, Decision, Target, bootstrap};
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_registry::derived::Derived;
use kstore_registry::lookup::Lookup;
use kstore_registry::user::UserInfo;
use references::{NodePods, Referenced};
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use volumes::VolumeSecrets;

const USER: &str = "system:node:";
const GROUP: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";
/// The node name of a user that is a node.
pub fn node_of(user: &UserInfo) -> Option<&str> {
    user.username.strip_prefix(USER).filter(|_| user.is_in(GROUP))
}

/// The Node authorizer of one cluster. Decides by the newest durable objects.
#[derive(Debug, Default)]
pub(super) struct NodeAuthorizer {
    pods: NodePods,
    volumes: Derived<VolumeSecrets>,
}

impl NodeAuthorizer {
    /// Decides one request, with Kubernetes' reasons. `cluster` must be the same in every call.
    pub(super) fn decide(&self, attributes: &Attributes<'_>, cluster: &dyn Lookup) -> Decision {
        let Some(node) = node_of(attributes.user) else { return Decision::NoOpinion(String::new()) };
        if node.is_empty() {
            return none(format!("unknown node for user {:?}", attributes.user.username));
        }
        let by_graph = match attributes.target {
            Target::Path(_) => None,
            Target::Resource { group, resource, subresource, namespace, name } => {
                let request = NodeRequest { node, verb: attributes.verb, subresource, namespace, name };
                request.decide((group, resource), attributes, &Relations { node, cluster, known: self })
            }
        };
        by_graph.unwrap_or_else(|| match rules().iter().any(|rule| rule.allows(attributes)) {
            true => allow(),
            false => Decision::NoOpinion(String::new()),
        })
    }
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
/// The optional kind by which a node requests certificates for its pods.
const CERTIFICATE_REQUESTS: (&str, &str) = ("certificates.k8s.io", "podcertificaterequests");

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
    fn decide(
        &self,
        of: (&str, &str),
        attributes: &Attributes<'_>,
        relations: &Relations<'_>,
    ) -> Option<Decision> {
        Some(match of {
            ("", "secrets") => self.read(relations, |of| of.secret(self)),
            ("", "configmaps") => self.read(relations, |of| of.config_map(self)),
            ("", "persistentvolumeclaims") if self.subresource == "status" => {
                if !matches!(self.verb, "get" | "update" | "patch") {
                    return Some(none("can only get/update/patch this type"));
                }
                self.related(relations, |of| of.claim(self.namespace, self.name))
            }
            ("", "persistentvolumeclaims") => self.get(relations, |of| of.claim(self.namespace, self.name)),
            ("", "persistentvolumes") => self.get(relations, |of| of.volume(self.name)),
            ("resource.k8s.io", "resourceclaims") => {
                self.get(relations, |of| of.pod_refers(Referenced::ResourceClaim, self.namespace, self.name))
            }
            ("storage.k8s.io", "volumeattachments") => {
                self.get(relations, |of| of.is_on_node("storage.k8s.io", "volumeattachments", self))
            }
            ("", "serviceaccounts") => self.service_account(relations),
            TRUST_BUNDLES if self.is_read() && relations.serves_optional(of) => allow(),
            CERTIFICATE_REQUESTS if relations.serves_optional(of) => {
                self.certificate_request(attributes, relations)
            }
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(attributes, relations),
            ("", "nodes") => self.node(),
            ("", "pods") => self.pod(attributes, relations),
            _ => return None,
        })
    }

    fn is_read(&self) -> bool {
        self.subresource.is_empty() && matches!(self.verb, "get" | "list" | "watch")
    }

    /// Allows access to objects that are related to the node.
    fn related(
        &self,
        relations: &Relations<'_>,
        is_related: impl FnOnce(&Relations<'_>) -> bool,
    ) -> Decision {
        if self.name.is_empty() {
            return none("No Object name found");
        }
        match is_related(relations) {
            true => allow(),
            false => none(format!("no relationship found between node '{}' and this object", self.node)),
        }
    }

    fn read(&self, relations: &Relations<'_>, is_related: impl FnOnce(&Relations<'_>) -> bool) -> Decision {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return none("can only read resources of this type");
        }
        if !self.subresource.is_empty() {
            return none("cannot read subresource");
        }
        if self.namespace.is_empty() {
            return none("can only read namespaced object of this type");
        }
        self.related(relations, is_related)
    }

    fn get(&self, relations: &Relations<'_>, is_related: impl FnOnce(&Relations<'_>) -> bool) -> Decision {
        if self.verb != "get" {
            return none("can only get individual resources of this type");
        }
        if !self.subresource.is_empty() {
            return none("cannot get subresource");
        }
        self.related(relations, is_related)
    }

    fn service_account(&self, relations: &Relations<'_>) -> Decision {
        let is_token = self.verb == "create" && self.subresource == "token";
        let is_read = self.verb == "get" && self.subresource.is_empty();
        if (!is_token && !is_read) || self.name.is_empty() {
            return none("can only create tokens for individual service accounts");
        }
        self.related(relations, |of| of.pod_refers(Referenced::ServiceAccount, self.namespace, self.name))
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

    fn resource_slice(&self, attributes: &Attributes<'_>, relations: &Relations<'_>) -> Decision {
        if !self.subresource.is_empty() {
            return none("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            "create" => allow(),
            "get" | "update" | "patch" | "delete" => {
                self.related(relations, |of| of.is_on_node("resource.k8s.io", "resourceslices", self))
            }
            "watch" | "list" | "deletecollection" if selects_node(attributes, self.node) => allow(),
            "watch" | "list" | "deletecollection" => {
                none(format!("can only {} ResourceSlices with a field selector for the node name", self.verb))
            }
            _ => none(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn certificate_request(&self, attributes: &Attributes<'_>, relations: &Relations<'_>) -> Decision {
        if !self.subresource.is_empty() {
            return none("cannot authorize PodCertificateRequest subresources");
        }
        match self.verb {
            // Admission checks for which pod.
            "create" => allow(),
            "get" => self.related(relations, |of| of.certificate_request(self)),
            "list" | "watch" if selects_node(attributes, self.node) => allow(),
            "list" | "watch" => none(format!(
                "can only {} PodCertificateRequests with a field selector for the node name",
                self.verb
            )),
            _ => none(
                "only the following verbs are allowed for a PodCertificateRequest: get, watch, list, create",
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

    fn pod(&self, attributes: &Attributes<'_>, relations: &Relations<'_>) -> Decision {
        match (self.subresource, self.verb) {
            // Admission checks which pods are written.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => allow(),
            ("", "list" | "watch") if selects_node(attributes, self.node) => allow(),
            ("", "list" | "watch") if self.name.is_empty() => {
                none("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "get" | "list" | "watch") => self.related(relations, |of| of.pod(self)),
            _ => none(""),
        }
    }
}

/// Whether a request selects only objects of this node.
fn selects_node(attributes: &Attributes<'_>, node: &str) -> bool {
    attributes.more.selects.is_some_and(|selects| selects.fields.required("spec.nodeName") == Some(node))
}

/// The relations between a node and the objects of its pods.
struct Relations<'a> {
    node: &'a str,
    cluster: &'a dyn Lookup,
    known: &'a NodeAuthorizer,
}

impl Relations<'_> {
    /// Whether the server has this optional kind.
    fn serves_optional(&self, (group, plural): (&str, &str)) -> bool {
        self.cluster.kinds().rows().opt_in().has(group, plural)
    }

    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.cluster.get(row(group, plural)?, namespace, name)
    }

    /// Whether a pod of the node refers to an object. Mirror pods do not count.
    fn pod_refers(&self, to: Referenced, namespace: &str, name: &str) -> bool {
        !namespace.is_empty() && self.known.pods.refer(self.cluster, self.node, to, (namespace, name))
    }

    fn secret(&self, attributes: &NodeRequest<'_>) -> bool {
        self.pod_refers(Referenced::Secret, attributes.namespace, attributes.name)
            || self.secret_of_volume(attributes)
    }

    /// Whether a volume that is bound to a claim of a pod refers to the requested secret.
    fn secret_of_volume(&self, attributes: &NodeRequest<'_>) -> bool {
        let volumes = self.known.volumes.get(self.cluster);
        volumes.of_secret(attributes.namespace, attributes.name).any(|volume| {
            let claimed = || {
                let (namespace, name) = (&volume.claim_namespace, &volume.claim);
                self.get("", "persistentvolumeclaims", namespace, name)
            };
            self.pod_refers(Referenced::Claim, &volume.claim_namespace, &volume.claim)
                && claimed().is_some_and(|claim| claim["spec"]["volumeName"] == *volume.name)
        })
    }

    fn config_map(&self, attributes: &NodeRequest<'_>) -> bool {
        let of_node = |node: &Value| {
            let source = &node["spec"]["configSource"]["configMap"];
            source["name"] == attributes.name && source["namespace"] == attributes.namespace
        };
        self.pod_refers(Referenced::ConfigMap, attributes.namespace, attributes.name)
            || self.get("", "nodes", "", self.node).is_some_and(|node| of_node(&node))
    }

    fn claim(&self, namespace: &str, name: &str) -> bool {
        self.pod_refers(Referenced::Claim, namespace, name)
    }

    fn volume(&self, name: &str) -> bool {
        let Some(volume) = self.get("", "persistentvolumes", "", name) else { return false };
        let reference = &volume["spec"]["claimRef"];
        match (reference["namespace"].as_str(), reference["name"].as_str()) {
            (Some(namespace), Some(claim)) => self.claim(namespace, claim),
            _ => false,
        }
    }

    /// Whether a pod is bound to the node.
    fn pod(&self, attributes: &NodeRequest<'_>) -> bool {
        let row = kstore_registry::lookup::core("pods");
        let pod = self.cluster.entry(row, &row.storage_key(attributes.namespace, attributes.name));
        pod.is_some_and(|pod| pod.field("spec.nodeName") == self.node)
    }

    /// Whether a request for a certificate is of the node.
    fn certificate_request(&self, attributes: &NodeRequest<'_>) -> bool {
        let (group, plural) = CERTIFICATE_REQUESTS;
        let row = self.cluster.kinds().rows().lookup(group, "v1", plural);
        let request = row.and_then(|row| self.cluster.get(row, attributes.namespace, attributes.name));
        request.is_some_and(|request| request["spec"]["nodeName"] == self.node)
    }

    /// Whether an object's `spec.nodeName` is the node.
    fn is_on_node(&self, group: &str, plural: &str, attributes: &NodeRequest<'_>) -> bool {
        self.get(group, plural, "", attributes.name)
            .is_some_and(|object| object["spec"]["nodeName"] == self.node)
    }
}

/// The table row of a kind.
fn row(group: &str, plural: &str) -> Option<&'static Resource> {
    kind::lookup(group, "v1", plural)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
