//! Writes of CustomResourceDefinitions: the commit that stores a definition also grants its names and sets
//! its conditions, so that the kind is served, listed by discovery and watchable at that very revision. The
//! rules are in `kstore_api::crd`; what follows a DELETE is in `kstore_apiserver::definitions`.

use super::Pipeline;
use futures::future::BoxFuture;
use kstore_api::resource::Resource;
use kstore_api::status::{Reason, Status};
use kstore_api::version::Minor;
use kstore_api::{crd, kind, meta};
use kstore_registry::cache::Filter;
use kstore_registry::entry::Entry;
use kstore_registry::registry::Decision;
use kstore_registry::request::{Action, Body, Request, Target, WriteOptions, own_request};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Whether the row is that of CustomResourceDefinitions.
pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.group == crd::GROUP && resource.kind == crd::KIND
}

/// The row of CustomResourceDefinitions in the table of kinds.
pub fn definitions() -> &'static Resource {
    kind::lookup(crd::GROUP, "v1", "customresourcedefinitions")
        .expect("definitions are in the table of kinds")
}

/// The group in a definition's name, `<plural>.<group>`.
pub(super) fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

/// The first version that warns about formats.
const FORMAT_WARNINGS: Minor = Minor::V34;

/// Warnings for the author of a definition: formats that have no effect.
pub(super) fn warnings(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<String> {
    if !is_definition(resource) || resource.minor < FORMAT_WARNINGS {
        return Vec::new();
    }
    crd::strategy::warnings(new, old)
}

/// Changes a definition, or says that it stays.
type DefinitionChange<'a> = Box<dyn FnMut(&Value) -> Option<Decision> + Send + 'a>;

impl Pipeline {
    /// Grants a definition that is about to be stored the names that no other definition of its group has.
    pub(super) fn grant_names(&self, object: &mut Value) {
        let now = meta::format_time(self.nondet.clock.now_seconds());
        if let Some(status) = self.planned_status(object, &now) {
            object["status"] = status;
        }
    }

    /// The new status of a definition among the others of its group; `None` if the status does not change.
    fn planned_status(&self, object: &Value, now: &str) -> Option<Value> {
        let name = meta::name(object);
        let group = object["spec"]["group"].as_str().unwrap_or_default();
        let stored = self.definitions_of(group);
        let others: Vec<Value> =
            stored.iter().filter(|other| other.name() != name).map(|other| without_versions(other)).collect();
        let all: Vec<&Value> = others.iter().chain([object]).collect();
        let planned_status = crd::names::plan_names(&all, now);
        planned_status
            .into_iter()
            .find(|(planned_status, _)| planned_status == name)
            .map(|(_, status)| status)
    }

    /// The stored definitions of a group. Definitions of other groups are not parsed: a cluster may have
    /// thousands.
    fn definitions_of(&self, group: &str) -> Vec<Arc<Entry>> {
        let (mut stored, _) = self.cache().scan(&Filter::all(definitions()));
        stored.retain(|definition| group_of(definition.name()) == group);
        stored
    }

    /// Grants names that another write has freed to definitions of the group that wait for them. Failures are
    /// logged: the next write in the group tries again.
    /// Boxed here, so that no crate above generates the code again.
    pub fn grant_waiting_names<'a>(&'a self, group: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.cache().fresh().await {
                return tracing::warn!(%error, "the CustomResourceDefinitions cannot be read");
            }
            let now = meta::format_time(self.nondet.clock.now_seconds());
            let stored = self.definitions_of(group);
            let waiting = stored
                .iter()
                .filter(|definition| self.planned_status(&without_versions(definition), &now).is_some());
            for definition in waiting {
                let name = definition.name();
                let granted = self.change_definition(name, |definition| {
                    let mut next = definition.clone();
                    next["status"] = self.planned_status(definition, &now)?;
                    Some(Decision::Put(next))
                });
                if let Err(status) = granted.await {
                    tracing::warn!(name, %status, "cannot write the status of a CustomResourceDefinition");
                }
            }
        })
    }

    /// Changes a stored definition as the server itself. `change` returns `None` to keep the definition. Does
    /// nothing if it is absent.
    ///
    /// Boxed here, so that no crate above generates the code of a write again.
    pub fn change_definition<'a>(
        &'a self,
        name: &'a str,
        change: impl FnMut(&Value) -> Option<Decision> + Send + 'a,
    ) -> BoxFuture<'a, Result<(), Status>> {
        self.change_definition_by(name, Box::new(change))
    }

    fn change_definition_by<'a>(
        &'a self,
        name: &'a str,
        mut change: DefinitionChange<'a>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let _guard = self.definition_writes.lock().await;
            let request = status_request(name);
            let decide = |current: Option<&Value>| {
                let current = current.ok_or_else(|| Status::not_found(definitions(), name))?;
                Ok(change(current).unwrap_or(Decision::Keep))
            };
            let target = &request.target;
            match self.registry.guaranteed_update(target, self.write_context(&request), false, decide).await {
                Err(status) if status.reason != Reason::NotFound => Err(status),
                _ => Ok(()),
            }
        })
    }
}

/// The parts of a stored definition that decide on names and conditions: all but the versions, whose schemas
/// are most of its bytes.
fn without_versions(definition: &Entry) -> Value {
    #[derive(Deserialize)]
    struct Definition {
        metadata: Value,
        spec: Spec,
        #[serde(default)]
        status: Value,
    }
    #[derive(Deserialize)]
    struct Spec {
        #[serde(default)]
        group: Value,
        #[serde(default)]
        names: Value,
        #[serde(default)]
        conversion: Value,
    }
    match definition.parse_parts() {
        Some(Definition { metadata, spec: Spec { group, names, conversion }, status }) => {
            let spec = json!({"group": group, "names": names, "conversion": conversion});
            json!({"metadata": metadata, "spec": spec, "status": status})
        }
        // Another writer stored a definition without these members: use it as it is.
        None => definition.parse(),
    }
}

/// A request by the server itself to write a definition's status.
pub(crate) fn status_request(name: &str) -> Request {
    let target = Target {
        resource: definitions(),
        custom: None,
        subresource: "status",
        namespace: String::new(),
        name: name.into(),
    };
    let action = Action::Update(Body::json(bytes::Bytes::new()), WriteOptions::default());
    own_request(target, action)
}
