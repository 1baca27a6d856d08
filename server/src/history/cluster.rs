//! Reads two states of the cluster, kind by kind and page by page, and compares them.

use super::compared::{ClusterDiff, Comparison, ObjectDiff, compared, order};
use super::object::collection;
use super::written::WrittenObjects;
use crate::served_kinds::FoundKind;
use anyhow::{Context as _, anyhow};
use kstore_api::status::Reason;
use kstore_client::{ApiError, Client};
use kstore_cluster::escape;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Objects of a page.
const PAGE: usize = 500;

/// Kinds that change all the time, and say little: they are counted.
const HEARTBEATS: [&str; 3] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"];

/// What is compared.
#[derive(Clone, Debug, Default)]
pub(super) struct DiffSelection {
    /// `None`: all namespaces, and kinds without them.
    pub namespace: Option<String>,
    /// Label selector; empty: everything.
    pub labels: String,
    /// Kinds; empty: all.
    pub kinds: Vec<FoundKind>,
    /// Whether kinds that change all the time are compared, too.
    pub all_kinds: bool,
    /// Whether values of Secrets are shown.
    pub secrets: bool,
    pub comparison: Comparison,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
    items: Vec<Value>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    preferred_version: Version,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    group_version: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<ListedKind>,
}

#[derive(Deserialize)]
struct ListedKind {
    name: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

/// Compares the states at two revisions.
///
/// # Errors
/// The server does not answer, or does not have one of the states.
pub(super) async fn diff(
    client: &Client,
    (from, to): (i64, i64),
    selection: &DiffSelection,
) -> anyhow::Result<ClusterDiff> {
    let kinds = match selection.kinds.is_empty() {
        false => selection.kinds.clone(),
        true => {
            // A kind may have been defined or removed in between.
            let mut kinds = served(client, from).await?;
            kinds.extend(served(client, to).await?);
            kinds.into_values().collect()
        }
    };
    let mut found = ClusterDiff::default();
    let written = WrittenObjects::between(client, (from, to), selection).await;
    for kind in kinds.iter().filter(|kind| kind.namespaced || selection.namespace.is_none()) {
        let resource = kind.qualified();
        let hides_values = resource == "secrets" && !selection.secrets;
        let comparison = Comparison { hides_values, ..selection.comparison };
        let namespace = selection.namespace.as_deref().unwrap_or_default();
        let objects = match &written {
            Some(written) => written.compare(client, (from, to), (kind, namespace), comparison).await?,
            None => None,
        };
        let objects = match objects {
            Some(objects) => Some(objects),
            None => compare_kind(client, (from, to), kind, selection, comparison).await?,
        };
        let Some(objects) = objects else {
            found.hidden_kinds.push(resource);
            continue;
        };
        let is_heartbeat =
            HEARTBEATS.contains(&&*resource) && !selection.all_kinds && selection.kinds.is_empty();
        match is_heartbeat {
            true if objects.is_empty() => {}
            true => drop(found.heartbeats.insert(resource, objects.len())),
            false => found.add(&resource, objects),
        }
    }
    Ok(found)
}

/// The kinds that were served at a revision, with the version that clients prefer.
async fn served(client: &Client, revision: i64) -> anyhow::Result<BTreeMap<String, FoundKind>> {
    let Groups { groups } = read(client, &format!("/kstore/v1/at/{revision}/apis")).await?;
    let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    for Group { preferred_version, versions: all } in groups {
        let mut all: Vec<String> = all.into_iter().map(|version| version.group_version).collect();
        // A kind that the preferred version lacks is in another one.
        all.sort_by_key(|version| *version != preferred_version.group_version);
        versions.extend(all.into_iter().map(|version| (format!("/apis/{version}"), version)));
    }
    let mut kinds = BTreeMap::new();
    for (path, version) in versions {
        let Resources { resources } = read(client, &format!("/kstore/v1/at/{revision}{path}")).await?;
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        for ListedKind { name, namespaced, verbs } in resources {
            let is_listed = !name.contains('/') && verbs.iter().any(|verb| verb == "list");
            // Events are in two groups, and are the same objects; the statuses of components are not stored.
            if !is_listed || (group == "events.k8s.io" && name == "events") || name == "componentstatuses" {
                continue;
            }
            let (group, version) = (group.to_owned(), version.to_owned());
            let kind = FoundKind { plural: name, group, version, namespaced };
            kinds.entry(kind.qualified()).or_insert(kind);
        }
    }
    Ok(kinds)
}

/// The objects of a kind that differ; `None` if the user may not list them.
async fn compare_kind(
    client: &Client,
    (from, to): (i64, i64),
    kind: &FoundKind,
    selection: &DiffSelection,
    comparison: Comparison,
) -> anyhow::Result<Option<Vec<ObjectDiff>>> {
    let resource = kind.qualified();
    let mut old = Pages::new(client, kind, selection, from);
    let mut new = Pages::new(client, kind, selection, to);
    let mut found = Vec::new();
    loop {
        let (Some(before), Some(after)) = (old.front().await?, new.front().await?) else { return Ok(None) };
        let order = match (before, after) {
            (None, None) => return Ok(Some(found)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(before), Some(after)) => order(before, after),
        };
        let before = if order.is_le() { old.items.pop_front() } else { None };
        let after = if order.is_ge() { new.items.pop_front() } else { None };
        found.extend(compared_lives(&resource, before.as_ref(), after.as_ref(), comparison));
    }
}

/// What differs between two states of the objects with one name: another life of the name is another object.
pub(super) fn compared_lives(
    resource: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    comparison: Comparison,
) -> Vec<ObjectDiff> {
    let both_lives = [before, after].map(|object| object.map(|object| &object["metadata"]["uid"]));
    match both_lives {
        [Some(one), Some(other)] if one != other => {
            let removed = compared(resource, before, None, comparison);
            removed.into_iter().chain(compared(resource, None, after, comparison)).collect()
        }
        _ => compared(resource, before, after, comparison).into_iter().collect(),
    }
}

/// The objects of a kind at a revision, page by page.
struct Pages<'c> {
    client: &'c Client,
    path: String,
    /// The token of the next page; `None`: there is none.
    next: Option<String>,
    items: VecDeque<Value>,
}

impl<'c> Pages<'c> {
    fn new(client: &'c Client, kind: &FoundKind, selection: &DiffSelection, revision: i64) -> Self {
        let collection = collection(kind, selection.namespace.as_deref().unwrap_or_default());
        let labels = match selection.labels.as_str() {
            "" => String::new(),
            labels => format!("&labelSelector={}", escape(labels)),
        };
        let path = format!("/kstore/v1/at/{revision}{collection}?limit={PAGE}{labels}");
        Self { client, path, next: Some(String::new()), items: VecDeque::new() }
    }

    /// The next object: `Some(None)` after the last one, `None` if the user may not list them, or the kind was not there.
    async fn front(&mut self) -> anyhow::Result<Option<Option<&Value>>> {
        while self.items.is_empty() {
            let Some(next) = self.next.take() else { break };
            let next = if next.is_empty() { String::new() } else { format!("&continue={}", escape(&next)) };
            let answer = match self.client.get_path(&format!("{}{next}", self.path)).await {
                Ok(answer) => answer,
                Err(ApiError::Status(status)) if status.reason == Reason::Forbidden => return Ok(None),
                // The kind was not defined then.
                Err(error) if error.is_not_found() => break,
                Err(error) => return Err(anyhow!("{error}")),
            };
            let page: Page = serde_json::from_slice(&answer).context("the server's answer is not a list")?;
            self.items = page.items.into();
            self.next = Some(page.metadata.next).filter(|next| !next.is_empty());
        }
        Ok(Some(self.items.front()))
    }
}

async fn read<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<T> {
    let answer = client.get_path(path).await.map_err(|error| anyhow!("{error}"))?;
    serde_json::from_slice(&answer).with_context(|| format!("the server's answer to {path} is not discovery"))
}
