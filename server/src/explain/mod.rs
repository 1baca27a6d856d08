//! `kstore-server explain KIND/NAME`: fetches the causal tree of an object from a running server and prints
//! it as text, JSON or YAML. The apiserver determines causes.

mod summary;
mod trace;
mod tree;

use crate::args::{DEFAULT_DATA_DIR, ExplainArgs, ExplainOutput};
use crate::wiring;
use anyhow::{Context, anyhow, bail};
use kstore_api::kind::{RESOURCES, Resource};
use kstore_client::{Client, Kubeconfig};
use kstore_nondet::Nondet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::{Filter, Trace};

/// Fetches and prints the causal tree.
pub(crate) fn explain(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let (kind, name) =
        args.object.split_once('/').context("say which object: KIND/NAME, for example deployment/web")?;
    let resource = find_resource(kind)
        .with_context(|| format!("`{kind}` is not a kind of this API; see kubectl api-resources"))?;
    let filter = filter(&args)?;
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
        let trace: Trace = serde_json::from_slice(&answer).context("the server's answer is not a trace")?;
        let text = shown(trace.filtered(&filter), args.output, args.all)?;
        // The reader of standard output may have exited, such as a pager.
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    })
}

/// The filter that the flags describe.
fn filter(args: &ExplainArgs) -> anyhow::Result<Filter> {
    let kind = |text: &String| match find_resource(text) {
        Some(resource) => Ok(resource.plural.to_owned()),
        None => Err(anyhow!("`{text}` in --kind is not a kind of this API; see kubectl api-resources")),
    };
    let kinds = args.kind.iter().map(kind).collect::<Result<_, _>>()?;
    let since = args.since.map(|since| Nondet::real().clock.now().checked_sub(since)).transpose()?;
    Ok(Filter { kinds, by: args.by.clone(), since, depth: args.depth })
}

/// The output. A tree of more than [`summary::SUMMARY_FROM`] lines is summarized unless `all` is set.
fn shown(trace: Trace, output: ExplainOutput, all: bool) -> anyhow::Result<String> {
    Ok(match output {
        ExplainOutput::Json => serde_json::to_string_pretty(&trace)? + "\n",
        ExplainOutput::Yaml => serde_yaml_ng::to_string(&trace)?,
        ExplainOutput::Text if trace.writes.is_empty() => "no writes match\n".to_owned(),
        ExplainOutput::Text if all => tree::render(&trace),
        ExplainOutput::Text => {
            let text = tree::render(&trace);
            if text.lines().count() > summary::SUMMARY_FROM { summary::render(trace) } else { text }
        }
    })
}

fn query(resource: &Resource, namespace: &str, name: &str) -> String {
    let namespace =
        if resource.namespaced { format!("&namespace={}", escape(namespace)) } else { String::new() };
    format!("/kstore/v1/trace?resource={}{namespace}&name={}", resource.qualified(), escape(name))
}

/// Percent-encodes all bytes with a meaning in a query.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// Finds a stored resource by plural, singular, short name or kind, with or without `.group`.
fn find_resource(text: &str) -> Option<&'static Resource> {
    let text = text.to_ascii_lowercase();
    let (name, group) = text.split_once('.').unwrap_or((&text, ""));
    RESOURCES.iter().filter(|row| row.is_stored() && row.storage_version.is_none()).find(|row| {
        let named = row.plural == name || row.singular == name || row.short_names.contains(&name);
        (named || row.kind.eq_ignore_ascii_case(name)) && (group.is_empty() || row.group == group)
    })
}

/// Path of the kubeconfig: the flag, else the first existing file of KUBECONFIG, else the admin kubeconfig of
/// ./kstore-data.
pub(crate) fn kubeconfig_path(flag: Option<PathBuf>, variable: Option<OsString>) -> anyhow::Result<PathBuf> {
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
            assert_eq!(find_resource(text).map(|row| row.plural), expected, "{text}");
        }
    }

    #[test]
    fn the_trace_query_names_group_namespace_and_name() {
        let ask = |kind: &str, name: &str| query(find_resource(kind).unwrap(), "a b", name);
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
    fn the_kubeconfig_flag_takes_precedence_over_the_environment() {
        let flag = kubeconfig_path(Some("f".into()), Some("g".into())).unwrap();
        assert_eq!(flag, Path::new("f"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        std::fs::write(&file, "").unwrap();
        let list = std::env::join_paths([Path::new("/does/not/exist"), &file]).unwrap();
        assert_eq!(kubeconfig_path(None, Some(list)).unwrap(), file);
    }
}
