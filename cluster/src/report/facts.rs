//! What a report has besides objects and writes: attempts of the scheduler with the verdicts on nodes for pods that wait, a reading of the
//! server's metrics, and marks. What the user may not read is not in it.

use super::answers::Revisions;
use super::limits::{ATTEMPT_PODS, ATTEMPT_REQUESTS, JUDGED_NODES, JUDGED_PODS};
use super::load::reading;
use super::{Reader, ReportRequest};
use crate::placement::{PodName, attempts, explain_pending};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use kstore_client::Client;
use kstore_ui::report::{Mark, MarkKind, PodOfRecording, Recording};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The path of the server's metrics.
const METRICS: &str = "/metrics";

impl Reader<'_> {
    /// Reads the marks, the metrics of the server and the scheduler's attempts into the recording.
    pub(super) async fn facts(&self, revisions: &Revisions, recording: &mut Recording) {
        self.marks(revisions, recording);
        self.server(recording).await;
        self.scheduling(recording).await;
    }

    fn marks(&self, revisions: &Revisions, recording: &mut Recording) {
        let ReportRequest { faults, steps, .. } = self.request;
        let tags = revisions.tags.iter().map(|tag| (MarkKind::Tag, tag.revision, tag.name.clone()));
        let own = |kind: MarkKind| move |(revision, text): &(i64, String)| (kind, *revision, text.clone());
        let steps = steps.iter().map(own(MarkKind::Test));
        for (kind, revision, text) in steps.chain(faults.iter().map(own(MarkKind::Fault))).chain(tags) {
            recording.mark(Mark { kind, revision, text });
        }
    }

    /// The metrics of the server, if the user may read them.
    async fn server(&self, recording: &mut Recording) {
        let Ok(page) = self.client.get_path(METRICS).await else { return };
        let version: Value = self.answer("/version").await.unwrap_or_default();
        let metrics = reading(&String::from_utf8_lossy(&page));
        recording.server(json!({ "version": version["gitVersion"], "metrics": metrics }));
    }

    /// The attempts to place pods, and of those that wait what each node lacks.
    async fn scheduling(&self, recording: &mut Recording) {
        let mut pods = recording.pods();
        let beyond = pods.len().saturating_sub(ATTEMPT_PODS);
        pods.truncate(ATTEMPT_PODS);
        recording.placements_left_out(beyond);
        let waiting = pods.iter().filter(|pod| pod.is_pending).take(JUDGED_PODS);
        let waiting: Vec<PodName<'_>> = waiting.map(name).collect();
        let mut judged = BTreeSet::new();
        if !waiting.is_empty()
            && let Ok(answers) =
                explain_pending(self.client, &waiting, recording.newest(), JUDGED_NODES).await
        {
            for answer in answers {
                judged.insert(answer["pod"].as_str().unwrap_or_default().to_owned());
                recording.placement(answer);
            }
        }
        pods.retain(|pod| !judged.contains(&full_name(name(pod))));
        let found: Vec<_> = pods.iter().map(|pod| records_of(self.client, pod)).collect();
        let mut found = futures::stream::iter(found).buffered(ATTEMPT_REQUESTS);
        while let Some(answers) = found.next().await {
            answers.into_iter().for_each(|answer| recording.placement(answer));
        }
    }
}

/// What the scheduler recorded about the pods of one name; nothing if the user may not ask.
fn records_of<'a>(client: &'a Client, pod: &'a PodOfRecording) -> BoxFuture<'a, Vec<Value>> {
    Box::pin(async move {
        let records = attempts(client, name(pod), None).await.unwrap_or_default();
        records_by_uid(name(pod), records)
    })
}

fn name(pod: &PodOfRecording) -> PodName<'_> {
    PodName { namespace: &pod.key.namespace, name: &pod.key.name }
}

fn full_name(pod: PodName<'_>) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// The records of the pods of one name, the newest first: an answer for each of them.
fn records_by_uid(pod: PodName<'_>, records: Vec<Value>) -> Vec<Value> {
    let mut answers: Vec<Value> = Vec::new();
    for record in records {
        match answers.last_mut() {
            Some(last) if last["uid"] == record["uid"] => {
                if let Some(known) = last["records"].as_array_mut() {
                    known.push(record);
                }
            }
            _ => answers.push(json!({ "pod": full_name(pod), "uid": record["uid"],
                "scheduler": record["schedulerName"], "records": [record], "notes": [] })),
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_of_each_pod_of_a_name_are_an_answer() {
        let record =
            |uid: &str, attempt: u32| json!({ "uid": uid, "schedulerName": "s", "attempt": attempt });
        let pod = PodName { namespace: "default", name: "db" };
        let found = records_by_uid(pod, vec![record("b", 2), record("b", 1), record("a", 1)]);
        let shown = found
            .iter()
            .map(|answer| (answer["uid"].as_str().unwrap(), answer["records"].as_array().unwrap().len()));
        assert_eq!(shown.collect::<Vec<_>>(), [("b", 2), ("a", 1)]);
        assert_eq!((&found[0]["pod"], &found[0]["scheduler"]), (&json!("default/db"), &json!("s")));
        assert!(records_by_uid(pod, Vec::new()).is_empty());
    }
}
