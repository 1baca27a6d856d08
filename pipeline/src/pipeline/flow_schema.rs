//! The condition `Dangling` of FlowSchemas: whether the schema names a PriorityLevelConfiguration that does
//! not exist. Kubernetes' apiservers write it periodically for all schemas; this server writes it after the
//! write that changes it. `fairness` enforces these objects.

use super::{Pipeline, is_stored_by};
use kstore_api::flowcontrol::{self, API_VERSION};
use kstore_api::patch::PatchType;
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use kstore_registry::lookup::Lookup as _;
use kstore_registry::request::{Action, Request, Target, WriteOptions, own_request};
use kstore_registry::user::SELF;
use serde_json::json;

/// Field manager under which Kubernetes' apiservers write the condition.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

impl Pipeline {
    /// Applies the change of a schema or level, and updates the conditions after it. Failures are logged: the
    /// request itself has succeeded, and the next write to a schema or level updates the conditions again.
    pub(super) async fn update_flow_schemas_after(&self, request: &Request) {
        let target = &request.target;
        let concerned = target.resource.group == flowcontrol::GROUP && target.subresource.is_empty();
        // The start and the task `fairness` write many objects on behalf of the server, and follow them up together.
        if concerned && is_stored_by(&request.action) && request.user.username != SELF {
            self.update_flow_schemas().await;
            self.configure_fairness();
        }
    }

    /// Updates the condition of every FlowSchema.
    pub(crate) async fn update_flow_schemas(&self) {
        let (schemas, levels) = (row("flowschemas"), row("prioritylevelconfigurations"));
        if let Err(error) = self.cache().fresh().await {
            return tracing::warn!(%error, "the FlowSchemas cannot be read");
        }
        let now = meta::format_time(self.nondet.clock.now_seconds());
        let stored = self.cache().list(schemas, "");
        let wrong = stored.iter().filter_map(|schema| {
            let level = flowcontrol::level_of(schema);
            let exists = self.cache().get(levels, &levels.storage_key("", level)).is_some();
            Some((meta::name(schema).to_owned(), flowcontrol::dangling(schema, exists, &now)?))
        });
        let written = wrong.map(|(name, condition)| async move {
            let request = apply_condition(schemas, name, &condition);
            (self.act(&request, &mut Vec::new()).await, request)
        });
        for (written, request) in futures::future::join_all(written).await {
            if let Err(status) = written {
                tracing::warn!(name = request.target.name, %status, "cannot write the status of a FlowSchema");
            }
        }
    }
}

fn row(plural: &str) -> &'static Resource {
    kind::lookup(flowcontrol::GROUP, "v1", plural).expect("flow control is in the table of kinds")
}

fn apply_condition(resource: &'static Resource, name: String, condition: &serde_json::Value) -> Request {
    let body = json!({
        "apiVersion": API_VERSION,
        "kind": resource.kind,
        "metadata": { "name": name },
        "status": { "conditions": [condition] },
    });
    let body = serde_json::to_vec(&body).expect("a value has string keys only");
    let options = WriteOptions { field_manager: MANAGER.into(), force: true, ..WriteOptions::default() };
    let target = Target { resource, custom: None, subresource: "status", namespace: String::new(), name };
    own_request(target, Action::Patch(PatchType::Apply, body.into(), options))
}
