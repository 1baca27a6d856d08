//! The start of a component: its port first, so that a harness finds it; then the apiserver, which may come later; then the work.

use super::config_file::SchedulerConfig;
use super::health::Health;
use super::settings::{Part, Settings};
use crate::args::Component;
use crate::assembly;
use crate::dropin::serving::content;
use crate::wiring::{self, Cluster};
use crate::{listen, tls};
use anyhow::{Context, anyhow};
use kstore_client::{Client, ConnectError, Kubeconfig};
use kstore_informer::metrics::Registry;
use kstore_nondet::Nondet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// An apiserver that has not come by then does not come.
const APISERVER_START: Duration = Duration::from_secs(60);
/// After each attempt the pause doubles, from here to there.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Names in a new certificate, beside the address itself.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What is to run, with all files read.
enum Work {
    /// The controllers, and whether each has an account of its own.
    Controllers(kstore_controllers::Config, bool),
    Scheduler(kstore_scheduler::Config),
}

impl Work {
    fn component(&self) -> Component {
        match self {
            Self::Controllers(..) => Component::Controllers,
            Self::Scheduler(_) => Component::Scheduler,
        }
    }
}

/// Starts the component; on return its port is open, and it works as soon as the apiserver answers.
pub(super) async fn start(settings: Settings) -> anyhow::Result<Cluster> {
    let (nondet, metrics) = (Nondet::real(), Registry::new());
    let (work, kubeconfig) = read(&settings, &metrics)?;
    let cluster = Cluster::new();
    if let Some(address) = &settings.listen {
        let listener = listen::bind(address, "--secure-port").await?;
        let mut names = LOCAL_NAMES.map(str::to_owned).to_vec();
        names.push(address.host.clone());
        let serving = settings.serving.load(&names, nondet.clock.now())?;
        let tls = tls::server_for_clients_of(&serving, "")
            .context("the certificate and the key cannot be used for TLS")?;
        let health = Arc::new(Health { open_paths: settings.open_paths, metrics });
        cluster.run_door("health", |stop| health.serve(listener, tls, stop));
    }
    cluster.run_loop(work.component().name(), |stop| run(work, kubeconfig, nondet, stop));
    Ok(cluster)
}

/// Reads the files that the flags name.
fn read(settings: &Settings, metrics: &Registry) -> anyhow::Result<(Work, Kubeconfig)> {
    let metrics = metrics.clone();
    let mut path = settings.kubeconfig.clone();
    let work = match &settings.part {
        Part::Controllers { selection, root_ca, patience, own_accounts } => {
            let root_ca = root_ca.as_deref().map(|file| content(file, "--root-ca-file")).transpose()?;
            let (root_ca, controllers) = (root_ca.unwrap_or_default(), selection.clone());
            let patience = *patience;
            let config =
                kstore_controllers::Config { root_ca, controllers, patience, metrics, ..Default::default() };
            Work::Controllers(config, *own_accounts)
        }
        Part::Scheduler { config } => {
            let mut scheduler = kstore_scheduler::Config { metrics, ..Default::default() };
            if let Some(file) = config {
                let config = SchedulerConfig::parse(&content(file, "--config")?, file)?;
                path = path.or(config.kubeconfig);
                scheduler.scheduler_name = config.scheduler_name.unwrap_or(scheduler.scheduler_name);
                scheduler.percentage_of_nodes_to_score = config.percentage.unwrap_or_default();
            }
            Work::Scheduler(scheduler)
        }
    };
    let path = path.context("neither --kubeconfig nor --config says where the apiserver is")?;
    let mut kubeconfig = open(&path)?;
    if let Some(master) = &settings.master {
        kubeconfig.server.clone_from(master);
    }
    Ok((work, kubeconfig))
}

fn open(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read(path).map_err(|error| anyhow!("cannot use --kubeconfig: {error}"))
}

/// Works until `stop` is cancelled. Returns before only if there is no apiserver, which the log says.
async fn run(work: Work, kubeconfig: Kubeconfig, nondet: Nondet, stop: CancellationToken) {
    let agent = wiring::identity(work.component()).file;
    let client = tokio::select! {
        biased;
        () = stop.cancelled() => return,
        client = connect(&kubeconfig, agent) => client,
    };
    match (client, work) {
        (Ok(client), Work::Controllers(mut config, own_accounts)) => {
            if own_accounts {
                config.accounts = match assembly::own_accounts(&kubeconfig, &client) {
                    Ok(accounts) => accounts,
                    Err(error) => return tracing::error!("{error}"),
                };
            }
            kstore_controllers::run(client, nondet, config, stop).await;
        }
        (Ok(client), Work::Scheduler(config)) => kstore_scheduler::run(client, nondet, config, stop).await,
        (Err(error), _) => {
            let error = anyhow!(error);
            tracing::error!(server = kubeconfig.server, "no connection to the apiserver: {error:#}");
        }
    }
}

/// Connects. An apiserver that has not begun to listen announces that to no other, so it is asked again after pauses that grow.
async fn connect(kubeconfig: &Kubeconfig, agent: &str) -> Result<Client, ConnectError> {
    let deadline = Instant::now() + APISERVER_START;
    let mut pause = PAUSE;
    loop {
        match Client::connect(kubeconfig, agent).await {
            Err(ConnectError::Connect(_)) if Instant::now() < deadline => {}
            other => return other,
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
