//! NetworkPolicies: whether they let a connection between pods through, as a network plugin decides that enforces them. Pure.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kstore_api::cidr::Cidr;
use kstore_api::json::value_of;
use kstore_api::selector::label::Selector;
use std::collections::BTreeMap;
use std::net::IpAddr;

type Labels = BTreeMap<String, String>;

/// What policies know of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyPod {
    /// The namespace of the pod.
    pub namespace: String,
    /// The labels of that namespace.
    pub namespace_labels: Labels,
    /// The labels of the pod.
    pub labels: Labels,
    /// The named ports of its containers: name, protocol and number.
    pub ports: Vec<(String, String, u16)>,
}

impl PolicyPod {
    /// What policies know of this pod, in a namespace with these labels.
    pub fn of(pod: &Pod, namespace_labels: Labels) -> Self {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let declared = containers.flat_map(|container| container.ports.iter().flatten());
        let named = declared.filter_map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| TCP.to_owned());
            Some((port.name.clone()?, protocol, u16::try_from(port.container_port).ok()?))
        });
        Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            namespace_labels,
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            ports: named.collect(),
        }
    }
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyEnd {
    /// Its address.
    pub address: IpAddr,
    /// The pod that has the address; `None` for nodes and everything else.
    pub pod: Option<PolicyPod>,
}

/// The protocol of policies and ports that name none.
const TCP: &str = "TCP";
const INGRESS: &str = "Ingress";
const EGRESS: &str = "Egress";

/// Whether policies let a connection from one end to a port and protocol of another one through. `policies` must have those of the
/// namespaces of both pods; others select neither. Both ends must agree: the policies for egress that select the first pod, and those for
/// ingress that select the second one. A pod that no policy selects agrees to everything.
pub fn decide<'p>(
    policies: impl IntoIterator<Item = &'p NetworkPolicy> + Clone,
    from: &PolicyEnd,
    to: &PolicyEnd,
    port: (u16, &str),
) -> bool {
    let selecting = |pod: &PolicyPod, direction: &str| -> Vec<&'p NetworkPolicy> {
        policies.clone().into_iter().filter(|policy| selects(policy, pod, direction)).collect()
    };
    let leaves = from.pod.as_ref().is_none_or(|pod| {
        let own = selecting(pod, EGRESS);
        own.is_empty() || own.iter().any(|policy| lets_out(policy, to, port))
    });
    let enters = to.pod.as_ref().is_none_or(|pod| {
        let own = selecting(pod, INGRESS);
        own.is_empty() || own.iter().any(|policy| lets_in(policy, from, to, port))
    });
    leaves && enters
}

fn namespace_of(policy: &NetworkPolicy) -> &str {
    policy.metadata.namespace.as_deref().unwrap_or_default()
}

/// Whether a policy restricts what a pod receives, or what it sends.
fn selects(policy: &NetworkPolicy, pod: &PolicyPod, direction: &str) -> bool {
    let Some(spec) = &policy.spec else { return false };
    // Without types a policy is for ingress, and for egress if it has such rules.
    let has_type = match spec.policy_types.as_deref() {
        Some(types) if !types.is_empty() => types.iter().any(|one| one == direction),
        _ => direction == INGRESS || spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()),
    };
    has_type
        && namespace_of(policy) == pod.namespace
        && spec.pod_selector.as_ref().is_none_or(|selector| matches(selector, &pod.labels))
}

fn lets_out(policy: &NetworkPolicy, to: &PolicyEnd, port: (u16, &str)) -> bool {
    let mut rules = policy.spec.iter().flat_map(|spec| spec.egress.iter().flatten());
    rules.any(|rule| {
        are_peers(rule.to.as_deref(), namespace_of(policy), to) && are_ports(rule.ports.as_deref(), to, port)
    })
}

fn lets_in(policy: &NetworkPolicy, from: &PolicyEnd, to: &PolicyEnd, port: (u16, &str)) -> bool {
    let mut rules = policy.spec.iter().flat_map(|spec| spec.ingress.iter().flatten());
    rules.any(|rule| {
        are_peers(rule.from.as_deref(), namespace_of(policy), from)
            && are_ports(rule.ports.as_deref(), to, port)
    })
}

/// Whether a list of peers has the other end of a connection. A missing or empty list has all.
fn are_peers(peers: Option<&[NetworkPolicyPeer]>, namespace: &str, end: &PolicyEnd) -> bool {
    let peers = peers.unwrap_or_default();
    peers.is_empty() || peers.iter().any(|peer| is_peer(peer, namespace, end))
}

fn is_peer(peer: &NetworkPolicyPeer, namespace: &str, end: &PolicyEnd) -> bool {
    if let Some(block) = &peer.ip_block {
        return has_address(block, end.address);
    }
    let Some(pod) = &end.pod else { return false };
    let is_in_namespace = match &peer.namespace_selector {
        Some(selector) => matches(selector, &pod.namespace_labels),
        None => pod.namespace == namespace,
    };
    is_in_namespace && peer.pod_selector.as_ref().is_none_or(|selector| matches(selector, &pod.labels))
}

fn has_address(block: &IPBlock, address: IpAddr) -> bool {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let Ok(only) = format!("{address}/{bits}").parse::<Cidr>() else { return false };
    let covers = |text: &str| text.parse::<Cidr>().is_ok_and(|cidr| cidr.covers(only));
    covers(&block.cidr) && !block.except.iter().flatten().any(|except| covers(except))
}

/// Whether a list of ports has that of a connection to `to`. A missing or empty list has all.
fn are_ports(ports: Option<&[NetworkPolicyPort]>, to: &PolicyEnd, (number, protocol): (u16, &str)) -> bool {
    let ports = ports.unwrap_or_default();
    let is_port = |port: &NetworkPolicyPort| {
        let is_number = match &port.port {
            None => true,
            Some(IntOrString::Int(first)) => {
                let last = port.end_port.unwrap_or(*first);
                (*first..=last).contains(&i32::from(number))
            }
            Some(IntOrString::String(name)) => to.pod.iter().flat_map(|pod| &pod.ports).any(|declared| {
                (declared.0.as_str(), declared.1.as_str(), declared.2) == (name.as_str(), protocol, number)
            }),
        };
        is_number && port.protocol.as_deref().unwrap_or(TCP) == protocol
    };
    ports.is_empty() || ports.iter().any(is_port)
}

/// Whether labels satisfy a selector; an empty one selects everything.
fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let selector = value_of(selector).ok().and_then(|selector| Selector::from_object(&selector).ok());
    selector.is_some_and(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use serde_json::{Value, json};

    /// The pods of these tests: namespace, label `app`, and the end of the address.
    const PODS: [(&str, &str, u8); 4] = [("a", "x", 1), ("a", "y", 2), ("b", "x", 3), ("b", "y", 4)];
    const PORTS: [u16; 4] = [79, 80, 81, 90];

    fn end((namespace, app, last): (&str, &str, u8)) -> PolicyEnd {
        let labels = |name: &str, value: &str| Labels::from([(name.to_owned(), value.to_owned())]);
        let pod = PolicyPod {
            namespace: namespace.to_owned(),
            namespace_labels: labels("name", namespace),
            labels: labels("app", app),
            ports: vec![("http".to_owned(), "TCP".to_owned(), 80)],
        };
        PolicyEnd { address: [10, 0, 0, last].into(), pod: Some(pod) }
    }

    fn outside(last: u8) -> PolicyEnd {
        PolicyEnd { address: [192, 0, 2, last].into(), pod: None }
    }

    fn policies(all: &[Value]) -> Vec<NetworkPolicy> {
        all.iter().map(|one| serde_json::from_value(one.clone()).unwrap()).collect()
    }

    #[test]
    fn a_pod_that_no_policy_selects_is_reached_and_an_empty_list_of_rules_denies_all() {
        let (x, y, other) = (end(PODS[0]), end(PODS[1]), end(PODS[2]));
        let spec = json!({"podSelector": {"matchLabels": {"app": "x"}}});
        let deny = policies(&[json!({"metadata": {"namespace": "a"}, "spec": spec})]);
        let reached = |from: &PolicyEnd, to: &PolicyEnd| decide(&deny, from, to, (80, "TCP"));
        assert!(!reached(&y, &x) && !reached(&other, &x) && !reached(&outside(1), &x));
        assert!(reached(&x, &y) && reached(&x, &outside(1)) && reached(&y, &other));
        let spec = json!({"podSelector": {}, "policyTypes": ["Egress"]});
        let closed = policies(&[json!({"metadata": {"namespace": "a"}, "spec": spec})]);
        assert!(!decide(&closed, &x, &y, (80, "TCP")) && !decide(&closed, &x, &outside(1), (53, "UDP")));
        assert!(decide(&closed, &other, &x, (80, "TCP")));
    }

    #[test]
    fn blocks_have_exceptions_and_ports_have_protocols_names_and_ranges() {
        let of = |rule: Value| {
            let spec = json!({"podSelector": {}, "ingress": [rule]});
            policies(&[json!({"metadata": {"namespace": "a"}, "spec": spec})])
        };
        let to = end(PODS[0]);
        let block = of(json!({"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.8/29"]}}]}));
        assert!(
            decide(&block, &outside(1), &to, (1, "TCP")) && !decide(&block, &outside(9), &to, (1, "TCP"))
        );
        assert!(!decide(&block, &end(PODS[1]), &to, (1, "TCP")));
        let named =
            of(json!({"ports": [{"port": "http"}, {"port": 100, "endPort": 102}, {"protocol": "UDP"}]}));
        let lets = |port, protocol| decide(&named, &outside(1), &to, (port, protocol));
        assert!(lets(80, "TCP") && lets(100, "TCP") && lets(102, "TCP") && lets(7, "UDP"));
        assert!(!lets(81, "TCP") && !lets(103, "TCP") && !lets(99, "TCP"));
    }

    /// A rule of the model: a peer and a port.
    #[derive(Clone, Debug)]
    struct Rule {
        /// Namespace and label that the peer must have.
        namespace: Option<&'static str>,
        app: Option<&'static str>,
        /// The last number of the only address.
        block: Option<u8>,
        port: Option<(u16, u16)>,
    }

    /// A policy of the model.
    #[derive(Clone, Debug)]
    struct Policy {
        namespace: &'static str,
        app: Option<&'static str>,
        ingress: Option<Vec<Rule>>,
        egress: Option<Vec<Rule>>,
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let namespace = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
        let app = prop_oneof![Just(None), Just(Some("x")), Just(Some("y"))];
        let block = proptest::option::weighted(0.2, 1u8..5);
        let port = prop_oneof![Just(None), Just(Some((80, 80))), Just(Some((80, 89)))];
        (namespace, app, block, port).prop_map(|(namespace, app, block, port)| Rule {
            namespace,
            app,
            block,
            port,
        })
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let rules = || proptest::option::of(proptest::collection::vec(rule(), 0..3));
        let app = prop_oneof![Just(None), Just(Some("x")), Just(Some("y"))];
        (any::<bool>(), app, rules(), rules()).prop_map(|(is_first, app, ingress, egress)| Policy {
            namespace: if is_first { "a" } else { "b" },
            app,
            ingress,
            egress,
        })
    }

    fn to_json(policy: &Policy) -> Value {
        let app = |app: Option<&str>| match app {
            Some(app) => json!({"matchLabels": {"app": app}}),
            None => json!({}),
        };
        let rules = |rules: &Option<Vec<Rule>>, peers: &str| -> Vec<Value> {
            let one = |rule: &Rule| {
                let peer = match (rule.block, rule.namespace) {
                    (Some(last), _) => json!({"ipBlock": {"cidr": format!("10.0.0.{last}/32")}}),
                    (None, Some(name)) => {
                        json!({"namespaceSelector": {"matchLabels": {"name": name}}, "podSelector": app(rule.app)})
                    }
                    (None, None) => json!({"podSelector": app(rule.app)}),
                };
                let ports: Vec<Value> =
                    rule.port.iter().map(|(first, last)| json!({"port": first, "endPort": last})).collect();
                json!({peers: [peer], "ports": ports})
            };
            rules.iter().flatten().map(one).collect()
        };
        let types: Vec<&str> = [("Ingress", policy.ingress.is_some()), ("Egress", policy.egress.is_some())]
            .into_iter()
            .filter_map(|(name, has)| has.then_some(name))
            .collect();
        json!({"metadata": {"namespace": policy.namespace}, "spec": {"podSelector": app(policy.app),
            "policyTypes": types, "ingress": rules(&policy.ingress, "from"), "egress": rules(&policy.egress, "to")}})
    }

    /// What the model says of one direction of one policy, pod by pod.
    fn is_listed(rules: &[Rule], own: &str, (namespace, app, last): (&str, &str, u8), port: u16) -> bool {
        rules.iter().any(|rule| {
            let is_peer = match rule.block {
                Some(only) => only == last,
                None => {
                    namespace == rule.namespace.unwrap_or(own) && rule.app.is_none_or(|wanted| wanted == app)
                }
            };
            is_peer && rule.port.is_none_or(|(first, end)| first <= port && port <= end)
        })
    }

    proptest! {
        /// Each pair of pods and each port against a model that walks over the rules as they were made.
        #[test]
        fn decisions_are_those_of_a_walk_over_all_rules(all in proptest::collection::vec(policy(), 0..5)) {
            // A policy without types would be one for ingress.
            let all: Vec<Policy> =
                all.into_iter().filter(|one| one.ingress.is_some() || one.egress.is_some()).collect();
            let objects = policies(&all.iter().map(to_json).collect::<Vec<_>>());
            let selects = |policy: &Policy, (namespace, app, _): (&str, &str, u8)| {
                policy.namespace == namespace && policy.app.is_none_or(|wanted| wanted == app)
            };
            for from in PODS {
                for to in PODS {
                    for port in PORTS {
                        let out: Vec<&Policy> =
                            all.iter().filter(|one| one.egress.is_some() && selects(one, from)).collect();
                        let into: Vec<&Policy> =
                            all.iter().filter(|one| one.ingress.is_some() && selects(one, to)).collect();
                        let leaves = out.is_empty()
                            || out.iter().any(|one| is_listed(one.egress.as_ref().unwrap(), one.namespace, to, port));
                        let enters = into.is_empty()
                            || into.iter().any(|one| is_listed(one.ingress.as_ref().unwrap(), one.namespace, from, port));
                        let got = decide(&objects, &end(from), &end(to), (port, "TCP"));
                        assert_eq!(got, leaves && enters, "{from:?} -> {to:?}:{port}");
                    }
                }
            }
        }
    }
}
