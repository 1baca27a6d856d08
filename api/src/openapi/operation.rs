//! One operation of a path: what it takes and what it answers.

use serde_json::{Map, Value, json};

use super::{GroupVersion, ResourceDoc, SubresourceDoc, common, parameters, reference};
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
    gv: &'a GroupVersion,
    resource: &'a ResourceDoc,
    scope: Scope,
    action: &'static str,
    below: Option<&'a SubresourceDoc>,
}

impl<'a> Operation<'a> {
    /// On the collection or an object of it.
    pub(super) fn on(
        gv: &'a GroupVersion,
        resource: &'a ResourceDoc,
        scope: Scope,
        action: &'static str,
    ) -> Self {
        Self { gv, resource, scope, action, below: None }
    }

    /// On a path below an object.
    pub(super) fn below(
        gv: &'a GroupVersion,
        resource: &'a ResourceDoc,
        sub: &'a SubresourceDoc,
        scope: Scope,
        action: &'static str,
    ) -> Self {
        Self { gv, resource, scope, action, below: Some(sub) }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut out = json!({
            "tags": [self.tag()],
            "operationId": self.id(),
            "description": self.description(),
            "parameters": parameters::of_action(if self.connects() { "" } else { self.action }),
            "responses": self.responses(),
            "x-kubernetes-action": if self.connects() { "connect" } else { self.action },
            "x-kubernetes-group-version-kind": self.kind(),
        });
        if let Some(body) = self.request() {
            out["requestBody"] = body;
        }
        out
    }

    /// The path leads to a stream or text, not to an object.
    fn connects(&self) -> bool {
        self.below.is_some_and(|sub| sub.schema_name.is_none())
    }

    fn schema_name(&self) -> &str {
        self.below.and_then(|sub| sub.schema_name.as_deref()).unwrap_or(&self.resource.schema_name)
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
        let content = match self.action {
            _ if self.connects() => return None,
            "post" | "put" => any_media(reference(self.schema_name())),
            "delete" | "deletecollection" => any_media(reference(common::DELETE_OPTIONS)),
            "patch" => self.patches(),
            _ => return None,
        };
        let required = !self.action.starts_with("delete");
        Some(if required {
            json!({"content": content, "required": true})
        } else {
            json!({"content": content})
        })
    }

    /// Custom resources have no strategic merge patch: their lists state no merge keys.
    fn patches(&self) -> Value {
        let custom = self.resource.custom.is_some();
        let types = PatchType::ALL.into_iter().filter(|t| !custom || *t != PatchType::Strategic);
        let content = types.map(|t| (t.media_type().to_owned(), json!({"schema": reference(common::PATCH)})));
        Value::Object(content.collect())
    }

    fn responses(&self) -> Value {
        let schema = match self.action {
            _ if self.connects() => json!({"type": "string"}),
            "list" => reference(&format!("{}List", self.resource.schema_name)),
            "delete" | "deletecollection" => reference(common::STATUS),
            _ => reference(self.schema_name()),
        };
        let content = if self.connects() { json!({"*/*": {"schema": schema}}) } else { any_media(schema) };
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

    fn description(&self) -> String {
        let kind = &self.resource.kind;
        let what = self.below.map_or_else(|| kind.clone(), |sub| format!("{} of {kind}", sub.name));
        match self.action {
            _ if self.connects() => format!("connect to {what}"),
            "list" => format!("list or watch objects of kind {kind}"),
            "deletecollection" => format!("delete all matching objects of kind {kind}"),
            "get" => format!("read {what}"),
            "post" => format!("create {what}"),
            "put" => format!("replace {what}"),
            "patch" => format!("change parts of {what}"),
            action => format!("{action} {what}"),
        }
    }

    fn tag(&self) -> String {
        let group = self.gv.group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core");
        format!("{group}_{}", self.gv.version)
    }

    /// E.g. `createAppsV1NamespacedDeployment`; unique in the document.
    fn id(&self) -> String {
        let verb = match self.action {
            _ if self.connects() => return self.connect_id(),
            "get" => "read",
            "post" => "create",
            "put" => "replace",
            "deletecollection" => "deleteCollection",
            other => other,
        };
        let namespaced = if self.scope == Scope::Namespaced { "Namespaced" } else { "" };
        let kind = &self.resource.kind;
        let below = self.below.map_or_else(String::new, |sub| upper(&sub.name));
        let everywhere = if self.scope == Scope::AllNamespaces { "ForAllNamespaces" } else { "" };
        format!("{verb}{}{namespaced}{kind}{below}{everywhere}", self.camel())
    }

    fn connect_id(&self) -> String {
        let below = self.below.map_or_else(String::new, |sub| upper(&sub.name));
        format!("connect{}{}{}{below}", upper(self.action), self.camel(), self.resource.kind)
    }

    fn camel(&self) -> String {
        self.tag().split('_').map(upper).collect()
    }
}

/// The same schema for every encoding of objects.
fn any_media(schema: Value) -> Value {
    let media = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];
    let content: Map<String, Value> =
        media.iter().map(|m| ((*m).to_owned(), json!({"schema": schema}))).collect();
    Value::Object(content)
}

fn upper(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
