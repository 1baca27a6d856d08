//! Creation of missing namespaces of new objects, for the plugin NamespaceAutoProvision.

use super::Pipeline;
use futures::future::BoxFuture;
use kstore_api::status::{Reason, Status};
use kstore_registry::error;
use kstore_registry::registry::namespaces;
use kstore_registry::request::{Action, Body, Request, Target, WriteOptions, own_request};
use serde_json::json;

impl Pipeline {
    /// Creates the namespace of a new object if it does not exist, as the server itself. In a transaction the
    /// namespace becomes part of the transaction. A dry run creates nothing.
    ///
    /// # Errors
    /// 403 if the namespace cannot be created.
    pub(super) fn provision_namespace<'a>(
        &'a self,
        request: &'a Request,
        target: &'a Target,
        is_dry_run: bool,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let name = &target.namespace;
            if is_dry_run || name.is_empty() || !target.resource.namespaced {
                return Ok(());
            }
            let key = namespaces().storage_key("", name);
            if self.view(request).get(namespaces(), &key).is_some() {
                return Ok(());
            }
            let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            let options =
                WriteOptions { field_manager: "kstore-apiserver".into(), ..WriteOptions::default() };
            let namespace = Target {
                resource: namespaces(),
                custom: None,
                subresource: "",
                namespace: String::new(),
                name: String::new(),
            };
            let create = Action::Create(Body::json(object.to_string().into()), options);
            let create = Request { stage: request.stage.clone(), ..own_request(namespace, create) };
            // The request that needs the namespace has a permit or a seat for both.
            match self.serve_with(create, true).await {
                Ok(_) => {}
                Err(refused) if refused.status.reason == Reason::AlreadyExists => {}
                Err(refused) => {
                    let text = &refused.status.message;
                    return Err(Status::forbidden(target.resource, &target.name, text));
                }
            }
            self.cache().fresh().await.map_err(error::of_read)?;
            Ok(())
        })
    }
}
