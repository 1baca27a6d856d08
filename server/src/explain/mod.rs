//! `kstore-server explain KIND/NAME`: fetches the causal tree of an object from a running server and prints
//! it as text, JSON or YAML. The apiserver determines causes.

mod summary;
pub(crate) mod trace;
mod tree;

use crate::args::{AnswerOutput, ExplainArgs};
use crate::client_command::{Connection, escape, print};
use crate::runtime;
use crate::served_kinds::{FoundKind, KindFinder};
use anyhow::{Context, anyhow, bail};
use kstore_nondet::Nondet;
use std::collections::BTreeSet;
use std::process::ExitCode;
use trace::{Filter, Trace};

/// Updates for which the server says what changed: its own bound.
const CHANGES: usize = 500;

/// Fetches and prints the causal tree.
pub(crate) fn explain(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let (kind, name) =
        args.object.split_once('/').context("say which object: KIND/NAME, for example deployment/web")?;
    if name.is_empty() {
        bail!("say which {kind}: KIND/NAME, for example {kind}/web");
    }
    runtime::block_on(async {
        let Connection { client, namespace } =
            Connection::open(args.kubeconfig.clone(), args.namespace.as_deref(), "kstore-explain").await?;
        let kinds = KindFinder::new(&client);
        let resource = kinds.find(kind).await?;
        let filter = filter(&args, &kinds).await?;
        let answer =
            client.get_path(&query(&resource, &namespace, name)).await.map_err(|error| anyhow!("{error}"))?;
        let trace: Trace = serde_json::from_slice(&answer).context("the server's answer is not a trace")?;
        let actors = trace.actors();
        let trace = trace.filtered(&filter);
        if trace.writes.is_empty() && args.output == AnswerOutput::Text {
            bail!("{}", no_match(&filter, actors));
        }
        let has_match = !trace.writes.is_empty();
        print(&shown(trace, args.output, args.all)?)?;
        if !has_match {
            eprintln!("kstore-server: {}", no_match(&filter, actors));
        }
        Ok(if has_match { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Says why nothing is shown, and who wrote.
fn no_match(filter: &Filter, actors: BTreeSet<String>) -> String {
    let by = filter.by.iter().map(|by| format!("{by:?}")).collect::<Vec<_>>().join(" or ");
    let is_by_alone = filter.kinds.is_empty() && filter.since.is_none();
    let what = match (by.is_empty(), is_by_alone) {
        (true, _) => "no write matches".to_owned(),
        (false, true) => format!("no write by {by}"),
        (false, false) => format!("no write by {by} matches"),
    };
    let actors: Vec<_> = actors.into_iter().collect();
    format!("{what}; writers here: {}", actors.join(", "))
}

/// The filter that the flags describe.
async fn filter(args: &ExplainArgs, finder: &KindFinder<'_>) -> anyhow::Result<Filter> {
    let mut kinds = Vec::new();
    for text in &args.kind {
        kinds.push(finder.find(text).await.context("--kind")?.plural);
    }
    let since = args.since.map(|since| Nondet::real().clock.now().checked_sub(since)).transpose()?;
    Ok(Filter { kinds, by: args.by.clone(), since, depth: args.depth })
}

/// The output. A tree of more than [`summary::SUMMARY_FROM`] lines is summarized unless `all` is set.
fn shown(trace: Trace, output: AnswerOutput, all: bool) -> anyhow::Result<String> {
    Ok(match output {
        AnswerOutput::Json => serde_json::to_string_pretty(&trace)? + "\n",
        AnswerOutput::Yaml => serde_yaml_ng::to_string(&trace)?,
        AnswerOutput::Text if all => tree::render(&trace),
        AnswerOutput::Text => {
            let text = tree::render(&trace);
            if text.lines().count() > summary::SUMMARY_FROM { summary::render(trace) } else { text }
        }
    })
}

fn query(resource: &FoundKind, namespace: &str, name: &str) -> String {
    let namespace =
        if resource.namespaced { format!("&namespace={}", escape(namespace)) } else { String::new() };
    format!(
        "/kstore/v1/trace?resource={}{namespace}&name={}&changes={CHANGES}",
        resource.qualified(),
        escape(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_query_names_group_namespace_and_name() {
        let ask = |kind: &str, name: &str| query(&crate::served_kinds::built_in(kind).unwrap(), "a b", name);
        assert_eq!(
            ask("deploy", "web"),
            "/kstore/v1/trace?resource=deployments.apps&namespace=a%20b&name=web&changes=500"
        );
        assert_eq!(
            ask("clusterrole", "system:node"),
            "/kstore/v1/trace?resource=clusterroles.rbac.authorization.k8s.io&name=system:node&changes=500"
        );
    }

    #[test]
    fn a_filter_without_a_match_names_the_writers() {
        let filter = Filter { by: vec!["schedular".into()], ..Filter::default() };
        let actors = ["kube-scheduler", "kubernetes-admin (kubectl)"].map(str::to_owned).into();
        let expected = "no write by \"schedular\"; writers here: kube-scheduler, kubernetes-admin (kubectl)";
        assert_eq!(no_match(&filter, actors), expected);
    }
}
