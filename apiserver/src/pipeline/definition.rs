//! Writes of CustomResourceDefinitions: names are granted and conditions set in the commit that stores the definition, so that the
//! kind is served, listed by discovery and open to watches at that very revision. Not the rules: those are `kstore_api::crd`'s; and
//! not what happens after DELETE: see `crate::definitions`.

use super::Pipeline;
use crate::authn::{MASTERS, UserInfo};
use crate::bootstrap::SELF;
use crate::lookup::Lookup as _;
use crate::registry::Next;
use crate::request::{Action, Body, Request, Target, WriteOptions};
use kstore_api::kind::{self, Resource};
use kstore_api::status::{Reason, Status};
use kstore_api::{crd, meta};
use serde_json::Value;

/// Whether objects of this row are definitions.
pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.group == crd::GROUP && resource.kind == crd::KIND
}

/// The row of definitions.
pub(crate) fn definitions() -> &'static Resource {
    kind::lookup(crd::GROUP, "v1", "customresourcedefinitions")
        .expect("definitions are in the table of kinds")
}

/// The group in a definition's name, `<plural>.<group>`.
pub(super) fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

/// What the author of a definition should know: formats that mean nothing.
pub(super) fn warnings(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<String> {
    if !is_definition(resource) {
        return Vec::new();
    }
    crd::strategy::warnings(new, old)
}

impl Pipeline {
    /// Grants a definition that is about to be stored the names that no other definition of its group has.
    pub(super) fn grant_names(&self, object: &mut Value) {
        let now = meta::format_time(self.nondet.clock.now_seconds());
        if let Some(status) = self.planned(object, &now) {
            object["status"] = status;
        }
    }

    /// The new status of a definition beside the others of its group; `None` if it stays.
    fn planned(&self, object: &Value, now: &str) -> Option<Value> {
        let name = meta::name(object);
        let group = &object["spec"]["group"];
        let stored = self.cache().list(definitions(), "");
        let others =
            stored.iter().filter(|other| meta::name(other) != name && other["spec"]["group"] == *group);
        let all: Vec<&Value> = others.map(|other| &**other).chain([object]).collect();
        let planned = crd::names::plan_names(&all, now);
        planned.into_iter().find(|(planned, _)| planned == name).map(|(_, status)| status)
    }

    /// Grants names that another write has freed to definitions of a group that wait for them. A failure is logged: the next write
    /// in the group tries again.
    pub(crate) async fn settle_definitions(&self, group: &str) {
        if let Err(error) = self.cache().fresh().await {
            return tracing::warn!(%error, "the CustomResourceDefinitions cannot be read");
        }
        let now = meta::format_time(self.nondet.clock.now_seconds());
        let stored = self.cache().list(definitions(), "");
        let waiting = stored.iter().filter(|definition| {
            definition["spec"]["group"] == group && self.planned(definition, &now).is_some()
        });
        for definition in waiting {
            let name = meta::name(definition);
            let granted = self.change_definition(name, |definition| {
                let mut next = definition.clone();
                next["status"] = self.planned(definition, &now)?;
                Some(Next::Put(next))
            });
            if let Err(status) = granted.await {
                tracing::warn!(name, %status, "cannot write the status of a CustomResourceDefinition");
            }
        }
    }

    /// Changes a stored definition as the server itself; `change` answers `None` to leave it as it is. Nothing happens if it is gone.
    pub(crate) async fn change_definition(
        &self,
        name: &str,
        mut change: impl FnMut(&Value) -> Option<Next> + Send,
    ) -> Result<(), Status> {
        let _turn = self.definition_writes.lock().await;
        let request = own_request(name);
        let decide = |current: Option<&Value>| {
            let current = current.ok_or_else(|| Status::not_found(definitions(), name))?;
            Ok(change(current).unwrap_or(Next::Keep))
        };
        let target = &request.target;
        match self.registry.guaranteed_update(target, self.mandate(&request), false, decide).await {
            Err(status) if status.reason != Reason::NotFound => Err(status),
            _ => Ok(()),
        }
    }
}

/// A request of the server itself to write a definition's status.
pub(crate) fn own_request(name: &str) -> Request {
    Request {
        user: UserInfo::new(SELF, [MASTERS]).into(),
        agent: "kstore-apiserver".into(),
        causes: Vec::new(),
        fence: None,
        stage: None,
        timeout: None,
        target: Target {
            resource: definitions(),
            custom: None,
            subresource: "status",
            namespace: String::new(),
            name: name.into(),
        },
        action: Action::Update(Body::json(bytes::Bytes::new()), WriteOptions::default()),
    }
}
