//! [`Settings`]: what the flags of the two programs ask for, checked. No file is read here.

use super::Kind;
use super::election::ElectionWords;
use crate::args::{self, ListenAddress};
use crate::dropin::UsageError;
use crate::dropin::flags::Parsed;
use crate::dropin::kube_apiserver::feature_gates;
use crate::dropin::serving::{ServingFiles, address, file, text};
use jiff::SignedDuration;
use kstore_controllers::{Blocks, Networks, Patience, PodNetworks, Selection, Signing};
use std::path::PathBuf;
use std::time::Duration;

/// Paths that Kubernetes' programs answer to every caller.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/livez"];
const EVERYWHERE: &str = "0.0.0.0";

/// What to run, and by which files.
#[derive(Debug)]
pub(super) struct Settings {
    /// The part of the control plane.
    pub part: Part,
    /// Where the apiserver is. Without it, `config` of the scheduler says.
    pub kubeconfig: Option<PathBuf>,
    /// The address of the apiserver, instead of the kubeconfig's.
    pub master: Option<String>,
    /// The address of health checks and metrics; none: they are not served.
    pub listen: Option<ListenAddress>,
    /// The certificate of that port.
    pub serving: ServingFiles,
    /// Paths of that port that are answered.
    pub open_paths: Vec<String>,
    /// What the flags say of leader election.
    pub election: ElectionWords,
}

/// A part of the control plane.
#[derive(Debug)]
pub(super) enum Part {
    /// These controllers.
    Controllers {
        /// Which.
        selection: Selection,
        /// The authority that is published.
        root_ca: Option<PathBuf>,
        /// The authority that signs requests for certificates.
        signing: Option<SigningFiles>,
        /// How patient the node lifecycle controller is.
        patience: Patience,
        /// The addresses that they give away.
        networks: Networks,
        /// Whether each has an account of its own.
        own_accounts: bool,
    },
    /// The scheduler.
    Scheduler {
        /// Its KubeSchedulerConfiguration.
        config: Option<PathBuf>,
    },
}

/// Where the authority is that signs requests for certificates.
#[derive(Debug)]
pub(super) struct SigningFiles {
    /// Its certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The longest life of what it signs.
    pub longest: SignedDuration,
}

/// Reads the flags; warnings are added to those of the flags.
pub(super) fn read(kind: Kind, flags: &Parsed, warnings: &mut Vec<String>) -> Result<Settings, UsageError> {
    warnings.extend(feature_gates(&flags.list("feature-gates"))?);
    let part = match kind {
        Kind::ControllerManager => Part::Controllers {
            selection: selection(flags, warnings)?,
            root_ca: file(flags, "root-ca-file"),
            signing: signing(flags)?,
            patience: patience(flags)?,
            networks: networks(flags)?,
            own_accounts: flags.bool("use-service-account-credentials").unwrap_or_default(),
        },
        Kind::Scheduler => Part::Scheduler { config: file(flags, "config") },
    };
    let kubeconfig = file(flags, "kubeconfig");
    if kubeconfig.is_none() && !matches!(part, Part::Scheduler { config: Some(_) }) {
        let reason = "it says where the apiserver is, and who this program is there";
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
        election: ElectionWords::read(flags)?,
    })
}

fn listen(flags: &Parsed) -> Result<Option<ListenAddress>, UsageError> {
    let host = address(flags, "bind-address")?.map_or_else(|| EVERYWHERE.to_owned(), |ip| ip.to_string());
    match text(flags, "secure-port").map(|port| (port, port.parse::<u16>())) {
        None | Some((_, Ok(0))) => Ok(None),
        Some((_, Ok(port))) => Ok(Some(ListenAddress { host, port })),
        Some((port, Err(_))) => {
            Err(UsageError::value("secure-port", port, "expected a port from 0 to 65535; 0 is none"))
        }
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

/// The networks of pods. Load balancers are a cloud's, which this program does not stand in for.
fn networks(flags: &Parsed) -> Result<Networks, UsageError> {
    const CLUSTER: &str = "cluster-cidr";
    if !flags.bool("allocate-node-cidrs").unwrap_or_default() {
        return Ok(Networks::default());
    }
    let Some(given) = text(flags, CLUSTER) else {
        let reason = "--allocate-node-cidrs gives nodes parts of it";
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
    // The bits for both families are of the one that there is.
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
            Ok(_) => return Err(UsageError::value(duration, text, "expected more than nothing")),
            Err(reason) => return Err(UsageError::value(duration, text, reason)),
        },
    };
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(SigningFiles { certificate, key, longest })),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(UsageError::Missing { name: NAMES[1], reason: "a certificate signs nothing without its key" })
        }
        (None, Some(_)) => {
            Err(UsageError::Missing { name: NAMES[0], reason: "a key signs nothing without its certificate" })
        }
    }
}

fn patience(flags: &Parsed) -> Result<Patience, UsageError> {
    let time = |name: &'static str, default: Duration| match text(flags, name) {
        None => Ok(default),
        Some(text) => match args::time(text) {
            Ok(Duration::ZERO) => Err(UsageError::value(name, text, "expected more than nothing")),
            Ok(time) => Ok(time),
            Err(reason) => Err(UsageError::value(name, text, reason)),
        },
    };
    let default = Patience::default();
    Ok(Patience {
        grace: time("node-monitor-grace-period", default.grace)?,
        startup: time("node-startup-grace-period", default.startup)?,
        recheck: time("node-monitor-period", default.recheck)?,
    })
}
