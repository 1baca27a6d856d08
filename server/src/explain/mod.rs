//! `kstore-server explain KIND/NAME`: fetches the causal tree of an object from a running server and prints
//! it as text, JSON or YAML. The apiserver determines causes. For a pod also why it is on its node, or on none: see `pod`.

mod pod;
mod summary;
pub(crate) mod trace;
mod tree;

use crate::args::{AnswerOutput, ExplainArgs};
use crate::client_command::{Connection, print};
use crate::revision::resolve;
use crate::runtime;
use crate::served_kinds::{FoundKind, KindFinder, built_in};
use anyhow::{Context, anyhow, bail};
use kstore_client::Client;
use kstore_cluster::{PlacementAnswer, PlacementError, PodName, escape, explain_placement};
use kstore_nondet::Nondet;
use kstore_scheduler::Profiles;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::ExitCode;
use trace::{Filter, Trace};

/// Updates for which the server says what changed: its own bound.
const CHANGES: usize = 500;

/// Fetches and prints the causal tree, for a pod below why it is where it is.
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
        let is_pod = resource.qualified() == "pods";
        if args.is_about_placement() && !is_pod {
            bail!(
                "--placement, --all-nodes, --at and --scheduler-config are about pods, and not about {kind}"
            );
        }
        let filter = filter(&args, &kinds).await?;
        let trace = trace(&client, &query(&resource, &namespace, name)).await;
        let pod = PodName { namespace: &namespace, name };
        let placement = match is_pod && !args.tree {
            true => Some(placement(&client, pod, &args, trace.as_ref().ok()).await),
            false => None,
        };
        match placement {
            Some(found) if args.placement => {
                let found = found?;
                print(&answer(&found, &args)?)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Err(error)) => {
                // The tree of a pod that is gone is still of use.
                eprintln!("kstore-server: nothing about the node of pod {name}: {error:#}");
                show(trace?, &filter, &args, None)
            }
            Some(Ok(found)) => show(trace?, &filter, &args, Some(&found)),
            None => show(trace?, &filter, &args, None),
        }
    })
}

/// Asks the server for the causal tree.
async fn trace(client: &Client, query: &str) -> anyhow::Result<Trace> {
    let answer = client.get_path(query).await.map_err(|error| anyhow!("{error}"))?;
    serde_json::from_slice(&answer).context("the server's answer is not a trace")
}

/// Explains the place of a pod, at the revision of `--at` or now.
async fn placement(
    client: &Client,
    pod: PodName<'_>,
    args: &ExplainArgs,
    trace: Option<&Trace>,
) -> anyhow::Result<PlacementAnswer> {
    let at = match &args.at {
        Some(text) => Some(resolve(client, text, None).await?),
        None => None,
    };
    pod::placement(client, pod, args.scheduler_config.as_deref(), (at, trace)).await
}

/// Explains the place of the pod `name` in `namespace`, at a revision or now, as data with at most `nodes` nodes.
///
/// # Errors
/// There is no such pod, or the server refuses to show it.
pub(crate) async fn placement_data(
    client: &Client,
    (namespace, name): (&str, &str),
    at: Option<i64>,
    nodes: usize,
) -> Result<Value, PlacementError> {
    let resource = built_in("pods").expect("pods are built in");
    // Without the tree it is not known which write bound the pod; the place can be explained nevertheless.
    let trace = trace(client, &query(&resource, namespace, name)).await.ok();
    let (pod, profiles) = (PodName { namespace, name }, Profiles::default());
    let answer = explain_placement(client, pod, &profiles, pod::moment(pod, at, trace.as_ref())).await?;
    Ok(answer.data_of(nodes))
}

/// Prints the part of the tree that the filter keeps, below the answer about the place of a pod.
fn show(
    trace: Trace,
    filter: &Filter,
    args: &ExplainArgs,
    placement: Option<&PlacementAnswer>,
) -> anyhow::Result<ExitCode> {
    let actors = trace.actors();
    let mut trace = trace.filtered(filter);
    let is_text = args.output == AnswerOutput::Text;
    if let Some(found) = placement.filter(|_| is_text) {
        print(&(answer(found, args)? + "\n"))?;
    }
    if trace.writes.is_empty() && is_text {
        bail!("{}", no_match(filter, actors));
    }
    if is_text && !trace.hidden_kinds.is_empty() {
        let kinds = trace.hidden_kinds.join(", ");
        eprintln!("kstore-server: writes to objects that you may not list are left out: {kinds}");
    }
    trace.placement = placement.map(PlacementAnswer::data);
    let has_match = !trace.writes.is_empty();
    print(&shown(trace, args.output, args.all)?)?;
    if !has_match {
        eprintln!("kstore-server: {}", no_match(filter, actors));
    }
    Ok(if has_match { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The answer about the place of a pod alone.
fn answer(found: &PlacementAnswer, args: &ExplainArgs) -> anyhow::Result<String> {
    Ok(match args.output {
        AnswerOutput::Json => serde_json::to_string_pretty(&found.data())? + "\n",
        AnswerOutput::Yaml => serde_yaml_ng::to_string(&found.data())?,
        AnswerOutput::Text => pod::text(found, args.all_nodes),
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
