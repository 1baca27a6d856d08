//! [`ControllerRevisions`]: cache of the ControllerRevisions, shared by the StatefulSet and DaemonSet
//! controllers.

use crate::caches::{LookupKey, Sources, Watched, candidates};
use crate::claim::{ControlledObject as _, controller_of};
use crate::resource::resource_of;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Builder, Index, Informer, Key, View};
use std::ops::Deref;
use std::sync::Arc;

/// Cache of all ControllerRevisions.
#[derive(Clone)]
pub(crate) struct ControllerRevisions {
    informer: Informer<Obj<ControllerRevision>>,
    /// Index by controller and label.
    by_lookup_key: Index<Obj<ControllerRevision>, LookupKey>,
}

impl Watched for ControllerRevisions {
    fn start(from: &Sources<'_>) -> Self {
        let by_lookup_key =
            Index::new(|revision: &Obj<ControllerRevision>, emit: &mut dyn FnMut(LookupKey)| {
                let namespace = revision.metadata.namespace.as_deref().unwrap_or_default();
                LookupKey::emit(&**revision, namespace, emit);
            });
        let source = from.multi.trimmed::<ControllerRevision>(WatchParams::default());
        let builder = Builder::new(source).index(&by_lookup_key);
        let resource = resource_of::<ControllerRevision>();
        Self { informer: from.start("controllerrevisions", Some(resource), builder), by_lookup_key }
    }
}

impl Deref for ControllerRevisions {
    type Target = Informer<Obj<ControllerRevision>>;
    fn deref(&self) -> &Informer<Obj<ControllerRevision>> {
        &self.informer
    }
}

impl ControllerRevisions {
    /// The revisions in `view` that the owner `me` may claim.
    pub(crate) fn candidates(
        &self,
        view: &View<Obj<ControllerRevision>>,
        me: &ObjectMeta,
        wanted: &LabelSelector,
    ) -> Vec<Arc<Obj<ControllerRevision>>> {
        candidates(view, &self.by_lookup_key, me, wanted)
    }
}

/// The controller of a revision, if it has this kind.
pub(crate) fn owner_of(revision: &ControllerRevision, kind: &str) -> Option<Key> {
    let owner = controller_of(revision.owners()).filter(|owner| owner.kind == kind)?;
    Some(Key::new(revision.metadata.namespace.as_deref().unwrap_or_default(), &owner.name))
}
