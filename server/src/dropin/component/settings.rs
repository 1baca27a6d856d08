//! [`Settings`]: the checked flag values of the two programs. Reads no files.

use super::ComponentKind;
use super::election::ElectionSettings;
use crate::args::{self, ListenAddress, UNUSED_CLAIMS, feature_gates, has_gate};
use crate::dropin::UsageError;
use crate::dropin::serving::{ServingFiles, address, file, text};
use crate::flags::Parsed;
use jiff::SignedDuration;
use kstore_api::version::Minor;
use kstore_controllers::{
    Blocks, Networks, NodeMonitorConfig, PodNetworks, Selection, Signing, UnusedTokenPeriod,
};
use kstore_scheduler::Gates;
use std::path::PathBuf;
use std::time::Duration;

/// Kubernetes' default of `--authorization-always-allow-paths`.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/livez"];
const EVERYWHERE: &str = "0.0.0.0";

/// Settings of a component program, with the names of its files.
#[derive(Debug)]
pub(super) struct Settings {
    /// Settings that only this component has.
    pub part: ComponentSettings,
    /// Path of the kubeconfig file; may be absent only if the scheduler has a configuration file.
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server, instead of the one in the kubeconfig.
    pub master: Option<String>,
    /// Listen address for health checks and metrics; `None`: they are not served.
    pub listen: Option<ListenAddress>,
    /// Serving certificate of that port.
    pub serving: ServingFiles,
    /// Paths that the port serves to every caller.
    pub open_paths: Vec<String>,
    /// Leader election settings of the flags.
    pub election: ElectionSettings,
}

/// Settings that only one of the components has.
#[derive(Debug)]
pub(super) enum ComponentSettings {
    /// Settings of kube-controller-manager.
    Controllers {
        /// The controllers to run.
        selection: Selection,
        /// File of the certificate authority that is published in every namespace.
        root_ca: Option<PathBuf>,
        /// The certificate authority that signs CertificateSigningRequests.
        signing: Option<Box<SigningFiles>>,
        /// File of the key that signs service account tokens; `None` if no selected controller needs it.
        token_key: Option<PathBuf>,
        /// Time without use after which service account tokens are invalidated.
        unused_tokens: UnusedTokenPeriod,
        /// Whether claims show that no pod refers to them.
        unused_claims: bool,
        /// Periods of the node lifecycle controller.
        patience: NodeMonitorConfig,
        /// Address blocks from which controllers allocate pod networks.
        networks: Networks,
        /// Whether each controller uses its own service account.
        own_accounts: bool,
    },
    /// Settings of kube-scheduler.
    Scheduler {
        /// File with a KubeSchedulerConfiguration.
        config: Option<PathBuf>,
        /// Time after which a pod is tried again that no event has woken; `None`: the default.
        longest_stay: Option<SignedDuration>,
        /// The scheduler's feature gates.
        gates: Gates,
    },
}

/// Files of the certificate authority that signs CertificateSigningRequests.
#[derive(Debug)]
pub(super) struct SigningFiles {
    /// File of the authority's certificate.
    pub certificate: PathBuf,
    /// File of the authority's private key.
    pub key: PathBuf,
    /// Longest validity of a signed certificate.
    pub longest: SignedDuration,
}

/// Reads and checks the flags, and appends warnings to `warnings`.
pub(super) fn read(
    kind: ComponentKind,
    flags: &Parsed,
    warnings: &mut Vec<String>,
) -> Result<Settings, UsageError> {
    warnings.extend(feature_gates(Minor::DEFAULT, &flags.list("feature-gates"))?);
    let part = match kind {
        ComponentKind::ControllerManager => controllers(flags, warnings)?,
        ComponentKind::Scheduler => scheduler(flags)?,
    };
    let kubeconfig = file(flags, "kubeconfig");
    if kubeconfig.is_none() && !matches!(part, ComponentSettings::Scheduler { config: Some(_), .. }) {
        let reason = "it has the address of the apiserver and the credentials of this program";
        return Err(UsageError::Missing { name: "kubeconfig", reason });
    }
    let master = text(flags, "master").map(str::to_owned);
    if let Some(master) = master.as_deref().filter(|master| !master.starts_with("https://")) {
        return Err(UsageError::value("master", master, "expected https://HOST:PORT"));
    }
    let mut open_paths = flags.list("authorization-always-allow-paths");
    if !flags.has("authorization-always-allow-paths") {
        open_paths = OPEN_PATHS.map(str::to_owned).into();
    }
    Ok(Settings {
        part,
        kubeconfig,
        master,
        listen: listen(flags)?,
        serving: ServingFiles::read(flags)?,
        open_paths,
        election: ElectionSettings::read(flags)?,
    })
}

fn controllers(flags: &Parsed, warnings: &mut Vec<String>) -> Result<ComponentSettings, UsageError> {
    let selection = selection(flags, warnings)?;
    let signs_tokens = selection.names().any(|name| name == "serviceaccount-token-controller");
    Ok(ComponentSettings::Controllers {
        selection,
        root_ca: file(flags, "root-ca-file"),
        signing: signing(flags)?.map(Box::new),
        token_key: file(flags, "service-account-private-key-file").filter(|_| signs_tokens),
        unused_tokens: unused_tokens(flags)?,
        unused_claims: has_gate(Minor::DEFAULT, UNUSED_CLAIMS, &flags.list("feature-gates")),
        patience: patience(flags)?,
        networks: networks(flags)?,
        own_accounts: flags.bool("use-service-account-credentials").unwrap_or_default(),
    })
}

fn scheduler(flags: &Parsed) -> Result<ComponentSettings, UsageError> {
    const STAY: &str = "pod-max-in-unschedulable-pods-duration";
    let stay = text(flags, STAY).map(|text| match args::time(text).map(SignedDuration::try_from) {
        Ok(Ok(stay)) => Ok(stay),
        Ok(Err(_)) => Err(UsageError::value(STAY, text, "too long")),
        Err(reason) => Err(UsageError::value(STAY, text, reason)),
    });
    let settings = flags.list("feature-gates");
    Ok(ComponentSettings::Scheduler {
        config: file(flags, "config"),
        longest_stay: stay.transpose()?,
        gates: Gates::of(|name| has_gate(Minor::DEFAULT, name, &settings)),
    })
}

fn unused_tokens(flags: &Parsed) -> Result<UnusedTokenPeriod, UsageError> {
    const FLAG: &str = "legacy-service-account-token-clean-up-period";
    let Some(text) = text(flags, FLAG) else { return Ok(UnusedTokenPeriod::default()) };
    let period = args::time(text).map_err(|reason| UsageError::value(FLAG, text, reason))?;
    let period = SignedDuration::try_from(period).ok().and_then(UnusedTokenPeriod::new);
    period.ok_or_else(|| UsageError::value(FLAG, text, "expected a positive duration"))
}

fn listen(flags: &Parsed) -> Result<Option<ListenAddress>, UsageError> {
    let host = address(flags, "bind-address")?.map_or_else(|| EVERYWHERE.to_owned(), |ip| ip.to_string());
    match text(flags, "secure-port").map(|port| (port, port.parse::<u16>())) {
        None | Some((_, Ok(0))) => Ok(None),
        Some((_, Ok(port))) => Ok(Some(ListenAddress { host, port })),
        Some((port, Err(_))) => Err(UsageError::value(
            "secure-port",
            port,
            "expected a port from 0 to 65535; 0 disables the port",
        )),
    }
}

fn selection(flags: &Parsed, warnings: &mut Vec<String>) -> Result<Selection, UsageError> {
    const FLAG: &str = "controllers";
    let words = flags.list(FLAG);
    if words.is_empty() {
        return Ok(Selection::default());
    }
    let (selection, missing) = Selection::parse(words.iter().map(String::as_str))
        .map_err(|error| UsageError::value(FLAG, &words.join(","), error))?;
    warnings.extend(missing.iter().map(|name| format!("--{FLAG}: kstore has no {name}")));
    Ok(selection)
}

/// The pod networks to allocate from. There are none for load balancers: in Kubernetes the cloud provider allocates their addresses.
fn networks(flags: &Parsed) -> Result<Networks, UsageError> {
    const CLUSTER: &str = "cluster-cidr";
    if !flags.bool("allocate-node-cidrs").unwrap_or_default() {
        return Ok(Networks::default());
    }
    let Some(given) = text(flags, CLUSTER) else {
        let reason = "--allocate-node-cidrs allocates pod networks from it";
        return Err(UsageError::Missing { name: CLUSTER, reason });
    };
    let blocks: Blocks = given.parse().map_err(|error| UsageError::value(CLUSTER, given, error))?;
    let bits = |name: &'static str| match text(flags, name).map(|text| (text, text.parse::<u8>())) {
        None | Some((_, Ok(0))) => Ok(None),
        Some((_, Ok(bits))) => Ok(Some(bits)),
        Some((text, Err(_))) => Err(UsageError::value(name, text, "expected a number of bits")),
    };
    let both = bits("node-cidr-mask-size")?;
    let (v4, v6) = (bits("node-cidr-mask-size-ipv4")?.or(both), bits("node-cidr-mask-size-ipv6")?.or(both));
    // --node-cidr-mask-size is for clusters of one family; above 32 it can only be meant for IPv6.
    let (v4, v6) = (v4.filter(|bits| *bits <= 32), v6);
    let pods = PodNetworks::new(blocks, v4, v6).map_err(|error| UsageError::value(CLUSTER, given, error))?;
    Ok(Networks { pods, ..Networks::default() })
}

fn signing(flags: &Parsed) -> Result<Option<SigningFiles>, UsageError> {
    const NAMES: [&str; 2] = ["cluster-signing-cert-file", "cluster-signing-key-file"];
    let [certificate, key] = NAMES.map(|name| file(flags, name));
    let duration = "cluster-signing-duration";
    let longest = match text(flags, duration) {
        None => Signing::LONGEST,
        Some(text) => match args::time(text).map(SignedDuration::try_from) {
            Ok(Ok(longest)) if longest.is_positive() => longest,
            Ok(_) => return Err(UsageError::value(duration, text, "expected a positive duration")),
            Err(reason) => return Err(UsageError::value(duration, text, reason)),
        },
    };
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(SigningFiles { certificate, key, longest })),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(UsageError::Missing { name: NAMES[1], reason: "a certificate cannot sign without its key" })
        }
        (None, Some(_)) => {
            Err(UsageError::Missing { name: NAMES[0], reason: "a key cannot sign without its certificate" })
        }
    }
}

fn patience(flags: &Parsed) -> Result<NodeMonitorConfig, UsageError> {
    let time = |name: &'static str, default: Duration| match text(flags, name) {
        None => Ok(default),
        Some(text) => match args::time(text) {
            Ok(Duration::ZERO) => Err(UsageError::value(name, text, "expected a positive duration")),
            Ok(time) => Ok(time),
            Err(reason) => Err(UsageError::value(name, text, reason)),
        },
    };
    let default = NodeMonitorConfig::default();
    Ok(NodeMonitorConfig {
        grace: time("node-monitor-grace-period", default.grace)?,
        startup: time("node-startup-grace-period", default.startup)?,
        recheck: time("node-monitor-period", default.recheck)?,
    })
}
