//! `kstore-server tag`: names of revisions, which are the members of a ConfigMap of the server.

use crate::args::{AnswerOutput, TagArgs, UsageError};
use crate::client_command::{Connection, print};
use crate::revision::{expression, retained};
use crate::runtime;
use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use kstore_api::revision_expression::{Moment, RevisionExpression};
use kstore_apiserver::tags;
use kstore_client::{Client, DynamicApi, Gvr};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Writes that are tried, if others change tags meanwhile.
const TRIES: u32 = 5;

/// Sets, deletes or lists tags.
pub(crate) fn tag(args: &TagArgs) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.name {
        check_name(name)?;
    }
    if let Some(revision) = &args.revision {
        expression(revision)?;
    }
    runtime::block_on(async {
        let connection = Connection::open(args.kubeconfig.clone(), None, "kstore-tag").await?;
        let client = &connection.client;
        let text = match (&args.name, &args.deleted) {
            (Some(name), _) => {
                let (revision, time) = retained(client, args.revision.as_deref().unwrap_or("now")).await?;
                change(client, |tags| {
                    tags.insert(name.clone(), revision);
                    match tags.len() > tags::MOST {
                        true => bail!("there are {} tags already: delete one", tags::MOST),
                        false => Ok(()),
                    }
                })
                .await?;
                format!("{name} is revision {revision}{}\n", shown_time(time))
            }
            (None, Some(name)) => {
                change(client, |tags| {
                    tags.remove(name).map(drop).ok_or_else(|| anyhow!("there is no tag {name:?}"))
                })
                .await?;
                format!("{name} is deleted\n")
            }
            (None, None) => list(client, args.output).await?,
        };
        print(&text)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Refuses names that expressions take for something else.
fn check_name(name: &str) -> Result<(), UsageError> {
    match RevisionExpression::parse(name) {
        Ok(RevisionExpression { moment: Moment::Tag(_), back: 0 }) => Ok(()),
        _ => Err(UsageError::NoTag(name.to_owned())),
    }
}

fn maps(client: &Client) -> DynamicApi {
    client.dynamic(Gvr::new("", "v1", "configmaps"))
}

/// The ConfigMap; `None`: there is none yet.
async fn stored(client: &Client) -> anyhow::Result<Option<Value>> {
    match maps(client).get(tags::NAMESPACE, tags::NAME).await {
        Ok(map) => Ok(Some(map)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(anyhow!("{error}")).context("cannot read the tags"),
    }
}

/// Changes the tags, again if somebody else changes them meanwhile.
async fn change(
    client: &Client,
    apply: impl Fn(&mut BTreeMap<String, i64>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut tries = 1;
    loop {
        let found = stored(client).await?;
        let mut tags = found.as_ref().map(tags::of).unwrap_or_default();
        apply(&mut tags)?;
        let data: BTreeMap<String, String> =
            tags.into_iter().map(|(name, revision)| (name, revision.to_string())).collect();
        let written = match found {
            Some(mut map) => {
                map["data"] = json!(data);
                maps(client).update(&map).await
            }
            None => {
                let metadata = json!({"name": tags::NAME, "namespace": tags::NAMESPACE});
                let map =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
                maps(client).create(tags::NAMESPACE, &map).await
            }
        };
        match written {
            Ok(_) => return Ok(()),
            Err(error) if (error.is_conflict() || error.is_already_exists()) && tries < TRIES => tries += 1,
            Err(error) => return Err(anyhow!("{error}")).context("cannot write the tags"),
        }
    }
}

/// All tags with their revisions, the oldest first.
async fn list(client: &Client, output: AnswerOutput) -> anyhow::Result<String> {
    let tags = stored(client).await?.as_ref().map(tags::of).unwrap_or_default();
    let mut tags: Vec<(String, i64)> = tags.into_iter().collect();
    tags.sort_by_key(|(_, revision)| *revision);
    let mut rows = Vec::new();
    for (name, revision) in tags {
        let state = retained(client, &revision.to_string()).await;
        rows.push(TagRow {
            name,
            revision,
            is_retained: state.is_ok(),
            time: state.ok().and_then(|(_, time)| time),
        });
    }
    Ok(match output {
        AnswerOutput::Text if rows.is_empty() => "there are no tags\n".to_owned(),
        AnswerOutput::Text => rows.iter().map(TagRow::line).collect(),
        AnswerOutput::Json => serde_json::to_string_pretty(&answer(&rows))? + "\n",
        AnswerOutput::Yaml => serde_yaml_ng::to_string(&answer(&rows))?,
    })
}

/// A tag in the list.
struct TagRow {
    name: String,
    revision: i64,
    is_retained: bool,
    time: Option<Timestamp>,
}

impl TagRow {
    fn line(&self) -> String {
        let Self { name, revision, is_retained, time } = self;
        let state = if *is_retained { shown_time(*time) } else { "  not retained".to_owned() };
        format!("{name:<24} #{revision}{state}\n")
    }
}

fn answer(rows: &[TagRow]) -> Value {
    let row = |row: &TagRow| {
        let time = row.time.map(|time| time.to_string());
        json!({"name": row.name, "revision": row.revision, "retained": row.is_retained, "time": time})
    };
    json!({"apiVersion": "kstore/v1", "kind": "Tags", "tags": rows.iter().map(row).collect::<Vec<_>>()})
}

fn shown_time(time: Option<Timestamp>) -> String {
    time.map(|time| format!("  ({})", time.strftime("%FT%TZ"))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_expressions_take_for_something_else_is_refused() {
        check_name("before-upgrade").unwrap();
        for name in ["12", "5m", "now", "oldest", "Before", "a~1", "-a", "23:38:56"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
