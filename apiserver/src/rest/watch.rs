//! A watch as an HTTP body: one JSON event per line, until the time is up, the client goes, or the watch ends.

use super::table::{Tables, partial};
use crate::cache::{Batch, Entry, Seen, Watch, WatchEnd, watch_line};
use crate::error;
use crate::limits;
use crate::pipeline::in_version;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use kstore_api::kind::Resource;
use kstore_nondet::Nondet;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// What an event's object is made into.
#[derive(Clone, Debug)]
pub(super) enum WatchForm {
    /// The object.
    Objects,
    /// A table with one row.
    Tables(Tables),
    /// Its metadata; the version.
    Partial(String),
}

/// When a watch ends and what it says meanwhile.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Seconds until the server ends it; 0: a default with jitter.
    pub timeout_seconds: u64,
    /// Whether bookmarks are sent.
    pub bookmarks: bool,
    /// Whether a bookmark marks the end of the initial state.
    pub mark_initial_end: bool,
    /// Ends all watches when the server goes.
    pub stop: CancellationToken,
}

/// The body of a watch response.
pub(super) fn body(
    watch: Watch,
    resource: &'static Resource,
    form: WatchForm,
    ending: Ending,
    nondet: Nondet,
) -> Body {
    let encoder = Encoder { resource, form, first: true, nondet: nondet.clone() };
    Body::from_stream(events(watch, encoder, ending, nondet))
}

fn events(
    mut watch: Watch,
    mut encoder: Encoder,
    ending: Ending,
    nondet: Nondet,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let deadline = Instant::now() + length(&ending, &nondet);
    async_stream::stream! {
        let initial = watch.initial();
        if !initial.is_empty() {
            yield Ok(encoder.initial(initial.iter().map(|(_, entry)| entry.as_ref())));
        }
        drop(initial);
        if ending.mark_initial_end && ending.bookmarks {
            yield Ok(encoder.bookmark(watch.revision(), true));
        }
        let mut next_bookmark = Instant::now() + limits::BOOKMARK_INTERVAL;
        loop {
            let batch = tokio::select! {
                biased;
                () = ending.stop.cancelled() => break,
                batch = watch.next() => batch,
                () = sleep_until(deadline) => {
                    if ending.bookmarks && let Ok(batch) = watch.progress() {
                        yield Ok(encoder.batch_and_bookmark(&batch));
                    }
                    break;
                }
                () = sleep_until(next_bookmark), if ending.bookmarks => {
                    next_bookmark = Instant::now() + limits::BOOKMARK_INTERVAL;
                    match watch.progress() {
                        Ok(batch) => { yield Ok(encoder.batch_and_bookmark(&batch)); continue; }
                        Err(end) => Err(end),
                    }
                }
            };
            match batch {
                Ok(batch) => yield Ok(encoder.batch(&batch)),
                // A client that fell behind, or whose server goes, resumes from what it saw: a clean end says so.
                Err(WatchEnd::Overrun | WatchEnd::Closed) => break,
                Err(end @ (WatchEnd::Expired { .. } | WatchEnd::Failed(_))) => {
                    yield Ok(encoder.error(&end));
                    break;
                }
            }
        }
    }
}

fn length(ending: &Ending, nondet: &Nondet) -> Duration {
    match ending.timeout_seconds {
        0 => limits::WATCH_TIMEOUT.mul_f64(1.0 + nondet.rng.unit()),
        seconds => Duration::from_secs(seconds),
    }
}

struct Encoder {
    resource: &'static Resource,
    form: WatchForm,
    first: bool,
    nondet: Nondet,
}

impl Encoder {
    fn initial<'a>(&mut self, entries: impl Iterator<Item = &'a Entry>) -> Bytes {
        let mut out = BytesMut::new();
        entries.for_each(|entry| out.extend_from_slice(&self.event(Seen::Added, entry)));
        out.freeze()
    }

    fn batch(&mut self, batch: &Batch) -> Bytes {
        if let ([only], WatchForm::Objects) = (batch.deliveries.as_slice(), &self.form)
            && std::ptr::eq(only.change.any().resource, self.resource)
        {
            return only.change.line(only.seen);
        }
        let mut out = BytesMut::new();
        for delivery in &batch.deliveries {
            let same = std::ptr::eq(delivery.change.any().resource, self.resource);
            match &self.form {
                WatchForm::Objects if same => out.extend_from_slice(&delivery.change.line(delivery.seen)),
                WatchForm::Objects | WatchForm::Tables(_) | WatchForm::Partial(_) => {
                    out.extend_from_slice(&self.event(delivery.seen, delivery.change.object(delivery.seen)));
                }
            }
        }
        out.freeze()
    }

    fn batch_and_bookmark(&mut self, batch: &Batch) -> Bytes {
        let events = self.batch(batch);
        [&events[..], &self.bookmark(batch.revision, false)[..]].concat().into()
    }

    fn event(&mut self, seen: Seen, entry: &Entry) -> Bytes {
        let value = match &self.form {
            WatchForm::Objects if std::ptr::eq(entry.resource, self.resource) => {
                return watch_line(seen.as_str(), &entry.json);
            }
            WatchForm::Objects => in_version(self.resource, entry.parse()),
            WatchForm::Tables(tables) => {
                let first = std::mem::take(&mut self.first);
                tables.event(entry, first, self.nondet.clock.now())
            }
            WatchForm::Partial(version) => partial(&entry.parse(), version),
        };
        line(seen.as_str(), &value)
    }

    fn bookmark(&self, revision: i64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        let object = match &self.form {
            WatchForm::Objects => object,
            WatchForm::Tables(tables) => tables.bookmark(&object),
            WatchForm::Partial(version) => partial(&object, version),
        };
        line("BOOKMARK", &object)
    }

    fn error(&self, end: &WatchEnd) -> Bytes {
        watch_line("ERROR", &error::of_watch_end(end).to_json())
    }
}

fn line(kind: &str, value: &Value) -> Bytes {
    watch_line(kind, value.to_string().as_bytes())
}
