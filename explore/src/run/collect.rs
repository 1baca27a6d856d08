//! Collects what happened in a run: objects, requests and writes.

use super::RunError;
use crate::limits;
use crate::record::{Effect, ObjectKey, RecordedRequest, RecordedWrite, StoredObject, ViewedRevision};
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_lab::cluster::Current;
use kstore_lab::legality::observed::Observed;
use kstore_lab::log::{LogFilter, LoggedRequest};
use kstore_lab::objects;
use kstore_lab::writes::{self, Write};
use std::collections::BTreeMap;

/// Requests and writes of a run.
pub(super) type Traffic = (Vec<RecordedRequest>, Vec<RecordedWrite>);

/// All objects.
pub(super) fn state(current: &Current) -> Vec<StoredObject> {
    let all = objects::all(current.running().store());
    all.into_iter().map(|(resource, object)| StoredObject { resource, object }).collect()
}

/// The requests of clients and the states that they were shown, since the begin of the run.
pub(super) async fn observed(current: &Current) -> Result<Observed, RunError> {
    let (running, shown, log) = (current.running(), current.bridge.shown.clone(), current.bridge.log.clone());
    let cluster = running.clone();
    let observed = running.call(async move { shown.observed(&cluster, &log).await }).await;
    let observed =
        observed.map_err(|ended| RunError::lab("the fork has ended")(Status::internal(ended.to_string())))?;
    observed.map_err(RunError::lab("the history of a run cannot be read"))
}

fn since(began: Timestamp, time: Timestamp) -> u64 {
    u64::try_from(time.duration_since(began).as_millis()).unwrap_or(0)
}

/// What happened after the revision of the image. `users` has the program of each user that is a program's alone.
pub(super) async fn traffic(
    current: &Current,
    image: i64,
    began: Timestamp,
    users: &BTreeMap<String, String>,
) -> Result<Traffic, RunError> {
    let log = current.bridge.log.clone();
    let (logged, _) = log.read(&LogFilter::default(), None, limits::LOG).unwrap_or_default();
    let running = current.running().clone();
    let (asked, of) = (running.clone(), log.clone());
    let written = running.call(async move { writes::whole(&asked, &of, image).await }).await;
    let written =
        written.map_err(|ended| RunError::lab("the fork has ended")(Status::internal(ended.to_string())))?;
    let written = written.map_err(RunError::lab("the history of a run cannot be read"))?;
    let mut records: Vec<RecordedWrite> = Vec::new();
    for mut write in written {
        let last = records.last().map_or((0, 0), |last| (last.real, last.time));
        if write.basis.is_none()
            && let Some(program) = users.get(&write.user)
        {
            // Its answer was lost, or the program was killed before it had one.
            write.client.clone_from(program);
        }
        records.extend(write_records(&write, &logged, (began, last)));
    }
    let requests = logged.iter().map(|request| RecordedRequest {
        n: request.n,
        real: since(began, request.real),
        took: request.took,
        client: request.client.clone(),
        verb: request.verb.map_or("", |verb| verb.as_str()).to_owned(),
        resource: request.resource.clone(),
        subresource: request.subresource.clone(),
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        version: request.version.to_string(),
        code: request.code,
        revision: request.object_version.unwrap_or(request.revision),
        fault: request.fault.clone(),
    });
    Ok((requests.collect(), records))
}

/// The records of a write's objects. A write that no request of the log made has the time of the newest request that was answered before
/// it, but not one before that of the write before, `last`: real time, and that of the cluster.
fn write_records(
    write: &Write,
    logged: &[LoggedRequest],
    (began, last): (Timestamp, (u64, i64)),
) -> Vec<RecordedWrite> {
    let is_it = |request: &&LoggedRequest| {
        request.object_version == Some(write.revision) && request.verb.is_some_and(|verb| verb.is_write())
    };
    let request = logged.iter().find(is_it);
    let shown = |request: &LoggedRequest| request.object_version.unwrap_or(request.revision);
    let before = logged.iter().rev().find(|request| (1..write.revision).contains(&shown(request)));
    let real = request.or(before).map_or(0, |request| since(began, request.real)).max(last.0);
    let time = write.time.map_or(0, Timestamp::as_millisecond).max(last.1);
    let views = write.basis.iter().flat_map(|basis| &basis.views);
    let views: Vec<ViewedRevision> = views
        .map(|view| ViewedRevision {
            resource: view.resource.clone(),
            delivered: view.delivered,
            partial: view.partial,
        })
        .collect();
    let record = |object: &writes::WrittenObject| RecordedWrite {
        revision: write.revision,
        real,
        time,
        client: write.client.clone(),
        incarnation: 0,
        verb: write.verb.clone(),
        key: ObjectKey {
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        },
        effect: match object.effect {
            "created" => Effect::Created,
            "deleted" => Effect::Deleted,
            _ => Effect::Updated,
        },
        before: object.before.clone(),
        after: object.after.clone(),
        views: views.clone(),
        causes: write.causes.clone(),
    };
    write.objects.iter().map(record).collect()
}

/// The longest pause in milliseconds between two writes.
pub(super) fn longest_pause(writes: &[RecordedWrite]) -> u64 {
    let pauses = writes.windows(2).map(|pair| pair[1].real.saturating_sub(pair[0].real));
    pauses.max().unwrap_or(0)
}
