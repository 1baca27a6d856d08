//! Operations of a path: names, parameters, request bodies and responses.

use super::form::{Bodies, Content, Request};
use super::parameters::{self, Parameter};
use super::{GroupVersion, ResourceDoc, SubresourceDoc, common};
use crate::patch::PatchType;
use crate::wire::protobuf;
use serde_json::{Map, Value, json};

/// Scope of the objects of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In one namespace.
    Namespaced,
    /// In all namespaces.
    AllNamespaces,
    /// Cluster-scoped.
    Cluster,
}

/// OpenAPI operation on a resource or subresource.
pub(super) struct Operation<'a> {
    pub(super) gv: &'a GroupVersion,
    pub(super) resource: &'a ResourceDoc,
    pub(super) scope: Scope,
    /// Kubernetes' action (`list`, `get`, `watchlist`, …), or the HTTP method of a stream.
    pub(super) action: &'static str,
    /// Subresource of the operation, if any.
    pub(super) below: Option<&'a SubresourceDoc>,
    /// Whether the URL continues with a path of the proxied service.
    pub(super) with_path: bool,
}

impl Operation<'_> {
    /// Query parameters. Those that all operations of a path share move to the path.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        match self.below {
            Some(sub) if sub.is_stream() => parameters::of_stream(&sub.name),
            Some(_) | None => parameters::of_action(self.action, self.resource.minor),
        }
    }

    /// Members of the operation, except parameters, body and responses.
    pub(super) fn members(&self) -> Map<String, Value> {
        let members = [
            ("tags", json!([self.gv.tag()])),
            ("operationId", self.id().into()),
            ("description", self.description().into()),
            ("x-kubernetes-action", if self.connects() { "connect" } else { self.action }.into()),
            ("x-kubernetes-group-version-kind", self.kind()),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Request body and responses.
    pub(super) fn bodies(&self) -> Bodies<'_> {
        let codes: &[_] = match self.action {
            _ if self.connects() => &[OK],
            "post" => &[OK, CREATED, ACCEPTED],
            "put" | "patch" => &[OK, CREATED],
            "delete" => &[OK, ACCEPTED],
            _ => &[OK],
        };
        Bodies { request: self.request(), answer: self.answer(), codes, consumes: &["*/*"] }
    }

    /// Whether the path leads to a stream. A log counts as an object, since it is read like one.
    fn connects(&self) -> bool {
        self.below.is_some_and(|sub| sub.is_stream() && sub.name != "log")
    }

    fn schema_name(&self) -> &str {
        self.below.and_then(|sub| sub.schema_name.as_deref()).unwrap_or(&self.resource.schema_name)
    }

    /// Kind of the request or response body.
    pub(super) fn kind_name(&self) -> &str {
        self.below.map_or(&self.resource.kind, |sub| &sub.body.2)
    }

    /// Group, version and kind of the operation. Subresources of a custom resource have the custom kind,
    /// even if their body is of another kind.
    fn kind(&self) -> Value {
        match self.below {
            Some(SubresourceDoc { body: (group, version, kind), .. }) if !self.resource.is_custom => {
                json!({"group": group, "version": version, "kind": kind})
            }
            _ => json!({"group": self.gv.group, "version": self.gv.version, "kind": self.resource.kind}),
        }
    }

    fn request(&self) -> Option<Request<'_>> {
        let is_custom = self.resource.is_custom;
        let any = || if is_custom { OBJECTS[..2].to_vec() } else { vec!["*/*"] };
        let (schema, media) = match self.action {
            _ if self.connects() => return None,
            "post" | "put" => (self.schema_name(), any()),
            "delete" => (common::DELETE_OPTIONS, any()),
            "deletecollection" if !is_custom => (common::DELETE_OPTIONS, any()),
            // Custom resources have no strategic merge patch, since their lists have no merge keys.
            "patch" => {
                let types = PatchType::ALL.into_iter();
                let types = types.filter(|patch| !is_custom || *patch != PatchType::Strategic);
                (common::PATCH, types.map(PatchType::media_type).collect())
            }
            _ => return None,
        };
        let is_required = !matches!(self.action, "delete" | "deletecollection");
        Some(Request { content: Content { schema: Some(schema), media }, is_required })
    }

    fn answer(&self) -> Content<'_> {
        let schema = match self.action {
            _ if self.connects() => return Content { schema: None, media: vec!["*/*"] },
            _ if self.below.is_some_and(SubresourceDoc::is_stream) => {
                return Content { schema: None, media: [&["text/plain"], &OBJECTS[..]].concat() };
            }
            "list" => &self.resource.list_schema_name,
            "watch" | "watchlist" => common::WATCH_EVENT,
            "deletecollection" => common::STATUS,
            // The API server answers with the Namespace, which Kubernetes' documents do not say.
            "delete" if self.resource.returns_deleted && self.resource.kind != "Namespace" => {
                &self.resource.schema_name
            }
            "delete" => common::STATUS,
            _ => self.schema_name(),
        };
        let media = match self.action {
            _ if self.resource.is_custom => OBJECTS[..2].to_vec(),
            "list" | "watch" | "watchlist" => [&OBJECTS[..], &STREAMS].concat(),
            _ => OBJECTS.to_vec(),
        };
        Content { schema: Some(schema), media }
    }

    fn description(&self) -> String {
        let kind = &self.resource.kind;
        let below = self.below.map_or_else(String::new, |sub| format!("{} of ", sub.name));
        let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
        match self.action {
            method if self.connects() => {
                format!("connect {} requests to {below}{kind}", method.to_ascii_uppercase())
            }
            "list" if self.resource.can("watch") => format!("list or watch objects of kind {kind}"),
            "list" => format!("list objects of kind {kind}"),
            "watch" => {
                format!("watch one object of kind {kind}. Deprecated: list with watch and fieldSelector.")
            }
            "watchlist" => format!("watch objects of kind {kind}. Deprecated: list with watch."),
            "deletecollection" => format!("delete collection of {kind}"),
            "get" => format!("read {below}the specified {kind}"),
            "post" => format!("create {below}{article} {kind}"),
            "put" => format!("replace {below}the specified {kind}"),
            "patch" => format!("partially update {below}the specified {kind}"),
            action => format!("{action} {article} {kind}"),
        }
    }

    /// Operation ID, unique among all documents, e.g. `createAppsV1NamespacedDeployment`.
    fn id(&self) -> String {
        let (verb, what) = match self.action {
            _ if self.connects() => ("connect", upper(self.action)),
            "get" => ("read", String::new()),
            "post" => ("create", String::new()),
            "put" => ("replace", String::new()),
            "deletecollection" => ("delete", "Collection".to_owned()),
            "watchlist" => ("watch", String::new()),
            other => (other, String::new()),
        };
        let namespaced = if self.scope == Scope::Namespaced { "Namespaced" } else { "" };
        let kind = &self.resource.kind;
        let below = self.below.map_or_else(String::new, |sub| upper(&sub.name));
        let list = if self.action == "watchlist" { "List" } else { "" };
        let everywhere = if self.scope == Scope::AllNamespaces { "ForAllNamespaces" } else { "" };
        let with_path = if self.with_path { "WithPath" } else { "" };
        format!("{verb}{}{what}{namespaced}{kind}{below}{list}{everywhere}{with_path}", self.gv.camel())
    }
}

/// Media types of objects.
pub(super) const OBJECTS: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];
const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// Response codes with descriptions.
pub(super) const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

pub(super) fn upper(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
