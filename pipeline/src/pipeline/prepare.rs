//! Creation of objects that must exist before a new object is decided about, because an admission plugin says so.

use super::Pipeline;
use futures::future::BoxFuture;
use kstore_admission::Subject;
use kstore_api::admission::Operation;
use kstore_api::object::text;
use kstore_api::status::{Reason, Status};
use kstore_api::{kind, meta};
use kstore_registry::error;
use kstore_registry::request::{Action, Body, Request, Target, WriteOptions, own_request};
use serde_json::Value;

impl Pipeline {
    /// The absent objects that plugins require for a new object.
    pub(super) fn required(&self, request: &Request, target: &Target) -> Vec<Value> {
        if !self.admission.prepares() {
            return Vec::new();
        }
        let subject = Subject {
            user: &request.user,
            operation: Operation::Create,
            resource: target.resource,
            subresource: "",
            namespace: &target.namespace,
            name: &target.name,
            seed: 0,
        };
        self.admission(request).required(&subject).collect()
    }

    /// Creates the objects that a new object requires, as the server itself, unless they exist. In a transaction
    /// they become part of the transaction. Boxed because a create makes other ones.
    ///
    /// # Errors
    /// 403 if one of them cannot be created.
    pub(super) fn create_required<'a>(
        &'a self,
        request: &'a Request,
        target: &'a Target,
        required: Vec<Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            for object in required {
                let create = Request { stage: request.stage.clone(), ..creation(&object) };
                // The request that needs the object has a permit or a seat for both.
                match self.serve_with(create, true).await {
                    Ok(_) => {}
                    Err(refused) if refused.status.reason == Reason::AlreadyExists => {}
                    Err(refused) => {
                        let text = &refused.status.message;
                        return Err(Status::forbidden(target.resource, &target.name, text));
                    }
                }
            }
            self.cache().fresh().await.map_err(error::of_read)?;
            Ok(())
        })
    }
}

/// The server's own request that creates an object of a built-in kind.
fn creation(object: &Value) -> Request {
    let row = kind::lookup_api_version(text(&object["apiVersion"]), text(&object["kind"]));
    let target = Target {
        resource: row.expect("plugins require objects of built-in kinds"),
        custom: None,
        subresource: "",
        namespace: meta::namespace(object).to_owned(),
        name: String::new(),
    };
    let options = WriteOptions { field_manager: "kstore-apiserver".into(), ..WriteOptions::default() };
    own_request(target, Action::Create(Body::json(object.to_string().into()), options))
}
