//! The `Available` condition of APIServices: its reasons and messages, as kube-aggregator writes them. Pure;
//! `controller` runs the checks.

use super::services::{AVAILABLE, ApiService};
use kstore_registry::outbound::Unreachable;
use serde_json::{Value, json};

/// The result of the availability checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Availability {
    pub(super) is_available: bool,
    reason: &'static str,
    message: String,
}

impl Availability {
    /// All checks passed.
    pub(super) fn passed() -> Self {
        Self { is_available: true, reason: "Passed", message: "all checks passed".into() }
    }

    /// The probe of the API server failed.
    pub(super) fn failed(service: &ApiService, why: &str) -> Self {
        let url = format!("https://{}:{}{}", service.backend.host(), service.backend.port, service.path());
        Self {
            is_available: false,
            reason: "FailedDiscoveryCheck",
            message: format!("failing or missing response from {url}: {why}"),
        }
    }

    /// The Service has no address to probe.
    pub(super) fn unreachable(service: &ApiService, why: &Unreachable) -> Self {
        let backend = &service.backend;
        let named = format!("service/{} in {:?}", backend.name, backend.namespace);
        let (reason, message) = match why {
            Unreachable::NoService => ("ServiceNotFound", format!("{named} is not present")),
            Unreachable::NoPort => {
                ("ServicePortError", format!("{named} is not listening on port {}", backend.port))
            }
            Unreachable::NoSlices => ("EndpointsNotFound", format!("cannot find endpointslices for {named}")),
            Unreachable::NoAddresses(port) => (
                "MissingEndpoints",
                format!("endpointslices for {named} have no addresses with port name {port:?}"),
            ),
        };
        Self { is_available: false, reason, message }
    }

    /// The new status of an APIService; `None` if the stored condition is up to date. `lastTransitionTime` changes only with the
    /// condition's status.
    pub(super) fn status(&self, stored: &Value, now: &str) -> Option<Value> {
        let mut conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let at = conditions.iter().position(|condition| condition["type"] == AVAILABLE);
        let status = if self.is_available { "True" } else { "False" };
        let known = at.map_or(&Value::Null, |at| &conditions[at]);
        let since = if known["status"] == status { known["lastTransitionTime"].clone() } else { json!(now) };
        let next = json!({
            "type": AVAILABLE, "status": status, "lastTransitionTime": since,
            "reason": self.reason, "message": self.message,
        });
        if *known == next {
            return None;
        }
        match at {
            Some(at) => conditions[at] = next,
            None => conditions.push(next),
        }
        Some(json!({ "conditions": conditions }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::services::ApiServices;
    use super::super::services::tests::object;
    use super::*;

    #[test]
    fn messages_of_unavailable_apiservices_are_those_of_kubernetes() {
        let services = ApiServices::of([&object(("g.io", "v1"), (1, 1), Some("ns/s"))]);
        let service = services.remote().next().unwrap();
        let cases = [
            (Unreachable::NoService, "ServiceNotFound", "service/s in \"ns\" is not present"),
            (Unreachable::NoPort, "ServicePortError", "service/s in \"ns\" is not listening on port 443"),
            (
                Unreachable::NoSlices,
                "EndpointsNotFound",
                "cannot find endpointslices for service/s in \"ns\"",
            ),
            (
                Unreachable::NoAddresses("web".into()),
                "MissingEndpoints",
                "endpointslices for service/s in \"ns\" have no addresses with port name \"web\"",
            ),
        ];
        for (why, reason, message) in cases {
            let availability = Availability::unreachable(service, &why);
            assert_eq!((availability.reason, &*availability.message), (reason, message));
        }
        let failed = Availability::failed(service, "bad status from it: 404");
        let wanted =
            "failing or missing response from https://s.ns.svc:443/apis/g.io/v1: bad status from it: 404";
        assert_eq!(failed.message, wanted);
    }

    #[test]
    fn a_condition_is_written_when_it_changes_and_keeps_its_transition_time_with_its_status() {
        let passed = Availability::passed();
        let first = passed.status(&json!({}), "t1").unwrap();
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "t1");
        let stored = json!({ "status": first });
        assert_eq!(passed.status(&stored, "t2"), None);
        let failed = Availability { is_available: false, reason: "R", message: "a".into() };
        let second = failed.status(&stored, "t3").unwrap();
        assert_eq!(second["conditions"][0]["lastTransitionTime"], "t3");
        let other = Availability { message: "b".into(), ..failed };
        let third = other.status(&json!({ "status": second }), "t4").unwrap();
        let condition = &third["conditions"][0];
        assert_eq!((&condition["lastTransitionTime"], &condition["message"]), (&json!("t3"), &json!("b")));
    }
}
