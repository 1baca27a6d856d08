//! Audit events: `audit.k8s.io/v1 Event` as one line of JSON. Pure.

use super::policy::{Level, Stage};
use crate::authz::Target;
use jiff::Timestamp;
use kstore_api::status::{Outcome, Reason, Status};
use kstore_registry::user::UserInfo;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The customary status code for requests whose client has left. It appears in audit events only.
const CLIENT_LEFT: u16 = 499;

/// The annotation of an event whose objects were left out because they are too large.
pub(super) const TRUNCATED: &str = "audit.k8s.io/truncated";

/// An audit event. Its fields have the order of Kubernetes' events, so that logs can be compared.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) level: Level,
    #[serde(rename = "auditID")]
    pub(super) audit_id: &'a str,
    pub(super) stage: Stage,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: &'a str,
    pub(super) verb: &'a str,
    pub(super) user: User<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<User<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[_]>::is_empty")]
    pub(super) source_ips: &'a [IpAddr],
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object_ref: Option<&'a ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<&'a ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_object: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_object: Option<&'a Value>,
    pub(super) request_received_timestamp: String,
    pub(super) stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: &'a BTreeMap<String, String>,
}

impl Event<'_> {
    /// Encodes the event as a line. A line longer than `max_bytes` is encoded again without its objects, and
    /// with an annotation that says so.
    pub(super) fn line(&self, max_bytes: usize) -> Vec<u8> {
        let mut line = encode(self);
        if line.len() > max_bytes {
            let mut annotations = self.annotations.clone();
            annotations.insert(TRUNCATED.to_owned(), "true".to_owned());
            line = encode(&Event {
                request_object: None,
                response_object: None,
                annotations: &annotations,
                ..self.clone()
            });
        }
        line.push(b'\n');
        line
    }
}

fn encode(event: &Event<'_>) -> Vec<u8> {
    serde_json::to_vec(event).expect("an event is plain data")
}

/// How a request was authenticated.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthenticationMetadata {
    /// The verb of the constrained mode by which the caller impersonates.
    pub(super) impersonation_constraint: &'static str,
}

/// `authentication.k8s.io/v1 UserInfo`; empty if the request was not authenticated.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct User<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

impl<'a> From<&'a UserInfo> for User<'a> {
    fn from(user: &'a UserInfo) -> Self {
        Self {
            username: &user.username,
            uid: &user.uid,
            groups: &user.groups,
            extra: (!user.extra.is_empty()).then_some(&user.extra),
        }
    }
}

/// The reference to the object of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) subresource: String,
}

impl ObjectReference {
    /// The reference for a request about a resource; `None` for other paths.
    pub(super) fn of(target: &Target<'_>, version: &str) -> Option<Self> {
        let Target::Resource { group, resource, subresource, namespace, name } = *target else { return None };
        Some(Self {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            api_group: group.to_owned(),
            api_version: version.to_owned(),
            subresource: subresource.to_owned(),
            ..Self::default()
        })
    }

    /// Fills the fields that the URL leaves empty from the metadata of the request's object.
    pub(super) fn complete(&mut self, object: &Value) {
        let fill = |field: &mut String, name: &str| {
            if let (true, Some(text)) = (field.is_empty(), object["metadata"][name].as_str()) {
                text.clone_into(field);
            }
        };
        fill(&mut self.namespace, "namespace");
        fill(&mut self.name, "name");
        fill(&mut self.uid, "uid");
        fill(&mut self.resource_version, "resourceVersion");
    }
}

/// The part of a Status that events contain: never the names of other objects that a Status may list.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ResponseStatus {
    metadata: Empty,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Outcome>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    pub(super) code: u16,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Empty {}

impl ResponseStatus {
    /// The status of a response that is not a `Status` object.
    pub(super) fn of_code(code: u16) -> Self {
        Self { metadata: Empty {}, status: None, message: String::new(), reason: None, details: None, code }
    }

    /// The status of a request whose client left before the response. The operation may have been carried
    /// out.
    pub(super) fn client_left() -> Self {
        let message = "the connection was closed before the response".to_owned();
        Self { status: Some(Outcome::Failure), message, ..Self::of_code(CLIENT_LEFT) }
    }

    /// The status of a response that is a `Status` object with this HTTP code.
    pub(super) fn of(status: &Status, code: u16) -> Self {
        let details = status.details.as_ref();
        Self {
            metadata: Empty {},
            status: Some(status.status),
            message: status.message.clone(),
            reason: (status.reason != Reason::Unknown).then_some(status.reason),
            details: details.and_then(|details| serde_json::to_value(details).ok()),
            code,
        }
    }
}

/// Formats a time as `metav1.MicroTime` does.
pub(super) fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Removes the managed fields of an object, or of all items of a list.
pub(super) fn remove_managed_fields(object: &mut Value) {
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    remove(object);
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(remove);
    }
}

/// The addresses of the hops of a request: first those that proxies name in headers, then the address of the
/// connection. Adjacent duplicates are dropped.
pub(super) fn source_ips(forwarded_for: &str, real_ip: &str, remote: Option<IpAddr>) -> Vec<IpAddr> {
    let address = |text: &str| text.trim().parse::<IpAddr>().ok();
    let mut addresses: Vec<_> = forwarded_for.split(',').filter_map(address).collect();
    if let Some(real) = address(real_ip).filter(|real| !addresses.contains(real)) {
        addresses.push(real);
    }
    if let Some(remote) = remote.filter(|remote| addresses.last() != Some(remote)) {
        addresses.push(remote);
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_a_line_with_kubernetes_fields_in_kubernetes_order() {
        let user = UserInfo::new("ann", ["devs"]);
        let other = UserInfo { username: "bob".into(), ..UserInfo::default() };
        let target =
            Target::Resource { group: "", resource: "pods", subresource: "log", namespace: "a", name: "b" };
        let reference = ObjectReference::of(&target, "v1").unwrap();
        let missing = Status::bad_request("no");
        let status = ResponseStatus::of(&missing, 404);
        let annotations = [("a.io/b".to_owned(), "c".to_owned())].into();
        let at: Timestamp = "2026-01-02T03:04:05.6Z".parse().unwrap();
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: Level::Request,
            audit_id: "id",
            stage: Stage::ResponseComplete,
            request_uri: "/api/v1/namespaces/a/pods/b/log?follow=true",
            verb: "get",
            user: (&user).into(),
            impersonated_user: Some((&other).into()),
            authentication_metadata: Some(AuthenticationMetadata {
                impersonation_constraint: "impersonate:user-info",
            }),
            source_ips: &["10.0.0.1".parse().unwrap()],
            user_agent: "kubectl",
            object_ref: Some(&reference),
            response_status: Some(&status),
            request_object: None,
            response_object: Some(&json!({"a": "x".repeat(10)})),
            request_received_timestamp: micro_time(at),
            stage_timestamp: micro_time(Timestamp::UNIX_EPOCH),
            annotations: &annotations,
        };
        let head = "{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Request\",\"auditID\":\"id\",\
            \"stage\":\"ResponseComplete\",\"requestURI\":\"/api/v1/namespaces/a/pods/b/log?follow=true\",\"verb\":\"get\",\
            \"user\":{\"username\":\"ann\",\"groups\":[\"devs\",\"system:authenticated\"]},\"impersonatedUser\":{\"username\":\"bob\"},\
            \"authenticationMetadata\":{\"impersonationConstraint\":\"impersonate:user-info\"},\"sourceIPs\":[\"10.0.0.1\"],\
            \"userAgent\":\"kubectl\",\"objectRef\":{\"resource\":\"pods\",\"namespace\":\"a\",\"name\":\"b\",\
            \"apiVersion\":\"v1\",\"subresource\":\"log\"},\"responseStatus\":{\"metadata\":{},\"status\":\"Failure\",\
            \"message\":\"no\",\"reason\":\"BadRequest\",\"code\":404},";
        let times = "\"requestReceivedTimestamp\":\"2026-01-02T03:04:05.600000Z\",\
            \"stageTimestamp\":\"1970-01-01T00:00:00.000000Z\",";
        let whole = format!(
            "{head}\"responseObject\":{{\"a\":\"xxxxxxxxxx\"}},{times}\"annotations\":{{\"a.io/b\":\"c\"}}}}\n"
        );
        assert_eq!(String::from_utf8(event.line(10_000)).unwrap(), whole);
        let cut = format!(
            "{head}{times}\"annotations\":{{\"a.io/b\":\"c\",\"audit.k8s.io/truncated\":\"true\"}}}}\n"
        );
        assert_eq!(String::from_utf8(event.line(whole.len() - 2)).unwrap(), cut);
        let success = serde_json::to_value(ResponseStatus::of_code(201)).unwrap();
        assert_eq!(success, json!({"metadata": {}, "code": 201}));
    }

    #[test]
    fn an_object_fills_missing_fields_of_its_reference_and_changes_no_others() {
        let target = Target::Resource {
            group: "apps",
            resource: "deployments",
            subresource: "",
            namespace: "a",
            name: "",
        };
        let mut reference = ObjectReference::of(&target, "v1").unwrap();
        reference.complete(
            &json!({"metadata": {"namespace": "other", "name": "b", "uid": "u", "resourceVersion": "7"}}),
        );
        assert_eq!((reference.namespace.as_str(), reference.name.as_str()), ("a", "b"));
        assert_eq!((reference.uid.as_str(), reference.resource_version.as_str()), ("u", "7"));
        assert_eq!(ObjectReference::of(&Target::Path("/version"), ""), None);
    }

    #[test]
    fn proxy_addresses_precede_the_connection_address() {
        let remote = Some("10.0.0.9".parse().unwrap());
        for (forwarded, real, remote, want) in [
            ("", "", remote, "10.0.0.9"),
            ("", "", None, ""),
            ("1.1.1.1, nonsense,::1", "2.2.2.2", remote, "1.1.1.1 ::1 2.2.2.2 10.0.0.9"),
            ("2.2.2.2", "2.2.2.2", remote, "2.2.2.2 10.0.0.9"),
            ("10.0.0.9", "", remote, "10.0.0.9"),
            ("", "10.0.0.9", remote, "10.0.0.9"),
        ] {
            let found: Vec<_> = source_ips(forwarded, real, remote).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), want, "{forwarded} {real}");
        }
    }

    #[test]
    fn managed_fields_are_removed_from_objects_and_lists() {
        let object = |name: &str| json!({"metadata": {"name": name, "managedFields": [{}]}});
        let mut list = json!({"metadata": {}, "items": [object("a"), object("b")]});
        remove_managed_fields(&mut list);
        assert_eq!(
            list,
            json!({"metadata": {}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]})
        );
        remove_managed_fields(&mut json!("no object"));
    }
}
