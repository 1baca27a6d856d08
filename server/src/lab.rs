//! The lab of this process by flags: [`FlagTemplate`] makes the control planes of its clusters, `kstore_lab` starts and ends them. `wiring`
//! calls this if `--lab` is given.

use crate::args::{ApiHere, Component, LabFlags, LoopsConfig};
use crate::kubeconfig::ServerAddress;
use crate::pki::{self, Credential, Pki};
use crate::{assembly, audit, clients, kubeconfig, listen, metrics_server, no_space, server_config};
use anyhow::Context;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::{AccessConfig, AuthoritiesConfig, NetworkConfig};
use kstore_client::Client;
use kstore_cluster::{ClusterConfig, ControlPlane, Phases};
use kstore_controllers::{Signing, SigningAuthority};
use kstore_informer::metrics::Registry;
use kstore_lab::cluster::{ClusterError, LabCluster, PREFIX};
use kstore_lab::template::{ClusterStart, ComponentChoice, Configured, Template};
use kstore_lab::{Lab, LabConfig, LabError, MAIN, ReportText, report_file};
use kstore_nondet::Clock;
use kstore_registry::outbound::FrontProxy;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time of the cluster that the objects of `run` may take beyond the time that they are waited for.
const RESERVE: Duration = Duration::from_secs(60);

/// The lab of this process.
pub(crate) struct RunningLab {
    lab: Arc<Lab>,
    main: Arc<LabCluster>,
    flags: LabFlags,
}

impl RunningLab {
    /// Starts the lab with its first cluster. `connections` is the largest number of open connections of a cluster.
    pub(crate) async fn start(
        (api, loops): (&ApiHere, &LoopsConfig),
        flags: &LabFlags,
        connections: usize,
    ) -> anyhow::Result<Self> {
        let now = Clock::real().now();
        let names = pki::serving_names(&api.listen.host, api.service_ranges.api_address());
        let (credential, front_proxy_ca) = Pki::in_memory(now)?.front_proxy()?;
        let template = FlagTemplate {
            api: api.clone(),
            loops: loops.clone(),
            front_proxy: credential,
            front_proxy_ca,
            connections,
        };
        let config = LabConfig {
            listen: listen::resolve(&api.listen, "--listen").await?,
            names,
            template: Arc::new(template),
            components: components(loops),
            mode: flags.mode,
            start: flags.start,
            seed: flags.seed,
            log_bytes: flags.log_bytes,
            clusters: flags.clusters,
            programs: flags.programs,
            image: flags.image.clone(),
        };
        let lab = match Lab::start(config).await {
            Err(LabError::Cluster(ClusterError::Bind(error))) => {
                return Err(listen::bind_error(error, &api.listen, "--listen"));
            }
            started => started?,
        };
        let main = lab.cluster(MAIN).map_err(|status| anyhow::anyhow!("{}", status.message))?;
        let (mode, seed) = (main.mode().name(), main.config.host.seed);
        tracing::info!(url = lab_url(&main), clock = mode, seed, "lab started");
        Ok(Self { lab, main, flags: flags.clone() })
    }

    /// Address of the API of the first cluster.
    pub(crate) fn address(&self) -> SocketAddr {
        self.main.config.host.address
    }

    /// The URL below which the lab of the first cluster answers.
    pub(crate) fn url(&self) -> String {
        lab_url(&self.main)
    }

    /// The lab in the message of a start: its URL, clock and seed.
    pub(crate) fn line(&self) -> String {
        let seed = self.main.config.host.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        format!("{} (clock {}{seed})", self.url(), self.flags.mode.name())
    }

    /// The administrator's kubeconfig for the first cluster.
    pub(crate) fn admin_kubeconfig(&self, cluster: &str) -> anyhow::Result<String> {
        let groups: Vec<String> = pki::ADMIN.group.map(str::to_owned).into_iter().collect();
        let authority = &self.main.config.keys.authority;
        let (certificate_pem, key_pem) = authority.client(pki::ADMIN.user, &groups)?;
        let ca_pem = Some(authority.pem().as_bytes());
        let address = ServerAddress { url: &self.main.url, ca_pem, tls_server_name: None };
        kubeconfig::render(&address, cluster, pki::ADMIN.user, &Credential { certificate_pem, key_pem })
    }

    /// A client of the first cluster as the administrator. Its futures run in [`Self::complete`].
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let current = self.main.current().map_err(|status| anyhow::anyhow!("{}", status.message))?;
        Ok(clients::client(&current.running().plane, pki::ADMIN).agent("kstore-server"))
    }

    /// Runs a future on the runtime of the first cluster, whose time passes as far as the future waits for it, for a little more than
    /// `limit` at most.
    pub(crate) async fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        limit: Duration,
    ) -> anyhow::Result<T> {
        let done = self.main.complete(work, limit.saturating_add(RESERVE)).await;
        done.map_err(|status| anyhow::anyhow!("{}", status.message))
    }

    /// The report file of the first cluster as it is now, with what its plans did as marks.
    pub(crate) async fn report_file(&self, text: ReportText) -> anyhow::Result<Vec<u8>> {
        let current = self.main.current().map_err(|status| anyhow::anyhow!("{}", status.message))?;
        let faults = current.bridge.perturbations.plans.fired();
        Ok(report_file(current.running(), ReportText { faults, ..text }).await?)
    }

    /// Waits until a component of the first cluster has ended although it should not have.
    pub(crate) async fn failed(&self) {
        self.main.failed().cancelled().await;
    }

    /// Ends all clusters.
    pub(crate) async fn end(&self) {
        self.lab.end().await;
    }
}

/// The URL below which the lab of a cluster answers.
fn lab_url(cluster: &LabCluster) -> String {
    format!("{}{PREFIX}", cluster.url)
}

/// The components of the first cluster.
fn components(loops: &LoopsConfig) -> ComponentChoice {
    let runs = |component| loops.components.contains(&component);
    ComponentChoice {
        controllers: runs(Component::Controllers),
        scheduler: runs(Component::Scheduler),
        nodes: if runs(Component::KubeletSim) { loops.nodes as usize } else { 0 },
    }
}

/// Makes the control planes of the lab's clusters by the flags of this process.
struct FlagTemplate {
    api: ApiHere,
    loops: LoopsConfig,
    /// Certificate with which the clusters' API servers reach aggregated ones.
    front_proxy: Credential,
    /// PEM of the authority of the front proxy's certificate.
    front_proxy_ca: String,
    connections: usize,
}

impl fmt::Debug for FlagTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlagTemplate").field("api", &self.api).finish_non_exhaustive()
    }
}

impl Template for FlagTemplate {
    fn configure(&self, start: &ClusterStart<'_>) -> Result<Configured, String> {
        self.configured(start).map_err(|error| format!("{error:#}"))
    }
}

impl FlagTemplate {
    fn configured(&self, start: &ClusterStart<'_>) -> anyhow::Result<Configured> {
        let api = &self.api;
        // One audit log has the requests of one cluster.
        let config = match start.is_main {
            true => server_config::by_flags(api, start.nondet)?,
            false => server_config::without_audit(api, start.nondet)?,
        };
        let (ca_pem, tokens) = (start.keys.authority.pem(), &start.keys.tokens);
        let (phases, metrics) = (Phases::default(), Registry::new());
        if let Some(audit) = &config.audit {
            audit::flush_at_end(&phases.core, audit.clone());
        }
        let Credential { certificate_pem, key_pem } = &self.front_proxy;
        let front_proxy = FrontProxy::from_pem(certificate_pem, key_pem)?;
        let (outbound, metrics_server) = assembly::outbound(Some(front_proxy), api);
        let server = ServerConfig {
            network: NetworkConfig {
                advertised: start.address.to_string(),
                connections: self.connections,
                outbound,
                ..config.network
            },
            authorities: AuthoritiesConfig {
                client_ca: Some(ca_pem.to_owned()),
                front_proxy_ca: Some(self.front_proxy_ca.clone()),
                front_proxies: None,
            },
            access: AccessConfig { tokens: Some(tokens.clone()), ..config.access },
            ..config
        };
        let loops = self.loops_of(start.components);
        let signer = Some(kstore_cluster::token_signer(tokens.clone()));
        let controllers = kstore_controllers::Config {
            unused_claims: api.access.apis.unused_claims,
            ..assembly::controllers(&loops, ca_pem, Some(signing(start)?), signer)
        };
        let cluster = ClusterConfig {
            storage: kstore_cluster::Storage::Embedded(Box::new(assembly::store_in_memory(
                api.quota,
                api.history_bytes,
            ))),
            explains_no_space: no_space::explain,
            retention: assembly::retention(api.history),
            components: assembly::components(&loops, controllers, api.access.apis.scheduler)?,
            elects_leaders: loops.leader_elect.unwrap_or(false),
            metrics,
            phases,
            ..ClusterConfig::default()
        };
        let (mode, is_new) = ((api.metrics, api.access.apis.opt_in.minor()), start.is_new);
        let started = Box::new(move |plane: &ControlPlane| {
            metrics_server.begin(|| clients::client(plane, pki::METRICS_SERVER), &plane.phases().core);
            if is_new {
                let (client, loops) = (clients::client(plane, pki::ADMIN), &plane.phases().loops);
                let client = client.agent("kstore-server");
                loops.spawn("metrics-server", metrics_server::keep_objects(client, mode, loops.stop()));
            }
        });
        Ok(Configured { server, cluster, started })
    }

    /// The configuration of these components.
    fn loops_of(&self, choice: ComponentChoice) -> LoopsConfig {
        let all = [
            (Component::Controllers, choice.controllers),
            (Component::Scheduler, choice.scheduler),
            (Component::KubeletSim, choice.nodes > 0),
        ];
        let components = all.into_iter().filter(|(_, runs)| *runs).map(|(component, _)| component);
        let nodes = u32::try_from(choice.nodes).unwrap_or(u32::MAX);
        LoopsConfig { components: components.collect(), nodes, ..self.loops.clone() }
    }
}

/// The authority of a cluster as the signer of approved CertificateSigningRequests.
fn signing(start: &ClusterStart<'_>) -> anyhow::Result<Signing> {
    let authority = &start.keys.authority;
    let authority = SigningAuthority::from_pem(authority.pem(), authority.key_pem());
    Ok(Signing { authority: authority.context("cannot sign certificates")?, longest: Signing::LONGEST })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cluster_has_the_components_of_the_flags() {
        let all = [Component::Controllers, Component::Scheduler, Component::KubeletSim];
        let loops = LoopsConfig { components: all.into(), nodes: 3, ..LoopsConfig::default() };
        let choice = components(&loops);
        assert_eq!(choice, ComponentChoice { controllers: true, scheduler: true, nodes: 3 });
        let none = LoopsConfig { components: [Component::Controllers].into(), ..loops };
        assert_eq!(components(&none), ComponentChoice { controllers: true, ..ComponentChoice::NONE });
    }
}
