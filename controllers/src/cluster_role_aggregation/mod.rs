//! ClusterRole aggregation: fills ClusterRoles with an aggregation rule, such as `admin`, `edit`, `view` and
//! those of users. `plan` decides; this file reads the cache and executes the plan.
//!
//! Follows `syncClusterRole`.

mod plan;
mod role;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use kstore_informer::{Action as Next, Context, Informer, Key, Object};
use role::Role;
use std::sync::Arc;

const WORKERS: usize = 5;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let roles = cluster.caches.get::<Informer<Role>>();
    let all = roles.clone();
    let controller = cluster
        .controller("clusterrole-aggregation")
        // A changed role may match or have matched any aggregated role.
        .watch(&roles, move |_: &Role| aggregating(&all))
        .workers(WORKERS);
    let executor = cluster.executor("clusterrole-aggregation-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Aggregation { roles, executor })
}

/// The ClusterRoles with an aggregation rule.
fn aggregating(roles: &Informer<Role>) -> Vec<Key> {
    roles.list().iter().filter(|role| role.aggregation_rule.is_some()).map(Object::key).collect()
}

struct Aggregation {
    roles: Informer<Role>,
    executor: Executor,
}

impl Reconcile for Aggregation {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(role) = self.roles.get(&cx.key) else { return Ok(Next::Done) };
        let all = self.roles.list();
        let all: Vec<&Role> = all.iter().map(|role| &**role).collect();
        if let Some(action) = plan::plan(&role, &all) {
            self.executor.execute(&cx, &[action]).await.result()?;
        }
        Ok(Next::Done)
    }
}
