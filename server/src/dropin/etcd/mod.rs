//! The drop-in program `etcd`: a store that serves the etcd API only, configured by etcd's flags (`table`).

mod table;
#[cfg(test)]
mod tests;

use super::UsageError;
use crate::args::{
    self, Api, Config, Durability, Engine, EtcdAddress, EtcdListen, EtcdTls, History, ListenAddress,
    LoopsConfig, Quota, Storage, StoreAlone,
};
use crate::flags::{FlagError, Parsed};
use crate::telemetry::{self, LogFormat};
use crate::wiring;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use table::TABLE;

/// Exit code of Go's flag package, and so of etcd, for a command line that does not parse.
const WRONG_FLAG: u8 = 2;
/// Default name of the member, which is etcd's.
const NAME: &str = "default";

/// Runs `etcd` with the arguments after its name.
pub(super) fn run(words: Vec<String>) -> ExitCode {
    let mut parsed = match TABLE.parse(words) {
        Ok(parsed) => parsed,
        Err(error @ FlagError::Argument(_)) => return refuse(&error.into(), 1),
        Err(error) => return refuse(&error.into(), WRONG_FLAG),
    };
    if parsed.has("help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    if parsed.has("version") {
        print!("{}", version());
        return ExitCode::SUCCESS;
    }
    let read = parsed
        .add_environment(|name| std::env::var(name).ok())
        .map_err(UsageError::from)
        .and_then(|()| Ok((parsed.check()?, config(&parsed)?, level(&parsed)?)));
    let (warnings, config, level) = match read {
        Ok(read) => read,
        Err(error) => return refuse(&error, 1),
    };
    telemetry::init_at(LogFormat::Json, level);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    wiring::serve(config).unwrap_or_else(|error| {
        eprintln!("etcd: {error:#}");
        ExitCode::FAILURE
    })
}

fn refuse(error: &UsageError, code: u8) -> ExitCode {
    eprintln!("etcd: {error}\nSee 'etcd --help' for the flags.");
    ExitCode::from(code)
}

fn help() -> String {
    format!(
        "Usage:\n  etcd [flags]\n    Serves the etcd v3 API from kstore's store: one member, no peers.\n\n{}",
        TABLE.help()
    )
}

/// Output of `--version` in etcd's format, from which tools parse the version.
fn version() -> String {
    format!(
        "etcd Version: {}\nGit SHA: kstore-{}\nGo Version: none, kstore is written in Rust\nGo OS/Arch: {}/{}\n",
        kstore_etcd::VERSION,
        crate::VERSION,
        std::env::consts::OS,
        super::architecture(),
    )
}

/// The level of `--log-level` by its name in RUST_LOG.
fn level(flags: &Parsed) -> Result<&'static str, UsageError> {
    match flags.last("log-level") {
        None | Some("warn") => Ok("warn"),
        Some("debug") => Ok("debug"),
        Some("info") => Ok("info"),
        Some("error" | "dpanic" | "panic" | "fatal") => Ok("error"),
        Some(other) => {
            let known = "expected debug, info, warn, error, panic or fatal";
            Err(UsageError::value("log-level", other, known))
        }
    }
}

fn config(flags: &Parsed) -> Result<Config, UsageError> {
    check_cluster(flags)?;
    let name = flags.last("name").unwrap_or(NAME).to_owned();
    let dir = flags.last("data-dir").map_or_else(|| PathBuf::from(format!("{name}.etcd")), PathBuf::from);
    let durability = match flags.bool("unsafe-no-fsync") {
        Some(true) => Durability::Relaxed,
        Some(false) | None => Durability::Sync,
    };
    let storage = Storage::Disk { dir, durability, engine: Engine::Segments, salvage: false };
    let store = StoreAlone {
        storage,
        etcd: client_listener(flags, name)?,
        quota: quota(flags)?,
        history: history(flags)?,
        history_bytes: None,
    };
    Ok(Config { api: Api::Store(Box::new(store)), loops: LoopsConfig::default() })
}

/// Refuses lists of several members: this program is always a cluster of one member.
fn check_cluster(flags: &Parsed) -> Result<(), UsageError> {
    for name in ["initial-cluster", "initial-advertise-peer-urls"] {
        let members = flags.list(name);
        if members.len() > 1 {
            let reason = "kstore's etcd is a cluster of one member";
            return Err(UsageError::value(name, &members.join(","), reason));
        }
    }
    Ok(())
}

/// The listener for clients of the etcd API.
fn client_listener(flags: &Parsed, name: String) -> Result<EtcdListen, UsageError> {
    let urls = flags.list("listen-client-urls");
    let url = match &urls[..] {
        [url] => url,
        [] => {
            return Err(UsageError::Missing {
                name: "listen-client-urls",
                reason: "kstore opens no default port; for example --listen-client-urls=http://127.0.0.1:2379",
            });
        }
        _ => {
            let reason = "kstore's etcd listens at one URL";
            return Err(UsageError::value("listen-client-urls", &urls.join(","), reason));
        }
    };
    let (listen, is_tls) =
        listen(url).map_err(|reason| UsageError::value("listen-client-urls", url, reason))?;
    let tls = if is_tls { Some(tls(flags)?) } else { None };
    let advertised = flags.list("advertise-client-urls");
    if advertised.len() > 1 {
        let reason = "kstore's etcd advertises one URL";
        return Err(UsageError::value("advertise-client-urls", &advertised.join(","), reason));
    }
    let advertise = advertised.into_iter().next();
    // etcd also listens on every address that its flags name, with or without client certificates.
    Ok(EtcdListen { listen, name: Some(name), advertise, tls, allow_anyone: true })
}

/// Parses `http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH`; the boolean is true for https.
fn listen(url: &str) -> Result<(EtcdAddress, bool), String> {
    if url.starts_with("unix://") {
        return Ok((url.parse()?, false));
    }
    let (address, is_tls) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(address), _) => (address, false),
        (_, Some(address)) => (address, true),
        (None, None) => return Err("expected http://HOST:PORT, https://HOST:PORT or unix:///PATH".into()),
    };
    let address: ListenAddress = address.trim_end_matches('/').parse()?;
    Ok((EtcdAddress::Tcp(address), is_tls))
}

fn tls(flags: &Parsed) -> Result<EtcdTls, UsageError> {
    let file = |name| flags.last(name).filter(|file| !file.is_empty()).map(PathBuf::from);
    let needed = |name| {
        let reason = "https in --listen-client-urls needs --cert-file and --key-file";
        file(name).ok_or(UsageError::Missing { name, reason })
    };
    let clients = file("trusted-ca-file");
    if flags.bool("client-cert-auth") == Some(true) && clients.is_none() {
        let reason = "--client-cert-auth needs the certificate authorities of clients";
        return Err(UsageError::Missing { name: "trusted-ca-file", reason });
    }
    Ok(EtcdTls { certificate: needed("cert-file")?, key: needed("key-file")?, clients })
}

fn quota(flags: &Parsed) -> Result<Quota, UsageError> {
    let Some(text) = flags.last("quota-backend-bytes") else { return Ok(Quota::Default) };
    match text.parse() {
        Ok(bytes) => Ok(Quota::of(Some(bytes))),
        Err(_) => Err(UsageError::value("quota-backend-bytes", text, "expected a number of bytes")),
    }
}

/// The history to keep, by `--auto-compaction-mode` and `--auto-compaction-retention`. A number without a unit is hours in the mode
/// `periodic`, and revisions in the mode `revision`.
fn history(flags: &Parsed) -> Result<History, UsageError> {
    const FLAG: &str = "auto-compaction-retention";
    let retention = flags.last(FLAG).unwrap_or("0");
    let number = retention.parse::<u64>().ok();
    if retention.is_empty() || number == Some(0) {
        return Ok(History::All);
    }
    let wrong = |reason: String| UsageError::value(FLAG, retention, reason);
    match (flags.last("auto-compaction-mode").unwrap_or("periodic"), number) {
        ("periodic", Some(hours)) => {
            let seconds = hours.checked_mul(3600).ok_or_else(|| wrong("too many hours".into()))?;
            Ok(History::For(Duration::from_secs(seconds)))
        }
        ("periodic", None) => match args::time(retention).map_err(wrong)? {
            Duration::ZERO => Ok(History::All),
            time => Ok(History::For(time)),
        },
        ("revision", Some(revisions)) => Ok(History::Revisions(revisions)),
        ("revision", None) => Err(wrong("expected a number of revisions".into())),
        (mode, _) => Err(UsageError::value("auto-compaction-mode", mode, "expected periodic or revision")),
    }
}
