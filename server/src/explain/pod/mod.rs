//! `kstore-server explain pod/NAME`: why a pod is pending, or why it is on its node, as text and data: `kstore_cluster` computes it.

mod text;

use super::trace::{Node, Trace};
use anyhow::{Context as _, anyhow};
use kstore_client::Client;
use kstore_cluster::{PlacementAnswer, PlacementMoment, PodName, explain_placement};
use kstore_scheduler::{Configuration, Profiles, Registry};
use std::path::Path;
pub(super) use text::text;

/// Explains where a pod is, or why it is nowhere. `at` is a revision of the past; `trace` has the writes to the pod, if they are known.
///
/// # Errors
/// There is no such pod, the server refuses to show it, or the file of `scheduler_config` cannot be used.
pub(super) async fn placement(
    client: &Client,
    pod: PodName<'_>,
    scheduler_config: Option<&Path>,
    (at, trace): (Option<i64>, Option<&Trace>),
) -> anyhow::Result<PlacementAnswer> {
    let profiles = profiles(scheduler_config)?;
    let moment = moment(pod, at, trace);
    Ok(explain_placement(client, pod, &profiles, moment).await?)
}

/// The moment of a question: with the write that bound the pod, if there is one up to `at`.
pub(super) fn moment(pod: PodName<'_>, at: Option<i64>, trace: Option<&Trace>) -> PlacementMoment {
    let bind = trace.and_then(|trace| binding(&trace.writes, pod, at.unwrap_or(i64::MAX)));
    PlacementMoment { at, bind: bind.map(|node| (node.revision, node.actor())) }
}

/// The write that bound the pod: the newest one up to a revision, if several pods had the name.
fn binding<'t>(writes: &'t [Node], pod: PodName<'_>, until: i64) -> Option<&'t Node> {
    let object = format!("pods/{}/{}", pod.namespace, pod.name);
    let own = |node: &'t Node| {
        let is_bind = node.object == object && node.subresource() == "binding" && node.revision <= until;
        let below = binding(&node.children, pod, until);
        [below, is_bind.then_some(node)].into_iter().flatten().max_by_key(|node| node.revision)
    };
    writes.iter().filter_map(own).max_by_key(|node| node.revision)
}

fn profiles(scheduler_config: Option<&Path>) -> anyhow::Result<Profiles> {
    let Some(path) = scheduler_config else { return Ok(Profiles::default()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read = Configuration::parse(&text, &Registry::in_tree());
    Ok(read.map_err(|error| anyhow!("--scheduler-config: {error}"))?.profiles)
}

#[cfg(test)]
mod tests;
