//! [`report`]: the report file of a running cluster. A client reads what the page reads, and besides the states of all objects in the
//! window; `kstore_ui::report` makes the file. The permissions of the client's user decide what is in it.

mod answers;
mod facts;
mod limits;
mod load;

use answers::{Kind, Page, Revisions, WatchLine, lines};
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use kstore_client::{ApiError, Client};
use kstore_registry::provenance::is_component;
use kstore_ui::report::{About, Recording, TooLarge};
use limits::{FACT_TIME, LINE_BYTES, READ_TIME};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// What a report is asked for.
#[derive(Clone, Debug, Default)]
pub struct ReportRequest {
    /// What it is about: a command, the name of a test, a server.
    pub title: String,
    /// The first revision; `None`: the oldest one from which the server tells changes. Older ones become that one.
    pub since: Option<i64>,
    /// The only namespace whose objects are in it, besides objects without one; empty: all.
    pub namespace: String,
    /// Why a test failed; empty for others.
    pub failure: String,
    /// The output of a test or a command.
    pub output: String,
    /// The version of the program that asks.
    pub version: String,
    /// What a plan did to the cluster or its clients, each with the newest revision of that moment: marks of slider and timeline.
    pub faults: Vec<(i64, String)>,
    /// The begins of tests, or of parts of one, likewise.
    pub steps: Vec<(i64, String)>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The server refuses, or does not answer.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// The server's answer is not what a server of kstore answers.
    #[error("the server's answer to {path} cannot be read: {reason}")]
    Answer {
        /// The path that was asked.
        path: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// Nothing of it fits in a file.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// The report file of the cluster that a client reaches, from the first revision that is asked for to the newest one.
///
/// # Errors
/// The user may not read `/kstore/v1/*`; the server does not answer; the revision does not exist; or there are too many objects.
pub fn report<'a>(
    client: &'a Client,
    request: &'a ReportRequest,
) -> BoxFuture<'a, Result<Vec<u8>, ReportError>> {
    Box::pin(async move {
        let reader = Reader { client, request };
        let (about, recording) = reader.read().await?;
        Ok(recording.write(&about)?)
    })
}

struct Reader<'a> {
    client: &'a Client,
    request: &'a ReportRequest,
}

impl Reader<'_> {
    async fn read(&self) -> Result<(About, Recording), ReportError> {
        let revisions: Revisions = self.answer("/kstore/v1/revisions").await?;
        let from = self.request.since.unwrap_or(revisions.from).max(revisions.from);
        let (kinds, mut recording) = self.rows(from).await?;
        self.changes(from, &mut recording).await?;
        // Once its time is over the report has what came until then.
        let _ = tokio::time::timeout(READ_TIME, self.states(from, &kinds, &mut recording)).await;
        let _ = tokio::time::timeout(FACT_TIME, self.facts(&revisions, &mut recording)).await;
        let ReportRequest { title, namespace, failure, output, version, .. } = self.request.clone();
        let Revisions { newest, clock, user, .. } = revisions;
        let about = About { title, namespace, failure, output, version, time: newest.time, clock, user };
        Ok((about, recording))
    }

    async fn answer<T: DeserializeOwned>(&self, path: &str) -> Result<T, ReportError> {
        let answer = self.client.get_path(path).await?;
        serde_json::from_slice(&answer).map_err(|error| unreadable(path, error))
    }

    async fn lines(&self, path: &str) -> Result<Vec<Value>, ReportError> {
        let answer = self.client.get_path(path).await?;
        lines(&answer).map_err(|error| unreadable(path, error))
    }

    /// Whether objects of a namespace, or without one, are in the report.
    fn has(&self, namespace: &str) -> bool {
        self.request.namespace.is_empty() || namespace.is_empty() || namespace == self.request.namespace
    }

    async fn rows(&self, from: i64) -> Result<(Vec<Kind>, Recording), ReportError> {
        let path = format!("/kstore/v1/rows?at={from}");
        let mut found = self.lines(&path).await?.into_iter();
        let head = found.next().unwrap_or_default();
        let named = head.get("kinds").and_then(Value::as_array).cloned();
        let named = named.ok_or_else(|| unreadable(&path, "its first line names no kinds"))?;
        let kinds: Vec<Kind> =
            serde_json::from_value(named.clone().into()).map_err(|error| unreadable(&path, error))?;
        let mut recording = Recording::new(from, named);
        // The last line says how many there are.
        for row in found.filter(|line| line.get("k").is_some()) {
            if self.has(row.get("n").and_then(Value::as_str).unwrap_or_default()) {
                recording.row(row);
            }
        }
        Ok((kinds, recording))
    }

    async fn changes(&self, from: i64, recording: &mut Recording) -> Result<(), ReportError> {
        for mut line in self.lines(&format!("/kstore/v1/changes?after={from}")).await? {
            let Some(objects) = line.get_mut("o").and_then(Value::as_array_mut) else { continue };
            objects.retain(|object| self.has(object.get(1).and_then(Value::as_str).unwrap_or_default()));
            if !objects.is_empty() {
                let is_outside = is_outside(&line);
                recording.change(line, is_outside);
            }
        }
        Ok(())
    }

    /// Reads states, those of the first revision first. What is refused is left out, and the report says how many.
    async fn states(&self, from: i64, kinds: &[Kind], recording: &mut Recording) {
        let with_rows: BTreeSet<String> = recording.kinds_of_rows().into_iter().collect();
        for kind in kinds.iter().filter(|kind| with_rows.contains(&kind.resource)) {
            for namespace in self.namespaces(kind, recording) {
                let _ = self.first_states(kind, &namespace, from, recording).await;
            }
        }
        let changed: BTreeSet<String> = recording.awaited_kinds().into_iter().collect();
        for kind in kinds.iter().filter(|kind| changed.contains(&kind.resource)) {
            for namespace in self.namespaces(kind, recording) {
                let _ = self.later_states(kind, &namespace, from, recording).await;
            }
            self.single_states(kind, recording).await;
        }
    }

    /// The namespaces in which the objects of a kind are read; one empty name for all of them at once.
    fn namespaces(&self, kind: &Kind, recording: &Recording) -> Vec<String> {
        match (kind.namespaced, self.request.namespace.as_str()) {
            (true, namespace) if !namespace.is_empty() => vec![namespace.to_owned()],
            (true, _) if kind.visible == "some" => recording.namespaces_of(&kind.resource),
            _ => vec![String::new()],
        }
    }

    async fn first_states(
        &self,
        kind: &Kind,
        namespace: &str,
        from: i64,
        recording: &mut Recording,
    ) -> Result<(), ReportError> {
        let mut token = String::new();
        loop {
            let page: Page = self.answer(&kind.list_path(namespace, from, &token)).await?;
            for (key, _, object) in page.items.into_iter().filter_map(|item| kind.named(item)) {
                recording.first_state(key, object);
            }
            token = page.metadata.token;
            if token.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads the states after changes from a watch of the past, until all came that are known of.
    async fn later_states(
        &self,
        kind: &Kind,
        namespace: &str,
        from: i64,
        recording: &mut Recording,
    ) -> Result<(), ReportError> {
        let is_here = |namespace: &str, of: &str| namespace.is_empty() || namespace == of;
        let awaited = recording.awaited(&kind.resource);
        let here = || awaited.iter().filter(|(_, key)| is_here(namespace, &key.namespace));
        let (mut left, Some((last, _))) = (here().count(), here().next_back()) else { return Ok(()) };
        let path = kind.watch_path(namespace, from);
        let response = self.client.open_path(&path).await?;
        if !response.status().is_success() {
            return Err(unreadable(&path, response.status()));
        }
        let (mut body, mut rest) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unreadable(&path, error))?;
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let line: WatchLine =
                    serde_json::from_slice(line).map_err(|error| unreadable(&path, error))?;
                if line.kind == "ERROR" {
                    return Ok(());
                }
                let Some((key, revision, object)) = kind.named(line.object) else { continue };
                if matches!(&*line.kind, "ADDED" | "MODIFIED") {
                    left -= usize::from(recording.state(&key, revision, object));
                }
                // Changes come in the order of their revisions.
                if left == 0 || revision > *last {
                    return Ok(());
                }
            }
            rest.drain(..whole);
            if rest.len() > LINE_BYTES {
                return Err(unreadable(&path, "a line is too long"));
            }
        }
        Ok(())
    }

    /// Reads the states of a kind that no watch brought, one by one.
    async fn single_states(&self, kind: &Kind, recording: &mut Recording) {
        for (revision, key) in recording.awaited(&kind.resource) {
            if let Ok(object) = self.answer::<Value>(&kind.object_path(&key, revision)).await {
                recording.state(&key, revision, object);
            }
        }
    }
}

/// Whether a line of changes is a change from outside: it names no cause, and no component of the control plane wrote it.
fn is_outside(line: &Value) -> bool {
    let user = line.get("w").and_then(|writer| writer.get(0)).and_then(Value::as_str).unwrap_or_default();
    line.get("c").is_none() && !user.is_empty() && !is_component(user)
}

fn unreadable(path: &str, reason: impl ToString) -> ReportError {
    ReportError::Answer { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_from_outside_names_no_cause_and_is_by_no_component() {
        let line = |user: &str| json!({"r": 1, "w": [user, "kubectl", "create"]});
        assert!(is_outside(&line("jane")));
        assert!(!is_outside(&line("system:kube-scheduler")) && !is_outside(&line("")));
        assert!(!is_outside(&json!({"r": 2, "w": ["jane", "", ""], "c": [1]})));
    }
}
