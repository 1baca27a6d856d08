//! One operation of a path: what it takes and what it answers.

use serde_json::{Map, Value, json};

use super::parameters::{self, Parameter};
use super::{GroupVersion, ResourceDoc, SubresourceDoc, common, reference};
use crate::patch::PatchType;
use crate::wire::protobuf;

/// Where the objects of an operation are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In one namespace.
    Namespaced,
    /// In any namespace.
    AllNamespaces,
    /// In none.
    Cluster,
}

/// An operation, ready to be written down.
pub(super) struct Operation<'a> {
    pub(super) gv: &'a GroupVersion,
    pub(super) resource: &'a ResourceDoc,
    pub(super) scope: Scope,
    /// `list`, `get`, `watchlist`, …; the HTTP method where the path leads to a stream.
    pub(super) action: &'static str,
    /// The path below an object, if it is one.
    pub(super) below: Option<&'a SubresourceDoc>,
    /// Whether a path of the streamed service follows.
    pub(super) with_path: bool,
}

impl Operation<'_> {
    /// Query parameters; those that all operations of a path share belong to the path.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        match self.below {
            Some(sub) if sub.is_stream() => parameters::of_stream(&sub.name),
            Some(_) | None => parameters::of_action(self.action),
        }
    }

    /// Without its parameters.
    pub(super) fn to_json(&self) -> Value {
        let mut out = json!({
            "tags": [self.gv.tag()],
            "operationId": self.id(),
            "description": self.description(),
            "responses": self.responses(),
            "x-kubernetes-action": if self.connects() { "connect" } else { self.action },
            "x-kubernetes-group-version-kind": self.kind(),
        });
        if let Some(body) = self.request() {
            out["requestBody"] = body;
        }
        out
    }

    /// The path leads to a stream, not to an object. A log is read like an object.
    fn connects(&self) -> bool {
        self.below.is_some_and(|sub| sub.is_stream() && sub.name != "log")
    }

    fn schema_name(&self) -> &str {
        self.below.and_then(|sub| sub.schema_name.as_deref()).unwrap_or(&self.resource.schema_name)
    }

    /// The kind that is sent or answered.
    pub(super) fn kind_name(&self) -> &str {
        self.below.map_or(&self.resource.kind, |sub| &sub.body.2)
    }

    fn kind(&self) -> Value {
        match self.below {
            Some(SubresourceDoc { body: (group, version, kind), .. }) => {
                json!({"group": group, "version": version, "kind": kind})
            }
            None => json!({"group": self.gv.group, "version": self.gv.version, "kind": self.resource.kind}),
        }
    }

    fn request(&self) -> Option<Value> {
        let any = |name: &str| json!({"*/*": {"schema": reference(name)}});
        let content = match self.action {
            _ if self.connects() => return None,
            "post" | "put" => any(self.schema_name()),
            "delete" | "deletecollection" => return Some(json!({"content": any(common::DELETE_OPTIONS)})),
            "patch" => self.patches(),
            _ => return None,
        };
        Some(json!({"content": content, "required": true}))
    }

    /// Custom resources have no strategic merge patch: their lists state no merge keys.
    fn patches(&self) -> Value {
        let custom = self.resource.is_custom;
        let types = PatchType::ALL.into_iter().filter(|t| !custom || *t != PatchType::Strategic);
        let content = types.map(|t| (t.media_type().to_owned(), json!({"schema": reference(common::PATCH)})));
        Value::Object(content.collect())
    }

    fn responses(&self) -> Value {
        let content = self.content();
        let ok = |description: &str| json!({"description": description, "content": content});
        let mut out = json!({"200": ok("OK"), "401": {"description": "Unauthorized"}});
        match self.action {
            _ if self.connects() => {}
            "post" => {
                out["201"] = ok("Created");
                out["202"] = ok("Accepted");
            }
            "put" | "patch" => out["201"] = ok("Created"),
            "delete" => out["202"] = ok("Accepted"),
            _ => {}
        }
        out
    }

    fn content(&self) -> Value {
        let text = json!({"type": "string"});
        let schema = match self.action {
            _ if self.connects() => return json!({"*/*": {"schema": text}}),
            _ if self.below.is_some_and(SubresourceDoc::is_stream) => {
                let mut content = any_media(&text, &["text/plain"]);
                OBJECTS.iter().for_each(|media| content[*media] = json!({"schema": text}));
                return content;
            }
            "list" => reference(&format!("{}List", self.resource.schema_name)),
            "watch" | "watchlist" => reference(common::WATCH_EVENT),
            "deletecollection" => reference(common::STATUS),
            "delete" if self.resource.returns_deleted => reference(&self.resource.schema_name),
            "delete" => reference(common::STATUS),
            _ => reference(self.schema_name()),
        };
        let custom = self.resource.is_custom;
        match self.action {
            _ if custom => any_media(&schema, &OBJECTS[..2]),
            "list" | "watch" | "watchlist" => any_media(&schema, &[&OBJECTS[..], &STREAMS].concat()),
            _ => any_media(&schema, &OBJECTS),
        }
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

    /// E.g. `createAppsV1NamespacedDeployment`; unique among all documents.
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

/// Encodings of objects.
pub(super) const OBJECTS: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];
const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// The same schema for all these encodings.
pub(super) fn any_media(schema: &Value, media: &[&str]) -> Value {
    let content: Map<String, Value> =
        media.iter().map(|m| ((*m).to_owned(), json!({"schema": schema}))).collect();
    Value::Object(content)
}

pub(super) fn upper(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
