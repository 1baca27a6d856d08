//! The states of one object by revision, read with exact lists of one name, or in views.

use super::object::HistoryObject;
use anyhow::{Context as _, anyhow};
use kstore_api::status::Reason;
use kstore_client::{ApiError, Client};
use kstore_cluster::escape;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct ObjectList {
    items: Vec<Value>,
}

/// An object at a revision.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ObjectState {
    /// It was there.
    Present(Box<Value>),
    /// It was not.
    Absent,
    /// The server no longer has the state of that revision.
    NotRetained,
}

/// Reads the object at a revision; `None`: now.
///
/// # Errors
/// The server does not answer, or refuses; 504: the revision does not exist yet.
pub(super) async fn state(
    client: &Client,
    object: &HistoryObject,
    at: Option<i64>,
) -> anyhow::Result<ObjectState> {
    Ok(sized_state(client, object, at).await?.0)
}

/// Reads the object at a revision, as [`state`], with the number of bytes of the answer.
///
/// # Errors
/// As of [`state`].
pub(super) async fn sized_state(
    client: &Client,
    object: &HistoryObject,
    at: Option<i64>,
) -> anyhow::Result<(ObjectState, usize)> {
    let exact = at.map(|revision| format!("&resourceVersion={revision}&resourceVersionMatch=Exact"));
    let query =
        format!("?fieldSelector=metadata.name%3D{}{}", escape(&object.name), exact.unwrap_or_default());
    match client.get_path(&format!("{}{query}", object.collection())).await {
        Ok(answer) => {
            let list: ObjectList = serde_json::from_slice(&answer)?;
            let found = list.items.into_iter().next();
            let state = found.map_or(ObjectState::Absent, |value| ObjectState::Present(Box::new(value)));
            Ok((state, answer.len()))
        }
        Err(ApiError::Status(status)) if matches!(status.reason, Reason::Expired | Reason::Gone) => {
            Ok((ObjectState::NotRetained, 0))
        }
        Err(error) => Err(anyhow!("{error}")),
    }
}

/// The object in the view of a revision; `None`: it was not there.
///
/// # Errors
/// The server does not answer, refuses, or does not have the state.
pub(super) async fn viewed(
    client: &Client,
    object: &HistoryObject,
    revision: i64,
) -> anyhow::Result<Option<Value>> {
    let path = format!("/kstore/v1/at/{revision}{}/{}", object.collection(), escape(&object.name));
    match client.get_path(&path).await {
        Ok(answer) => {
            Ok(Some(serde_json::from_slice(&answer).context("the server's answer is not an object")?))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(anyhow!("{error}")),
    }
}
