//! Delete and deletecollection: admission inside the registry's deletion, with the answers and warnings of
//! Kubernetes.

use super::custom::TargetRules as _;
use super::{Answer, ObjectAnswer, Pipeline};
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use kstore_access::audit;
use kstore_access::authz::{self, Decision};
use kstore_admission::Subject;
use kstore_admission::dynamic::{Admitted, Calls, Options};
use kstore_api::admission::Operation;
use kstore_api::admission::review::AuditAnnotation;
use kstore_api::meta;
use kstore_api::status::{Details, Status};
use kstore_registry::decode::delete_options::unsafe_refused;
use kstore_registry::entry::Entry;
use kstore_registry::error;
use kstore_registry::kinds::CustomKind;
use kstore_registry::registry::{Deleted, Shown, has_plain_deletion};
use kstore_registry::request::{DeleteOptions, ListOptions, Request, Target, UnsafeDeletion, WriteOptions};
use kstore_registry::undecided::Undecided;
use kstore_storage::limits::{COLLECTION_BATCH, COLLECTION_BATCHES, COLLECTION_DELETES};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The verb that a caller needs beside `delete` to remove an object that cannot be read.
const UNSAFE_VERB: &str = "unsafe-delete-ignore-read-errors";

impl Pipeline {
    pub(super) async fn delete(
        &self,
        request: &Request,
        delete: &DeleteOptions,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let delete = &self.served_options(delete);
        if let Some(unsafe_deletion) = &delete.unsafe_deletion {
            self.permit_unsafe_deletion(request, unsafe_deletion).await?;
        }
        warnings.extend(warning(request, delete));
        let calls = self.admission.calls(&request.user);
        let deletion = Deletion { named: &request.target.name, delete, options, calls: &calls };
        let deleted = self.delete_one(request, &request.target, deletion).await;
        warnings.extend(calls.warnings());
        let deleted = deleted?;
        let resource = request.target.resource;
        if delete.unsafe_deletion.is_some() {
            let mut status = Status::success(200);
            let (name, kind) = (request.target.name.clone(), resource.kind.to_owned());
            status.details = Some(Box::new(Details { name, kind, ..Details::default() }));
            return Ok(Answer::Status { status, revision: deleted.entry.revision });
        }
        // Kinds that do not return deleted objects answer with a Status once the object is removed.
        if deleted.gone && !resource.returns_deleted {
            let status = Status::deleted(resource, deleted.entry.name(), deleted.entry.uid());
            return Ok(Answer::Status { status, revision: deleted.entry.revision });
        }
        Ok(Answer::Object(ObjectAnswer { removed: deleted.gone, ..ObjectAnswer::of(deleted.entry) }))
    }

    /// The options without those of features that this server does not have, as a kube-apiserver drops them.
    fn served_options<'d>(&self, delete: &'d DeleteOptions) -> Cow<'d, DeleteOptions> {
        match delete.unsafe_deletion.is_some() && !self.cache().reports_unreadable() {
            true => Cow::Owned(DeleteOptions { unsafe_deletion: None, ..delete.clone() }),
            false => Cow::Borrowed(delete),
        }
    }

    /// Checks whether the caller may delete an object without reading it. The audit log records that it asked.
    async fn permit_unsafe_deletion(
        &self,
        request: &Request,
        unsafe_deletion: &UnsafeDeletion,
    ) -> Result<(), Status> {
        if let Some(option) = unsafe_deletion.contradictions.first() {
            return Err(unsafe_refused(&format!("cannot be set together with .{option}")));
        }
        if let Some(trail) = audit::current() {
            let key = "apiserver.k8s.io/unsafe-delete-ignore-read-error".to_owned();
            trail.annotate(vec![AuditAnnotation { key, value: String::new() }]);
        }
        let Target { resource, namespace, name, .. } = &request.target;
        let target = authz::Target::Resource {
            group: resource.group,
            resource: resource.plural,
            subresource: "",
            namespace,
            name,
        };
        let more = authz::More { version: resource.version, selects: None };
        let attributes = authz::Attributes { user: &request.user, verb: UNSAFE_VERB, target, more };
        self.cache().fresh().await.map_err(error::of_read)?;
        match self.authorizer.decide(&attributes).await {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(why) | Decision::Deny(why) => {
                let text = format!("not permitted to do {UNSAFE_VERB:?}, reason: {why}");
                Err(Status::forbidden(*resource, name, &text))
            }
        }
    }

    /// Deletes the matching objects: many in one group of commits ([`COLLECTION_BATCH`]) if nothing has to judge them one by
    /// one, else several concurrently ([`COLLECTION_DELETES`]). Skips objects that are already gone; the first other
    /// failure ends it.
    pub(super) async fn delete_collection(
        &self,
        request: &Request,
        list: &ListOptions,
        delete: &DeleteOptions,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let delete = &self.served_options(delete);
        if delete.unsafe_deletion.is_some() {
            let problem = "is not allowed with DELETECOLLECTION, try again after removing the option";
            return Err(unsafe_refused(problem));
        }
        warnings.extend(warning(request, delete));
        let mut listed = self.list_selected(&request.target, list).await?;
        // On a slow disk the deletions of a page may outlast the history that its successor would need.
        listed.continue_at_newest();
        let calls = self.admission.calls(&request.user);
        let may_match = calls.may_match(Operation::Delete, request.target.resource);
        let together = !options.dry_run && !may_match && has_plain_deletion(&request.target);
        let (size, concurrent) =
            if together { (COLLECTION_BATCH, COLLECTION_BATCHES) } else { (1, COLLECTION_DELETES) };
        let deletion = Deletion { named: "", delete, options, calls: &calls };
        let mut chunks = listed.items.chunks(size);
        let mut deletions = FuturesOrdered::new();
        loop {
            for chunk in chunks.by_ref().take(concurrent - deletions.len()) {
                deletions.push_back(self.delete_listed(request, chunk, deletion, together).boxed());
            }
            let Some((deleted, warned)) = deletions.next().await else { break };
            warnings.extend(warned);
            deleted?;
        }
        warnings.extend(calls.warnings());
        drop(deletions);
        Ok(Answer::List(listed))
    }

    /// Deletes objects of a collection, with `together` in one group of commits if possible. Also returns the warnings of their
    /// single deletions. Admission sees the collection request, which names no object.
    async fn delete_listed(
        &self,
        request: &Request,
        entries: &[Arc<Entry>],
        deletion: Deletion<'_>,
        together: bool,
    ) -> (Result<(), Status>, Vec<String>) {
        let target = |entry: &Arc<Entry>| Target {
            namespace: entry.namespace().to_owned(),
            name: entry.name().to_owned(),
            ..request.target.clone()
        };
        let targets: Vec<Target> = entries.iter().map(target).collect();
        let mut left = targets.iter().collect();
        if together {
            let admit =
                |target: &Target, current: &Value| self.admit_deletion(request, target, &deletion, current);
            let context = self.write_context(request);
            left = match self.registry.delete_together(&targets, deletion.delete, &context, admit).await {
                Ok(left) => left,
                Err(status) => return (Err(status), Vec::new()),
            };
        }
        let mut warnings = Vec::new();
        for target in left {
            let calls = self.admission.calls(&request.user);
            let deleted = self.delete_one(request, target, Deletion { calls: &calls, ..deletion }).await;
            warnings.extend(calls.warnings());
            match deleted {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return (Err(status), warnings),
            }
        }
        (Ok(()), warnings)
    }

    /// Deletes an object of a custom kind whose definition is being deleted, without admission, as Kubernetes
    /// does. An absent object counts as deleted.
    /// Boxed here, so that no crate above generates the code again.
    pub fn delete_instance<'a>(
        &'a self,
        custom: &'a CustomKind,
        entry: &'a Entry,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let request = super::definition::status_request(&custom.definition.name);
            let target = Target {
                resource: custom.storage_row(),
                custom: None,
                subresource: "",
                namespace: entry.namespace().to_owned(),
                name: entry.name().to_owned(),
            };
            let delete = DeleteOptions::default();
            match self
                .registry
                .delete(&target, &delete, self.write_context(&request), false, |_| Ok(()))
                .await
            {
                Err(status) if status.code != 404 => Err(status),
                _ => Ok(()),
            }
        })
    }

    /// Deletes one object.
    pub(super) async fn delete_one(
        &self,
        request: &Request,
        target: &Target,
        deletion: Deletion<'_>,
    ) -> Result<Deleted, Status> {
        let Deletion { delete, options, calls, .. } = deletion;
        let admit = |current: &Value| self.admit_deletion(request, target, &deletion, current);
        let shown = match calls.may_match(Operation::Delete, target.resource) {
            true => Shown::Whole,
            false => Shown::Parts,
        };
        let context = self.write_context(request);
        self.registry.delete_showing(shown, target, delete, context, options.dry_run, admit).await
    }

    /// Admits the deletion of an object in this state.
    fn admit_deletion(
        &self,
        request: &Request,
        target: &Target,
        deletion: &Deletion<'_>,
        current: &Value,
    ) -> Result<(), Undecided> {
        deletion.calls.begin(meta::resource_version(current));
        let admitted = Admitted {
            subject: Subject {
                user: &request.user,
                operation: Operation::Delete,
                resource: target.resource,
                subresource: "",
                namespace: &target.namespace,
                name: deletion.named,
                seed: 0,
            },
            target,
            options: Options::Delete(deletion.delete, deletion.options),
            calls: deletion.calls,
        };
        // Webhooks see the object in the version of the request.
        let validated = match admitted.may_match() {
            false => self.admission(request).validate(&admitted, None, Some(current)),
            true => {
                let current = target.in_version(current.clone());
                let current = current.map_err(|status| self.undecided(target, status))?;
                self.admission(request).validate(&admitted, None, Some(&current))
            }
        };
        validated.map_err(|undecided| self.awaiting(target, undecided))
    }
}

/// A deletion as admission sees it.
#[derive(Clone, Copy)]
pub(super) struct Deletion<'a> {
    /// The name in the request; empty for a collection.
    pub(super) named: &'a str,
    pub(super) delete: &'a DeleteOptions,
    pub(super) options: &'a WriteOptions,
    /// The webhooks and policies to run.
    pub(super) calls: &'a Calls,
}

/// Kubernetes' warning for the deletion of a Job without a propagation policy: its pods are kept.
fn warning(request: &Request, delete: &DeleteOptions) -> Option<String> {
    let is_job = request.target.resource.is("batch", "jobs");
    (is_job && delete.propagation.is_none()).then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
            propagationPolicy=Orphan to suppress this warning"
            .to_owned()
    })
}
