//! [`ControllerRevisions`]: cache of the ControllerRevisions, shared by the StatefulSet and DaemonSet
//! controllers.

use crate::caches::{LookupKey, Sources, Watched};
use crate::claim::ControlledObject as _;
use crate::claim::controller_of;
use crate::resource::resource_of;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Builder, Index, Informer, Key, View};
use std::ops::Deref;
use std::sync::Arc;

/// Cache of all ControllerRevisions.
#[derive(Clone)]
pub(crate) struct ControllerRevisions {
    informer: Informer<Obj<ControllerRevision>>,
    /// Index by controller or namespace.
    held: Index<Obj<ControllerRevision>, LookupKey>,
}

impl Watched for ControllerRevisions {
    fn start(from: &Sources<'_>) -> Self {
        let held = Index::new(|revision: &Obj<ControllerRevision>, emit: &mut dyn FnMut(LookupKey)| {
            emit(LookupKey::of(&**revision, revision.metadata.namespace.as_deref().unwrap_or_default()));
        });
        let source = from.multi.source::<ControllerRevision>(WatchParams::default());
        let builder = Builder::new(source).index(&held);
        let resource = resource_of::<ControllerRevision>();
        Self { informer: from.start("controllerrevisions", Some(resource), builder), held }
    }
}

impl Deref for ControllerRevisions {
    type Target = Informer<Obj<ControllerRevision>>;
    fn deref(&self) -> &Informer<Obj<ControllerRevision>> {
        &self.informer
    }
}

impl ControllerRevisions {
    /// The revisions in `view` owned by this uid, and the orphans of its namespace.
    pub(crate) fn candidates(
        &self,
        view: &View<Obj<ControllerRevision>>,
        uid: &str,
        namespace: &str,
    ) -> Vec<Arc<Obj<ControllerRevision>>> {
        let keys = [LookupKey::Controller(uid.to_owned()), LookupKey::Orphan(namespace.to_owned())];
        keys.iter().flat_map(|key| view.by(&self.held, key).cloned().collect::<Vec<_>>()).collect()
    }
}

/// The controller of a revision, if it has this kind.
pub(crate) fn owner_of(revision: &ControllerRevision, kind: &str) -> Option<Key> {
    let owner = controller_of(revision.owners()).filter(|owner| owner.kind == kind)?;
    Some(Key::new(revision.metadata.namespace.as_deref().unwrap_or_default(), &owner.name))
}
