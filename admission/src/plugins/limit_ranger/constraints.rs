//! Checks against the bounds of LimitRanges, with Kubernetes' texts.

use super::{quantity, totals};
use kstore_api::object::{list, text};
use kstore_api::quantity::Quantity;
use serde_json::{Value, json};

/// The violations of a pod: container bounds apply to each container, pod bounds to their total.
pub(super) fn of_pod(pod: &Value, limits: &[Value]) -> Vec<String> {
    let mut texts = Vec::new();
    for limit in limits {
        match text(&limit["type"]) {
            "Container" => {
                let spec = &pod["spec"];
                for container in list(&spec["containers"]).iter().chain(list(&spec["initContainers"])) {
                    check(limit, &container["resources"], &mut texts);
                }
            }
            "Pod" => {
                let total = json!({
                    "requests": totals::of_pod(pod, "requests"),
                    "limits": totals::of_pod(pod, "limits"),
                });
                check(limit, &total, &mut texts);
            }
            _ => {}
        }
    }
    unique(texts)
}

/// The violations of a volume claim. Only its requests count.
pub(super) fn of_claim(claim: &Value, limits: &[Value]) -> Vec<String> {
    let requests = &claim["spec"]["resources"]["requests"];
    let mut texts = Vec::new();
    for limit in limits.iter().filter(|limit| limit["type"] == "PersistentVolumeClaim") {
        for bound in bounds(limit, "min") {
            texts.extend(bound.minimum(quantity(requests, bound.resource), None));
        }
        for bound in bounds(limit, "max") {
            texts.extend(bound.maximum_request(quantity(requests, bound.resource)));
        }
    }
    unique(texts)
}

fn check(limit: &Value, resources: &Value, texts: &mut Vec<String>) {
    let amount = |side: &str, bound: &Bound<'_>| quantity(&resources[side], bound.resource);
    for bound in bounds(limit, "min") {
        texts.extend(bound.minimum(amount("requests", &bound), amount("limits", &bound)));
    }
    for bound in bounds(limit, "max") {
        texts.extend(bound.maximum(amount("requests", &bound), amount("limits", &bound)));
    }
    for bound in bounds(limit, "maxLimitRequestRatio") {
        texts.extend(bound.ratio(amount("requests", &bound), amount("limits", &bound)));
    }
}

/// Removes duplicates: containers may violate a bound by the same amount.
fn unique(texts: Vec<String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    once
}

/// A bound on one resource for objects of one type.
struct Bound<'r> {
    resource: &'r str,
    of: &'r str,
    amount: Quantity,
}

fn bounds<'r>(limit: &'r Value, side: &str) -> impl Iterator<Item = Bound<'r>> {
    let (amounts, of) = (&limit[side], text(&limit["type"]));
    amounts
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(move |(name, _)| Some(Bound { resource: name, of, amount: quantity(amounts, name)? }))
}

impl Bound<'_> {
    fn minimum(&self, request: Option<Quantity>, limit: Option<Quantity>) -> Option<String> {
        match (request, limit) {
            (None, _) => Some(self.text("minimum", "is {}.  No request is specified", None)),
            (Some(request), _) if request < self.amount => {
                Some(self.text("minimum", "is {}, but request is", Some(request)))
            }
            (_, Some(limit)) if limit < self.amount => {
                Some(self.text("minimum", "is {}, but limit is", Some(limit)))
            }
            _ => None,
        }
    }

    fn maximum(&self, request: Option<Quantity>, limit: Option<Quantity>) -> Option<String> {
        match (request, limit) {
            (_, None) => Some(self.text("maximum", "is {}.  No limit is specified", None)),
            (_, Some(limit)) if limit > self.amount => {
                Some(self.text("maximum", "is {}, but limit is", Some(limit)))
            }
            (Some(request), _) if request > self.amount => {
                Some(self.text("maximum", "is {}, but request is", Some(request)))
            }
            _ => None,
        }
    }

    fn maximum_request(&self, request: Option<Quantity>) -> Option<String> {
        match request {
            None => Some(self.text("maximum", "is {}.  No request is specified", None)),
            Some(request) if request > self.amount => {
                Some(self.text("maximum", "is {}, but request is", Some(request)))
            }
            Some(_) => None,
        }
    }

    /// Checks the maximum ratio of limit to request.
    fn ratio(&self, request: Option<Quantity>, limit: Option<Quantity>) -> Option<String> {
        let Self { resource, of, amount } = self;
        let begin = format!("{resource} max limit to request ratio per {of} is {amount}");
        let Some(request) = request.filter(|request| !request.is_zero()) else {
            return Some(format!("{begin}, but no request is specified or request is 0"));
        };
        let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
            return Some(format!("{begin}, but no limit is specified or limit is 0"));
        };
        let ratio = limit.as_f64() / request.as_f64();
        (ratio > amount.as_f64()).then(|| format!("{begin}, but provided ratio is {ratio:.6}"))
    }

    fn text(&self, bound: &str, rest: &str, observed: Option<Quantity>) -> String {
        let Self { resource, of, amount } = self;
        let rest = rest.replace("{}", &amount.to_string());
        let observed = observed.map(|observed| format!(" {observed}")).unwrap_or_default();
        format!("{bound} {resource} usage per {of} {rest}{observed}")
    }
}
