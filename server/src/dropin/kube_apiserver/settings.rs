//! [`Apiserver`]: the checked settings of kube-apiserver's flags and environment variables. Reads no files.

use super::{audit, plugins, versions};
use crate::args::{
    self, AccessConfig, ApiHere, Authorization, Component, EncryptionFile, ExternalEtcd, IssuerSource,
    ListenAddress, LoopsConfig, MAX_NODES, ModeChoice, Storage,
};
use crate::dropin::UsageError;
use crate::dropin::serving::{ServingFiles, address, file, pair, text};
use crate::flags::Parsed;
use kstore_controllers::Selection;
use kstore_registry::service_ranges::ServiceRanges;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Kubernetes' default of `--etcd-prefix`.
const PREFIX: &str = "/registry";
/// Kubernetes' default of `--etcd-compaction-interval`.
const COMPACTION: Duration = Duration::from_secs(300);
/// Kubernetes' default of `--service-cluster-ip-range`.
const SERVICES: &str = "10.0.0.0/24";
/// Kubernetes' default of `--bind-address`.
const EVERYWHERE: &str = "0.0.0.0";

/// Settings of kube-apiserver, with the names of its files.
#[derive(Debug)]
pub(super) struct Apiserver {
    /// The API, with an external etcd as storage.
    pub api: ApiHere,
    /// The components that run beside it.
    pub loops: LoopsConfig,
    /// Address in the endpoints of the Service `default/kubernetes`; `None`: the listen address.
    pub advertise: Option<IpAddr>,
    /// Host name in the server addresses of discovery documents.
    pub external_host: Option<String>,
    /// Whether the server leaves the endpoints of the Service `default/kubernetes` to other programs.
    pub leaves_endpoints: bool,
    /// Serving certificate.
    pub serving: ServingFiles,
    /// File of the certificate authorities for client certificates.
    pub client_ca: Option<PathBuf>,
    /// Authentication of front proxies, which name users in headers.
    pub front_proxies: Option<FrontProxyFiles>,
    /// File of static bearer tokens.
    pub tokens: Option<PathBuf>,
    /// Issuers and keys of service account tokens.
    pub service_accounts: ServiceAccounts,
    /// Client certificate and key files for requests to aggregated API servers.
    pub front_proxy: Option<(PathBuf, PathBuf)>,
}

/// Authentication of front proxies: their authorities and common names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrontProxyFiles {
    /// File of the certificate authorities of front proxies.
    pub authorities: PathBuf,
    /// Allowed common names of front proxies; empty: every name.
    pub allowed_names: Vec<String>,
}

/// Issuers and keys of service account tokens.
#[derive(Debug)]
pub(super) struct ServiceAccounts {
    /// Accepted issuers; the first is the issuer of new tokens.
    pub issuers: Vec<String>,
    /// Audiences of this API server.
    pub audiences: Vec<String>,
    /// Files of keys that verify tokens.
    pub keys: Vec<PathBuf>,
    /// File of the key that signs tokens.
    pub signing: PathBuf,
}

/// Reads and checks the flags. `variable` looks up an environment variable; warnings are appended to `warnings`.
pub(super) fn read(
    flags: &Parsed,
    variable: impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Apiserver, UsageError> {
    if !flags.has("allow-privileged") {
        let text =
            "privileged containers are allowed; kube-apiserver refuses them without --allow-privileged";
        warnings.push(text.to_owned());
    }
    let mut options = flags.options()?;
    let served = versions::served(flags, &variable)?;
    warnings.extend(versions::compatibility(flags, served)?);
    options.keep(args::KUBERNETES_VERSION, &served.to_string());
    let mut access = options.access()?;
    // AlwaysAllow is Kubernetes' default.
    access.authorization.get_or_insert_with(|| Authorization::Modes(vec![ModeChoice::AlwaysAllow]));
    plugins::apply(flags, &mut access.admission)?;
    warnings.append(&mut access.admission.warnings);
    warnings.append(&mut access.apis.warnings);
    access.authentication.is_anonymous_flag_given = flags.bool("anonymous-auth").is_some();
    let (anonymous, warning) = anonymous(flags, &access);
    // Only the file tells whether the warning is true.
    access.authentication.anonymous_warning = match access.authentication.issuers {
        Some(IssuerSource::File(_)) => warning.map(str::to_owned),
        Some(IssuerSource::Flags(..)) | None => {
            warnings.extend(warning.map(str::to_owned));
            None
        }
    };
    let listen = listen(flags)?;
    let loops = loops(variable, warnings)?;
    let api = ApiHere {
        storage: Storage::External { etcd: etcd(flags)?, dir: None },
        listen,
        service_ranges: service_ranges(flags)?,
        anonymous,
        audit: audit::read(flags, warnings)?,
        access: Box::new(access),
        encryption: encryption(flags)?.map(Box::new),
        // kube-apiserver has no flag for it, and no such check: a warning names what is lost.
        allow_downgrade: true,
        ..ApiHere::default()
    };
    Ok(Apiserver {
        api,
        loops,
        advertise: address(flags, "advertise-address")?,
        external_host: text(flags, "external-hostname").map(str::to_owned),
        leaves_endpoints: leaves_endpoints(flags)?,
        serving: ServingFiles::read(flags)?,
        client_ca: file(flags, "client-ca-file"),
        front_proxies: front_proxies(flags)?,
        tokens: file(flags, "token-auth-file"),
        service_accounts: service_accounts(flags)?,
        front_proxy: pair(flags, "proxy-client-cert-file", "proxy-client-key-file")?,
    })
}

fn encryption(flags: &Parsed) -> Result<Option<EncryptionFile>, UsageError> {
    const RELOAD: &str = "encryption-provider-config-automatic-reload";
    args::encryption_file(file(flags, "encryption-provider-config"), flags.bool(RELOAD)).map_err(|_| {
        // kube-apiserver's message.
        let reason = "to enable automatic reload, --encryption-provider-config must be set";
        UsageError::value(RELOAD, "true", reason)
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
    let servers: Vec<kstore_storage::storage::etcd::Url> =
        flags.list("etcd-servers").iter().map(parse).collect::<Result<_, _>>()?;
    if servers.is_empty() {
        return Err(UsageError::Missing {
            name: "etcd-servers",
            reason: "kstore's apiserver stores its objects in etcd",
        });
    }
    let authority = file(flags, "etcd-cafile");
    if authority.is_none() && servers.iter().any(|url| url.secure) {
        let reason = "https in --etcd-servers needs the certificate authority of the servers";
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

/// Front proxy settings. Header names other than the defaults are refused: aggregated API servers trust the default headers, and this
/// server would pass headers of other names on from any client.
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
            return Err(UsageError::value(flag, other, format!("kstore supports {name} only")));
        }
    }
    let Some(authorities) = file(flags, "requestheader-client-ca-file") else { return Ok(None) };
    if flags.list(USER).is_empty() {
        let reason = "--requestheader-client-ca-file needs it; for example X-Remote-User";
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

/// Whether requests without credentials are served. As in Kubernetes, not if every request is authorized; the warning says so.
fn anonymous(flags: &Parsed, access: &AccessConfig) -> (bool, Option<&'static str>) {
    let anonymous_auth = flags.bool("anonymous-auth");
    let allows_everything = access.authorization.as_ref().is_some_and(Authorization::allows_everything);
    if allows_everything && anonymous_auth != Some(false) {
        let warning = "--anonymous-auth is off: everything is allowed (--authorization-mode=AlwaysAllow)";
        return (false, Some(warning));
    }
    (anonymous_auth.unwrap_or(true), None)
}

fn leaves_endpoints(flags: &Parsed) -> Result<bool, UsageError> {
    match text(flags, "endpoint-reconciler-type") {
        None | Some("lease" | "master-count") => Ok(false),
        Some("none") => Ok(true),
        Some(other) => Err(UsageError::value("endpoint-reconciler-type", other, "expected lease or none")),
    }
}

/// Reads from environment variables which components run beside the API server: test harnesses choose the flags themselves.
fn loops(
    variable: impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<LoopsConfig, UsageError> {
    let mut extra = LoopsConfig::default();
    if let Some(value) = variable("KSTORE_CONTROLLERS") {
        let words = value.split(',').map(|word| if word == "all" { "*" } else { word });
        let (controllers, missing) = Selection::parse(words)
            .map_err(|error| UsageError::variable("KSTORE_CONTROLLERS", &value, error))?;
        warnings.extend(missing.iter().map(|name| format!("KSTORE_CONTROLLERS: kstore has no {name}")));
        extra.controllers = controllers;
        extra.components.insert(Component::Controllers);
    }
    if let Some(value) = variable("KSTORE_SCHEDULER") {
        match value.as_str() {
            "0" => {}
            "1" => {
                extra.components.insert(Component::Scheduler);
            }
            _ => return Err(UsageError::variable("KSTORE_SCHEDULER", &value, "expected 1 or 0")),
        }
    }
    if let Some(value) = variable("KSTORE_NODES") {
        let nodes = value.parse().ok().filter(|nodes| *nodes <= MAX_NODES);
        let reason = format!("expected a whole number from 0 to {MAX_NODES}");
        extra.nodes = nodes.ok_or_else(|| UsageError::variable("KSTORE_NODES", &value, reason))?;
    }
    if extra.nodes > 0 {
        extra.components.insert(Component::KubeletSim);
    }
    Ok(extra)
}
