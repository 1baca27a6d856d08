//! Tests of the end of a watch and its bookmarks while there are always events.

use super::*;
use flate2::read::{GzDecoder, MultiGzDecoder};
use flate2::{Decompress, FlushDecompress};
use futures::StreamExt as _;
use kstore_api::kind;
use kstore_registry::cache::{Filter, WatchStart};
use kstore_registry::outbound::{Network, ServiceBackends};
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::{Commit, Write};
use kstore_store::{Config, Store};
use std::io::Read as _;

/// Timeout of a watch.
const SECONDS: u64 = 150;

/// Writes an object at a new revision; on return the cache has it.
async fn change(cache: &Cache, maps: &Resource, number: usize) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "ns"}, "data": {"n": number.to_string()}});
    let value = kstore_api::object::encode_stored(&object).into();
    let write = Write::Put { key: maps.storage_key("ns", "c"), value, ttl_seconds: 0 };
    let commit = Commit { guards: Vec::new(), writes: vec![write], note: Bytes::new() };
    cache.storage().commit(commit).await.unwrap();
    cache.fresh().await.unwrap();
}

/// A cache of an empty store, and the parts of a watch of config maps.
async fn parts() -> (Arc<Cache>, EventFormat, WatchLifetime, Nondet) {
    let nondet = Nondet::simulated(1);
    let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
    let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store)), |_| {}).await.unwrap();
    tokio::spawn(follow);
    let network = Arc::new(Network::new(ServiceBackends::default()));
    let converter = Arc::new(Converter::new(network, nondet.clone()));
    let resource = kind::lookup("", "v1", "configmaps").unwrap();
    let shown = EventFormat { resource, converter, form: WatchForm::Shared(Form::Json), gzip: false };
    let lifetime = WatchLifetime {
        seat: None,
        timeout_seconds: SECONDS,
        credentials: None,
        bookmarks: true,
        mark_initial_end: None,
        definition: None,
        stop: CancellationToken::new(),
    };
    (cache, shown, lifetime, nondet)
}

/// Otherwise the client would believe that there are no objects.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_as_it_begins_marks_no_initial_state() {
    let refused = WatchEnd::Refused(Box::new(Status::too_large_resource_version(9, 5)));
    for (end, expected) in [(WatchEnd::Overrun, &[][..]), (refused, &["ERROR"])] {
        let (cache, shown, lifetime, nondet) = parts().await;
        let watch = Watch::ended(cache, vec![Filter::all(shown.resource)], end);
        let lifetime = WatchLifetime { mark_initial_end: Some(0), ..lifetime };
        let chunks = body(watch, shown, lifetime, nondet).into_data_stream().map(Result::unwrap);
        let lines = chunks.collect::<Vec<Bytes>>().await.concat();
        let events = serde_json::Deserializer::from_slice(&lines).into_iter::<Value>();
        let types: Vec<String> =
            events.map(|event| event.unwrap()["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(types, expected);
    }
}

/// Bytes of the text of a gzip member that a reader has before it reads the member's end.
fn flushed(member: &[u8]) -> u64 {
    /// Bytes of the header of a member without a file name.
    const HEADER: usize = 10;
    let marker = member.windows(4).rposition(|bytes| bytes == [0, 0, 0xff, 0xff]).expect("a flush");
    let (mut inflate, mut text) = (Decompress::new(false), vec![0; 1 << 20]);
    inflate.decompress(&member[HEADER..marker + 4], &mut text, FlushDecompress::Sync).unwrap();
    inflate.total_out()
}

/// No event waits for the next one, and the members together are one gzip text.
#[tokio::test(start_paused = true)]
async fn each_chunk_of_a_compressed_watch_can_be_read_alone() {
    let (cache, shown, lifetime, nondet) = parts().await;
    let maps = shown.resource;
    change(&cache, maps, 1).await;
    let watch = Watch::start(cache.clone(), vec![Filter::all(maps)], WatchStart::State).await.unwrap();
    let (lifetime, shown) =
        (WatchLifetime { mark_initial_end: Some(0), ..lifetime }, EventFormat { gzip: true, ..shown });
    let mut body = body(watch, shown, lifetime, nondet).into_data_stream();
    let (mut all, mut text, mut chunks) = (Vec::new(), Vec::new(), 0);
    let events = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    while !String::from_utf8_lossy(&text).contains("k8s.io/initial-events-end") {
        let chunk = body.next().await.unwrap().unwrap();
        let read = GzDecoder::new(&chunk[..]).read_to_end(&mut text).unwrap();
        assert!(text.ends_with(b"\n"), "whole events");
        assert_eq!(flushed(&chunk), read as u64, "all of it can be read before the member ends");
        (chunks, all) = (chunks + 1, [all, chunk.to_vec()].concat());
    }
    let initial = events(&text);
    change(&cache, maps, 99).await;
    let chunk = body.next().await.unwrap().unwrap();
    GzDecoder::new(&chunk[..]).read_to_end(&mut text).unwrap();
    assert_eq!(events(&text), initial + 1);
    all.extend_from_slice(&chunk);
    let mut whole = Vec::new();
    MultiGzDecoder::new(&all[..]).read_to_end(&mut whole).unwrap();
    assert_eq!(whole, text);
    assert!(chunks >= 2, "the mark of the end is a chunk of its own");
}

/// There is an event whenever the client asks for the next one: the timer must still fire.
#[tokio::test(start_paused = true)]
async fn a_busy_watch_sends_bookmarks_and_ends_at_its_deadline() {
    let (cache, shown, ending, nondet) = parts().await;
    let maps = shown.resource;
    let watch = Watch::start(cache.clone(), vec![Filter::all(maps)], WatchStart::State).await.unwrap();
    let began = Instant::now();
    let mut body = body(watch, shown, ending, nondet).into_data_stream();
    let (mut events, mut bookmarks) = (0, Vec::new());
    for number in 0.. {
        assert!(number < 4 * SECONDS as usize, "the watch does not end");
        change(&cache, maps, number).await;
        let Some(chunk) = body.next().await else { break };
        let chunk = chunk.unwrap();
        for line in chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            match event["type"].as_str().unwrap() {
                "BOOKMARK" => bookmarks.push(began.elapsed().as_secs()),
                _ => events += 1,
            }
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let elapsed = began.elapsed().as_secs();
    assert!((SECONDS..SECONDS + 5).contains(&elapsed), "it ended after {elapsed} s");
    assert!(events as u64 > SECONDS / 2, "{events} events");
    let regular = SECONDS / limits::BOOKMARK_INTERVAL.as_secs();
    assert!(bookmarks.len() as u64 >= regular, "bookmarks at {bookmarks:?}");
}
