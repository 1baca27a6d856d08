//! Writes with their objects, as the server tells them: with their authors and causes to users who may read its notes of writes, and to
//! others with the field managers of objects that they may list.

use super::entry::HistoryEntry;
use super::recorded::is_component_manager;
use anyhow::{Context as _, anyhow, bail};
use kstore_client::Client;
use kstore_registry::provenance::is_component;
use serde::Deserialize;

/// Writes that one undo, or one comparison, looks at.
pub(super) const WRITES: i64 = 20_000;

/// Who says who wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Authors {
    /// The notes that the server keeps with writes.
    #[default]
    Notes,
    /// The managed fields of the written objects.
    ManagedFields,
}

/// Whether a write to an object came from outside of the control plane, and not to a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOrigin {
    Outside,
    Consequence,
    /// Nothing says it.
    Unknown,
}

#[derive(Deserialize)]
struct Writes {
    #[serde(default)]
    authors: Authors,
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
    /// Who says who wrote.
    #[serde(skip)]
    pub authors: Authors,
}

/// An object of a write.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WrittenObject {
    /// Plural, followed by the group if there is one.
    pub resource: String,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    pub name: String,
    /// `created`, `updated` or `deleted`.
    #[serde(default)]
    pub effect: String,
    /// The field manager that wrote; empty: unknown. This and what follows is there only where managed fields say who wrote.
    #[serde(default)]
    pub manager: String,
    /// `update` or `apply`, with the subresource after a slash.
    #[serde(default)]
    pub operation: String,
    /// Whether a controller owns the object.
    #[serde(default)]
    pub owned: bool,
    /// Whether the write began the object's deletion.
    #[serde(default)]
    pub marked: bool,
    /// Whether the object's deletion had begun before.
    #[serde(default)]
    pub terminating: bool,
}

impl WrittenObject {
    /// Where the write came from, by the object's states.
    fn origin(&self) -> WriteOrigin {
        let is_deletion = self.marked || self.effect == "deleted";
        match (is_deletion, self.manager.is_empty()) {
            // The end of a deletion follows from its begin. No managed field names who deletes, but what a controller owns is deleted by
            // controllers.
            (true, _) if self.owned || (self.terminating && !self.marked) => WriteOrigin::Consequence,
            (true, _) => WriteOrigin::Outside,
            (false, true) if self.owned => WriteOrigin::Consequence,
            (false, true) => WriteOrigin::Unknown,
            (false, false) if is_component_manager(&self.manager) || self.operation.ends_with("/status") => {
                WriteOrigin::Consequence
            }
            (false, false) => WriteOrigin::Outside,
        }
    }
}

impl RecordedWrite {
    /// The write of a change of one object. Where its user is not known, its field manager stands for it.
    pub(super) fn of(change: HistoryEntry) -> Self {
        let HistoryEntry { revision, time, user, agent, verb, causes, .. } = change;
        let (user, agent) = if user.is_empty() { (agent, String::new()) } else { (user, agent) };
        Self { revision, time, user, agent, verb, causes, objects: Vec::new(), authors: Authors::Notes }
    }

    /// Where the write to one of its objects came from.
    pub(super) fn origin(&self, object: &WrittenObject) -> WriteOrigin {
        match self.authors {
            Authors::ManagedFields => object.origin(),
            Authors::Notes if self.is_outside() && !self.verb.ends_with("/status") => WriteOrigin::Outside,
            Authors::Notes => WriteOrigin::Consequence,
        }
    }

    /// Whether it is no consequence: it names no cause, and is not by a component of the control plane.
    fn is_outside(&self) -> bool {
        self.causes.is_empty() && !self.user.is_empty() && !is_component(&self.user)
    }

    /// Whether the user, the program or the field manager that wrote one of its objects has `part` in its name.
    pub(super) fn is_by(&self, object: &WrittenObject, part: &str) -> bool {
        let part = part.to_ascii_lowercase();
        let names = [&self.user, &self.agent, &object.manager];
        names.iter().any(|name| name.to_ascii_lowercase().contains(&part))
    }

    /// The program that wrote, without its version; empty if it named none.
    pub(super) fn program(&self) -> &str {
        self.agent.split(['/', ' ']).next().unwrap_or_default()
    }

    /// The write in a few words: revision, time, writer and verb.
    pub(super) fn title(&self) -> String {
        if self.authors == Authors::ManagedFields {
            let mut writers: Vec<String> = Vec::new();
            for object in self.objects.iter().filter(|object| !object.manager.is_empty()) {
                writers.push(format!("{} {}", object.manager, object.operation));
            }
            writers.sort_unstable();
            writers.dedup();
            let writers =
                if writers.is_empty() { String::new() } else { format!(", {}", writers.join(", ")) };
            return format!("#{}{writers}", self.revision);
        }
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
    found.with_context(|| format!("revision {revision} has no write, or none to an object that you may list"))
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
        let Writes { writes, until: last, .. } = page(client, after, until).await?;
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
    let mut writes: Writes = serde_json::from_slice(&answer).context("the server's answer has no writes")?;
    for write in &mut writes.writes {
        write.authors = writes.authors;
    }
    Ok(writes)
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
        let object = write.objects[0].clone();
        assert!(write.is_by(&object, "Kubectl") && !write.is_by(&object, "helm"));
        assert_eq!(write.origin(&object), WriteOrigin::Outside);
        let consequence = RecordedWrite { causes: vec![3], ..write.clone() };
        let controller = RecordedWrite { user: "system:kube-scheduler".to_owned(), ..write.clone() };
        let status = RecordedWrite { verb: "update/status".to_owned(), ..write.clone() };
        for other in [consequence, controller, status] {
            assert_eq!(other.origin(&object), WriteOrigin::Consequence, "{other:?}");
        }
        let bare = RecordedWrite {
            time: None,
            user: String::new(),
            agent: String::new(),
            verb: String::new(),
            ..write
        };
        assert_eq!(bare.title(), "#263,");
    }
    #[test]
    fn without_notes_the_states_of_an_object_say_where_a_write_came_from() {
        let origin = |members: &str| {
            let text = format!(r#"{{"resource": "configmaps", "namespace": "a", "name": "b", {members}}}"#);
            serde_json::from_str::<WrittenObject>(&text).unwrap().origin()
        };
        for (members, expected) in [
            (
                r#""effect": "updated", "manager": "kubectl-edit", "operation": "update""#,
                WriteOrigin::Outside,
            ),
            (
                r#""effect": "created", "manager": "root-ca-certificate-publisher-controller""#,
                WriteOrigin::Consequence,
            ),
            (
                r#""effect": "updated", "manager": "me", "operation": "update/status""#,
                WriteOrigin::Consequence,
            ),
            (r#""effect": "updated""#, WriteOrigin::Unknown),
            (r#""effect": "updated", "owned": true"#, WriteOrigin::Consequence),
            (r#""effect": "deleted""#, WriteOrigin::Outside),
            (r#""effect": "deleted", "owned": true"#, WriteOrigin::Consequence),
            (r#""effect": "updated", "marked": true"#, WriteOrigin::Outside),
            (r#""effect": "deleted", "terminating": true"#, WriteOrigin::Consequence),
            (r#""effect": "updated", "terminating": true, "manager": "operator""#, WriteOrigin::Outside),
        ] {
            assert_eq!(origin(members), expected, "{members}");
        }
        let text = r#"{"authors": "managedFields", "until": 7, "writes": [{"revision": 7, "objects": [
            {"resource": "configmaps", "namespace": "a", "name": "b", "manager": "helm", "operation": "apply"},
            {"resource": "configmaps", "namespace": "a", "name": "c", "manager": "helm", "operation": "apply"}]}]}"#;
        let Writes { authors, mut writes, .. } = serde_json::from_str(text).unwrap();
        writes[0].authors = authors;
        assert_eq!(writes[0].title(), "#7, helm apply");
        assert!(
            writes[0].is_by(&writes[0].objects[0], "Helm") && !writes[0].is_by(&writes[0].objects[0], "jane")
        );
    }
}
