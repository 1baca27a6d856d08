//! Watch streams of both servers with the same script. After each step both must have sent the same events per watch,
//! one by one, since their grouping into responses may differ.

use crate::call::Call;
use crate::calls::{delete, put};
use crate::comparison::Comparison;
use crate::random;
use futures::stream;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use kstore_proto::etcd::etcdserverpb::{
    self as pb, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use kstore_proto::etcd::mvccpb;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tonic::transport::Channel;

/// Time to wait for both servers to agree: reached only if they do not, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const ACTS: usize = 250;
const SEEDS: [u8; 2] = [1, 2];

/// A step that is done on both servers.
#[derive(Clone, Debug)]
enum WatchAction {
    Create(WatchCreateRequest),
    Cancel(i64),
    Progress,
    Nonsense,
    Do(Call),
}

/// One server's watch stream.
struct WatchStream {
    requests: mpsc::Sender<WatchRequest>,
    received: Arc<ReceivedResponses>,
}

/// The responses received so far.
#[derive(Default)]
struct ReceivedResponses {
    responses: Mutex<Vec<WatchResponse>>,
    more: Notify,
}

/// The events of a stream's watches by id; -1 has those that concern none or all.
type EventsByWatch = BTreeMap<i64, Vec<String>>;

impl WatchStream {
    fn open(channel: &Channel) -> Self {
        let (requests, mut receiver) = mpsc::channel(64);
        let outgoing = stream::poll_fn(move |cx| receiver.poll_recv(cx));
        let mut client = WatchClient::new(channel.clone());
        let received = Arc::new(ReceivedResponses::default());
        let teller = received.clone();
        tokio::spawn(async move {
            // etcd sends nothing, not even headers, before its first response.
            let mut incoming = client.watch(outgoing).await.unwrap().into_inner();
            while let Ok(Some(response)) = incoming.message().await {
                teller.responses.lock().unwrap().push(response);
                teller.more.notify_one();
            }
        });
        Self { requests, received }
    }

    async fn send(&self, union: Option<RequestUnion>) {
        self.requests.send(WatchRequest { request_union: union }).await.unwrap();
    }

    /// Received events by watch. kstore may still have the previous version of an event at the compacted revision,
    /// where etcd does not.
    fn events_by_watch(&self, compacted: i64) -> EventsByWatch {
        let mut events_by_watch = EventsByWatch::new();
        for response in self.received.responses.lock().unwrap().iter() {
            events_by_watch.entry(response.watch_id).or_default().extend(sentences(response, compacted));
        }
        events_by_watch
    }
}

fn sentences(response: &WatchResponse, compacted: i64) -> Vec<String> {
    let revision = response.header.unwrap().revision;
    let mut said = Vec::new();
    if response.created || response.canceled {
        let WatchResponse { created, canceled, compact_revision, cancel_reason, .. } = response;
        said.push(format!("{created} {canceled} {compact_revision} {cancel_reason:?} at {revision}"));
    } else if response.events.is_empty() {
        said.push(format!("progress {revision}"));
    }
    for event in &response.events {
        let last = event.kv.as_ref().unwrap().mod_revision;
        assert!(revision >= last, "a header behind its events: {response:?}");
        let prev_kv = event.prev_kv.clone().filter(|_| last > compacted);
        said.push(format!("{:?}", mvccpb::Event { prev_kv, ..event.clone() }));
    }
    said
}

/// Does one step on both servers and waits until both have sent the same.
async fn act(comparison: &Comparison, sides: &[WatchStream; 2], act: &WatchAction) {
    match act {
        WatchAction::Create(create) => tell(sides, Some(RequestUnion::CreateRequest(create.clone()))).await,
        WatchAction::Cancel(watch_id) => {
            tell(sides, Some(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: *watch_id }))).await;
        }
        WatchAction::Progress => {
            tell(sides, Some(RequestUnion::ProgressRequest(WatchProgressRequest {}))).await;
        }
        WatchAction::Nonsense => tell(sides, None).await,
        WatchAction::Do(call) => drop(comparison.both("a watched call", call).await),
    }
}

async fn tell(sides: &[WatchStream; 2], union: Option<RequestUnion>) {
    for side in sides {
        side.send(union.clone()).await;
    }
}

/// Waits until both servers have sent the same, with at least `least` responses.
async fn agree(sides: &[WatchStream; 2], least: usize, compacted: i64, what: &dyn std::fmt::Debug) {
    let agreed = async {
        loop {
            let (arrived, there) = (sides[0].received.more.notified(), sides[1].received.more.notified());
            let enough = sides.iter().all(|side| side.received.responses.lock().unwrap().len() >= least);
            if enough && sides[0].events_by_watch(compacted) == sides[1].events_by_watch(compacted) {
                return;
            }
            tokio::select! {
                biased;
                () = arrived => {}
                () = there => {}
            }
        }
    };
    if tokio::time::timeout(PATIENCE, agreed).await.is_err() {
        let (theirs, ours) = (sides[0].events_by_watch(compacted), sides[1].events_by_watch(compacted));
        let ids: std::collections::BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for id in ids {
            assert_eq!(
                ours.get(id),
                theirs.get(id),
                "watch {id} of kstore (left) and etcd (right) after {what:?}"
            );
        }
        panic!("both received the same, but less than {least} responses, after {what:?}");
    }
}

/// Runs steps, each with the number of responses that it causes at least.
async fn play(comparison: &Comparison, script: &[(WatchAction, usize)], mut compacted: i64) {
    let (sides, mut least) = (open(comparison), 0);
    for (step, more) in script {
        least += more;
        act(comparison, &sides, step).await;
        compacted = compacted.max(compacts(step));
        agree(&sides, least, compacted, step).await;
    }
}

/// The revision to which a step compacts, or zero.
fn compacts(act: &WatchAction) -> i64 {
    match act {
        WatchAction::Do(Call::Compact(request)) => request.revision,
        _ => 0,
    }
}

fn open(comparison: &Comparison) -> [WatchStream; 2] {
    [WatchStream::open(&comparison.channels[0]), WatchStream::open(&comparison.channels[1])]
}

fn on(key: &'static str, range_end: &'static str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.into(), range_end: range_end.into(), prev_kv: true, ..Default::default() }
}

fn from(start_revision: i64, create: WatchCreateRequest) -> WatchAction {
    WatchAction::Create(WatchCreateRequest { start_revision, ..create })
}

fn named(watch_id: i64, create: WatchCreateRequest) -> WatchAction {
    WatchAction::Create(WatchCreateRequest { watch_id, ..create })
}

fn filtered(filters: &[i32]) -> WatchAction {
    WatchAction::Create(WatchCreateRequest { filters: filters.to_vec(), ..on("a", "z") })
}

fn write(key: &'static str, value: &'static str) -> WatchAction {
    WatchAction::Do(Call::Put(put(key, value)))
}

#[tokio::test]
async fn a_stream_answers_requests_of_every_kind_as_etcd_does() {
    let Some(comparison) = Comparison::begin().await else { return };
    let script = [
        (WatchAction::Progress, 0),
        (WatchAction::Nonsense, 0),
        (WatchAction::Create(on("a", "z")), 1),
        (WatchAction::Create(on("", "")), 1),
        (WatchAction::Create(on("", "\0")), 1),
        (WatchAction::Create(on("b", "a")), 1),
        (WatchAction::Create(on("b", "b")), 1),
        (named(2, on("a", "")), 1),
        (named(3, on("a", "")), 1),
        (named(3, on("a", "")), 1),
        (named(-5, on("a", "")), 1),
        (WatchAction::Create(on("a", "\0")), 1),
        (from(-1, on("a", "")), 1),
        (filtered(&[0]), 1),
        (filtered(&[1]), 1),
        (filtered(&[0, 1]), 1),
        (filtered(&[7]), 1),
        (write("a", "1"), 7),
        (write("a", "2"), 7),
        (write("\0", "0"), 2),
        (WatchAction::Do(Call::Delete(delete("a", "b"))), 7),
        (WatchAction::Do(Call::Delete(delete("a", "b"))), 0),
        (WatchAction::Progress, 1),
        (WatchAction::Cancel(99), 0),
        (WatchAction::Cancel(0), 1),
        (WatchAction::Cancel(0), 0),
        (WatchAction::Create(on("a", "z")), 1),
        (from(2, on("a", "z")), 2),
        (from(1, on("a", "z")), 2),
        (from(4, on("a", "z")), 2),
        (WatchAction::Progress, 1),
        (write("b", "1"), 8),
    ];
    play(&comparison, &script, 0).await;
}

#[tokio::test]
async fn a_watch_has_the_same_bounds_as_in_etcd() {
    let Some(comparison) = Comparison::begin().await else { return };
    for value in ["1", "2", "3", "4", "5", "6"] {
        comparison.both("setup", &Call::Put(put("a", value))).await;
    }
    comparison.both("setup", &Call::Delete(delete("a", ""))).await;
    comparison.both("setup", &Call::Put(put("b", "1"))).await;
    let compact = |revision| Call::Compact(pb::CompactionRequest { revision, physical: true });
    comparison.both("setup", &compact(5)).await;
    let script = [
        (from(4, on("a", "")), 2),
        (from(5, on("a", "")), 2),
        (from(6, on("a", "")), 2),
        // A progress request now would get no response from etcd, and one from kstore when this watch has started.
        (from(12, on("a", "")), 1),
        (write("a", "7"), 2),
        (write("a", "8"), 2),
        (write("a", "9"), 3),
        (WatchAction::Do(compact(8)), 0),
        (from(8, on("a", "z")), 2),
        (from(7, on("a", "z")), 2),
        (WatchAction::Do(compact(12)), 0),
        (from(12, on("a", "")), 2),
        (write("a", "10"), 5),
    ];
    play(&comparison, &script, 5).await;
}

fn create(at: i64) -> impl Strategy<Value = WatchAction> {
    let start = prop_oneof![3 => Just(0), 3 => at - 10..=at + 1];
    let filters = prop_oneof![6 => Just(vec![]), 1 => Just(vec![0]), 1 => Just(vec![1])];
    (random::key(), random::end(), start, any::<bool>(), filters, random::flag()).prop_map(
        |(key, range_end, start_revision, prev_kv, filters, fragment)| {
            WatchAction::Create(WatchCreateRequest {
                key,
                range_end,
                start_revision,
                prev_kv,
                filters,
                fragment,
                ..Default::default()
            })
        },
    )
}

fn any_act(at: i64) -> impl Strategy<Value = WatchAction> {
    prop_oneof![
        3 => create(at),
        2 => (0..20_i64).prop_map(WatchAction::Cancel),
        8 => random::call(at).prop_map(WatchAction::Do),
    ]
}

#[tokio::test]
async fn random_watches_get_the_same_events() {
    for seed in SEEDS {
        let Some(comparison) = Comparison::begin().await else { return };
        let sides = open(&comparison);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut compacted = 0;
        for number in 0..ACTS {
            let at = revision(&comparison).await;
            let step = any_act(at).new_tree(&mut runner).unwrap().current();
            act(&comparison, &sides, &step).await;
            compacted = compacted.max(compacts(&step));
            agree(&sides, 0, compacted, &(seed, number, &step)).await;
        }
        act(&comparison, &sides, &write("a", "the end")).await;
        agree(&sides, 0, compacted, &"the end").await;
    }
}

async fn revision(comparison: &Comparison) -> i64 {
    let answer = comparison.both("the present", &Call::Leases).await;
    random::revision_in(&answer).unwrap()
}
