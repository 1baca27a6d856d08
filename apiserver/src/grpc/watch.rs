//! The gRPC call Watch: several kinds on one stream, in revision order.

use super::list::{bytes_of, filter};
use super::{Grpc, Streamed, target};
use kstore_api::selector::field;
use kstore_api::status::Status;
use kstore_proto::ProgressDemand;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::cache::{Batch, Cache, Delivery, Filter, ReadBound, Watch, WatchEnd, WatchStart};
use kstore_registry::conversion::{Converter, FieldSelection, filter_by_version};
use kstore_registry::entry::Entry;
use kstore_registry::error::{no_such_method, of_read, timed_out, to_grpc};
use kstore_registry::kinds::Served;
use kstore_registry::request::Target;
use kstore_registry::selectors::SelectorBudget;
use kstore_storage::limits;
use pb::watch_event::Type;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Interval of progress messages on a stream that asked for them.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Interval of progress messages on a stream within this process, while its reader demands none: such a stream
/// has no connection that could break. Half of what `kstore-client` expects at most.
const IN_PROCESS_PROGRESS_INTERVAL: Duration = Duration::from_secs(600);

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::WatchRequest>,
) -> Result<tonic::Response<Streamed<pb::WatchBatch>>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let demand = request.extensions().get::<ProgressDemand>().cloned();
    let bound = request.extensions().get::<Arc<dyn ReadBound>>().cloned();
    let message = request.into_inner();
    if message.selectors.is_empty() || message.selectors.len() > limits::WATCH_SELECTORS {
        let text = format!("a watch has 1 to {} selectors", limits::WATCH_SELECTORS);
        return Err(to_grpc(&Status::bad_request(text)));
    }
    // Permissions are checked against everything that was answered before this call arrived.
    grpc.pipeline.cache().fresh().await.map_err(|error| to_grpc(&of_read(error)))?;
    let mut filters = Vec::with_capacity(message.selectors.len());
    let mut kinds = Vec::with_capacity(message.selectors.len());
    let mut budget = SelectorBudget::default();
    for selector in message.selectors {
        let target: Target = target(&caller.kinds, selector.r#ref)?;
        let checked = grpc.pipeline.check(&caller.user, "watch", &target, &target.name).await;
        checked.map_err(|status| to_grpc(&status))?;
        let (user, after) = (&caller.user, message.after_revision);
        let checked = grpc.pipeline.check_past(user, "watch", &target, &target.name, after).await;
        checked.map_err(|status| to_grpc(&status))?;
        // A permission for `pods/log` does not include pods: only whole objects can be watched.
        if !target.subresource.is_empty() || !target.resource.verbs.contains(&"watch") {
            return Err(to_grpc(&no_such_method()));
        }
        let selected = filter(&mut budget, &target, &selector.label_selector, &selector.field_selector)?;
        let selected = grpc.pipeline.shown(selected, selector.include_uninitialized);
        filters.push(filter_by_version(&selected, target.custom.as_ref()));
        kinds.push(Served { resource: target.resource, custom: target.custom });
    }
    let watch = begin(grpc, filters, message.after_revision, bound).await;
    let watch = watch.map_err(|status| to_grpc(&status))?;
    let now = Instant::now();
    // The same bound as for REST. A component in this process has none, since it ends with the process.
    let longest = caller
        .is_remote
        .then(|| limits::WATCH_TIMEOUT.mul_f64(1.0 + grpc.pipeline.nondet().rng.unit()))
        .map(|longest| caller.credentials.map_or(longest, |credentials| longest.min(credentials)));
    let lifetime = StreamLifetime {
        stop: grpc.stop.clone(),
        timeout: caller.timeout.map(|timeout| now + timeout),
        longest: longest.map(|longest| now + longest),
    };
    let converter = grpc.pipeline.converter().clone();
    // Changes of a custom kind's definition are noticed with its changes and with progress.
    let is_rare = demand.is_some() && kinds.iter().all(|kind| kind.custom.is_none());
    let timer = || ProgressTimer { demand, is_rare, answered: 0, last: Instant::now() };
    let progress = message.progress.then(timer);
    let stream = batches(watch, kinds, converter, progress, lifetime);
    Ok(tonic::Response::new(Box::pin(stream)))
}

async fn begin(
    grpc: &Grpc,
    filters: Vec<Filter>,
    after: i64,
    bound: Option<Arc<dyn ReadBound>>,
) -> Result<Watch, Status> {
    let start = if after == 0 { WatchStart::State } else { WatchStart::After(after) };
    grpc.pipeline.start_watch(filters, start, bound).await
}

/// The conditions that end a watch stream while its client still reads.
struct StreamLifetime {
    stop: CancellationToken,
    /// The timeout that the client stated.
    timeout: Option<Instant>,
    /// The server's own bound, or the expiry of the client's credentials. The client resumes from the last
    /// revision that it received.
    longest: Option<Instant>,
}

impl StreamLifetime {
    /// Waits for the end of the stream; returns the error to send, or `None` for an end without an error.
    async fn wait(&self) -> Option<Status> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Some(WatchEnd::Closed.status()),
            () = sleep_until_optional(self.timeout) => Some(timed_out()),
            () = sleep_until_optional(self.longest) => None,
        }
    }
}

/// Decides when a watch that asked for progress sends it.
struct ProgressTimer {
    /// The demand of a reader in this process.
    demand: Option<ProgressDemand>,
    /// Whether progress without a demand is rare.
    is_rare: bool,
    /// The newest demand that was answered, although perhaps with an older revision.
    answered: i64,
    /// Time of the last progress.
    last: Instant,
}

impl ProgressTimer {
    /// Waits until progress is due on a watch that has sent everything up to `sent`.
    async fn due(&self, sent: i64) -> ProgressCause {
        // A reader that demanded a later revision than exists waits for it.
        let interval = match self.is_rare && self.answered <= sent {
            true => IN_PROCESS_PROGRESS_INTERVAL,
            false => PROGRESS_INTERVAL,
        };
        let demanded = async {
            match &self.demand {
                Some(demand) => demand.above(sent.max(self.answered)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            revision = demanded => ProgressCause::Demand(revision),
            () = sleep_until(self.last + interval) => ProgressCause::Interval,
        }
    }
}

/// Why progress is sent.
enum ProgressCause {
    /// A reader demands this revision.
    Demand(i64),
    /// The interval has passed.
    Interval,
}

/// Waits until progress is due; forever on a watch that did not ask for it.
async fn progress_due(timer: Option<&ProgressTimer>, sent: i64) -> ProgressCause {
    match timer {
        Some(timer) => timer.due(sent).await,
        None => std::future::pending().await,
    }
}

/// Waits until a time; waits forever without one.
async fn sleep_until_optional(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn batches(
    mut watch: Watch,
    kinds: Vec<Served>,
    converter: Arc<Converter>,
    mut progress: Option<ProgressTimer>,
    lifetime: StreamLifetime,
) -> impl futures::Stream<Item = Result<pb::WatchBatch, tonic::Status>> + Send {
    async_stream::stream! {
        let preparation = Preparation::of(&watch, kinds, converter);
        let kinds = &preparation.kinds;
        let state = match preparation.state(watch.initial()).await {
            Ok(state) => state,
            Err(status) => {
                yield Err(to_grpc(&status));
                return;
            }
        };
        let revision = watch.starts_with_state().then(|| watch.revision());
        for batch in initial(revision, &state, kinds) {
            yield Ok(batch);
        }
        drop(state);
        loop {
            let sent = watch.revision();
            let batch = tokio::select! {
                biased;
                status = lifetime.wait() => match status {
                    Some(status) => Err(status),
                    None => break,
                },
                batch = watch.next() => batch.map_err(|end| end.status()),
                cause = progress_due(progress.as_ref(), sent) => {
                    if let Some(timer) = &mut progress {
                        timer.last = Instant::now();
                        if let ProgressCause::Demand(revision) = cause {
                            timer.answered = revision;
                            // Writes that were acknowledged before the demand. If the storage does not answer,
                            // the interval covers them.
                            let _ = watch.cache().fresh().await;
                        }
                    }
                    watch.progress().map_err(|end| end.status())
                }
            };
            match batch {
                // The definition of a watched kind changed: the client resumes, and is then refused if it
                // cannot read the new form.
                Ok(_) if kinds.iter().any(|kind| is_redefined(kind, &watch)) => break,
                // A watched kind was deleted: the client receives the deletions of its objects before the
                // end.
                Ok(batch) if batch.deliveries.is_empty() && kinds.iter().any(|kind| is_gone(kind, &watch)) => break,
                Ok(batch) => match preparation.batch(batch).await {
                    Ok(batch) => yield Ok(message(kinds, &batch)),
                    Err(status) => {
                        yield Err(to_grpc(&status));
                        break;
                    }
                },
                Err(status) => {
                    yield Err(to_grpc(&status));
                    break;
                }
            }
        }
    }
}

/// Prepares the objects of a watch for delivery: evaluates the field selectors that the cache does not
/// evaluate, and converts objects by the conversion webhooks of their kinds.
struct Preparation {
    cache: Arc<Cache>,
    converter: Arc<Converter>,
    /// The watched kinds, by selector.
    kinds: Vec<Served>,
    /// Field requirements that the cache does not evaluate, by selector.
    unevaluated: Vec<Option<field::Selector>>,
    /// The revision at which the watch began.
    begun: i64,
}

impl Preparation {
    fn of(watch: &Watch, kinds: Vec<Served>, converter: Arc<Converter>) -> Self {
        let unevaluated = watch.filters().iter().map(|filter| filter.unevaluated().cloned()).collect();
        Self { cache: watch.cache().clone(), converter, kinds, unevaluated, begun: watch.revision() }
    }

    fn selections(&self) -> impl Iterator<Item = (u32, FieldSelection<'_>)> {
        let (cache, converter) = (&self.cache, &*self.converter);
        (0u32..).zip(self.kinds.iter().zip(&self.unevaluated)).filter_map(
            move |(selector, (kind, fields))| {
                let (custom, fields) = (kind.custom.as_ref()?, fields.as_ref()?);
                Some((selector, FieldSelection { converter, cache, custom, fields }))
            },
        )
    }

    /// Selects and converts the objects of the initial state.
    ///
    /// # Errors
    /// The reason for which an object cannot be converted.
    async fn state(&self, mut state: Vec<(u32, Arc<Entry>)>) -> Result<Vec<(u32, Arc<Entry>)>, Status> {
        for (selector, selection) in self.selections() {
            state = selection.state(selector, state).await?;
        }
        self.convert(state.iter().map(|(selector, entry)| (*selector, entry))).await?;
        Ok(state)
    }

    /// Selects and converts the deliveries of a batch.
    ///
    /// # Errors
    /// The reason for which an object cannot be converted.
    async fn batch(&self, mut batch: Batch) -> Result<Batch, Status> {
        for (selector, selection) in self.selections() {
            batch.deliveries = selection.deliveries(selector, self.begun, batch.deliveries).await?;
        }
        let changes = batch.deliveries.iter();
        let objects = changes.map(|delivery| (delivery.selector, delivery.change.object(delivery.seen)));
        self.convert(objects).await?;
        Ok(batch)
    }

    async fn convert<'e>(
        &self,
        selected: impl Iterator<Item = (u32, &'e Arc<Entry>)> + Clone + Send,
    ) -> Result<(), Status> {
        for (index, kind) in self.kinds.iter().enumerate() {
            let Some(custom) = kind.custom.as_ref().filter(|custom| custom.needs_webhook()) else { continue };
            let of_kind = selected.clone().filter(|(selector, _)| *selector as usize == index);
            self.converter.prepare(&self.cache, custom, of_kind.map(|(_, entry)| entry)).await?;
        }
        Ok(())
    }
}

/// The initial state of a watch, at its revision, in chunks that are made when the stream reaches them; the last chunk is marked. Empty
/// when the watch resumes, and has no such revision.
fn initial(
    revision: Option<i64>,
    state: &[(u32, Arc<Entry>)],
    kinds: &[Served],
) -> impl Iterator<Item = pb::WatchBatch> {
    let event = move |(selector, entry): &(u32, Arc<Entry>)| pb::WatchEvent {
        r#type: Type::Put.into(),
        selector: *selector,
        json: shown(&kinds[*selector as usize], entry),
        revision: entry.revision,
    };
    // A chunk of the state has no revision: only the last one covers the revision of the state.
    let chunks = state.chunks(limits::LIST_CHUNK_ITEMS).filter(move |_| revision.is_some());
    let chunks = chunks.map(move |chunk| pb::WatchBatch {
        events: chunk.iter().map(event).collect(),
        revision: 0,
        initial_done: false,
    });
    let last = revision.map(|revision| pb::WatchBatch { events: Vec::new(), revision, initial_done: true });
    chunks.chain(last)
}

/// The object of an event in the caller's version: bytes that all watchers share if that is the stored
/// version.
fn json_of(kind: &Served, delivery: &Delivery) -> bytes::Bytes {
    let object = delivery.change.object(delivery.seen);
    match object.resource.is_same_version(kind.resource) && kind.custom.is_none() {
        true => delivery.change.json(delivery.seen),
        false => shown(kind, object),
    }
}

/// The object in the caller's version. A custom object that cannot be converted is returned as it is stored.
fn shown(kind: &Served, entry: &Arc<Entry>) -> bytes::Bytes {
    match kind.custom.as_ref().map(|custom| custom.view(entry)) {
        Some(Ok(view)) => view.json(),
        Some(Err(status)) => {
            tracing::warn!(key = entry.key(), %status, "a custom object cannot be shown in the version that is watched");
            entry.json()
        }
        None => bytes_of(kind.resource, entry),
    }
}

/// Whether the form of a watched custom kind's objects has changed since the watch began. The deletion of the
/// definition does not count: watchers receive the deletions of the objects.
fn is_redefined(kind: &Served, watch: &Watch) -> bool {
    let Some(custom) = &kind.custom else { return false };
    let current = watch.cache().kinds().custom(kind.resource);
    current.is_some_and(|current| current.kind.normal_since != custom.kind.normal_since)
}

/// Whether the definition of a watched custom kind, or the watched version of it, was deleted.
fn is_gone(kind: &Served, watch: &Watch) -> bool {
    kind.custom.is_some() && watch.cache().kinds().custom(kind.resource).is_none()
}

fn message(kinds: &[Served], batch: &Batch) -> pb::WatchBatch {
    let events = batch.deliveries.iter().map(|delivery| pb::WatchEvent {
        r#type: if delivery.seen.is_put() { Type::Put } else { Type::Gone }.into(),
        selector: delivery.selector,
        json: json_of(&kinds[delivery.selector as usize], delivery),
        revision: delivery.change.revision,
    });
    pb::WatchBatch { events: events.collect(), revision: batch.revision, initial_done: false }
}
