//! Startup of a component. It opens its port first, because test harnesses wait for it. Then it connects to the API server, which may
//! start later. Then the component runs.

use super::config_file;
use super::election::{Candidacy, ElectionSettings};
use super::health::Health;
use super::settings::{ComponentSettings, Settings, SigningFiles};
use crate::args::Component;
use crate::dropin::serving::content;
use crate::hostname::hostname;
use crate::tls::ServingCertificate;
use crate::wiring::Cluster;
use crate::{clients, listen, tls};
use anyhow::{Context, anyhow};
use kstore_access::token::SigningKey;
use kstore_client::{Client, ClientLease, ConnectError, Kubeconfig};
use kstore_cluster::{CONTROLLERS_LEASE, SCHEDULER_LEASE, candidate, token_signer_of_key};
use kstore_controllers::{Accounts, Signing, SigningAuthority, TokenSigner};
use kstore_informer::Elector;
use kstore_informer::metrics::Registry;
use kstore_nondet::{Backoff, Nondet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Time that the API server has to start.
const APISERVER_START: Duration = Duration::from_secs(60);
/// First pause between two attempts to connect; it doubles after each attempt, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Names in a new serving certificate, beside the listen address.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The component to run and its configuration, with all files read.
enum Work {
    /// The controllers; the boolean is `--use-service-account-credentials`.
    Controllers(Box<kstore_controllers::Config>, bool),
    Scheduler(kstore_scheduler::Config),
}

impl Work {
    fn component(&self) -> Component {
        match self {
            Self::Controllers(..) => Component::Controllers,
            Self::Scheduler(_) => Component::Scheduler,
        }
    }

    /// Name of the Lease by default.
    fn lease(&self) -> &'static str {
        match self {
            Self::Controllers(..) => CONTROLLERS_LEASE,
            Self::Scheduler(_) => SCHEDULER_LEASE,
        }
    }

    /// The component with its clients: one for its caches, and one per account of a controller.
    fn with_clients(
        self,
        client: Client,
        kubeconfig: &Kubeconfig,
        nondet: &Nondet,
    ) -> Result<kstore_cluster::Component, ConnectError> {
        Ok(match self {
            Self::Controllers(mut config, own_accounts) => {
                if own_accounts {
                    let accounts = clients::service_accounts(kubeconfig, &client)?;
                    config.accounts = Accounts::own(move |account| accounts.client(account));
                }
                kstore_cluster::Component::controllers(*config, client, nondet)
            }
            Self::Scheduler(config) => kstore_cluster::Component::scheduler(config, client, nondet),
        })
    }
}

/// Starts the component. On return its port is open; it begins to work once the API server accepts connections.
pub(super) async fn start(settings: Settings) -> anyhow::Result<Cluster> {
    let (nondet, metrics) = (Nondet::real(), Registry::new());
    let (work, kubeconfig, words) = read(&settings, &metrics)?;
    // A separate connection, as in Kubernetes: other requests must not delay the renewal of the Lease.
    let lease_client = Client::connect_lazy(&kubeconfig, "leader-election")?;
    let candidacy = Candidacy::of(work.lease(), &candidate(&hostname(), &nondet), words)?;
    let elector = candidacy.map(|candidacy| candidacy.elector(&lease_client, &nondet, &metrics)).transpose();
    let elector = elector.context("invalid leader election settings")?;
    let cluster = Cluster::new();
    if let Some(address) = &settings.listen {
        let listener = listen::bind(address, "--secure-port").await?;
        let mut names = LOCAL_NAMES.map(str::to_owned).to_vec();
        names.push(address.host.clone());
        let serving = settings.serving.load(&names, nondet.clock.now())?;
        let tls = ServingCertificate::of(&serving, settings.serving.files())
            .and_then(|serving| tls::server(serving, None))
            .context("the certificate and the key cannot be used for TLS")?;
        let health = Arc::new(Health { open_paths: settings.open_paths, metrics });
        cluster.run_listener("health", |stop| health.serve(listener, tls, stop));
    }
    let program = PreparedComponent { work, kubeconfig, elector, nondet };
    cluster.run_loop(program.work.component().name(), |stop| program.run(stop));
    Ok(cluster)
}

fn read_signing(files: &SigningFiles) -> anyhow::Result<Signing> {
    let certificate = content(&files.certificate, "--cluster-signing-cert-file")?;
    let authority =
        SigningAuthority::from_pem(&certificate, &content(&files.key, "--cluster-signing-key-file")?)
            .context("cannot use --cluster-signing-cert-file and --cluster-signing-key-file")?;
    Ok(Signing { authority, longest: files.longest })
}

fn read_token_key(file: &Path) -> anyhow::Result<TokenSigner> {
    const FLAG: &str = "--service-account-private-key-file";
    let key = SigningKey::from_pem(content(file, FLAG)?.as_bytes());
    Ok(token_signer_of_key(key.with_context(|| format!("cannot use {FLAG} {}", file.display()))?))
}

/// Reads the files that the flags name.
fn read(settings: &Settings, metrics: &Registry) -> anyhow::Result<(Work, Kubeconfig, ElectionSettings)> {
    let metrics = metrics.clone();
    let (mut path, mut election) = (settings.kubeconfig.clone(), settings.election.clone());
    let work = match &settings.part {
        ComponentSettings::Controllers {
            selection,
            root_ca,
            signing,
            token_key,
            unused_tokens,
            unused_claims,
            patience,
            networks,
            own_accounts,
        } => {
            let root_ca = root_ca.as_deref().map(|file| content(file, "--root-ca-file")).transpose()?;
            let config = kstore_controllers::Config {
                root_ca: root_ca.unwrap_or_default(),
                signing: signing.as_deref().map(read_signing).transpose()?,
                token_signer: token_key.as_deref().map(read_token_key).transpose()?,
                unused_tokens: *unused_tokens,
                unused_claims: *unused_claims,
                controllers: selection.clone(),
                patience: *patience,
                networks: networks.clone(),
                metrics,
                ..Default::default()
            };
            Work::Controllers(Box::new(config), *own_accounts)
        }
        ComponentSettings::Scheduler { config, longest_stay, gates } => {
            let mut scheduler = kstore_scheduler::Config::gated(*gates);
            if let Some(file) = config {
                let read = config_file::read(&content(file, "--config")?, file, *gates)?;
                path = path.or_else(|| read.client_connection.kubeconfig.clone().map(Into::into));
                election = election.or(config_file::election(&read.leader_election));
                scheduler = read.into();
            }
            if let Some(stay) = longest_stay {
                scheduler.backoff.longest_stay = *stay;
            }
            Work::Scheduler(kstore_scheduler::Config { metrics, ..scheduler })
        }
    };
    let path = path.context("neither --kubeconfig nor --config names a kubeconfig file")?;
    let mut kubeconfig = open(&path)?;
    if let Some(master) = &settings.master {
        kubeconfig.server.clone_from(master);
    }
    Ok((work, kubeconfig, election))
}

fn open(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read(path).map_err(|error| anyhow!("cannot use --kubeconfig: {error}"))
}

/// A component that is ready to run once the API server accepts connections.
struct PreparedComponent {
    work: Work,
    kubeconfig: Kubeconfig,
    /// Leader election; `None`: the component runs without one.
    elector: Option<Elector<ClientLease>>,
    nondet: Nondet,
}

impl PreparedComponent {
    /// Runs the component until `stop` is cancelled; with an elector, only while this process is the leader. Returns early, with an
    /// error in the log, if the API server cannot be reached.
    async fn run(self, stop: CancellationToken) {
        let agent = clients::identity(self.work.component()).file;
        let client = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            client = connect(&self.kubeconfig, agent) => client,
        };
        let Self { work, kubeconfig, elector, nondet } = self;
        match client.and_then(|client| work.with_clients(client, &kubeconfig, &nondet)) {
            Ok(component) => component.run(elector, stop).await,
            Err(error) => {
                let (server, error) = (&kubeconfig.server, anyhow!(error));
                tracing::error!(server, "no connection to the apiserver: {error:#}");
            }
        }
    }
}

/// Connects to the API server, and retries with growing pauses while it does not listen yet.
async fn connect(kubeconfig: &Kubeconfig, agent: &str) -> Result<Client, ConnectError> {
    let deadline = Instant::now() + APISERVER_START;
    let mut pauses = Backoff::doubling(PAUSE, PAUSE_MAX).waits();
    loop {
        match Client::connect(kubeconfig, agent).await {
            Err(ConnectError::Connect(_)) if Instant::now() < deadline => {}
            other => return other,
        }
        sleep(pauses.advance()).await;
    }
}
