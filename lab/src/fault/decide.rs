//! Draws of seeded rules. The nth request of a client with one verb and path draws the same, whatever else happens; each rule draws from
//! a source of its own, so that no rule changes the draws of another. Pure.

use super::{Fault, Rule, RuleSet};
use crate::request::{RequestTarget, Verb, Version, is_of_events};
use crate::select::ClientIdentity;
use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// What decides about the faults of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestIdentity<'a> {
    /// The client.
    pub client: ClientIdentity<'a>,
    /// What is asked for.
    pub target: &'a RequestTarget,
    /// Path of the request.
    pub path: &'a str,
}

impl RequestIdentity<'_> {
    /// The requests that are counted together: those of a client with one verb and path.
    pub fn stream(&self) -> String {
        format!("{} {} {}", self.client.name, self.target.verb, self.path)
    }
}

/// What the rules decide about one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Delay before the request is performed: the sum of all that hit.
    pub delay: Duration,
    /// The fault of the first rule that hit and is no delay. Its random parameters are drawn.
    pub fault: Option<Fault>,
    /// Places of the rules that took effect.
    pub hits: Vec<usize>,
}

/// Most events before a cut whose rule does not say how many: few, so that short watches are cut, too.
const CUT_EVENTS: u64 = 8;

impl Fault {
    /// Whether the fault can happen to a request.
    pub fn affects(&self, target: &RequestTarget) -> bool {
        let is_named_change = matches!(target.verb, Verb::Update | Verb::Patch);
        match self {
            Self::Touch {} | Self::Conflict {} => is_named_change,
            Self::LostAnswer { .. } => target.verb.is_write(),
            Self::Cut { .. } | Self::Expire {} => target.verb == Verb::Watch,
            Self::SilentEnd {} => target.verb == Verb::Watch && is_of_events(&target.resource),
            Self::StaleLists { .. } => target.verb == Verb::List && target.version == Version::Any,
            Self::TooMany { .. }
            | Self::Error { .. }
            | Self::Unavailable { .. }
            | Self::Timeout { .. }
            | Self::Slow { .. }
            | Self::ForbiddenYet {}
            | Self::NotFoundYet {} => true,
        }
    }
}

impl RuleSet {
    /// The names of the rules, in counts and draws. A rule without one is called after its fault and its place among the unnamed rules
    /// with that fault, so that rules of other faults do not change its draws.
    pub fn names(&self) -> Vec<String> {
        let mut unnamed: BTreeMap<&str, usize> = BTreeMap::new();
        let name = |rule: &Rule| {
            if !rule.name.is_empty() {
                return rule.name.clone();
            }
            let place = unnamed.entry(rule.fault.name()).or_default();
            *place += 1;
            match *place {
                1 => rule.fault.name().to_owned(),
                place => format!("{}-{place}", rule.fault.name()),
            }
        };
        self.rules.iter().map(name).collect()
    }

    /// Decides about the nth request, from 0, of a client with one verb and path. `names` are those of the rules; `hits` are the hits of
    /// rules with a bound among the requests before it, by place, and are counted on.
    pub fn decide(
        &self,
        names: &[String],
        request: &RequestIdentity<'_>,
        nth: u64,
        hits: &mut BTreeMap<usize, u64>,
    ) -> Decision {
        let mut decision = Decision::default();
        for (place, (rule, name)) in self.rules.iter().zip(names).enumerate() {
            let is_selected = rule.client.matches(&request.client)
                && rule.request.matches(request.target)
                && rule.fault.affects(request.target)
                && rule.first.is_none_or(|first| nth < first);
            if !is_selected {
                continue;
            }
            let rng = Rng::seeded(self.seed).fork(&format!("{name} {} {nth}", request.stream()));
            if rng.unit() >= rule.probability {
                continue;
            }
            if let Some(most) = rule.times {
                let hit = hits.entry(place).or_default();
                if *hit >= most {
                    continue;
                }
                *hit += 1;
            }
            match drawn(&rule.fault, &rng) {
                Fault::Slow { delay, .. } => decision.delay += delay,
                _ if decision.fault.is_some() => continue,
                fault => decision.fault = Some(fault),
            }
            decision.hits.push(place);
        }
        decision
    }
}

/// A fault with its random parameters drawn.
fn drawn(fault: &Fault, rng: &Rng) -> Fault {
    match fault {
        Fault::Slow { delay, up_to } => {
            Fault::Slow { delay: *delay + up_to.mul_f64(rng.unit()), up_to: Duration::ZERO }
        }
        Fault::StaleLists { by } => Fault::StaleLists { by: 1 + rng.below(*by) },
        Fault::Cut { how, after: None } => Fault::Cut { how: *how, after: Some(rng.below(CUT_EVENTS + 1)) },
        fault => fault.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn target(method: Method, uri: &str) -> RequestTarget {
        RequestTarget::of(&method, &uri.parse().unwrap()).unwrap()
    }

    fn rules(json: &str) -> RuleSet {
        serde_json::from_str(json).unwrap()
    }

    /// The decisions about the first requests of a client, beside requests of others.
    fn decisions(rules: &RuleSet, others: u64) -> Vec<Decision> {
        let update = target(Method::PUT, "/api/v1/namespaces/a/configmaps/b");
        let names = rules.names();
        let identity = |name| RequestIdentity {
            client: ClientIdentity { name, user: "u", agent: "operator/1" },
            target: &update,
            path: "/api/v1/namespaces/a/configmaps/b",
        };
        let (mut hits, mut other_hits) = (BTreeMap::new(), BTreeMap::new());
        let mut found = Vec::new();
        for nth in 0..500 {
            for other in 0..others {
                rules.decide(&names, &identity("other"), nth * others + other, &mut other_hits);
            }
            found.push(rules.decide(&names, &identity("operator"), nth, &mut hits));
        }
        found
    }

    #[test]
    fn a_client_s_nth_request_draws_the_same_whatever_others_do() {
        let set = |seed| {
            rules(&format!(
                "{{\"seed\":{seed},\"rules\":[{{\"fault\":\"touch\",\"probability\":0.3,\"times\":50}}]}}"
            ))
        };
        assert_eq!(decisions(&set(7), 0), decisions(&set(7), 3));
        assert_ne!(decisions(&set(7), 0), decisions(&set(8), 0));
        let hits = decisions(&set(7), 0).iter().filter(|one| one.fault.is_some()).count();
        assert_eq!(hits, 50, "`times` bounds the hits");
    }

    #[test]
    fn rules_draw_independently_and_the_first_that_hits_wins() {
        let touch = r#"{"fault":"touch","probability":0.3}"#;
        let slow = r#"{"fault":"slow","upTo":"1s","probability":0.5}"#;
        let error = r#"{"fault":"error","probability":0.4}"#;
        let of =
            |list: &[&str]| decisions(&rules(&format!("{{\"seed\":1,\"rules\":[{}]}}", list.join(","))), 0);
        let touched = |found: &[Decision]| {
            found.iter().map(|one| one.fault == Some(Fault::Touch {})).collect::<Vec<_>>()
        };
        let alone = of(&[touch]);
        let count = touched(&alone).iter().filter(|hit| **hit).count();
        assert!((110..190).contains(&count), "{count} of 500");
        assert_eq!(touched(&alone), touched(&of(&[slow, touch])), "a delay changes no other rule");
        assert_eq!(touched(&alone), touched(&of(&[touch, error])), "nor does a later rule");
        let (first, second) = (of(&[touch, error]), of(&[error, touch]));
        let either = |found: &[Decision]| found.iter().map(|one| one.fault.is_some()).collect::<Vec<_>>();
        assert_eq!(either(&first), either(&second), "the order decides which, not whether");
        assert!(of(&[slow]).iter().all(|one| one.delay < Duration::from_secs(1)));
    }

    #[test]
    fn faults_affect_only_requests_that_can_have_them() {
        let get = target(Method::GET, "/api/v1/pods/a");
        let watch = target(Method::GET, "/api/v1/pods?watch=1&resourceVersion=5");
        let events = target(Method::GET, "/api/v1/events?watch=1&resourceVersion=5");
        let any = target(Method::GET, "/api/v1/pods?resourceVersion=0");
        let affects = |fault: &str, target: &RequestTarget| {
            rules(&format!("{{\"rules\":[{fault}]}}")).rules[0].fault.affects(target)
        };
        assert!(!affects(r#"{"fault":"touch"}"#, &get) && !affects(r#"{"fault":"lost-answer"}"#, &get));
        assert!(affects(r#"{"fault":"cut"}"#, &watch) && !affects(r#"{"fault":"cut"}"#, &get));
        assert!(
            affects(r#"{"fault":"silent-end"}"#, &events) && !affects(r#"{"fault":"silent-end"}"#, &watch)
        );
        assert!(
            affects(r#"{"fault":"stale-lists","by":3}"#, &any)
                && !affects(r#"{"fault":"stale-lists","by":3}"#, &get)
        );
    }

    #[test]
    fn the_cluster_s_own_components_get_faults_only_if_they_are_selected() {
        let update = target(Method::PUT, "/api/v1/namespaces/a/configmaps/b");
        let hits = |set: &RuleSet, user: &str| {
            let client = ClientIdentity { name: user, user, agent: "x" };
            let request = RequestIdentity { client, target: &update, path: "/p" };
            set.decide(&set.names(), &request, 0, &mut BTreeMap::new()).fault.is_some()
        };
        let own = "system:serviceaccount:kube-system:replicaset-controller";
        let all = rules(r#"{"rules":[{"fault":"error"}]}"#);
        let named =
            rules(r#"{"rules":[{"fault":"error","client":{"user":"system:serviceaccount:kube-system:*"}}]}"#);
        assert!(hits(&all, "operator") && !hits(&all, own) && hits(&named, own) && !hits(&named, "operator"));
    }
}
