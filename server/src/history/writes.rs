//! Writes with their objects, as the server tells them.

use super::entry::HistoryEntry;
use anyhow::{Context as _, anyhow, bail};
use kstore_client::Client;
use kstore_registry::provenance::is_component;
use serde::Deserialize;

/// Writes that one undo looks at.
const WRITES: i64 = 20_000;

#[derive(Deserialize)]
struct Writes {
    writes: Vec<RecordedWrite>,
    /// The revision up to which the answer has all writes.
    until: i64,
}

/// A write of one revision.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RecordedWrite {
    pub revision: i64,
    #[serde(default)]
    pub time: Option<jiff::Timestamp>,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub agent: String,
    #[serde(default)]
    pub verb: String,
    #[serde(default)]
    pub causes: Vec<i64>,
    /// The written objects that the caller may read.
    pub objects: Vec<WrittenObject>,
}

/// An object of a write.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WrittenObject {
    /// Plural, followed by the group if there is one.
    pub resource: String,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    pub name: String,
}

impl RecordedWrite {
    /// The write of a change of one object. Where its user is not known, its field manager stands for it.
    pub(super) fn of(change: HistoryEntry) -> Self {
        let HistoryEntry { revision, time, user, agent, verb, causes, .. } = change;
        let (user, agent) = if user.is_empty() { (agent, String::new()) } else { (user, agent) };
        Self { revision, time, user, agent, verb, causes, objects: Vec::new() }
    }

    /// Whether it is no consequence: it names no cause, and is not by a component of the control plane.
    pub(super) fn is_outside(&self) -> bool {
        self.causes.is_empty() && !self.user.is_empty() && !is_component(&self.user)
    }

    /// Whether the user or the program has `part` in its name.
    pub(super) fn is_by(&self, part: &str) -> bool {
        [&self.user, &self.agent]
            .iter()
            .any(|name| name.to_ascii_lowercase().contains(&part.to_ascii_lowercase()))
    }

    /// The program that wrote, without its version; empty if it named none.
    pub(super) fn program(&self) -> &str {
        self.agent.split(['/', ' ']).next().unwrap_or_default()
    }

    /// The write in a few words: revision, time, writer and verb.
    pub(super) fn title(&self) -> String {
        let time = self.time.map(|time| format!(", {time:.3}")).unwrap_or_default();
        let program = self.program();
        let program = if program.is_empty() { String::new() } else { format!(" ({program})") };
        format!("#{}{time}, {}{program} {}", self.revision, self.user, self.verb).trim_end().to_owned()
    }
}

/// The write of a revision.
///
/// # Errors
/// The server does not have it, or does not answer.
pub(super) async fn at(client: &Client, revision: i64) -> anyhow::Result<RecordedWrite> {
    let Writes { writes, .. } = page(client, revision - 1, revision).await?;
    let found = writes.into_iter().find(|write| write.revision == revision);
    found.with_context(|| format!("revision {revision} has no write"))
}

/// The writes after a revision up to another, the oldest first.
///
/// # Errors
/// There are too many, or the server does not have them.
pub(super) async fn between(
    client: &Client,
    mut after: i64,
    until: i64,
) -> anyhow::Result<Vec<RecordedWrite>> {
    if until - after > WRITES {
        bail!("{} revisions are more than one undo looks at ({WRITES}): name a later one", until - after);
    }
    let mut found = Vec::new();
    while after < until {
        let Writes { writes, until: last } = page(client, after, until).await?;
        found.extend(writes);
        // A server that makes no progress would be asked for ever.
        after = last.max(after + 1);
    }
    Ok(found)
}

async fn page(client: &Client, after: i64, until: i64) -> anyhow::Result<Writes> {
    let path = format!("/kstore/v1/writes?after={after}&until={until}");
    let answer = client.get_path(&path).await.map_err(|error| match error.is_forbidden() {
        true => anyhow!(
            "{error}; the ClusterRole kstore:see allows it. undo KIND/NAME and undo KIND/NAME --to REVISION do not need it"
        ),
        false => anyhow!("{error}"),
    })?;
    serde_json::from_slice(&answer).context("the server's answer has no writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_named_by_revision_time_writer_and_verb() {
        let text = r#"{"writes": [{"revision": 263, "time": "2026-11-27T23:38:56.401000Z", "user": "kubernetes-admin",
            "agent": "kubectl/v1.36 (linux)", "verb": "patch", "causes": [],
            "objects": [{"resource": "deployments.apps", "version": "v1", "namespace": "default", "name": "web", "effect": "updated"}]}],
            "until": 263, "remaining": 0}"#;
        let write = serde_json::from_str::<Writes>(text).unwrap().writes.remove(0);
        assert_eq!(write.title(), "#263, 2026-11-27T23:38:56.401Z, kubernetes-admin (kubectl) patch");
        assert_eq!((&*write.objects[0].name, write.objects.len()), ("web", 1));
        assert!(write.is_outside() && write.is_by("Kubectl") && !write.is_by("helm"));
        let consequence = RecordedWrite { causes: vec![3], ..write.clone() };
        let controller = RecordedWrite { user: "system:kube-scheduler".to_owned(), ..write.clone() };
        assert!(!consequence.is_outside() && !controller.is_outside());
        let bare = RecordedWrite {
            time: None,
            user: String::new(),
            agent: String::new(),
            verb: String::new(),
            ..write
        };
        assert_eq!(bare.title(), "#263,");
    }
}
