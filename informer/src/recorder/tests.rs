//! What becomes of many events.

use std::time::Duration;

use kstore_nondet::Nondet;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;

#[derive(Clone, Default)]
struct Written {
    events: Arc<Mutex<Vec<Event>>>,
    failures: Arc<Mutex<Vec<SinkError>>>,
}

impl EventSink for Written {
    async fn write(&self, event: &Event) -> Result<(), SinkError> {
        if let Some(failure) = self.failures.lock().pop() {
            return Err(failure);
        }
        self.events.lock().push(event.clone());
        Ok(())
    }
}

fn pod(name: &str) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
    }
}

fn recorder() -> (Recorder, Written, CancellationToken) {
    let (sink, stop) = (Written::default(), CancellationToken::new());
    (Recorder::spawn(sink.clone(), "kubelet", &Nondet::simulated(1), &stop), sink, stop)
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_raises_the_count_of_the_first() {
    let (recorder, sink, _stop) = recorder();
    for _ in 0..3 {
        recorder.normal(&pod("a"), "Pulled", "image is there");
        sleep(Duration::from_secs(1)).await;
    }
    recorder.normal(&pod("b"), "Pulled", "image is there");
    sleep(Duration::from_secs(700)).await;
    recorder.normal(&pod("a"), "Pulled", "image is there");
    sleep(Duration::from_secs(1)).await;
    let events = sink.events.lock();
    let counts: Vec<_> = events.iter().map(|e| (e.about.name.as_str(), e.count)).collect();
    assert_eq!(counts, [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("a", 1)]);
    assert!(events[0].name == events[2].name && events[0].first == events[2].first);
    assert_ne!(events[0].name, events[4].name, "after the window a new event begins");
}

#[tokio::test(start_paused = true)]
async fn many_messages_of_one_reason_become_one_combined_event() {
    let (recorder, sink, _stop) = recorder();
    for i in 0..14 {
        recorder.warning(&pod("a"), "Failed", format!("attempt {i}"));
        sleep(Duration::from_secs(1)).await;
    }
    let events = sink.events.lock();
    assert_eq!(events.iter().filter(|e| e.count == 1).count(), 10);
    assert_eq!(events[13].count, 5);
    assert!(events[13].message.starts_with("(combined from similar events): attempt 13"));
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_cut_and_counted_and_other_objects_do_not_suffer() {
    let (recorder, sink, _stop) = recorder();
    for _ in 0..100 {
        recorder.normal(&pod("a"), "Pulled", "image is there");
    }
    recorder.normal(&pod("b"), "Pulled", "image is there");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sink.events.lock().len(), 26);
    assert_eq!(recorder.stats(), RecorderStats { spam: 75, written: 26, ..Default::default() });
    sleep(Duration::from_secs(300)).await;
    recorder.normal(&pod("a"), "Pulled", "image is there");
    sleep(Duration::from_secs(1)).await;
    let events = sink.events.lock();
    assert_eq!(events.last().map(|e| e.count), Some(101), "the count includes what was not written");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_instead_of_blocking() {
    let (recorder, sink, _stop) = recorder();
    for i in 0..1_500 {
        recorder.normal(&pod(&format!("p{i}")), "Pulled", "image is there");
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!((sink.events.lock().len(), recorder.stats().overflowed), (1_000, 500));
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_repeated_and_a_refused_one_is_not() {
    let (recorder, sink, _stop) = recorder();
    sink.failures.lock().extend([SinkError::Refused("no".into()), SinkError::Retry("later".into())]);
    recorder.normal(&pod("a"), "Pulled", "first");
    recorder.normal(&pod("a"), "Pulled", "second");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(sink.events.lock().iter().map(|e| e.message.as_str()).collect::<Vec<_>>(), ["second"]);
    assert_eq!(recorder.stats().failed, 1);
}
