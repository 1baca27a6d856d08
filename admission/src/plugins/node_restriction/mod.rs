//! NodeRestriction: limits what a node may write, beyond what the Node authorizer can tell from a request's
//! URL: its own Node without labels and taints that steer pods, the status of pods bound to it, mirror pods,
//! tokens of its pods, and their certificates. The rules are pure; this file selects the rule for a request.

mod node;
mod pod;
mod pod_certificate;
#[cfg(test)]
mod tests;
mod token;

use super::row;
use crate::plugin::{Cluster, Enabled, Plugin, Review, Row, Unstored};
use crate::subject::Subject;
use kstore_access::authz::node::node_of;
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";
/// Signers of a kubelet's client and serving certificates.
const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"];

/// Why a node's request is refused.
#[derive(Debug)]
enum Refusal {
    /// 403 with this text.
    Forbidden(String),
    /// 404: the object with this name, which the request depends on, does not exist.
    NotFound(&'static Resource, String),
}

type Verdict = Result<(), Refusal>;

/// A 403 with this text.
fn refuse(text: impl Into<String>) -> Verdict {
    Err(Refusal::Forbidden(text.into()))
}

/// Refuses with the text unless the condition holds.
fn require(holds: bool, text: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { refuse(text()) }
}

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    subresources: &[],
    mutates: &[Operation::Create, Operation::Update],
    // As in Kubernetes, changes by other plugins are not checked.
    validates: &[Operation::Delete],
    // A node does not renew the Lease of another one.
    ignores_renewal: |subject| node_of(subject.user).is_none_or(|node| node == subject.name),
    unstored: Unstored::ReviewedOnNewest(|subject| node_of(subject.user).is_some()),
    ..Row::new("NodeRestriction", || Arc::new(NodeRestriction))
};

struct NodeRestriction;

impl Plugin for NodeRestriction {
    fn mutate(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        Ok(restrict(cluster, subject, Some(new), old)?)
    }

    fn validate(&self, review: &Review<'_>, _: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        Ok(restrict(cluster, subject, None, old)?)
    }
}

/// Checks a request, if a node sends it.
///
/// # Errors
/// 403 if the node may not do that; 404 if the pod or node that the request depends on does not exist.
fn restrict(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let Some(name) = node_of(subject.user) else { return Ok(()) };
    if name.is_empty() {
        let text = format!("could not determine node from user {:?}", subject.user.username);
        return Err(subject.forbidden(&text));
    }
    let null = Value::Null;
    let request =
        NodeRequest { name, cluster, subject, new: new.unwrap_or(&null), old: old.unwrap_or(&null) };
    request.check().map_err(|refusal| match refusal {
        Refusal::Forbidden(text) => subject.forbidden(&text),
        Refusal::NotFound(resource, name) => Status::not_found(resource, &name),
    })
}

/// A request of a node. Absent objects are null.
struct NodeRequest<'a> {
    /// The node's name.
    name: &'a str,
    cluster: &'a dyn Cluster,
    subject: &'a Subject<'a>,
    new: &'a Value,
    old: &'a Value,
}

impl NodeRequest<'_> {
    fn check(&self) -> Verdict {
        let (node, operation) = (self.name, self.subject.operation);
        let resource = self.subject.resource;
        match (resource.group, resource.plural, self.subject.subresource) {
            ("", "pods", "") => self.pod(),
            ("", "pods", "status") => pod::status(node, self.new, self.old),
            ("", "pods", "eviction") => {
                let pod = self.get(row("", "v1", "pods"), self.subject.namespace, self.subject.name)?;
                // Kubernetes quotes the node's name everywhere except here.
                require(is_on(&pod, node), || {
                    format!("node {node} can only evict pods with spec.nodeName set to itself")
                })
            }
            ("", "pods", other) => refuse(format!(
                "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
            )),
            ("", "nodes", _) => self.node(),
            ("", "persistentvolumeclaims", "status") => pod::claim_status(node, self.new, self.old),
            ("", "persistentvolumeclaims", _) => refuse("may only update PVC status"),
            ("", "serviceaccounts", "token") if operation == Operation::Create => self.token(),
            ("coordination.k8s.io", "leases", _) => self.lease(),
            ("storage.k8s.io", "csinodes", _) => self.own("CSINode"),
            ("resource.k8s.io", "resourceslices", _) => self.slice(),
            ("certificates.k8s.io", "certificatesigningrequests", "") if operation == Operation::Create => {
                self.signing_request()
            }
            ("certificates.k8s.io", "podcertificaterequests", "") if operation == Operation::Create => {
                self.certificate_request()
            }
            _ => Ok(()),
        }
    }

    /// An object that the request depends on.
    fn get(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<std::sync::Arc<Value>, Refusal> {
        let found = self.cluster.get(resource, namespace, name);
        found.ok_or_else(|| Refusal::NotFound(resource, name.to_owned()))
    }

    fn pod(&self) -> Verdict {
        let node = self.name;
        match self.subject.operation {
            Operation::Create => {
                let uid = || {
                    let found = self.get(row("", "v1", "nodes"), "", node)?;
                    Ok(meta::uid(&found).to_owned())
                };
                pod::created(node, self.new, uid)
            }
            Operation::Delete => require(is_on(self.old, node), || {
                format!("node {node:?} can only delete pods with spec.nodeName set to itself")
            }),
            other => refuse(format!(
                "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
                other.as_str()
            )),
        }
    }

    fn node(&self) -> Verdict {
        let (node, name) = (self.name, self.subject.name);
        require(name == node, || format!("node {node:?} is not allowed to modify node {name:?}"))?;
        match self.subject.operation {
            Operation::Create => node::created(node, self.new),
            Operation::Update => node::updated(node, self.new, self.old),
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }

    /// Checks a TokenRequest.
    fn token(&self) -> Verdict {
        let name = token::pod_of(self.new)?;
        let pod = self.get(row("", "v1", "pods"), self.subject.namespace, name)?;
        token::bound(self.name, self.new, &pod)?;
        let is_offered = |audience: &str| token::is_offered(audience, &pod, self.cluster);
        token::audience(self.name, self.new, is_offered)
    }

    fn lease(&self) -> Verdict {
        require(self.subject.namespace == LEASES, || {
            format!("can only access leases in the {LEASES:?} system namespace")
        })?;
        self.own("node lease")
    }

    /// Checks that the object has the node's name.
    fn own(&self, kind: &str) -> Verdict {
        require(self.subject.name == self.name, || {
            format!("can only access {kind} with the same name as the requesting node")
        })
    }

    /// Checks creates and deletes of a ResourceSlice. The Node authorizer checks updates.
    fn slice(&self) -> Verdict {
        let (slice, action) = match self.subject.operation {
            Operation::Create => (self.new, "create"),
            Operation::Delete => (self.old, "delete"),
            Operation::Update | Operation::Connect => return Ok(()),
        };
        require(is_on(slice, self.name), || {
            format!("can only {action} ResourceSlice with the same NodeName as the requesting node")
        })
    }

    /// Checks a CertificateSigningRequest for a kubelet's certificate.
    fn signing_request(&self) -> Verdict {
        let spec = &self.new["spec"];
        if !KUBELET_SIGNERS.iter().any(|signer| spec["signerName"] == *signer) {
            return Ok(());
        }
        let Some(names) = super::certificate_subject_restriction::common_names(spec) else {
            return refuse("unable to parse csr: PEM block type must be CERTIFICATE REQUEST");
        };
        let own = &self.subject.user.username;
        require(names.last() == Some(own), || format!("can only create a node CSR with CN={own}"))
    }
}

/// Whether the object's `spec.nodeName` is the node.
fn is_on(object: &Value, node: &str) -> bool {
    object["spec"]["nodeName"] == node
}
