//! The comparison of two states by the writes between them: only objects that were written are read, where pages of both states would have
//! all objects.

use super::cluster::{DiffSelection, compared_lives};
use super::compared::{Comparison, ObjectDiff};
use super::object::{HistoryObject, collection};
use super::states::viewed;
use super::writes::{self, WRITES};
use crate::served_kinds::{FoundKind, built_in};
use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use kstore_client::Client;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// How much more an object costs that is read by its name than one of a page.
const COST: usize = 4;

/// Objects that are read at once.
const READERS: usize = 32;

/// The objects that were written between two revisions: namespaces and names, by kind.
pub(super) struct WrittenObjects(BTreeMap<String, BTreeSet<(String, String)>>);

#[derive(Deserialize)]
struct FirstPage {
    metadata: FirstMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FirstMetadata {
    #[serde(default)]
    remaining_item_count: usize,
}

impl WrittenObjects {
    /// The objects of the selection that were written between two revisions; `None`: there are too many writes, the server does not say
    /// them, or they do not say what is selected.
    pub(super) async fn between(
        client: &Client,
        (from, to): (i64, i64),
        selection: &DiffSelection,
    ) -> Option<Self> {
        let (first, last) = (from.min(to), from.max(to));
        if !selection.labels.is_empty() || last - first > WRITES {
            return None;
        }
        let mut found = BTreeMap::<String, BTreeSet<(String, String)>>::new();
        for write in writes::between(client, first, last).await.ok()? {
            for object in write.objects {
                if selection.namespace.as_ref().is_none_or(|namespace| *namespace == object.namespace) {
                    found.entry(object.resource).or_default().insert((object.namespace, object.name));
                }
            }
        }
        Some(Self(found))
    }

    /// The objects of a kind that differ between two states; `None`: pages of both states are cheaper or know more, or the user may not
    /// list the kind.
    ///
    /// # Errors
    /// The server does not answer, or does not have one of the states.
    pub(super) async fn compare(
        &self,
        client: &Client,
        (from, to): (i64, i64),
        (kind, namespace): (&FoundKind, &str),
        comparison: Comparison,
    ) -> anyhow::Result<Option<Vec<ObjectDiff>>> {
        let resource = kind.qualified();
        // The server names no written objects of kinds that are not defined any more.
        if built_in(&resource).is_none() {
            return Ok(None);
        }
        for revision in [from, to] {
            let path = format!("/kstore/v1/at/{revision}{}?limit=1", collection(kind, namespace));
            let Ok(page) = client.get_path(&path).await else { return Ok(None) };
            let page: FirstPage =
                serde_json::from_slice(&page).context("the server's answer is not a list")?;
            let written = self.0.get(&resource).map_or(0, BTreeSet::len);
            if written * COST > page.metadata.remaining_item_count {
                return Ok(None);
            }
        }
        let names = self.0.get(&resource).into_iter().flatten();
        let compared = names.map(async |(namespace, name)| {
            let object =
                HistoryObject { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() };
            let before = viewed(client, &object, from).await?;
            let after = viewed(client, &object, to).await?;
            anyhow::Ok(compared_lives(&resource, before.as_ref(), after.as_ref(), comparison))
        });
        let compared: Vec<_> = futures::stream::iter(compared).buffered(READERS).try_collect().await?;
        Ok(Some(compared.into_iter().flatten().collect()))
    }
}
