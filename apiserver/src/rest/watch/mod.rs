//! A watch as an HTTP body: events until the timeout, the client's departure or the end of the watch. Chunks
//! are encoded when the client takes them, so that a slow client fills only its own bounded queue in the
//! cache.

use super::chunk::gzip_member;
use super::listing::CHUNK_BYTES;
use super::table::{Tables, partial};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::{Stream, TryStreamExt as _};
use jiff::Timestamp;
use kstore_api::resource::Resource;
use kstore_api::selector::field::Selector;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use kstore_pipeline::fairness::Seat;
use kstore_registry::cache::{
    self, Cache, Delivery, EventType, Filter, Form, Watch, WatchEnd, event_of, watch_line,
};
use kstore_registry::conversion::{Converter, FieldSelection};
use kstore_registry::entry::Entry;
use kstore_registry::error;
use kstore_registry::kinds::CustomVersion;
use kstore_storage::limits;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The form of a watch event's object.
#[derive(Clone, Debug)]
pub(super) enum WatchForm {
    /// A form whose encoded events all watchers share.
    Shared(Form),
    /// A table with one row.
    Tables(Tables),
}

/// Conditions that end a watch, and its bookmarks.
#[derive(Clone, Debug)]
pub struct WatchLifetime {
    /// The timeout in seconds; 0: a default with jitter.
    pub timeout_seconds: u64,
    /// The remaining lifetime of the client's credentials, if they expire: the watch ends then at the latest.
    pub credentials: Option<Duration>,
    /// Whether bookmarks are sent.
    pub bookmarks: bool,
    /// If present, a bookmark marks the end of the initial state, which must have reached this revision.
    pub mark_initial_end: Option<i64>,
    /// The version of a custom kind in which a watch of the past shows all objects; `None`: the one that is served at present.
    pub definition: Option<CustomVersion>,
    /// The seats of the watch until it has sent its initial state.
    pub(crate) seat: Option<Arc<Seat>>,
    /// Ends all watches when the server stops.
    pub stop: CancellationToken,
}

/// The kind and form of the objects in a watch's events.
#[derive(Clone, Debug)]
pub(super) struct EventFormat {
    /// The kind, in the caller's version.
    pub resource: &'static Resource,
    /// Client of the kind's conversion webhook.
    pub converter: Arc<Converter>,
    /// The form of the objects.
    pub form: WatchForm,
    /// Whether each chunk of events is a gzip member, so that the client can read it as soon as it arrives.
    pub gzip: bool,
}

/// The body of a watch response.
pub(super) fn body(watch: Watch, shown: EventFormat, lifetime: WatchLifetime, nondet: Nondet) -> Body {
    let EventFormat { resource, converter, form, gzip } = shown;
    let cache = resource.is_custom().then(|| watch.cache().clone());
    let custom = lifetime.definition.clone();
    let unevaluated = watch.filters().first().and_then(Filter::unevaluated).cloned();
    let begun = watch.revision();
    let encoder = Encoder {
        resource,
        keeps_definition: custom.is_some(),
        custom,
        cache,
        converter,
        unevaluated,
        begun,
        form,
        first: true,
        nondet: nondet.clone(),
    };
    let events = events(watch, encoder, lifetime, nondet);
    match gzip {
        true => Body::from_stream(events.map_ok(|chunk| gzip_member(&chunk))),
        false => Body::from_stream(events),
    }
}

/// The next event in the loop of a watch.
enum NextEvent {
    Batch(Result<cache::Batch, WatchEnd>),
    /// A bookmark is due.
    Bookmark,
    /// The timeout has passed.
    Timeout,
    /// The server stops.
    Stop,
}

fn events(
    mut watch: Watch,
    mut encoder: Encoder,
    mut lifetime: WatchLifetime,
    nondet: Nondet,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let deadline = Instant::now() + length(&lifetime, &nondet);
    // A bookmark shortly before the end tells the client the revision from which to resume.
    let last_bookmark = deadline.checked_sub(limits::LAST_BOOKMARK).unwrap_or(deadline);
    async_stream::stream! {
        // The future is created once: registering a timer for each event costs as much as the event.
        let mut stopped = std::pin::pin!(lifetime.stop.cancelled());
        let mut initial = match encoder.prepare_state(watch.initial()).await {
            Ok(initial) => initial.into_iter(),
            Err(end) => {
                yield Ok(encoder.error(&end));
                return;
            }
        };
        while let Some(chunk) = encoder.initial(&mut initial) {
            yield Ok(chunk);
        }
        drop((initial, lifetime.seat.take()));
        let mut unmarked = lifetime.mark_initial_end.filter(|_| lifetime.bookmarks);
        let mut alarm = std::pin::pin!(sleep_until(first_alarm(&lifetime, last_bookmark, deadline)));
        loop {
            // A watch that ended as it began has shown no state, and the mark would say that there are no objects.
            if unmarked.is_some_and(|wanted| wanted <= watch.revision()) && !watch.has_ended() {
                unmarked = None;
                yield Ok(encoder.bookmark(watch.revision(), true));
            }
            let next = tokio::select! {
                biased;
                () = stopped.as_mut() => NextEvent::Stop,
                // The timer is polled before the events: on a busy watch it would never be polled otherwise.
                () = alarm.as_mut() => if alarm.deadline() < deadline { NextEvent::Bookmark } else { NextEvent::Timeout },
                batch = watch.next() => NextEvent::Batch(batch),
            };
            let ends = matches!(next, NextEvent::Timeout);
            if matches!(next, NextEvent::Bookmark) {
                alarm.as_mut().reset(next_alarm(last_bookmark, deadline));
            }
            let (batch, bookmark) = match next {
                NextEvent::Stop => break,
                NextEvent::Batch(batch) => (batch, false),
                NextEvent::Bookmark | NextEvent::Timeout if !lifetime.bookmarks || unmarked.is_some() => {
                    (watch.progress(), false)
                }
                NextEvent::Bookmark | NextEvent::Timeout => (watch.progress(), true),
            };
            match batch {
                Ok(batch) => {
                    let deliveries = match encoder.prepare_deliveries(batch.deliveries).await {
                        Ok(deliveries) => deliveries,
                        Err(end) => {
                            yield Ok(encoder.error(&end));
                            break;
                        }
                    };
                    let mut deliveries = deliveries.iter();
                    while let Some(chunk) = encoder.batch(&mut deliveries) {
                        yield Ok(chunk);
                    }
                    if bookmark {
                        yield Ok(encoder.bookmark(batch.revision, false));
                    }
                }
                // A clean end: a client that fell behind, or whose server stops, resumes from the last
                // revision that it received.
                Err(WatchEnd::Overrun | WatchEnd::Closed) => break,
                Err(end @ (WatchEnd::Expired { .. } | WatchEnd::Failed(_) | WatchEnd::Refused(_))) => {
                    yield Ok(encoder.error(&end.status()));
                    break;
                }
            }
            if ends {
                break;
            }
        }
    }
}

/// The time of the first bookmark; without bookmarks, the deadline.
fn first_alarm(lifetime: &WatchLifetime, last_bookmark: Instant, deadline: Instant) -> Instant {
    match lifetime.bookmarks {
        true => last_bookmark.min(Instant::now() + limits::BOOKMARK_INTERVAL),
        false => deadline,
    }
}

/// The time of the bookmark after this one; after the last bookmark, the deadline.
fn next_alarm(last_bookmark: Instant, deadline: Instant) -> Instant {
    let now = Instant::now();
    if now < last_bookmark { last_bookmark.min(now + limits::BOOKMARK_INTERVAL) } else { deadline }
}

fn length(lifetime: &WatchLifetime, nondet: &Nondet) -> Duration {
    let length = match lifetime.timeout_seconds {
        0 => limits::WATCH_TIMEOUT.mul_f64(1.0 + nondet.rng.unit()),
        seconds => Duration::from_secs(seconds).min(limits::WATCH_TIMEOUT_MAX),
    };
    lifetime.credentials.map_or(length, |credentials| length.min(credentials))
}

struct Encoder {
    resource: &'static Resource,
    /// The version of a custom kind in which objects are shown at present.
    custom: Option<CustomVersion>,
    /// Whether that version stays, whatever is served at present.
    keeps_definition: bool,
    /// The cache in which that version is looked up; `None` for built-in kinds.
    cache: Option<Arc<Cache>>,
    converter: Arc<Converter>,
    /// Field requirements that the cache does not evaluate.
    unevaluated: Option<Selector>,
    /// The revision at which the watch began.
    begun: i64,
    form: WatchForm,
    first: bool,
    nondet: Nondet,
}

impl Encoder {
    /// Looks up the present definition: a change of schema or columns does not end a watch. After the
    /// definition was deleted, the deletions of its objects are shown in its last version.
    ///
    /// # Errors
    /// 410 if the version is no longer served.
    fn look_up(&mut self) -> Result<(), Status> {
        let Some(cache) = self.cache.as_ref().filter(|_| !self.keeps_definition) else { return Ok(()) };
        let Resource { group, version, plural, .. } = *self.resource;
        let kinds = cache.kinds();
        if self.custom.is_some() && kinds.definition(group, plural).is_none() {
            return Ok(());
        }
        let served = kinds.lookup(group, version, plural).and_then(|served| served.custom);
        let custom = served.ok_or_else(|| error::not_served_any_more(self.resource))?;
        self.resource = custom.row();
        if let WatchForm::Tables(tables) = &mut self.form {
            (tables.resource, tables.custom) = (custom.row(), Some(custom.clone()));
        }
        self.custom = Some(custom);
        Ok(())
    }

    /// Selects and converts the objects of the initial state.
    ///
    /// # Errors
    /// 410 if the version is no longer served; or the reason for which an object cannot be converted.
    async fn prepare_state(
        &mut self,
        mut state: Vec<(u32, Arc<Entry>)>,
    ) -> Result<Vec<(u32, Arc<Entry>)>, Status> {
        self.look_up()?;
        if let Some(selection) = self.selection() {
            state = selection.state(0, state).await?;
        }
        self.prepare(state.iter().map(|(_, entry)| entry)).await?;
        Ok(state)
    }

    /// Selects and converts the objects of deliveries.
    ///
    /// # Errors
    /// The same as [`Encoder::prepare_state`].
    async fn prepare_deliveries(&mut self, mut deliveries: Vec<Delivery>) -> Result<Vec<Delivery>, Status> {
        self.look_up()?;
        if let Some(selection) = self.selection() {
            deliveries = selection.deliveries(0, self.begun, deliveries).await?;
        }
        self.prepare(deliveries.iter().map(|delivery| delivery.change.object(delivery.seen))).await?;
        Ok(deliveries)
    }

    /// The evaluation of the requirements that the cache does not evaluate.
    fn selection(&self) -> Option<FieldSelection<'_>> {
        let (cache, custom) = (self.cache.as_ref()?, self.custom.as_ref()?);
        let fields = self.unevaluated.as_ref()?;
        Some(FieldSelection { converter: &self.converter, cache, custom, fields })
    }

    /// Converts objects by the webhook of the kind, if the kind needs it.
    ///
    /// # Errors
    /// The reason for which an object cannot be converted.
    async fn prepare<'e>(
        &self,
        entries: impl Iterator<Item = &'e Arc<Entry>> + Clone + Send,
    ) -> Result<(), Status> {
        match (&self.custom, &self.cache) {
            (Some(custom), Some(cache)) if custom.needs_webhook() => {
                self.converter.prepare(cache, custom, entries).await
            }
            _ => Ok(()),
        }
    }

    /// The object in the shown version.
    fn in_version(&self, entry: &Arc<Entry>) -> Result<Arc<Entry>, Status> {
        self.custom.as_ref().map_or_else(|| Ok(entry.clone()), |custom| custom.view(entry))
    }

    /// Encodes the next chunk of the initial state.
    fn initial(&mut self, entries: &mut impl Iterator<Item = (u32, Arc<Entry>)>) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while out.len() < CHUNK_BYTES {
            let Some((_, entry)) = entries.next() else { break };
            match self.in_version(&entry) {
                Ok(entry) => {
                    let event = self.initial_event(&entry);
                    out.extend_from_slice(&self.or_error(event));
                }
                Err(status) => out.extend_from_slice(&self.error(&status)),
            }
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    /// Encodes the next chunk of a batch. A single event is not copied.
    fn batch<'d>(&mut self, deliveries: &mut impl Iterator<Item = &'d Delivery>) -> Option<Bytes> {
        let mut next = self.delivery_event(deliveries.next()?);
        let mut out = BytesMut::new();
        while out.len() + next.len() < CHUNK_BYTES {
            let Some(delivery) = deliveries.next() else { break };
            out.extend_from_slice(&next);
            next = self.delivery_event(delivery);
        }
        if out.is_empty() {
            return Some(next);
        }
        out.extend_from_slice(&next);
        Some(out.freeze())
    }

    /// Encodes an event of the initial state; other watches do not share it.
    fn initial_event(&mut self, entry: &Entry) -> Option<Bytes> {
        match &self.form {
            WatchForm::Shared(form) if form.is_of_all_versions() || self.is_stored_version(entry) => {
                cache::frame(EventType::Added, entry, *form)
            }
            WatchForm::Shared(form) => cache::converted_event(EventType::Added, entry, self.resource, *form),
            WatchForm::Tables(tables) => {
                let first = std::mem::take(&mut self.first);
                Some(row(tables, EventType::Added, entry, first, self.nondet.clock.now()))
            }
        }
    }

    fn delivery_event(&mut self, delivery: &Delivery) -> Bytes {
        let (seen, change) = (delivery.seen, &delivery.change);
        match self.custom.is_some().then(|| self.in_version(change.object(seen))) {
            Some(Err(status)) => return self.error(&status),
            Some(Ok(view)) if !Arc::ptr_eq(&view, change.object(seen)) => {
                return self.unshared_event(seen, &view);
            }
            _ => {}
        }
        let event = match &self.form {
            WatchForm::Shared(form) => change.event_in(seen, self.resource, *form),
            WatchForm::Tables(tables) => {
                let now = self.nondet.clock.now();
                if std::mem::take(&mut self.first) {
                    Some(row(tables, seen, change.object(seen), true, now))
                } else {
                    let look = tables.look(now);
                    let make = |entry: &Entry| Some(row(tables, seen, entry, false, now));
                    change.rare_event(seen, self.resource, look, make)
                }
            }
        };
        self.or_error(event)
    }

    /// Encodes an event whose object this watch alone shows.
    fn unshared_event(&mut self, seen: EventType, entry: &Entry) -> Bytes {
        let event = match &self.form {
            WatchForm::Shared(form) => cache::frame(seen, entry, *form),
            WatchForm::Tables(tables) => {
                let first = std::mem::take(&mut self.first);
                Some(row(tables, seen, entry, first, self.nondet.clock.now()))
            }
        };
        self.or_error(event)
    }

    fn is_stored_version(&self, entry: &Entry) -> bool {
        entry.resource.is_same_version(self.resource)
    }

    fn or_error(&self, event: Option<Bytes>) -> Bytes {
        let none = || self.error(&Status::internal("an object has no protobuf form"));
        event.unwrap_or_else(none)
    }

    fn bookmark(&self, revision: i64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        let made = match &self.form {
            WatchForm::Shared(form @ (Form::Json | Form::Protobuf)) => event_of("BOOKMARK", &object, *form),
            WatchForm::Shared(form @ (Form::Partial(version) | Form::PartialProtobuf(version))) => {
                event_of("BOOKMARK", &partial(object["metadata"].clone(), *version), *form)
            }
            WatchForm::Tables(tables) => Some(line("BOOKMARK", &tables.bookmark(&object))),
        };
        self.or_error(made)
    }

    fn error(&self, status: &Status) -> Bytes {
        let json = status.to_json();
        let form = match &self.form {
            WatchForm::Shared(form) => *form,
            WatchForm::Tables(_) => Form::Json,
        };
        let value: Value = serde_json::from_slice(&json).expect("a Status is JSON");
        event_of("ERROR", &value, form).unwrap_or_else(|| watch_line("ERROR", &json))
    }
}

/// An event with a table of one row.
fn row(tables: &Tables, seen: EventType, entry: &Entry, first: bool, now: Timestamp) -> Bytes {
    line(seen.as_str(), &tables.event(entry, first, now))
}

fn line(kind: &str, value: &Value) -> Bytes {
    watch_line(kind, value.to_string().as_bytes())
}

#[cfg(test)]
mod tests;
