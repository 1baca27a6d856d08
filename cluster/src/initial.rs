//! Initial objects of clusters, such as namespaces, roles and flow control. Creating them takes most of a start, so the first control plane
//! of the process creates them and later ones share them through an image.

use crate::config::{ClusterConfig, server_without_listener};
use crate::control_plane::{ControlPlane, Origin, StartError};
use crate::image::ControlPlaneImage;
use crate::storage::Storage;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::AuthoritiesConfig;
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use std::sync::Arc;

/// The seed of the initial objects of all control planes in virtual time.
const VIRTUAL: u64 = 0;

/// Images of API servers with only initial objects: of control planes in real time, and of those in virtual time.
static IMAGES: [Mutex<Option<Arc<ControlPlaneImage>>>; 2] = [Mutex::new(None), Mutex::new(None)];

/// Whether the image has the objects that this API server would create in this storage.
pub(crate) fn may_share(server: &ServerConfig, storage: &Storage) -> bool {
    let Storage::Embedded(store) = storage else { return false };
    let base = server_without_listener(&server.nondet);
    let AuthoritiesConfig { client_ca, front_proxy_ca, front_proxies } = &server.authorities;
    let has_authorities = client_ca.is_some() || front_proxy_ca.is_some() || front_proxies.is_some();
    store.dir.is_none()
        && !has_authorities
        && server.network.advertised == base.network.advertised
        && !server.network.leaves_endpoints
        && server.registry.service_ranges == base.registry.service_ranges
        && server.admission.switches == base.admission.switches
        && server.opt_in == base.opt_in
        && server.storage.encryption.is_none()
}

/// Returns an image of a control plane with only initial objects, which all seeds share. If the process has none, it starts such a control
/// plane on the current runtime. Concurrent callers do not wait for each other, because in virtual time a wait for another runtime would let
/// timers fire.
pub(crate) async fn image(is_simulated: bool) -> Result<Arc<ControlPlaneImage>, StartError> {
    let kept = &IMAGES[usize::from(is_simulated)];
    let found = kept.lock().clone();
    if let Some(image) = found {
        return Ok(image);
    }
    let nondet = if is_simulated { Nondet::simulated(VIRTUAL) } else { Nondet::real() };
    let server = server_without_listener(&nondet);
    let plane = ControlPlane::assemble(Origin::default(), server, ClusterConfig::default());
    let plane = Box::pin(plane).await?;
    let image =
        Arc::new(plane.image().expect("a control plane in memory that has just started has not ended"));
    plane.end(None).await;
    Ok(kept.lock().get_or_insert(image).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind::OptIn;
    use kstore_apiserver::config::RegistryConfig;

    #[tokio::test(start_paused = true)]
    async fn all_seeds_share_one_image_and_real_time_has_its_own() {
        let of = async |is_simulated| image(is_simulated).await.unwrap();
        assert!(Arc::ptr_eq(&of(true).await, &of(true).await));
        assert!(Arc::ptr_eq(&of(false).await, &of(false).await));
        assert!(!Arc::ptr_eq(&of(false).await, &of(true).await));
    }

    #[test]
    fn servers_with_other_initial_objects_do_not_share_them() {
        let (nondet, memory) = (Nondet::real(), Storage::default());
        let base = || server_without_listener(&nondet);
        assert!(may_share(&base(), &memory));
        assert!(!may_share(&ServerConfig::default(), &memory), "another address");
        assert!(!may_share(&ServerConfig { opt_in: OptIn::all(), ..base() }, &memory));
        let client_ca = Some("PEM".to_owned());
        let authorities = AuthoritiesConfig { client_ca, ..AuthoritiesConfig::default() };
        assert!(!may_share(&ServerConfig { authorities, ..base() }, &memory));
        let service_ranges = "10.9.0.0/24".parse().unwrap();
        let registry = RegistryConfig { service_ranges, ..RegistryConfig::default() };
        assert!(!may_share(&ServerConfig { registry, ..base() }, &memory));
        let disk = Storage::Embedded(Box::new(kstore_store::Config::durable("dir")));
        assert!(!may_share(&base(), &disk));
    }
}
