//! Initializers, the alpha plugin of Kubernetes 1.7 to 1.13: new objects wait for the initializers of their
//! resource, and only users with the verb `initialize` change an object that waits. It runs after mutating
//! webhooks. The rules are in `kstore_api::initializers`; `pipeline::initialization` waits and deletes.

use crate::dynamic::Admitted;
use crate::plugin::{Cluster, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::initializers::{self, GROUP, Initializers as Waiting, PLURAL, VERSION};
use kstore_api::meta;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::kinds::Kinds;
use kstore_registry::undecided::Undecided;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

/// The annotation of pods that a kubelet runs from a file: they run already, so that nothing can initialize them.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    subresources: &[],
    completes: &[Operation::Create, Operation::Update],
    // An authorization webhook may decide who initializes.
    may_wait: true,
    initializes: true,
    served: Kinds::with_initializers,
    ..Row::new("Initializers", || Arc::<Initializers>::default())
};

/// The plugin, with the stored InitializerConfigurations, which are read again when one changes.
#[derive(Default)]
struct Initializers(Mutex<(i64, Arc<[Arc<Value>]>)>);

impl Plugin for Initializers {
    /// Sets the initializers of a new object, or checks the change of an object that waits for some.
    fn complete(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let (subject, admitted) = (review.subject, review.admitted);
        match (subject.operation, subject.subresource, review.old) {
            (Operation::Create, "", _) => self.begin(review.cluster, admitted, new),
            (Operation::Update, "", Some(old)) => advance(admitted, new, old),
            (_, _, Some(old)) => {
                initializers::carry(new, old);
                Ok(())
            }
            (_, _, None) => Ok(()),
        }
    }
}

impl Initializers {
    /// Sets the initializers of a new object, unless its creator has chosen them.
    fn begin(
        &self,
        cluster: &dyn Cluster,
        admitted: &Admitted<'_>,
        new: &mut Value,
    ) -> Result<(), Undecided> {
        if let Some(chosen) = decoded(new)? {
            permit(admitted, "create with initializers denied")?;
            chosen.write(new);
            if !chosen.is_empty() {
                refuse_invalid(admitted, &chosen.validate())?;
            }
            return Ok(());
        }
        let Resource { group, version, plural, .. } = *admitted.subject.resource;
        let is_pod = (group, plural) == ("", "pods");
        if is_pod && meta::annotation(new, MIRROR).is_some() {
            return Ok(());
        }
        let configurations = self.now(cluster);
        let configurations = configurations.iter().map(|configuration| &**configuration);
        Waiting::waiting_for(initializers::names_for(configurations, (group, version, plural))).write(new);
        Ok(())
    }

    /// The configurations in the order of their names.
    fn now(&self, cluster: &dyn Cluster) -> Arc<[Arc<Value>]> {
        let Some(kind) = cluster.kinds().lookup(GROUP, VERSION, PLURAL) else { return Arc::default() };
        // Read before the objects: a change in between is read next time.
        let version = cluster.version(kind.resource);
        let mut known = self.0.lock();
        if known.0 != version {
            *known = (version, cluster.list(kind.resource, "").into());
        }
        known.1.clone()
    }
}

/// Checks the change of an object: one that is initialized stays so, and one that waits is changed only with
/// permission.
fn advance(admitted: &Admitted<'_>, new: &mut Value, old: &Value) -> Result<(), Undecided> {
    let before = decoded(old)?;
    let mut after = decoded(new)?;
    if after.as_ref().is_some_and(Waiting::is_empty) {
        // Manifests of initializers themselves have an empty list.
        initializers::take(new);
        after = None;
    }
    if before.is_none() && after.is_none() {
        return Ok(());
    }
    refuse_invalid(admitted, &Waiting::validate_update(after.as_ref(), before.as_ref()))?;
    permit(admitted, "update to uninitialized resource denied")
}

fn decoded(object: &Value) -> Result<Option<Waiting>, Status> {
    Waiting::of(object).map_err(Status::bad_request)
}

/// 403 unless the user may initialize the resource.
fn permit(admitted: &Admitted<'_>, denied: &str) -> Result<(), Undecided> {
    let decision = admitted.calls.may(&admitted.subject, "initialize")?;
    if decision.allowed {
        return Ok(());
    }
    Err(admitted.subject.forbidden(&format!("{denied}: {}", decision.reason)).into())
}

/// 422 if there are errors.
fn refuse_invalid(admitted: &Admitted<'_>, errors: &kstore_api::field::ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let Resource { group, kind, .. } = *admitted.subject.resource;
    Err(Status::invalid(group, kind, admitted.subject.name, errors))
}
