//! The start of a control plane from its configuration.

use crate::config::{ClusterConfig, InitialObjects};
use crate::control_plane::{ControlPlane, Origin, Starting};
use crate::initial;
use kstore_apiserver::{ServerConfig, ServerImage};

impl ControlPlane {
    /// Starts a control plane on the current tokio runtime: the storage, the API server, then the components. On return the API answers
    /// requests; components may still be starting.
    ///
    /// `stop` and `local_components` of the API server's configuration are replaced by what follows from `config`.
    ///
    /// # Errors
    /// The storage or the API server does not start. Everything that had started ends, as it does if the caller drops the future.
    pub fn start(server: ServerConfig, config: ClusterConfig) -> Starting<'static> {
        Box::pin(async move {
            let mut plane = Self::start_api(server, config).await?;
            plane.run_components();
            Ok(plane)
        })
    }

    /// Starts like [`Self::start`], but leaves the start of components to [`Self::run_components`]: for a caller that has to do something
    /// between, such as opening its listeners.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub fn start_api(server: ServerConfig, config: ClusterConfig) -> Starting<'static> {
        Box::pin(async move {
            let shares = config.initial_objects == InitialObjects::Shared;
            if shares && initial::may_share(&server, &config.storage) {
                let image = initial::image(server.nondet.clock.is_simulated()).await?;
                return image.start_new(server, config).await;
            }
            Self::assemble(Origin::default(), server, config).await
        })
    }

    /// Starts like [`Self::start_api`], but with the memory of another API server, whose configuration should equal `server`. The storage
    /// of the configuration must be a copy of the other one's that was made after the image: see
    /// [`kstore_apiserver::ApiServer::start_from`]. [`ControlPlaneImage`](crate::ControlPlaneImage) has both.
    ///
    /// # Errors
    /// See [`Self::start`]. The storage lacks the history since the image.
    pub fn start_api_from(image: &ServerImage, server: ServerConfig, config: ClusterConfig) -> Starting<'_> {
        Box::pin(Self::assemble(Origin { image: Some(image), ..Origin::default() }, server, config))
    }
}
