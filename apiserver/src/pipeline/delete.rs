//! Delete and deletecollection: admission inside the registry's deletion, with the answers and warnings of
//! Kubernetes.

use super::{Answer, ObjectAnswer, Pipeline};
use crate::admission::dynamic::{Admitted, Calls, Options};
use crate::admission::{Operation, Subject};
use crate::cache::Entry;
use crate::kinds::CustomKind;
use crate::limits::COLLECTION_DELETES;
use crate::registry::Deleted;
use crate::request::{DeleteOptions, ListOptions, Request, Target, WriteOptions};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::Value;

impl Pipeline {
    pub(super) async fn delete(
        &self,
        request: &Request,
        delete: &DeleteOptions,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        warnings.extend(warning(request, delete));
        let calls = self.admission.calls(&request.user);
        let name = &request.target.name;
        let deleted = self.delete_one(request, (&request.target, name), delete, options, &calls).await;
        warnings.extend(calls.warnings());
        let deleted = deleted?;
        let resource = request.target.resource;
        // Kinds that do not return deleted objects answer with a Status once the object is removed.
        if deleted.gone && !resource.returns_deleted {
            let status = Status::deleted(resource, deleted.entry.name(), deleted.entry.uid());
            return Ok(Answer::Status { status, revision: deleted.entry.revision });
        }
        Ok(Answer::Object(ObjectAnswer { removed: deleted.gone, ..ObjectAnswer::of(deleted.entry) }))
    }

    /// Deletes the matching objects, several concurrently ([`COLLECTION_DELETES`]). Skips objects that are
    /// already gone; the first other failure ends it.
    pub(super) async fn delete_collection(
        &self,
        request: &Request,
        list: &ListOptions,
        delete: &DeleteOptions,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        warnings.extend(warning(request, delete));
        // One list without pages: on a slow disk the deletions may outlast the history that a continue token
        // needs.
        let listed = self.list_selected(&request.target, list).await?;
        let mut entries = listed.items.iter();
        let mut deletions = FuturesOrdered::new();
        loop {
            for entry in entries.by_ref().take(COLLECTION_DELETES - deletions.len()) {
                let target = Target {
                    namespace: entry.namespace().to_owned(),
                    name: entry.name().to_owned(),
                    ..request.target.clone()
                };
                deletions.push_back(self.delete_listed(request, target, delete, options).boxed());
            }
            let Some((deleted, warned)) = deletions.next().await else { break };
            warnings.extend(warned);
            match deleted {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(Answer::List(listed))
    }

    /// Deletes one object of a collection. Also returns the warnings of its admission, which sees the collection
    /// request, which names no object.
    async fn delete_listed(
        &self,
        request: &Request,
        target: Target,
        delete: &DeleteOptions,
        options: &WriteOptions,
    ) -> (Result<Deleted, Status>, Vec<String>) {
        let calls = self.admission.calls(&request.user);
        let deleted = self.delete_one(request, (&target, ""), delete, options, &calls).await;
        (deleted, calls.warnings())
    }

    /// Deletes an object of a custom kind whose definition is being deleted, without admission, as Kubernetes
    /// does. An absent object counts as deleted.
    pub(crate) async fn delete_instance(&self, custom: &CustomKind, entry: &Entry) -> Result<(), Status> {
        let request = super::definition::own_request(&custom.definition.name);
        let target = Target {
            resource: custom.storage_row(),
            custom: None,
            subresource: "",
            namespace: entry.namespace().to_owned(),
            name: entry.name().to_owned(),
        };
        let delete = DeleteOptions::default();
        match self.registry.delete(&target, &delete, self.write_context(&request), false, |_| Ok(())).await {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }

    /// Deletes one object. Admission sees the name `named`; `calls` are the webhooks and policies to run.
    pub(super) async fn delete_one(
        &self,
        request: &Request,
        (target, named): (&Target, &str),
        delete: &DeleteOptions,
        options: &WriteOptions,
        calls: &Calls,
    ) -> Result<Deleted, Status> {
        let admit = |current: &Value| {
            calls.begin(meta::resource_version(current));
            let admitted = Admitted {
                subject: Subject {
                    user: &request.user,
                    operation: Operation::Delete,
                    resource: target.resource,
                    subresource: "",
                    namespace: &target.namespace,
                    name: named,
                    seed: 0,
                },
                target,
                options: Options::Delete(delete, options),
                calls,
            };
            // Webhooks see the object in the version of the request.
            match admitted.may_match() {
                false => self.admission(request).validate(&admitted, None, Some(current)),
                true => {
                    let current = target.in_version(current.clone());
                    let current = current.map_err(|status| self.undecided(target, status))?;
                    self.admission(request).validate(&admitted, None, Some(&current))
                }
            }
        };
        self.registry.delete(target, delete, self.write_context(request), options.dry_run, admit).await
    }
}

/// Kubernetes' warning for the deletion of a Job without a propagation policy: its pods are kept.
fn warning(request: &Request, delete: &DeleteOptions) -> Option<String> {
    let resource = request.target.resource;
    let is_job = (resource.group, resource.plural) == ("batch", "jobs");
    (is_job && delete.propagation.is_none()).then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
            propagationPolicy=Orphan to suppress this warning"
            .to_owned()
    })
}
