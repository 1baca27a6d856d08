//! `kstore-server explain KIND/NAME`: the causal tree of an object, as text. Asks a running server; what caused what is
//! the apiserver's knowledge.

mod tree;

use crate::args::{DEFAULT_DATA_DIR, ExplainArgs};
use crate::wiring;
use anyhow::{Context, anyhow, bail};
use kstore_api::kind::{RESOURCES, Resource};
use kstore_client::{Client, Kubeconfig};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prints the tree.
pub(crate) fn explain(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let (kind, name) =
        args.object.split_once('/').context("say which object: KIND/NAME, for example deployment/web")?;
    let resource =
        find(kind).with_context(|| format!("`{kind}` is no kind of this API; see kubectl api-resources"))?;
    let path = kubeconfig_path(args.kubeconfig, std::env::var_os("KUBECONFIG"))?;
    let kubeconfig =
        Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use the kubeconfig: {error}"))?;
    let namespace = args.namespace.unwrap_or_else(|| match kubeconfig.namespace.as_str() {
        "" => "default".into(),
        namespace => namespace.into(),
    });
    wiring::block_on(async {
        let client = Client::connect(&kubeconfig, "kstore-explain").await;
        let client = client.with_context(|| format!("cannot reach {}", kubeconfig.server))?;
        let answer =
            client.get_path(&query(resource, &namespace, name)).await.map_err(|error| anyhow!("{error}"))?;
        let trace: tree::Trace =
            serde_json::from_slice(&answer).context("the server's answer is no trace")?;
        // Nobody may be reading any more (a pager that was left).
        let _ = std::io::stdout().write_all(tree::render(&trace).as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

fn query(resource: &Resource, namespace: &str, name: &str) -> String {
    let namespace =
        if resource.namespaced { format!("&namespace={}", escape(namespace)) } else { String::new() };
    format!("/kstore/v1/trace?resource={}{namespace}&name={}", resource.qualified(), escape(name))
}

/// Percent-encodes everything that has a meaning in a query.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// The stored kind that a person means: by plural, singular, short name or kind, with or without `.group`.
fn find(text: &str) -> Option<&'static Resource> {
    let text = text.to_ascii_lowercase();
    let (name, group) = text.split_once('.').unwrap_or((&text, ""));
    RESOURCES.iter().filter(|row| row.is_stored() && row.storage_version.is_none()).find(|row| {
        let named = row.plural == name || row.singular == name || row.short_names.contains(&name);
        (named || row.kind.eq_ignore_ascii_case(name)) && (group.is_empty() || row.group == group)
    })
}

/// The flag, else the first existing file of KUBECONFIG, else the one that a server in this directory wrote.
fn kubeconfig_path(flag: Option<PathBuf>, variable: Option<OsString>) -> anyhow::Result<PathBuf> {
    if let Some(path) = flag {
        return Ok(path);
    }
    let listed = variable.as_ref().and_then(|list| std::env::split_paths(list).find(|path| path.exists()));
    let local = Path::new(DEFAULT_DATA_DIR).join("admin.kubeconfig");
    match listed {
        Some(path) => Ok(path),
        None if local.exists() => Ok(local),
        None => bail!("which server? Set KUBECONFIG or give --kubeconfig FILE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_any_of_its_names() {
        for (text, expected) in [
            ("deployment", Some("deployments")),
            ("deploy", Some("deployments")),
            ("Deployment.apps", Some("deployments")),
            ("po", Some("pods")),
            ("Node", Some("nodes")),
            ("deployment.batch", None),
            ("selfsubjectreview", None),
            ("gadget", None),
        ] {
            assert_eq!(find(text).map(|row| row.plural), expected, "{text}");
        }
    }

    #[test]
    fn the_question_names_group_namespace_and_name() {
        let ask = |kind: &str, name: &str| query(find(kind).unwrap(), "a b", name);
        assert_eq!(
            ask("deploy", "web"),
            "/kstore/v1/trace?resource=deployments.apps&namespace=a%20b&name=web"
        );
        assert_eq!(
            ask("clusterrole", "system:node"),
            "/kstore/v1/trace?resource=clusterroles.rbac.authorization.k8s.io&name=system:node"
        );
    }

    #[test]
    fn the_flag_goes_before_the_environment() {
        let flag = kubeconfig_path(Some("f".into()), Some("g".into())).unwrap();
        assert_eq!(flag, Path::new("f"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        std::fs::write(&file, "").unwrap();
        let list = std::env::join_paths([Path::new("/does/not/exist"), &file]).unwrap();
        assert_eq!(kubeconfig_path(None, Some(list)).unwrap(), file);
    }
}
