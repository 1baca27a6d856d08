//! Delete and delete-collection, as the pipeline tells them.

use super::{Answer, ObjectAnswer, Pipeline};
use crate::admission::dynamic::{Admitted, Calls, Options};
use crate::admission::{Operation, Subject};
use crate::cache::Entry;
use crate::kinds::CustomKind;
use crate::registry::Deleted;
use crate::request::{DeleteOptions, ListOptions, Request, Target, WriteOptions};
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
        // A kind that does not return its objects answers with a Status once the object is gone.
        if deleted.gone && !resource.returns_deleted {
            let status = Status::deleted(resource, deleted.entry.name(), deleted.entry.uid());
            return Ok(Answer::Status { status, revision: deleted.entry.revision });
        }
        Ok(Answer::Object(ObjectAnswer { removed: deleted.gone, ..ObjectAnswer::of(deleted.entry) }))
    }

    /// Deletes what matches, object by object; what is already gone is skipped, the first other failure ends it.
    pub(super) async fn delete_collection(
        &self,
        request: &Request,
        list: &ListOptions,
        delete: &DeleteOptions,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        warnings.extend(warning(request, delete));
        // All that matches is one list, not pages of a revision: on a slow disk, deletions outlast a short history.
        let listed = self.list_selected(&request.target, list).await?;
        for entry in &listed.items {
            let target = Target {
                namespace: entry.namespace().to_owned(),
                name: entry.name().to_owned(),
                ..request.target.clone()
            };
            let calls = self.admission.calls(&request.user);
            // Admission hears of the request, which names no object.
            let deleted = self.delete_one(request, (&target, ""), delete, options, &calls).await;
            warnings.extend(calls.warnings());
            match deleted {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(Answer::List(listed))
    }

    /// Deletes an object of a custom kind whose definition goes: no admission is asked, as in Kubernetes. What is gone already counts as
    /// deleted.
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
        match self.registry.delete(&target, &delete, self.mandate(&request), false, |_| Ok(())).await {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }

    /// Deletes one object, which admission is told the name `named` of. Webhooks see what `calls` has.
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
            // Webhooks see the version of the request.
            match admitted.may_match() {
                false => self.admission(request).validate(&admitted, None, Some(current)),
                true => {
                    let current = target.in_version(current.clone());
                    let current = current.map_err(|status| self.undecided(target, status))?;
                    self.admission(request).validate(&admitted, None, Some(&current))
                }
            }
        };
        self.registry.delete(target, delete, self.mandate(request), options.dry_run, admit).await
    }
}

/// Who deletes a Job without a word about its pods is told that they stay.
fn warning(request: &Request, delete: &DeleteOptions) -> Option<String> {
    let resource = request.target.resource;
    let is_job = (resource.group, resource.plural) == ("batch", "jobs");
    (is_job && delete.propagation.is_none()).then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
            propagationPolicy=Orphan to suppress this warning"
            .to_owned()
    })
}
