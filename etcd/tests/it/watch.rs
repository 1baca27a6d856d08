//! Watch streams of both servers with the same script. After each step both must have sent the same events per watch,
//! one by one, since their grouping into responses may differ.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream;
use kstore_proto::etcd::etcdserverpb::{
    self as pb, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
    watch_client::WatchClient, watch_request::RequestUnion,
};
use kstore_proto::etcd::mvccpb;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio::sync::{Notify, mpsc};
use tonic::transport::Channel;

use crate::call::Call;
use crate::calls::{delete, put};
use crate::duel::Duel;
use crate::random;

/// Time to wait for both servers to agree.
const PATIENCE: Duration = Duration::from_secs(10);
const ACTS: usize = 250;
const SEEDS: [u8; 2] = [1, 2];

/// A step that is done on both servers.
#[derive(Clone, Debug)]
enum Act {
    Create(WatchCreateRequest),
    Cancel(i64),
    Progress,
    Nonsense,
    Do(Call),
}

/// One server's watch stream.
struct Side {
    requests: mpsc::Sender<WatchRequest>,
    told: Arc<Told>,
}

/// The responses received so far.
#[derive(Default)]
struct Told {
    responses: Mutex<Vec<WatchResponse>>,
    more: Notify,
}

/// The events of a stream's watches by id; -1 has those that concern none or all.
type Stories = BTreeMap<i64, Vec<String>>;

impl Side {
    fn open(channel: &Channel) -> Self {
        let (requests, mut receiver) = mpsc::channel(64);
        let outgoing = stream::poll_fn(move |cx| receiver.poll_recv(cx));
        let mut client = WatchClient::new(channel.clone());
        let told = Arc::new(Told::default());
        let teller = told.clone();
        tokio::spawn(async move {
            // etcd sends nothing, not even headers, before its first response.
            let mut incoming = client.watch(outgoing).await.unwrap().into_inner();
            while let Ok(Some(response)) = incoming.message().await {
                teller.responses.lock().unwrap().push(response);
                teller.more.notify_one();
            }
        });
        Self { requests, told }
    }

    async fn send(&self, union: Option<RequestUnion>) {
        self.requests.send(WatchRequest { request_union: union }).await.unwrap();
    }

    /// Received events by watch. kstore may still have the previous version of an event at the compacted revision,
    /// where etcd does not.
    fn stories(&self, compacted: i64) -> Stories {
        let mut stories = Stories::new();
        for response in self.told.responses.lock().unwrap().iter() {
            stories.entry(response.watch_id).or_default().extend(sentences(response, compacted));
        }
        stories
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
async fn act(duel: &Duel, sides: &[Side; 2], act: &Act) {
    match act {
        Act::Create(create) => tell(sides, Some(RequestUnion::CreateRequest(create.clone()))).await,
        Act::Cancel(watch_id) => {
            tell(sides, Some(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: *watch_id }))).await;
        }
        Act::Progress => tell(sides, Some(RequestUnion::ProgressRequest(WatchProgressRequest {}))).await,
        Act::Nonsense => tell(sides, None).await,
        Act::Do(call) => drop(duel.both("a watched call", call).await),
    }
}

async fn tell(sides: &[Side; 2], union: Option<RequestUnion>) {
    for side in sides {
        side.send(union.clone()).await;
    }
}

/// Waits until both servers have sent the same, with at least `least` responses.
async fn agree(sides: &[Side; 2], least: usize, compacted: i64, what: &dyn std::fmt::Debug) {
    let agreed = async {
        loop {
            let (arrived, there) = (sides[0].told.more.notified(), sides[1].told.more.notified());
            let enough = sides.iter().all(|side| side.told.responses.lock().unwrap().len() >= least);
            if enough && sides[0].stories(compacted) == sides[1].stories(compacted) {
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
        let (theirs, ours) = (sides[0].stories(compacted), sides[1].stories(compacted));
        let ids: std::collections::BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for id in ids {
            assert_eq!(
                ours.get(id),
                theirs.get(id),
                "watch {id} of kstore (left) and etcd (right) after {what:?}"
            );
        }
        panic!("both told the same, but less than {least} responses, after {what:?}");
    }
}

/// Runs steps, each with the number of responses that it causes at least.
async fn play(duel: &Duel, script: &[(Act, usize)], mut compacted: i64) {
    let (sides, mut least) = (open(duel), 0);
    for (step, more) in script {
        least += more;
        act(duel, &sides, step).await;
        compacted = compacted.max(compacts(step));
        agree(&sides, least, compacted, step).await;
    }
}

/// The revision to which a step compacts, or zero.
fn compacts(act: &Act) -> i64 {
    match act {
        Act::Do(Call::Compact(request)) => request.revision,
        _ => 0,
    }
}

fn open(duel: &Duel) -> [Side; 2] {
    [Side::open(&duel.channels[0]), Side::open(&duel.channels[1])]
}

fn on(key: &'static str, range_end: &'static str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.into(), range_end: range_end.into(), prev_kv: true, ..Default::default() }
}

fn from(start_revision: i64, create: WatchCreateRequest) -> Act {
    Act::Create(WatchCreateRequest { start_revision, ..create })
}

fn named(watch_id: i64, create: WatchCreateRequest) -> Act {
    Act::Create(WatchCreateRequest { watch_id, ..create })
}

fn filtered(filters: &[i32]) -> Act {
    Act::Create(WatchCreateRequest { filters: filters.to_vec(), ..on("a", "z") })
}

fn write(key: &'static str, value: &'static str) -> Act {
    Act::Do(Call::Put(put(key, value)))
}

#[tokio::test]
async fn a_stream_answers_requests_of_every_kind_as_etcd_does() {
    let Some(duel) = Duel::begin().await else { return };
    let script = [
        (Act::Progress, 0),
        (Act::Nonsense, 0),
        (Act::Create(on("a", "z")), 1),
        (Act::Create(on("", "")), 1),
        (Act::Create(on("", "\0")), 1),
        (Act::Create(on("b", "a")), 1),
        (Act::Create(on("b", "b")), 1),
        (named(2, on("a", "")), 1),
        (named(3, on("a", "")), 1),
        (named(3, on("a", "")), 1),
        (named(-5, on("a", "")), 1),
        (Act::Create(on("a", "\0")), 1),
        (from(-1, on("a", "")), 1),
        (filtered(&[0]), 1),
        (filtered(&[1]), 1),
        (filtered(&[0, 1]), 1),
        (filtered(&[7]), 1),
        (write("a", "1"), 7),
        (write("a", "2"), 7),
        (write("\0", "0"), 2),
        (Act::Do(Call::Delete(delete("a", "b"))), 7),
        (Act::Do(Call::Delete(delete("a", "b"))), 0),
        (Act::Progress, 1),
        (Act::Cancel(99), 0),
        (Act::Cancel(0), 1),
        (Act::Cancel(0), 0),
        (Act::Create(on("a", "z")), 1),
        (from(2, on("a", "z")), 2),
        (from(1, on("a", "z")), 2),
        (from(4, on("a", "z")), 2),
        (Act::Progress, 1),
        (write("b", "1"), 8),
    ];
    play(&duel, &script, 0).await;
}

#[tokio::test]
async fn a_watch_meets_the_ends_of_history_as_in_etcd() {
    let Some(duel) = Duel::begin().await else { return };
    for value in ["1", "2", "3", "4", "5", "6"] {
        duel.both("setup", &Call::Put(put("a", value))).await;
    }
    duel.both("setup", &Call::Delete(delete("a", ""))).await;
    duel.both("setup", &Call::Put(put("b", "1"))).await;
    let compact = |revision| Call::Compact(pb::CompactionRequest { revision, physical: true });
    duel.both("setup", &compact(5)).await;
    let script = [
        (from(4, on("a", "")), 2),
        (from(5, on("a", "")), 2),
        (from(6, on("a", "")), 2),
        // A progress request now would get no response from etcd, and one from kstore when this watch has started.
        (from(12, on("a", "")), 1),
        (write("a", "7"), 2),
        (write("a", "8"), 2),
        (write("a", "9"), 3),
        (Act::Do(compact(8)), 0),
        (from(8, on("a", "z")), 2),
        (from(7, on("a", "z")), 2),
        (Act::Do(compact(12)), 0),
        (from(12, on("a", "")), 2),
        (write("a", "10"), 5),
    ];
    play(&duel, &script, 5).await;
}

fn create(at: i64) -> impl Strategy<Value = Act> {
    let start = prop_oneof![3 => Just(0), 3 => at - 10..=at + 1];
    let filters = prop_oneof![6 => Just(vec![]), 1 => Just(vec![0]), 1 => Just(vec![1])];
    (random::key(), random::end(), start, any::<bool>(), filters, random::flag()).prop_map(
        |(key, range_end, start_revision, prev_kv, filters, fragment)| {
            Act::Create(WatchCreateRequest {
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

fn any_act(at: i64) -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => create(at),
        2 => (0..20_i64).prop_map(Act::Cancel),
        8 => random::call(at).prop_map(Act::Do),
    ]
}

#[tokio::test]
async fn random_watches_tell_the_same_stories() {
    for seed in SEEDS {
        let Some(duel) = Duel::begin().await else { return };
        let sides = open(&duel);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut compacted = 0;
        for number in 0..ACTS {
            let at = revision(&duel).await;
            let step = any_act(at).new_tree(&mut runner).unwrap().current();
            act(&duel, &sides, &step).await;
            compacted = compacted.max(compacts(&step));
            agree(&sides, 0, compacted, &(seed, number, &step)).await;
        }
        act(&duel, &sides, &write("a", "the end")).await;
        agree(&sides, 0, compacted, &"the end").await;
    }
}

async fn revision(duel: &Duel) -> i64 {
    let answer = duel.both("the present", &Call::Leases).await;
    random::revision_in(&answer).unwrap()
}
