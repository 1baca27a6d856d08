//! `kstore-server at REVISION -- COMMAND`: runs a command with a kubeconfig whose server shows the cluster as of a revision.

use crate::args::AtArgs;
use crate::client_command::{Connection, print};
use crate::kubeconfig::kubeconfig_path;
use crate::memory_file::MemoryFile;
use crate::revision::{common_collections, resolve_range};
use crate::runtime;
use anyhow::{Context as _, anyhow, bail};
use kstore_api::revision_expression::RevisionRange;
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Added to the number of a signal that ended a command, as shells do.
const SIGNALED: i32 = 128;

/// Files that a cluster or a user of a kubeconfig names, relative to its folder.
const FILES: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];

/// Runs the command in the view, or prints the view's kubeconfig.
pub(crate) fn at(args: AtArgs) -> anyhow::Result<ExitCode> {
    match RevisionRange::parse(&args.revision) {
        Some(range) => drop(range?),
        None => drop(crate::revision::expression(&args.revision)?),
    }
    runtime::block_on(async {
        let path = kubeconfig_path(args.kubeconfig.clone(), std::env::var_os("KUBECONFIG"))?;
        let connection = Connection::open(Some(path.clone()), None, "kstore-at").await?;
        let collections = common_collections(&connection.namespace);
        let (from, upto) = resolve_range(&connection.client, &args.revision, &collections).await?;
        let range = if from == upto { from.to_string() } else { format!("{from}..{upto}") };
        // A state that the server does not have is refused here, and not by each request of the command.
        let version = connection.client.get_path(&format!("/kstore/v1/at/{range}/version")).await;
        drop(version.map_err(|error| anyhow!("{error}"))?);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let folder = std::path::absolute(&path)?.parent().map(Path::to_owned).unwrap_or_default();
        let kubeconfig = of_view(&text, &folder, &range)?;
        if args.prints_kubeconfig {
            print(&kubeconfig)?;
            return Ok(ExitCode::SUCCESS);
        }
        execute(&args.command, &kubeconfig).await
    })
}

/// Runs a command with a kubeconfig, and returns its exit code.
///
/// # Errors
/// The command cannot be started.
pub(crate) async fn execute(command: &[OsString], kubeconfig: &str) -> anyhow::Result<ExitCode> {
    let [program, arguments @ ..] = command else { bail!("say which command: it follows --") };
    let file = MemoryFile::new("kubeconfig", kubeconfig.as_bytes()).context("cannot make the kubeconfig")?;
    // kubectl keeps a discovery cache for each server URL, and would keep one for each revision.
    let cache = tempfile::tempdir().context("cannot make a folder for the discovery cache")?;
    // Ctrl-C reaches the command, too: it decides what ends.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", file.path())
        .env("KUBECACHEDIR", cache.path())
        .spawn()
        .with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
    let status = loop {
        tokio::select! {
            biased;
            status = child.wait() => break status?,
            _ = interrupts.recv() => {}
        }
    };
    let code = status.code().or(status.signal().map(|signal| SIGNALED + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// A kubeconfig whose current context reaches the view. Its other contexts stay as they are.
fn of_view(text: &str, folder: &Path, range: &str) -> anyhow::Result<String> {
    let mut kubeconfig: Value = serde_yaml_ng::from_str(text).context("the kubeconfig is not YAML")?;
    let context = kubeconfig["current-context"].as_str().unwrap_or_default().to_owned();
    let named = |list: &Value, name: &str| {
        list.as_array().and_then(|list| list.iter().position(|entry| entry["name"] == name))
    };
    let at = named(&kubeconfig["contexts"], &context);
    let at =
        at.with_context(|| format!("the kubeconfig has no context {context:?}, which is its current one"))?;
    let cluster = kubeconfig["contexts"][at]["context"]["cluster"].as_str().unwrap_or_default().to_owned();
    let at = named(&kubeconfig["clusters"], &cluster);
    let at = at.with_context(|| format!("the kubeconfig has no cluster {cluster:?}"))?;
    let server = kubeconfig["clusters"][at]["cluster"]["server"].as_str().unwrap_or_default();
    let server = format!("{}/kstore/v1/at/{range}", server.trim_end_matches('/'));
    kubeconfig["clusters"][at]["cluster"]["server"] = server.into();
    for (list, member) in [("clusters", "cluster"), ("users", "user")] {
        for entry in kubeconfig[list].as_array_mut().into_iter().flatten() {
            FILES.iter().for_each(|file| make_absolute(&mut entry[member], file, folder));
        }
    }
    Ok(serde_yaml_ng::to_string(&kubeconfig)?)
}

fn make_absolute(entry: &mut Value, file: &str, folder: &Path) {
    let path = entry.get(file).and_then(Value::as_str).map(PathBuf::from);
    if let Some(path) = path.filter(|path| path.is_relative() && !path.as_os_str().is_empty()) {
        entry[file] = folder.join(path).to_string_lossy().into_owned().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_the_current_context_becomes_the_view() {
        let text = "\
current-context: b
clusters:
- {name: one, cluster: {server: 'https://one:1', certificate-authority: /abs/ca}}
- {name: two, cluster: {server: 'https://two:2/', certificate-authority: ca.crt}}
contexts:
- {name: a, context: {cluster: one, user: u}}
- {name: b, context: {cluster: two, user: u, namespace: shop}}
users:
- {name: u, user: {client-certificate: pki/u.crt, client-key-data: a2V5}}
";
        let made: Value =
            serde_yaml_ng::from_str(&of_view(text, Path::new("/home"), "5..9").unwrap()).unwrap();
        let (one, two) = (&made["clusters"][0]["cluster"], &made["clusters"][1]["cluster"]);
        assert_eq!([&one["server"], &one["certificate-authority"]], ["https://one:1", "/abs/ca"]);
        assert_eq!(two["server"], "https://two:2/kstore/v1/at/5..9");
        assert_eq!(two["certificate-authority"], "/home/ca.crt");
        let user = &made["users"][0]["user"];
        assert_eq!([&user["client-certificate"], &user["client-key-data"]], ["/home/pki/u.crt", "a2V5"]);
        assert_eq!(made["contexts"][1]["context"]["namespace"], "shop");
        for (text, part) in [("current-context: x", "no context \"x\""), ("a: [", "not YAML")] {
            assert!(
                format!("{:#}", of_view(text, Path::new("/"), "5").unwrap_err()).contains(part),
                "{text}"
            );
        }
    }
}
