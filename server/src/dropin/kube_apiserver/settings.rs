//! [`Apiserver`]: what the flags of kube-apiserver and the environment ask for, checked. No file is read here.

use super::{audit, gates, plugins};
use crate::args::{
    self, AccessConfig, Api, Authorization, Component, Config, ExternalEtcd, History, ListenAddress,
    MetricsServer, ModeChoice, Quota, Storage,
};
use crate::dropin::UsageError;
use crate::dropin::flags::Parsed;
use crate::dropin::serving::{ServingFiles, address, file, pair, text};
use kstore_apiserver::ServiceRanges;
use kstore_apiserver::admission::PluginSwitches;
use kstore_apiserver::outbound::ServiceBackends;
use kstore_controllers::{Networks, Selection};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Kubernetes' prefix of keys, its interval of compaction, its network of services, and the address it serves at.
const PREFIX: &str = "/registry";
const COMPACTION: Duration = Duration::from_secs(300);
const SERVICES: &str = "10.0.0.0/24";
const EVERYWHERE: &str = "0.0.0.0";
/// As many simulated nodes as `kstore-server --nodes` takes.
const MAX_NODES: u32 = 20_000;

/// What to serve, and by which files.
#[derive(Debug)]
pub(super) struct Apiserver {
    /// The parts of the server, with an external etcd.
    pub config: Config,
    /// Where it serves.
    pub listen: ListenAddress,
    /// The address that the Service `default/kubernetes` leads to, if not where it serves.
    pub advertise: Option<IpAddr>,
    /// The host name in documents.
    pub external_host: Option<String>,
    /// Whether the endpoints of the Service `default/kubernetes` are written by other programs.
    pub leaves_endpoints: bool,
    /// The certificate of the server.
    pub serving: ServingFiles,
    /// Authorities of client certificates.
    pub client_ca: Option<PathBuf>,
    /// Proxies that name users in headers.
    pub front_proxies: Option<FrontProxyFiles>,
    /// Bearer tokens.
    pub tokens: Option<PathBuf>,
    /// Tokens of service accounts.
    pub service_accounts: ServiceAccounts,
    /// Certificate and key shown to aggregated API servers.
    pub front_proxy: Option<(PathBuf, PathBuf)>,
    /// Which admission plugins run.
    pub plugins: PluginSwitches,
}

/// How proxies that name users in headers are known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrontProxyFiles {
    /// Their authorities.
    pub authorities: PathBuf,
    /// Their common names; empty: every name.
    pub allowed_names: Vec<String>,
}

/// Issuers and keys of service account tokens.
#[derive(Debug)]
pub(super) struct ServiceAccounts {
    /// The first signs.
    pub issuers: Vec<String>,
    /// Names of this API.
    pub audiences: Vec<String>,
    /// Keys that verify.
    pub keys: Vec<PathBuf>,
    /// The key that signs.
    pub signing: PathBuf,
}

/// Reads the flags. `variable` is the environment; warnings are added to those of the flags.
pub(super) fn read(
    flags: &Parsed,
    variable: impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Apiserver, UsageError> {
    warnings.extend(gates::feature_gates(&flags.list("feature-gates"))?);
    warnings.extend(gates::runtime_config(&flags.list("runtime-config"))?);
    if !flags.has("allow-privileged") {
        let text =
            "privileged containers are allowed; kube-apiserver refuses them without --allow-privileged";
        warnings.push(text.to_owned());
    }
    let mut access = args::access(flags)?;
    // Kubernetes' default.
    access.authorization.get_or_insert_with(|| Authorization::Modes(vec![ModeChoice::AlwaysAllow]));
    let (plugins, missing) = plugins::switches(flags)?;
    warnings.extend(missing);
    let anonymous = anonymous(flags, &access, warnings);
    let listen = listen(flags)?;
    let Beside { components, controllers, nodes } = beside(variable, warnings)?;
    let api = Api::Here {
        storage: Storage::External { etcd: etcd(flags)?, dir: None },
        listen: listen.clone(),
        etcd: None,
        quota: Quota::Default,
        history: History::All,
        service_ranges: service_ranges(flags)?,
        service_backends: ServiceBackends::default(),
        anonymous,
        audit: audit::read(flags, warnings)?,
        access: Box::new(access),
        write_kubeconfig: None,
        metrics: MetricsServer::Off,
    };
    Ok(Apiserver {
        config: Config { api, loops: components, controllers, networks: Networks::default(), nodes },
        listen,
        advertise: address(flags, "advertise-address")?,
        external_host: text(flags, "external-hostname").map(str::to_owned),
        leaves_endpoints: leaves_endpoints(flags)?,
        serving: ServingFiles::read(flags)?,
        client_ca: file(flags, "client-ca-file"),
        front_proxies: front_proxies(flags)?,
        tokens: file(flags, "token-auth-file"),
        service_accounts: service_accounts(flags)?,
        front_proxy: pair(flags, "proxy-client-cert-file", "proxy-client-key-file")?,
        plugins,
    })
}

fn listen(flags: &Parsed) -> Result<ListenAddress, UsageError> {
    let host = address(flags, "bind-address")?.map_or_else(|| EVERYWHERE.to_owned(), |ip| ip.to_string());
    let Some(port) = text(flags, "secure-port") else {
        return Err(UsageError::Missing {
            name: "secure-port",
            reason: "kstore opens no default port; for example --secure-port=6443",
        });
    };
    match port.parse() {
        Ok(port) if port != 0 => Ok(ListenAddress { host, port }),
        _ => Err(UsageError::value("secure-port", port, "expected a port from 1 to 65535")),
    }
}

fn etcd(flags: &Parsed) -> Result<ExternalEtcd, UsageError> {
    let parse =
        |url: &String| url.parse().map_err(|reason: String| UsageError::value("etcd-servers", url, reason));
    let servers: Vec<kstore_apiserver::storage::etcd::Url> =
        flags.list("etcd-servers").iter().map(parse).collect::<Result<_, _>>()?;
    if servers.is_empty() {
        return Err(UsageError::Missing {
            name: "etcd-servers",
            reason: "kstore's apiserver stores in an etcd",
        });
    }
    let authority = file(flags, "etcd-cafile");
    if authority.is_none() && servers.iter().any(|url| url.secure) {
        let reason = "https in --etcd-servers needs the authority that certifies them";
        return Err(UsageError::Missing { name: "etcd-cafile", reason });
    }
    let compaction = match text(flags, "etcd-compaction-interval") {
        None => COMPACTION,
        Some("0") => Duration::ZERO,
        Some(time) => {
            args::time(time).map_err(|reason| UsageError::value("etcd-compaction-interval", time, reason))?
        }
    };
    Ok(ExternalEtcd {
        servers,
        authority,
        identity: pair(flags, "etcd-certfile", "etcd-keyfile")?,
        prefix: text(flags, "etcd-prefix").unwrap_or(PREFIX).to_owned(),
        compaction,
        user: None,
    })
}

fn service_ranges(flags: &Parsed) -> Result<ServiceRanges, UsageError> {
    let ranges = text(flags, "service-cluster-ip-range").unwrap_or(SERVICES);
    ranges.parse().map_err(|error| UsageError::value("service-cluster-ip-range", ranges, error))
}

/// The names of the headers are fixed: headers of other names would reach aggregated API servers as any client sends them.
fn front_proxies(flags: &Parsed) -> Result<Option<FrontProxyFiles>, UsageError> {
    const USER: &str = "requestheader-username-headers";
    let names = [
        (USER, "X-Remote-User"),
        ("requestheader-uid-headers", "X-Remote-Uid"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
    ];
    for (flag, name) in names {
        if let Some(other) = flags.list(flag).iter().find(|given| !given.eq_ignore_ascii_case(name)) {
            return Err(UsageError::value(flag, other, format!("kstore takes {name} only")));
        }
    }
    let Some(authorities) = file(flags, "requestheader-client-ca-file") else { return Ok(None) };
    if flags.list(USER).is_empty() {
        let reason = "--requestheader-client-ca-file is of no use without it; for example X-Remote-User";
        return Err(UsageError::Missing { name: USER, reason });
    }
    Ok(Some(FrontProxyFiles { authorities, allowed_names: flags.list("requestheader-allowed-names") }))
}

fn service_accounts(flags: &Parsed) -> Result<ServiceAccounts, UsageError> {
    let issuers = flags.list("service-account-issuer");
    if issuers.is_empty() {
        let reason = "for example https://kubernetes.default.svc.cluster.local";
        return Err(UsageError::Missing { name: "service-account-issuer", reason });
    }
    let Some(signing) = file(flags, "service-account-signing-key-file") else {
        let reason = "the private key that signs tokens of service accounts (PEM)";
        return Err(UsageError::Missing { name: "service-account-signing-key-file", reason });
    };
    let keys = flags.values("service-account-key-file").filter(|file| !file.is_empty()).map(PathBuf::from);
    Ok(ServiceAccounts { issuers, audiences: flags.list("api-audiences"), keys: keys.collect(), signing })
}

/// Whether requests without credentials are served. As in Kubernetes, the default is no where every user may do everything.
fn anonymous(flags: &Parsed, access: &AccessConfig, warnings: &mut Vec<String>) -> bool {
    let asked = flags.bool("anonymous-auth");
    let allows_everything = access.authorization.as_ref().is_some_and(Authorization::allows_everything);
    if allows_everything && asked != Some(false) {
        warnings.push(
            "--anonymous-auth is off: everything is allowed (--authorization-mode=AlwaysAllow)".to_owned(),
        );
        return false;
    }
    asked.unwrap_or(true)
}

fn leaves_endpoints(flags: &Parsed) -> Result<bool, UsageError> {
    match text(flags, "endpoint-reconciler-type") {
        None | Some("lease" | "master-count") => Ok(false),
        Some("none") => Ok(true),
        Some(other) => Err(UsageError::value("endpoint-reconciler-type", other, "expected lease or none")),
    }
}

/// What runs beside the apiserver.
struct Beside {
    components: BTreeSet<Component>,
    controllers: Selection,
    nodes: u32,
}

/// What runs beside the apiserver, by variables, since the flags are the harness's.
fn beside(
    variable: impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Beside, UsageError> {
    let mut beside = Beside { components: BTreeSet::new(), controllers: Selection::default(), nodes: 0 };
    if let Some(value) = variable("KSTORE_CONTROLLERS") {
        let words = value.split(',').map(|word| if word == "all" { "*" } else { word });
        let (controllers, missing) = Selection::parse(words)
            .map_err(|error| UsageError::variable("KSTORE_CONTROLLERS", &value, error))?;
        warnings.extend(missing.iter().map(|name| format!("KSTORE_CONTROLLERS: kstore has no {name}")));
        beside.controllers = controllers;
        beside.components.insert(Component::Controllers);
    }
    if let Some(value) = variable("KSTORE_SCHEDULER") {
        match value.as_str() {
            "0" => {}
            "1" => {
                beside.components.insert(Component::Scheduler);
            }
            _ => return Err(UsageError::variable("KSTORE_SCHEDULER", &value, "expected 1 or 0")),
        }
    }
    if let Some(value) = variable("KSTORE_NODES") {
        let nodes = value.parse().ok().filter(|nodes| *nodes <= MAX_NODES);
        let reason = format!("expected a whole number from 0 to {MAX_NODES}");
        beside.nodes = nodes.ok_or_else(|| UsageError::variable("KSTORE_NODES", &value, reason))?;
    }
    if beside.nodes > 0 {
        beside.components.insert(Component::KubeletSim);
    }
    Ok(beside)
}
