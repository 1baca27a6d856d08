//! Prepares the cluster of a scenario: definitions and objects are applied, the cluster comes to rest, and its image is taken.

use super::PreparedLab;
use crate::scenario::Scenario;
use crate::sources::Sources;
use futures::future::BoxFuture;
use kstore_client::manifest::Applier;
use kstore_lab::FrontProxyKeys;
use kstore_lab::clock::Mode;
use kstore_lab::host::ComponentChoice;
use kstore_lab::programs::private_folder;
use kstore_lab::settle::{Settle, settle};
use kstore_lab::template::DefaultTemplate;
use kstore_lab::{Lab, LabConfig, LabError, MAIN, limits as lab_limits, objects};
use std::path::PathBuf;
use std::sync::Arc;

/// What a search is of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The scenario.
    pub scenario: Scenario,
    /// Its files.
    pub sources: Sources,
    /// Folder in which relative commands are looked for.
    pub folder: PathBuf,
    /// Command of operators that have none.
    pub command: Vec<String>,
    /// Seed of the cluster's own random values.
    pub seed: u64,
}

/// A cluster cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The lab does not start.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The cluster refused an object, or ended.
    #[error("the cluster cannot be prepared: {0}")]
    Refused(String),
    /// No folder for runs can be made.
    #[error("no folder for runs can be made: {0}")]
    Io(#[from] std::io::Error),
}

impl PreparedLab {
    /// Prepares a cluster.
    ///
    /// # Errors
    /// See [`PrepareError`].
    /// Boxed here, so that no crate above generates the code again.
    pub fn prepare(setup: Setup) -> BoxFuture<'static, Result<Self, PrepareError>> {
        Box::pin(async move {
            let Setup { scenario, sources, folder, command, seed } = setup;
            let parts = &scenario.cluster;
            let components = ComponentChoice {
                controllers: parts.controllers,
                scheduler: parts.scheduler,
                nodes: parts.nodes,
            };
            // API servers of operators trust who is named by the front proxy's certificate alone.
            let front_proxy = match parts.services.is_empty() {
                true => None,
                false => Some(Arc::new(
                    FrontProxyKeys::new().map_err(|error| PrepareError::Refused(error.to_string()))?,
                )),
            };
            let template = DefaultTemplate {
                controllers: parts.only_controllers.clone(),
                front_proxy: front_proxy.clone(),
            };
            let config = LabConfig {
                components,
                mode: Mode::Manual,
                seed: Some(seed),
                template: Arc::new(template),
                ..LabConfig::default()
            };
            let lab = Lab::start(config).await?;
            let refused = |problem: String| PrepareError::Refused(problem);
            let main = lab.cluster(MAIN).map_err(|status| refused(status.message))?;
            let current = main.current().map_err(|status| refused(status.message))?;
            let (running, prepared) = (current.running().clone(), sources.prepared.clone());
            let cluster = running.clone();
            let applying = running.call(async move {
                let applier = Applier::new(&objects::client(&cluster));
                for object in prepared {
                    applier.create_or_apply(object).await.map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            });
            applying.await.map_err(|ended| refused(ended.to_string()))?.map_err(refused)?;
            let how = Settle { limit: lab_limits::SETTLE, patience: lab_limits::PATIENCE, is_virtual: true };
            let settled = settle(current.bridge.settling(), how).await;
            let settled = settled.map_err(|status| refused(status.message))?;
            if !settled.settled {
                let busy: Vec<String> = settled.busy.iter().map(|busy| busy.line()).collect();
                return Err(refused(format!("it does not come to rest: {}", busy.join("; "))));
            }
            let image = main.image("prepared").await.map_err(|status| refused(status.message))?;
            let image = lab.keep_image(image).map_err(|status| refused(status.message))?;
            // It goes with the process, also if that is killed.
            let runs = private_folder("explore")?;
            let scratch = tempfile::Builder::new().prefix("runs-").tempdir_in(runs)?;
            Ok(Self { lab, image, scenario, sources, folder, command, front_proxy, scratch })
        })
    }
}
