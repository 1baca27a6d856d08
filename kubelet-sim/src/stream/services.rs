//! Services in the network of simulated pods: names and cluster addresses, read from the API whenever a command connects. So nothing runs
//! while no command connects, and a connection never reaches a pod that the API no longer shows.

use super::Streams;
use crate::service::{self, Meaning};
use k8s_openapi::api::core::v1::{Pod, Service};
use kstore_client::ListParams;
use kstore_container_sim::NetworkFailure;
use std::net::{IpAddr, SocketAddr};

impl Streams {
    /// The address that a name means in a namespace.
    pub(super) async fn resolve(&self, name: &str, namespace: &str) -> Option<IpAddr> {
        let mut wanted = service::meanings(name, namespace);
        // A Service may stand for another name, once.
        let mut is_alias = false;
        while !wanted.is_empty() {
            let (host, namespace, name) = match wanted.remove(0) {
                Meaning::Address(address) => return Some(address),
                Meaning::Service(namespace, name) => (None, namespace, name),
                Meaning::PodOf(host, namespace, name) => (Some(host), namespace, name),
            };
            let Ok(service) = self.client.api::<Service>().get(&namespace, &name).await else { continue };
            let spec = service.spec.as_ref()?;
            if let Some(other) = spec.external_name.as_deref().filter(|_| !is_alias) {
                (is_alias, wanted) = (true, service::meanings(other, &namespace));
                continue;
            }
            if service::is_headless(&service) || host.is_some() {
                let pods = self.pods_of(&service).await;
                return self.one_of(&service::addresses(&service, &pods, host.as_deref()));
            }
            return spec.cluster_ip.as_deref()?.parse().ok();
        }
        None
    }

    /// The pod and port behind a cluster address. `None` if no Service has the address.
    pub(super) async fn backend(
        &self,
        to: SocketAddr,
        node: &str,
    ) -> Option<Result<SocketAddr, NetworkFailure>> {
        let params = ListParams::default().fields(&format!("spec.clusterIP={}", to.ip()));
        let (services, _) = self.client.api::<Service>().list("", &params).await.ok()?;
        let service = services.first()?;
        let pods = self.pods_of(service).await;
        let refused = NetworkFailure::Refused(to.ip());
        let all = service::backends(service, to.port(), &pods, node).unwrap_or_default();
        Some(self.one_of(&all).ok_or(refused))
    }

    /// The pods that a Service selects.
    async fn pods_of(&self, service: &Service) -> Vec<Pod> {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let Some(selector) = selector.filter(|selector| !selector.is_empty()) else { return Vec::new() };
        let labels: Vec<String> = selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let params = ListParams::default().labels(&labels.join(","));
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let listed = self.client.api::<Pod>().list(namespace, &params).await;
        listed.map(|(pods, _)| pods).unwrap_or_default()
    }

    fn one_of<T: Copy>(&self, all: &[T]) -> Option<T> {
        let index = self.rng.below(u64::try_from(all.len()).ok().filter(|count| *count > 0)?);
        all.get(usize::try_from(index).ok()?).copied()
    }
}
