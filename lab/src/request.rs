//! What the lab sees of a request and of a watch event, and the order of the stages that a request passes. Plain values, shared by
//! clients, log, faults, caches, plans and the checker of legality. Pure.

use http::{Method, Uri};
use kstore_api::status::Status;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A stage of a request's way from the listener to the API server and back. The order of [`STAGES`] is the contract: each stage sees what
/// the ones before it decided, and none of them performs I/O. A stage that is not built passes the request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The listener read the head of the request and knows its peer.
    Edge,
    /// The client of the request is known (`client::identity`).
    Identity,
    /// Plans observe the request, and may hold it ([`Phase::Arrived`]).
    PlanArrived,
    /// Seeded rules and actions of plans decide faults ([`Intervention`]).
    Fault,
    /// Routes choose a cache, whose revision bounds what a read may return ([`ReadState`]).
    Cache,
    /// The API server performs the request.
    Pipeline,
    /// The request log notes the answer and the revision.
    Log,
    /// Plans observe the answer, and may hold it ([`Phase::Done`]).
    PlanDone,
    /// The listener writes the answer or the events, and views of clients follow what it wrote.
    View,
}

/// The stages in the order in which a request passes them.
pub const STAGES: [Stage; 9] = [
    Stage::Edge,
    Stage::Identity,
    Stage::PlanArrived,
    Stage::Fault,
    Stage::Cache,
    Stage::Pipeline,
    Stage::Log,
    Stage::PlanDone,
    Stage::View,
];

/// The moment of a request at which it is observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Read and authenticated, not performed.
    #[default]
    Arrived,
    /// Performed, answer not sent.
    Done,
}

/// The moment of a watch event at which it is observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventPhase {
    /// The server has the event for the client, and has not written it.
    #[default]
    Due,
    /// The event was written to the client's connection.
    Delivered,
}

/// What happens to a request instead of, before or after its performance: the result of the stage [`Stage::Fault`], as a value. One file
/// carries each out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intervention {
    /// Real time before the request is performed or refused.
    pub delay: Duration,
    /// Whether the lab changes an annotation of the object first, if the write carries a `resourceVersion`.
    pub touches: bool,
    /// The answer that replaces the server's; the request is performed first if [`Self::is_performed`].
    pub refusal: Option<Refusal>,
    /// Whether the request is performed although it gets a refusal: its answer is lost.
    pub is_performed: bool,
    /// Revisions by which a list that accepts any state lags; 0: none.
    pub stale_by: u64,
    /// How a watch ends early.
    pub ending: Option<WatchEnding>,
    /// Name of the fault for the log; empty if there is none.
    pub fault: &'static str,
}

/// An injected end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnding {
    /// The body ends after so many events.
    Cut {
        /// How it ends.
        how: CutForm,
        /// Events that are delivered before.
        after: u64,
    },
    /// 410 as an ERROR event before the next event.
    Expired,
}

/// How the body of a watch ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutForm {
    /// The body ends, as after its timeout.
    #[default]
    End,
    /// The connection is reset between two events.
    Reset,
    /// The connection is reset within an event.
    Frame,
}

/// An answer that replaces that of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A refusal as a real server sends it.
    Status(Box<Status>),
    /// The connection is reset.
    Reset,
    /// No answer until the client gives up.
    Silence,
}

impl Refusal {
    /// A refusal with this Status.
    pub fn status(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// The state that a read may show: the result of the stage [`Stage::Cache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadState {
    /// The newest state.
    #[default]
    Head,
    /// A state at this revision and none after it.
    At(i64),
}

/// The API verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// GET of an object.
    Get,
    /// GET of a collection.
    List,
    /// A watch.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of an object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// A call of kstore's gRPC API that is no other verb.
    Call,
}

impl Verb {
    /// The name as in authorization.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Call => "call",
        }
    }

    /// Whether the request may write.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a resource is that of Events, which two groups serve.
pub fn is_of_events(resource: &str) -> bool {
    resource == "events" || resource == "events.events.k8s.io"
}

/// The state that a read asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// No `resourceVersion`: the newest state.
    #[default]
    Unset,
    /// `resourceVersion=0`: any state.
    Any,
    /// At least this revision; for a watch, changes after it.
    Min(i64),
    /// Exactly this revision.
    Exact(i64),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("unset"),
            Self::Any => f.write_str("0"),
            Self::Min(revision) => write!(f, "min:{revision}"),
            Self::Exact(revision) => write!(f, "exact:{revision}"),
        }
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a request asks for, from its method and URI. A request for a path outside the resource API has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget {
    /// Verb.
    pub verb: Verb,
    /// `plural.group`, or the plural alone for the core group.
    pub resource: String,
    /// Subresource; empty if there is none.
    pub subresource: String,
    /// Namespace; empty for cluster scope and for all namespaces.
    pub namespace: String,
    /// Name of the object; empty for a collection.
    pub name: String,
    /// State that a read asks for.
    pub version: Version,
    /// Whether a watch asks for the initial state as events.
    pub sends_initial_events: bool,
}

/// Path prefix of kstore's own gRPC API.
const GRPC: &str = "/kstore.v1.Kstore/";

/// Segments of the longest usual path, that of a subresource of an object in a group. Longer ones, as of a proxy, take memory.
const SEGMENTS: usize = 8;

impl RequestTarget {
    /// Reads a request's target; `None` for discovery, health and other paths.
    pub fn of(method: &Method, uri: &Uri) -> Option<Self> {
        if let Some(call) = uri.path().strip_prefix(GRPC) {
            return Some(Self::of_call(call));
        }
        let path = uri.path();
        if memchr::memchr(b'%', path.as_bytes()).is_some() {
            let segments: Vec<String> =
                path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
            return Self::of_segments(method, uri, &segments.iter().map(String::as_str).collect::<Vec<_>>());
        }
        // Each request passes here: most paths have few segments, which need no memory of their own.
        let (mut segments, mut count, mut rest) = ([""; SEGMENTS], 0, path);
        while !rest.is_empty() {
            let end = memchr::memchr(b'/', rest.as_bytes()).unwrap_or(rest.len());
            let (segment, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            if segment.is_empty() {
                continue;
            }
            let Some(place) = segments.get_mut(count) else {
                let all: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
                return Self::of_segments(method, uri, &all);
            };
            (*place, count) = (segment, count + 1);
        }
        Self::of_segments(method, uri, &segments[..count])
    }

    /// Reads the target from the decoded segments of the path.
    fn of_segments(method: &Method, uri: &Uri, segments: &[&str]) -> Option<Self> {
        let (group, rest) = match segments {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (is_old_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, plural, name, subresource) = match rest {
            [] => return None,
            // A namespace itself, and its subresources.
            ["namespaces"] => ("", "namespaces", "", String::new()),
            ["namespaces", name] => ("", "namespaces", *name, String::new()),
            ["namespaces", name, sub @ ("status" | "finalize")] => {
                ("", "namespaces", *name, (*sub).to_owned())
            }
            ["namespaces", namespace, plural] => (*namespace, *plural, "", String::new()),
            ["namespaces", namespace, plural, name, sub @ ..] => (*namespace, *plural, *name, sub.join("/")),
            [plural] => ("", *plural, "", String::new()),
            [plural, name, sub @ ..] => ("", *plural, *name, sub.join("/")),
        };
        let watches =
            is_old_watch || parameter(uri, "watch").is_some_and(|value| value == "true" || value == "1");
        let verb = verb(method, !name.is_empty(), watches && subresource.is_empty())?;
        let resource = if group.is_empty() { plural.to_owned() } else { [plural, ".", group].concat() };
        Some(Self {
            verb,
            resource,
            subresource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: version(uri, verb),
            sends_initial_events: parameter(uri, "sendInitialEvents").is_some_and(|value| value == "true"),
        })
    }

    /// A gRPC call; kind and name are in its message, which the lab does not read.
    fn of_call(call: &str) -> Self {
        let verb = match call {
            "Get" => Verb::Get,
            "List" => Verb::List,
            "Watch" => Verb::Watch,
            "Create" | "Bind" => Verb::Create,
            "Update" | "UpdateStatus" => Verb::Update,
            "Patch" => Verb::Patch,
            "Delete" => Verb::Delete,
            "DeleteCollection" => Verb::DeleteCollection,
            _ => Verb::Call,
        };
        let empty = String::new;
        Self {
            verb,
            resource: empty(),
            subresource: empty(),
            namespace: empty(),
            name: empty(),
            version: Version::Unset,
            sends_initial_events: false,
        }
    }

    /// Whether the request lasts until its client ends it, such as a watch or a followed log. Such requests are never "in flight".
    pub fn is_long(&self, uri: &Uri) -> bool {
        let is_followed = || parameter(uri, "follow").is_some_and(|value| value == "true" || value == "1");
        let is_stream = ["exec", "attach", "portforward", "proxy"].contains(&&*self.subresource);
        self.verb == Verb::Watch || is_stream || (self.subresource == "log" && is_followed())
    }

    /// Whether the request reads or writes a single Lease, as leader election does all the time.
    pub fn is_of_lease(&self) -> bool {
        self.resource == "leases.coordination.k8s.io" && (!self.name.is_empty() || self.verb == Verb::Create)
    }
}

fn verb(method: &Method, is_named: bool, watches: bool) -> Option<Verb> {
    Some(match *method {
        Method::GET | Method::HEAD if watches => Verb::Watch,
        Method::GET | Method::HEAD if is_named => Verb::Get,
        Method::GET | Method::HEAD => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if is_named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => return None,
    })
}

fn version(uri: &Uri, verb: Verb) -> Version {
    let text = parameter(uri, "resourceVersion").filter(|value| !value.is_empty());
    let Some(revision) = text.and_then(|value| value.parse::<i64>().ok()) else { return Version::Unset };
    let is_exact = parameter(uri, "resourceVersionMatch").is_some_and(|rule| rule == "Exact");
    match revision {
        0 => Version::Any,
        revision if is_exact && verb == Verb::List => Version::Exact(revision),
        revision => Version::Min(revision),
    }
}

/// The first value of a query parameter, decoded.
pub fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs = uri.query()?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(&value.replace('+', " ")))
}

/// Decodes percent escapes; invalid ones stay.
pub fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        out.push(hex.unwrap_or(*byte));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What the lab sees of a request when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabRequest {
    /// Position in the cluster's request log.
    pub number: u64,
    /// Name of the client.
    pub client: String,
    /// How often the client's process was started anew; 0: first.
    pub incarnation: u32,
    /// Authenticated user; empty until the server has authenticated the request.
    pub user: String,
    /// User agent up to the first slash.
    pub agent: String,
    /// What is asked for; `None` for paths outside the resource API.
    pub target: Option<RequestTarget>,
    /// Path without the query.
    pub path: String,
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// The object is new, or newly selected.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or is no longer selected.
    Deleted,
    /// A revision without an object.
    Bookmark,
    /// The watch failed.
    Error,
}

/// What the lab sees of an event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabEvent {
    /// Type of the event.
    pub kind: EventType,
    /// Revision of the object or bookmark; 0 in an error.
    pub revision: i64,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: Method, uri: &str) -> Option<RequestTarget> {
        RequestTarget::of(&method, &uri.parse().unwrap())
    }

    fn place(method: Method, uri: &str) -> String {
        let RequestTarget { verb, resource, subresource, namespace, name, version, .. } =
            target(method, uri).unwrap();
        format!("{verb} {resource} {namespace}/{name}/{subresource} {version}")
    }

    #[test]
    fn targets_follow_from_method_and_uri() {
        let rows = [
            (Method::GET, "/api/v1/pods", "list pods // unset"),
            (Method::GET, "/api/v1/namespaces", "list namespaces // unset"),
            (Method::GET, "/api/v1/namespaces/a", "get namespaces /a/ unset"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update namespaces /a/finalize unset"),
            (Method::GET, "/api/v1/namespaces/a/pods?resourceVersion=0&limit=5", "list pods a// 0"),
            (Method::GET, "/apis/batch/v1/namespaces/a/jobs/b/status", "get jobs.batch a/b/status unset"),
            (Method::GET, "/apis/batch/v1/jobs?watch=true&resourceVersion=7", "watch jobs.batch // min:7"),
            (Method::GET, "/api/v1/watch/pods", "watch pods // unset"),
            (Method::GET, "//api/v1//pods/", "list pods // unset"),
            (
                Method::GET,
                "/api/v1/namespaces/a/services/b/proxy/x/y/z",
                "get services a/b/proxy/x/y/z unset",
            ),
            (
                Method::GET,
                "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact",
                "list pods // exact:7",
            ),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection pods a// unset"),
            (Method::PATCH, "/api/v1/nodes/n%2Dx/status", "patch nodes /n-x/status unset"),
            (Method::POST, "/kstore.v1.Kstore/UpdateStatus", "update  // unset"),
        ];
        for (method, uri, expected) in rows {
            assert_eq!(place(method, uri), expected, "{uri}");
        }
        for none in ["/", "/healthz", "/api", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/kstore/v1/trace"] {
            assert_eq!(target(Method::GET, none), None, "{none}");
        }
    }

    #[test]
    fn watches_and_streams_are_long_and_leases_are_recognized() {
        let long = |uri: &str| target(Method::GET, uri).unwrap().is_long(&uri.parse().unwrap());
        assert!(long("/api/v1/pods?watch=1") && long("/api/v1/namespaces/a/pods/b/log?follow=true"));
        assert!(!long("/api/v1/pods") && !long("/api/v1/namespaces/a/pods/b/log"));
        let lease = |method, uri: &str| target(method, uri).unwrap().is_of_lease();
        assert!(lease(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/b"));
        assert!(!lease(Method::GET, "/apis/coordination.k8s.io/v1/namespaces/a/leases?watch=1"));
    }
}
