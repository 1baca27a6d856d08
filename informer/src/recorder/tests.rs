//! Tests of the recorder with many events.

use super::*;
use crate::Revision;
use crate::limits::{RECORDER_IN_FLIGHT, RECORDER_REFRESH_CAP};
use crate::warnings::Warnings;
use kstore_nondet::{Nondet, Rng};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

#[derive(Clone, Default)]
struct WrittenEvents {
    events: Arc<Mutex<Vec<Event>>>,
    failures: Arc<Mutex<Vec<SinkError>>>,
    /// Name of the object whose writes hang forever, and of the one whose writes fail.
    hangs: Arc<Mutex<String>>,
    fails: Arc<Mutex<String>>,
    /// Randomness, largest duration of a write, and its failure rate in per cent.
    faults: Arc<Mutex<Option<(Rng, u64, u64)>>>,
    under_way: Arc<Mutex<Vec<String>>>,
}

impl WrittenEvents {
    async fn outcome(&self, event: &Event) -> Result<(), SinkError> {
        if *self.hangs.lock() == event.about.name {
            std::future::pending::<()>().await;
        }
        let faults = self.faults.lock().clone();
        if let Some((rng, delay, failures)) = faults {
            sleep(Duration::from_millis(rng.below(delay))).await;
            if rng.below(100) < failures {
                return Err(SinkError::Retry("fault".into()));
            }
        }
        let fails = *self.fails.lock() == event.about.name;
        match self.failures.lock().pop() {
            Some(failure) => Err(failure),
            None if fails => Err(SinkError::Retry("down".into())),
            None => Ok(()),
        }
    }
}

impl EventSink for WrittenEvents {
    async fn write(&self, event: &Event) -> Result<(), SinkError> {
        let begun = self.under_way.lock().len();
        assert!(begun < RECORDER_IN_FLIGHT && !self.under_way.lock().contains(&event.name));
        self.under_way.lock().push(event.name.clone());
        let _ended = FlushResult(self.clone(), event.name.clone());
        let outcome = self.outcome(event).await;
        if outcome.is_ok() {
            self.events.lock().push(event.clone());
        }
        outcome
    }
}

/// Guard of a write, dropped when it returns or is cancelled.
struct FlushResult(WrittenEvents, String);

impl Drop for FlushResult {
    fn drop(&mut self) {
        self.0.under_way.lock().retain(|name| *name != self.1);
    }
}

fn pod(name: &str) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
        field_path: String::new(),
    }
}

/// Queue bound of recorders whose overflow is tested.
const QUEUE: usize = 1_000;

fn recorder_of(queue: usize) -> (Recorder, WrittenEvents, CancellationToken) {
    let (sink, stop) = (WrittenEvents::default(), CancellationToken::new());
    let (recorder, driver) =
        Recorder::bounded(sink.clone(), "kubelet", Nondet::simulated(1).into(), &stop, queue);
    tokio::spawn(driver);
    (recorder, sink, stop)
}

fn recorder() -> (Recorder, WrittenEvents, CancellationToken) {
    let (sink, stop) = (WrittenEvents::default(), CancellationToken::new());
    (Recorder::spawn(sink.clone(), "kubelet", Nondet::simulated(1), &stop), sink, stop)
}

async fn seconds(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_increments_the_count() {
    let (recorder, sink, _stop) = recorder();
    for _ in 0..3 {
        recorder.normal(&pod("a"), "Pulled", "image is there");
        seconds(2).await;
    }
    recorder.normal(&pod("b"), "Pulled", "image is there");
    seconds(700).await;
    recorder.normal(&pod("a"), "Pulled", "image is there");
    seconds(1).await;
    let events = sink.events.lock();
    let counts: Vec<_> = events.iter().map(|e| (e.about.name.as_str(), e.count, e.known)).collect();
    assert_eq!(counts, [("a", 1, false), ("a", 2, true), ("a", 3, true), ("b", 1, false), ("a", 1, false)]);
    assert!(events[0].name == events[2].name && events[0].first == events[2].first);
    assert_ne!(events[0].name, events[4].name, "after the window a new event begins");
}

/// E1: a thousand identical events are two writes and a few refreshes; the last has the full count.
#[tokio::test(start_paused = true)]
async fn identical_events_are_two_writes_plus_refreshes_with_exact_count() {
    let (recorder, sink, _stop) = recorder();
    for _ in 0..1_000 {
        recorder.normal(&pod("a"), "Pulled", "image is there");
        sleep(Duration::from_millis(500)).await;
    }
    sleep(RECORDER_REFRESH_CAP).await;
    let events = sink.events.lock();
    assert_eq!(events.last().map(|event| event.count), Some(1_000));
    // Delays of 1, 2, 4, … 256 and 300 seconds: 500 seconds contain nine of them, plus the last write.
    assert!(events.len() <= 2 + 10, "{} writes", events.len());
    assert_eq!(recorder.stats(), RecorderStats { written: events.len() as u64, ..Default::default() });
}

#[tokio::test(start_paused = true)]
async fn event_counts_grow_in_memory_during_a_write() {
    let (recorder, sink, _stop) = recorder();
    *sink.faults.lock() = Some((Rng::seeded(1), 900, 0));
    for _ in 0..500 {
        recorder.normal(&pod("a"), "Pulled", "image is there");
    }
    seconds(5).await;
    let counts: Vec<_> = sink.events.lock().iter().map(|event| event.count).collect();
    assert_eq!(counts, [1, 500]);
}

/// Kubernetes combines events likewise: ten messages, each within ten minutes of the one before.
#[tokio::test(start_paused = true)]
async fn many_messages_of_one_reason_become_one_combined_event() {
    let (recorder, sink, _stop) = recorder();
    for i in 0..14 {
        recorder.warning(&pod("a"), "Failed", format!("attempt {i}"));
        seconds(500).await;
    }
    seconds(700).await;
    recorder.warning(&pod("a"), "Failed", "attempt 14");
    seconds(1).await;
    let events = sink.events.lock();
    let combined: Vec<_> = events.iter().filter(|e| e.message.starts_with("(combined")).collect();
    assert_eq!(combined.iter().map(|e| e.count).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(combined[4].message, "(combined from similar events): attempt 13");
    assert_eq!(events.last().map(|e| e.message.as_str()), Some("attempt 14"), "the window has passed");
}

#[tokio::test(start_paused = true)]
async fn event_spam_of_one_object_is_dropped_without_affecting_others() {
    let (recorder, sink, _stop) = recorder();
    for i in 0..100 {
        recorder.normal(&pod("a"), &format!("Reason{i}"), "image is there");
    }
    recorder.warning(&pod("a"), "Failed", "another type has a budget of its own");
    recorder.normal(&pod("b"), "Pulled", "image is there");
    seconds(1).await;
    assert_eq!(sink.events.lock().len(), 27);
    assert_eq!(recorder.stats(), RecorderStats { spam: 75, written: 27, ..Default::default() });
    seconds(300).await;
    recorder.normal(&pod("a"), "Reason99", "image is there");
    seconds(1).await;
    let events = sink.events.lock();
    assert_eq!(events.last().map(|e| e.count), Some(2), "the count includes what was not written");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_instead_of_blocking() {
    let (recorder, sink, _stop) = recorder_of(QUEUE);
    for i in 0..QUEUE + 500 {
        recorder.normal(&pod(&format!("p{i}")), "Pulled", "image is there");
    }
    seconds(1).await;
    assert_eq!((sink.events.lock().len(), recorder.stats().overflowed), (QUEUE, 500));
}

/// A Deployment with 2,000 replicas: the four start events of each pod arrive at once.
#[tokio::test(start_paused = true)]
async fn a_burst_of_thousands_of_events_is_written_completely_with_ascending_names() {
    let (recorder, sink, _stop) = recorder();
    *sink.faults.lock() = Some((Rng::seeded(1), 20, 0));
    let reasons = ["Pulling", "Pulled", "Created", "Started"];
    for reason in reasons {
        for i in 0..2_000 {
            recorder.normal(&pod(&format!("p{i}")), reason, "as it should be");
        }
    }
    seconds(60).await;
    assert_eq!(recorder.stats(), RecorderStats { written: 8_000, ..Default::default() });
    let events = sink.events.lock();
    let mut of_one: Vec<_> = events.iter().filter(|e| e.about.name == "p7").collect();
    of_one.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(of_one.iter().map(|e| e.reason.as_str()).collect::<Vec<_>>(), reasons);
}

#[tokio::test(start_paused = true)]
async fn dropped_events_are_logged_once_per_burst() {
    let warnings = Warnings::of("recorder");
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let (recorder, _sink, _stop) = recorder_of(QUEUE);
    for burst in 1..=2 {
        for i in 0..QUEUE + 100 {
            recorder.normal(&pod(&format!("p{burst}-{i}")), "Pulled", "image is there");
        }
        seconds(60).await;
        assert_eq!((warnings.count(), recorder.stats().overflowed), (burst, burst as u64 * 100));
    }
    for i in 0..100 {
        recorder.normal(&pod("a"), &format!("Reason{i}"), "too much about one object");
    }
    seconds(60).await;
    assert_eq!((warnings.count(), recorder.stats().spam), (2, 75), "a cut on purpose is no warning");
}

#[tokio::test(start_paused = true)]
async fn the_outbox_is_bounded() {
    let (recorder, sink, _stop) = recorder_of(QUEUE);
    *sink.faults.lock() = Some((Rng::seeded(1), 10, 100));
    for i in 0..QUEUE + 500 {
        recorder.normal(&pod(&format!("p{i}")), "Pulled", "image is there");
        tokio::task::yield_now().await;
    }
    assert_eq!(recorder.stats().overflowed, 500);
}

#[tokio::test(start_paused = true)]
async fn failed_event_writes_are_retried_and_refused_ones_are_not() {
    let (recorder, sink, _stop) = recorder();
    sink.failures.lock().extend([SinkError::Retry("later".into()), SinkError::Refused("no".into())]);
    recorder.normal(&pod("a"), "Pulled", "first");
    recorder.normal(&pod("a"), "Pulled", "second");
    seconds(60).await;
    assert_eq!(sink.events.lock().iter().map(|e| e.message.as_str()).collect::<Vec<_>>(), ["second"]);
    assert_eq!(recorder.stats(), RecorderStats { refused: 1, written: 1, ..Default::default() });
}

/// Regression: an event that fails for two minutes blocked all later events.
#[tokio::test(start_paused = true)]
async fn a_failing_or_hanging_event_write_does_not_block_others() {
    let (recorder, sink, _stop) = recorder();
    "bad".clone_into(&mut sink.fails.lock());
    "stuck".clone_into(&mut sink.hangs.lock());
    for name in ["bad", "stuck", "good"] {
        recorder.normal(&pod(name), "Pulled", "image is there");
    }
    sleep(Duration::from_millis(10)).await;
    assert_eq!(sink.events.lock().iter().map(|e| e.about.name.clone()).collect::<Vec<_>>(), ["good"]);
    // Twelve attempts each, ten seconds (and ten of waiting) apart.
    seconds(240).await;
    assert_eq!(recorder.stats(), RecorderStats { written: 1, failed: 2, ..Default::default() });
}

#[tokio::test(start_paused = true)]
async fn a_flush_writes_delayed_and_failed_events_or_reports_false() {
    let (recorder, sink, _stop) = recorder();
    for _ in 0..100 {
        recorder.normal(&pod("a"), "Pulled", "image is there");
        sleep(Duration::from_millis(100)).await;
    }
    sink.failures.lock().push(SinkError::Retry("later".into()));
    recorder.normal(&pod("b"), "Pulled", "image is there");
    assert!(recorder.flush(Duration::from_secs(1)).await);
    let newest: BTreeMap<_, _> = sink.events.lock().iter().map(|e| (e.about.name.clone(), e.count)).collect();
    assert_eq!(newest, BTreeMap::from([("a".into(), 100), ("b".into(), 1)]));
    "bad".clone_into(&mut sink.fails.lock());
    recorder.normal(&pod("bad"), "Pulled", "image is there");
    assert!(!recorder.flush(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_stop_writes_pending_events_until_its_deadline_and_counts_the_rest() {
    for answers in [true, false] {
        let (sink, stop) = (WrittenEvents::default(), CancellationToken::new());
        let (recorder, driver) = Recorder::build(sink.clone(), "kubelet", Nondet::simulated(1), &stop);
        let driver = tokio::spawn(driver);
        *sink.faults.lock() = Some((Rng::seeded(1), 10, if answers { 0 } else { 100 }));
        for _ in 0..50 {
            recorder.normal(&pod("a"), "Killing", "going");
        }
        stop.cancel();
        sleep(Duration::from_millis(1)).await;
        recorder.normal(&pod("a"), "Killed", "gone");
        let kept = (!answers).then(|| recorder.clone());
        drop(recorder);
        let begun = tokio::time::Instant::now();
        driver.await.unwrap();
        let counts: Vec<_> = sink.events.lock().iter().map(|e| (e.reason.clone(), e.count)).collect();
        match kept {
            None => {
                assert!(begun.elapsed() < Duration::from_millis(100), "recording has ended");
                assert!(counts.contains(&("Killing".into(), 50)) && counts.contains(&("Killed".into(), 1)));
            }
            Some(recorder) => {
                recorder.normal(&pod("a"), "Killed", "too late");
                assert_eq!((counts.len(), recorder.stats().stopped), (0, 3));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_keep_their_identity_and_merge_their_causes() {
    let (recorder, sink, _stop) = recorder();
    let part = |name: &str| Reference { field_path: format!("spec.containers{{{name}}}"), ..pod("a") };
    for (cause, host, container) in [(1, "n1", "web"), (2, "n1", "web"), (3, "n1", "side"), (4, "n2", "web")]
    {
        let recorder = recorder.host(host).causes(&Causes::one(Revision(cause)));
        recorder.normal(&part(container), "Started", "started");
    }
    let bound = Occurrence::new(&pod("a"), EventType::Normal, "Scheduled", "on n1");
    let node = Reference { kind: "Node".into(), name: "n1".into(), ..Reference::default() };
    recorder.record(Occurrence { action: "Binding".into(), related: Some(node.clone()), ..bound });
    seconds(1).await;
    let mut newest = BTreeMap::new();
    for event in sink.events.lock().iter() {
        let key = (event.host.clone(), event.about.field_path.clone());
        newest.insert(key, (event.count, event.causes.to_string(), event.related.clone()));
    }
    let at = |host: &str, part: Reference| (host.to_owned(), part.field_path);
    assert_eq!(
        newest,
        BTreeMap::from([
            (at("", pod("a")), (1, String::new(), Some(node))),
            (at("n1", part("side")), (1, "3".into(), None)),
            (at("n1", part("web")), (2, "2".into(), None)),
            (at("n2", part("web")), (1, "4".into(), None)),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_events_are_counted_by_reason() {
    let (recorder, _sink, stop) = recorder();
    let registry = Registry::new();
    recorder.metrics(&registry);
    for i in 0..26 {
        recorder.normal(&pod("a"), &format!("Reason{i}"), "image is there");
    }
    seconds(1).await;
    let mut page = String::new();
    registry.render(&mut page);
    assert!(page.contains("informer_events_dropped_total{component=\"kubelet\",why=\"spam\"} 1\n"), "{page}");
    assert!(page.contains("informer_events_written_total{component=\"kubelet\"} 25\n"), "{page}");
    stop.cancel();
    drop(recorder);
    seconds(2).await;
    assert!(registry.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// E1: with a slow and failing sink, n identical events in a window are at most two writes and refreshes
    /// at growing intervals, in order. The last has count n, and every drop is counted.
    #[test]
    fn final_event_counts_are_exact_for_every_sink_behaviour(
        seed in any::<u64>(),
        happenings in prop::collection::vec((0usize..4, 0u64..20_000), 1..80),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (recorder, sink, _stop) = recorder();
            *sink.faults.lock() = Some((Rng::seeded(seed), 3_000, 20));
            let mut recorded: BTreeMap<String, u32> = BTreeMap::new();
            for (who, pause) in &happenings {
                let name = format!("p{who}");
                recorder.normal(&pod(&name), "Pulled", "image is there");
                *recorded.entry(name).or_default() += 1;
                sleep(Duration::from_millis(*pause)).await;
            }
            *sink.faults.lock() = None;
            sleep(RECORDER_REFRESH_CAP + Duration::from_secs(10)).await;
            let events = sink.events.lock();
            for (name, n) in &recorded {
                let counts: Vec<_> =
                    events.iter().filter(|e| e.about.name == *name).map(|e| e.count).collect();
                assert_eq!(counts.last(), Some(n));
                assert!(counts.is_sorted_by(|a, b| a < b), "in order, and never the same twice: {counts:?}");
                assert!(counts.len() <= 2 + 12, "{counts:?}");
            }
            assert_eq!(recorder.stats(), RecorderStats { written: events.len() as u64, ..Default::default() });
        });
    }
}
