//! [`Cluster::fork`]: copies of a prepared cluster. The objects, their history and what the API server knows of them are shared until one
//! of the clusters changes them. Not a copy of what clients know: connections and watches stay where they are.

use crate::Cluster;
use crate::builder::Origin;
use kstore_nondet::{Nondet, Rng};
use kstore_store::{ImageError, Store};

/// Why a cluster has no fork.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The cluster has ended.
    #[error("the cluster cannot be copied: {0}")]
    Image(#[from] ImageError),
    /// The API server of the fork did not start.
    #[error(transparent)]
    ApiServer(#[from] kstore_apiserver::StartError),
}

impl Cluster {
    /// A copy of this cluster as it is now, with its own API server, controllers, scheduler and nodes. Writes to either are not seen in the
    /// other. Its cost does not depend on the number of objects, except that controllers, scheduler and nodes, if there are any, read
    /// the objects that they act on; they begin to do so after the fork is returned.
    ///
    /// Revisions continue, so a client may resume a watch of this cluster in the fork. Watches and ports are not inherited. Leases of the
    /// store have the time left that they have here. Stopped nodes run again. Keys for tokens are shared. Faults in force
    /// are in force there, too, from their beginning. In virtual time
    /// the clock goes on from this cluster's, and every fork of one cluster draws the same random values: tests that begin with a
    /// fork do not depend on each other's order.
    ///
    /// # Panics
    /// If the cluster cannot be copied; [`Self::try_fork`] returns the error.
    pub async fn fork(&self) -> Self {
        self.try_fork().await.unwrap_or_else(|error| panic!("the cluster has no fork: {error}"))
    }

    /// As [`Self::fork`].
    ///
    /// # Errors
    /// If the store of the cluster has closed.
    pub async fn try_fork(&self) -> Result<Self, ForkError> {
        let parts = &self.parts;
        let generation = parts.generation + 1;
        let label = format!("fork-{generation}");
        let rng = match parts.builder.seed {
            Some(seed) => Rng::seeded(seed).fork(&label),
            None => parts.nondet.rng.fork(&label),
        };
        let nondet = Nondet { clock: parts.nondet.clock, rng };
        // Before the image of the store, which so has the history since then.
        let image = parts.api.image();
        let store = Store::from_image(&parts.store.image()?, &nondet);
        let faults = parts.edge.faults();
        let origin = Origin { store, image: Some(image), tokens: parts.tokens.clone(), generation, faults };
        Ok(parts.builder.clone().assemble(nondet, origin).await?)
    }
}
