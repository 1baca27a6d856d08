//! The state of the cluster that a decision reads, from the lists of a server at one revision.

use crate::object_lists::list_objects;
use kstore_client::{ApiError, Client};
use kstore_scheduler::reconstruct::{DecisionKind, Reconstruction};

/// The state of a cluster at one revision.
pub(super) struct State {
    pub(super) cluster: Reconstruction,
    pub(super) revision: i64,
    /// Whether it is the newest state.
    pub(super) is_present: bool,
    /// The kinds that the caller may not list, by their paths, and those with objects that could not be read.
    pub(super) unread: Vec<String>,
}

/// Reads the state at a revision, or now. All kinds are read at one revision.
///
/// # Errors
/// Nodes or pods cannot be listed: 403 without the rights, 410 if the revision is not retained.
pub(super) async fn read_state(client: &Client, at: Option<i64>) -> Result<State, ApiError> {
    let pods = list_objects(client, DecisionKind::Pod.path(), at).await?;
    let revision = pods.revision;
    let mut state =
        State { cluster: Reconstruction::default(), revision, is_present: at.is_none(), unread: Vec::new() };
    for kind in DecisionKind::ALL {
        let listed = match kind {
            DecisionKind::Pod => Ok(None),
            _ => list_objects(client, kind.path(), Some(revision)).await.map(Some),
        };
        let items = match &listed {
            Ok(None) => &pods.items,
            Ok(Some(listed)) => &listed.items,
            Err(error) if kind.is_required() => return Err(error.clone()),
            // A server without the kind has no objects of it.
            Err(error) if error.is_not_found() => continue,
            Err(error) if error.reason() == "Forbidden" => {
                state.unread.push(kind.path().to_owned());
                continue;
            }
            Err(error) => return Err(error.clone()),
        };
        let failed = items.iter().filter(|item| state.cluster.add(kind, item.get().as_bytes()).is_err());
        let failed = failed.count();
        if failed > 0 {
            state.unread.push(format!("{failed} of {}", kind.path()));
        }
    }
    Ok(state)
}
