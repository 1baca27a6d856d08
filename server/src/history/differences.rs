//! `kstore-server diff`: what differs between two states of an object, or of the whole cluster.

use super::cluster::{self, DiffSelection};
use super::compared::{ClusterDiff, Comparison};
use super::object::{HistoryObject, collection, revision, with_revision};
use super::states::{ObjectState, state};
use super::summary::{SummaryDetail, summary};
use super::writes::{self, Authors, RecordedWrite};
use super::{DIFFERS, compared, resolved, text};
use crate::args::{AnswerOutput, DiffArgs};
use crate::client_command::{Connection, print};
use crate::revision::{common_collections, resolve_with, time_of};
use crate::runtime;
use crate::served_kinds::KindFinder;
use anyhow::{Context as _, bail};
use kstore_api::revision_expression::RevisionRange;
use kstore_client::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Revisions between two states whose writers are counted.
const AUTHORS: i64 = 5_000;

/// Prints what differs between two states.
pub(crate) fn diff(args: DiffArgs) -> anyhow::Result<ExitCode> {
    match args.from.contains('/') {
        true => diff_object(args),
        false => diff_cluster(args),
    }
}

fn diff_object(args: DiffArgs) -> anyhow::Result<ExitCode> {
    let (first, from) = with_revision(&args.from)?;
    let (second, to) = match args.to.as_deref() {
        None => (first, None),
        Some(to) if to.contains('/') => with_revision(to)?,
        Some(to) => (first, revision(to)?),
    };
    if from.is_none() && to.is_none() && first == second {
        bail!("say which revisions: for example {first}@244, or {first}@244 {first}@262");
    }
    runtime::block_on(async {
        let connection =
            Connection::open(args.kubeconfig.clone(), args.namespace.as_deref(), "kstore-diff").await?;
        let client = &connection.client;
        let finder = KindFinder::new(client);
        let old = HistoryObject::find(&finder, first, &connection.namespace).await?;
        let new = HistoryObject::find(&finder, second, &connection.namespace).await?;
        let before = retained(client, &old, resolved(client, &old, from).await?).await?;
        let after = retained(client, &new, resolved(client, &new, to).await?).await?;
        let hides = (old.is_secret() || new.is_secret()) && !args.secrets;
        let found = compared(&before, &after, hides, args.fields);
        print(&match args.output {
            AnswerOutput::Json => serde_json::to_string_pretty(&found)? + "\n",
            AnswerOutput::Yaml => serde_yaml_ng::to_string(&found)?,
            AnswerOutput::Text => text::difference(&found),
        })?;
        Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
    })
}

/// The object at a revision; `null` if it was not there.
async fn retained(client: &Client, object: &HistoryObject, at: Option<i64>) -> anyhow::Result<Value> {
    match state(client, object, at).await? {
        ObjectState::Present(value) => Ok(*value),
        ObjectState::Absent => Ok(Value::Null),
        ObjectState::NotRetained => {
            let revision = at.unwrap_or_default();
            bail!("revision {revision} is not retained: a longer --history of the server keeps more")
        }
    }
}

fn diff_cluster(args: DiffArgs) -> anyhow::Result<ExitCode> {
    let (from, to) = sides(&args)?;
    runtime::block_on(async {
        let connection = Connection::open(args.kubeconfig.clone(), None, "kstore-diff").await?;
        let client = &connection.client;
        let finder = KindFinder::new(client);
        let mut kinds = Vec::new();
        for kind in &args.kinds {
            kinds.push(finder.find(kind).await.context("--kind")?);
        }
        let namespace = args.namespace.as_deref().unwrap_or(&connection.namespace);
        let mut collections: Vec<String> = kinds.iter().map(|kind| collection(kind, namespace)).collect();
        collections.extend(common_collections(namespace));
        let from = resolve_with(client, &from, None, &collections).await?;
        let to = resolve_with(client, &to, None, &collections).await?;
        let selection = DiffSelection {
            namespace: args.namespace.clone(),
            labels: args.labels.clone().unwrap_or_default(),
            kinds,
            all_kinds: args.all_kinds,
            secrets: args.secrets,
            comparison: Comparison {
                all_fields: args.fields,
                hides_values: false,
                ignores_status: args.ignores_status,
            },
        };
        let found = cluster::diff(client, (from, to), &selection).await?;
        print(&shown(client, (from, to), &found, &args).await?)?;
        Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
    })
}

/// The two states that the arguments name: `A`, `A B` or `A..B`.
fn sides(args: &DiffArgs) -> anyhow::Result<(String, String)> {
    let (from, to) = match (args.from.split_once(".."), args.to.as_deref()) {
        (Some((from, to)), None) => {
            RevisionRange::parse(&args.from).transpose()?;
            let side = |text: &str, missing: &str| {
                if text.is_empty() { missing.to_owned() } else { text.to_owned() }
            };
            (side(from, "oldest"), side(to, "now"))
        }
        (Some(_), Some(_)) => bail!("{:?} has two revisions: a third one cannot follow", args.from),
        (None, to) => (args.from.clone(), to.unwrap_or("now").to_owned()),
    };
    revision(&from)?;
    if to.contains('/') {
        bail!(
            "{from:?} is a state of the cluster and {to:?} an object: write KIND/NAME@{from} for one of the object"
        );
    }
    revision(&to)?;
    Ok((from, to))
}

async fn shown(
    client: &Client,
    (from, to): (i64, i64),
    found: &ClusterDiff,
    args: &DiffArgs,
) -> anyhow::Result<String> {
    let times = [time_of(client, from).await, time_of(client, to).await];
    let answer = || {
        let side =
            |revision: i64, time: &Option<jiff::Timestamp>| json!({"revision": revision, "time": time});
        let mut answer = json!({"apiVersion": "kstore/v1", "kind": "Diff", "a": side(from, &times[0]), "b": side(to, &times[1])});
        let members = serde_json::to_value(found)?;
        if let (Some(answer), Value::Object(members)) = (answer.as_object_mut(), members) {
            answer.extend(members);
        }
        anyhow::Ok(answer)
    };
    Ok(match args.output {
        AnswerOutput::Json => serde_json::to_string_pretty(&answer()?)? + "\n",
        AnswerOutput::Yaml => serde_yaml_ng::to_string(&answer()?)?,
        AnswerOutput::Text => {
            let [old, new] = [(from, times[0]), (to, times[1])].map(|(revision, time)| match time {
                Some(time) => format!("#{revision} ({time:.3})"),
                None => format!("#{revision}"),
            });
            let by = authors(client, (from, to)).await;
            let detail = SummaryDetail { is_stat: args.stat, is_verbose: args.verbose };
            summary(&format!("cluster {old} → {new}{by}"), found, detail)
        }
    })
}

/// How many revisions there are between two states, and of how many programs; empty if the server does not say it.
async fn authors(client: &Client, (from, to): (i64, i64)) -> String {
    if from >= to || to - from > AUTHORS {
        return String::new();
    }
    let Ok(writes) = writes::between(client, from, to).await else { return String::new() };
    // Managed fields name no program of some writes, and a user who may not read notes is told of some writes alone.
    if writes.iter().any(|write| write.authors == Authors::ManagedFields) {
        return String::new();
    }
    let programs: BTreeSet<&str> = writes.iter().map(RecordedWrite::program).collect();
    let count =
        |count: usize, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    format!(" · {} by {}", count(writes.len(), "revision"), count(programs.len(), "program"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_a_cluster_are_one_revision_two_or_a_range() {
        let of = |from: &str, to: Option<&str>| {
            let args = DiffArgs { from: from.to_owned(), to: to.map(str::to_owned), ..DiffArgs::default() };
            sides(&args).map_err(|error| error.to_string())
        };
        let both = |from: &str, to: &str| Ok((from.to_owned(), to.to_owned()));
        assert_eq!(of("5m", None), both("5m", "now"));
        assert_eq!(of("244", Some("#313")), both("244", "#313"));
        assert_eq!(of("244..313", None), both("244", "313"));
        assert_eq!(of("..313", None), both("oldest", "313"));
        for (from, to, part) in [
            ("1..2", Some("3"), "a third one"),
            ("Yesterday", None, "is no revision"),
            ("5m", Some("cm/a"), "write KIND/NAME@5m"),
            ("1..", Some("x"), "a third one"),
        ] {
            assert!(of(from, to).unwrap_err().contains(part), "{from}");
        }
    }
}
