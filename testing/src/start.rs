//! The start of clusters.

use crate::builder::StartError;
use crate::cluster::Cluster;
use crate::components::Builder;
use crate::faults::FaultInjector;
use kstore_api::kind::OptIn;
use kstore_cluster::{ControlPlane, SchedulerSettings};

impl Builder {
    /// Starts the cluster on the current tokio runtime. On return the API serves requests and all manifests are applied; nodes and
    /// controllers may still be starting.
    ///
    /// # Panics
    /// If it cannot start; [`Self::try_start`] returns the error.
    pub async fn start(self) -> Cluster {
        self.try_start().await.unwrap_or_else(|error| panic!("the cluster cannot start: {error}"))
    }

    /// Starts the cluster like [`Self::start`], but returns the error.
    ///
    /// # Errors
    /// The API server refuses a manifest, or the store or the API server cannot start. Everything that had started is stopped.
    pub async fn try_start(self) -> Result<Cluster, StartError> {
        let (manifests, faults) = (self.manifests.clone(), self.faults.clone());
        let opt_in = OptIn::apis(self.version, self.apis.iter().map(String::as_str))?;
        let schedules_gangs = opt_in.has("scheduling.k8s.io", "podgroups");
        let scheduler_settings = SchedulerSettings::read(self.scheduler_file.as_deref(), schedules_gangs)?;
        let builder = Self { opt_in, scheduler_settings, ..self };
        let (injector, tokens) = (FaultInjector::new(None), builder.tokens());
        let (server, config) = (builder.server_config(tokens.clone()), builder.cluster_config(&injector));
        let plane = ControlPlane::start(server, config).await?;
        let cluster = Cluster::new(plane, builder, injector, tokens);
        for manifest in &manifests {
            if let Err(error) = cluster.apply(manifest).await {
                cluster.stop().await;
                return Err(error.into());
            }
        }
        cluster.set_faults(faults);
        Ok(cluster)
    }
}

impl Cluster {
    /// Starts a cluster with controllers, a scheduler and one node, in real time.
    ///
    /// # Panics
    /// If the cluster cannot start.
    pub async fn start() -> Self {
        Builder::default().start().await
    }
}
