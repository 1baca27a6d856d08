//! The rules of the contract, one function each. [`source_contract!`](crate::source_contract) calls them.

use super::ContractWorld;
use super::history::{DeliveredState, History, ObjectNumbers, PATIENCE, joined};
use crate::{
    Builder, Capability, Frame, Frames, Informer, ListRequest, ListerWatcher, Object, Page, ReadAt, Revision,
    SourceError, Start,
};
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

type Obj<W> = <<W as ContractWorld>::Source as ListerWatcher>::Obj;

/// A list contains every object at its revision; a list of the latest state or of a minimum revision is not
/// older than that.
pub async fn a_list_contains_every_object_at_its_revision<W: ContractWorld>(world: W) {
    let history = History::begin(world).await;
    let newest = history.newest();
    for (at, least) in
        [(ReadAt::Any, Revision(0)), (ReadAt::Latest, newest), (ReadAt::NotOlderThan(newest), newest)]
    {
        let page = list(&history.world.source(), ListRequest::all(at)).await;
        assert!(page.next.is_none(), "a list without a limit is one answer");
        assert!(page.revision >= least, "{at:?} is not older than {least}: {}", page.revision);
        assert!(page.undecodable.is_empty());
        history.check(&page.items, page.revision);
    }
}

/// All pages of one list show the same revision, despite writes between them.
pub async fn all_pages_have_one_revision<W: ContractWorld>(world: W) {
    let mut history = History::begin(world).await;
    let source = history.world.source();
    if !source.capabilities().paging {
        return;
    }
    let limit = NonZeroU32::new(2);
    let mut pages = vec![list(&source, ListRequest { at: ReadAt::Latest, limit, next: None }).await];
    let mut number = 100;
    while let Some(next) = pages.last().and_then(|page| page.next.clone()) {
        assert!(pages.len() < 10, "a paged list comes to its end");
        number += 1;
        history.update("a", number).await;
        history.create(&format!("n{number}"), number).await;
        pages.push(list(&source, ListRequest { at: ReadAt::Latest, limit, next: Some(next) }).await);
    }
    let (items, revision) = joined(pages);
    history.check(&items, revision);
}

/// A list at an exact revision is the state at that revision; a source without support returns an error.
pub async fn an_exact_list_is_the_state_at_its_revision<W: ContractWorld>(world: W) {
    let history = History::begin(world).await;
    let source = history.world.source();
    if !source.capabilities().exact_list {
        return;
    }
    for revision in history.revisions() {
        let page = list(&source, ListRequest::all(ReadAt::Exact(revision))).await;
        assert_eq!(page.revision, revision);
        history.check(&page.items, revision);
    }
}

/// A source behind the requested revision returns [`SourceError::Ahead`] or waits; it never returns an older
/// state.
pub async fn no_list_is_older_than_requested<W: ContractWorld>(world: W) {
    let history = History::begin(world).await;
    let source = history.world.source();
    let future = Revision(history.newest().0 + 1_000_000);
    let listed = source.list(ListRequest::all(ReadAt::NotOlderThan(future)));
    match timeout(Duration::from_secs(15), listed).await {
        Err(_) | Ok(Err(SourceError::Ahead { .. })) => {}
        Ok(Err(other)) => panic!("the source is behind, and says: {other}"),
        Ok(Ok(page)) => panic!("{} is older than {future}", page.revision),
    }
}

/// A watch delivers every change after its start, in order and complete up to each revision.
pub async fn a_watch_delivers_every_later_change<W: ContractWorld>(world: W) {
    let mut history = History::begin(world).await;
    let revisions = history.revisions();
    let (first, middle, last) = (revisions[0], revisions[revisions.len() / 2], history.newest());
    let mut streams = Vec::new();
    for start in [first, middle, last] {
        let frames = watch(&history.world.source(), Start::After(start)).await;
        streams.push(DeliveredState::after(frames, start, history.at(start)));
    }
    history.update("a", 11).await;
    history.delete("b").await;
    history.create("b", 22).await;
    let newest = history.create("f", 6).await;
    for delivered in &mut streams {
        delivered.until(newest, &history).await;
        assert_eq!(delivered.ends, 0, "only an initial state ends");
    }
}

/// A streaming list delivers the complete state, marks its end once, and continues with the changes.
pub async fn an_initial_stream_marks_its_end_once_and_continues<W: ContractWorld>(world: W) {
    let mut history = History::begin(world).await;
    let source = history.world.source();
    if !source.capabilities().streaming_list {
        let refused = timeout(PATIENCE, source.watch(Start::Initial(ReadAt::Latest))).await;
        let refused = refused.expect("the source answers in time").err();
        let expected = SourceError::Unsupported(Capability::StreamingList);
        assert_eq!(refused, Some(expected), "what a source cannot do it refuses");
        return;
    }
    let newest = history.newest();
    for at in [ReadAt::Any, ReadAt::Latest, ReadAt::NotOlderThan(newest)] {
        let mut delivered = DeliveredState::initial(watch(&source, Start::Initial(at)).await);
        delivered.until(Revision(0), &history).await;
        assert!(at == ReadAt::Any || delivered.revision >= Some(newest), "{at:?} is not older");
        let next = history.update("a", history.newest().0).await;
        delivered.until(next, &history).await;
        assert_eq!(delivered.ends, 1);
    }
}

/// A deletion has its own revision, not that of the object's last state.
pub async fn a_deletion_has_its_own_revision<W: ContractWorld>(world: W) {
    let mut history = History::begin(world).await;
    let start = history.newest();
    let frames = watch(&history.world.source(), Start::After(start)).await;
    let mut delivered = DeliveredState::after(frames, start, history.at(start));
    let deleted = history.delete("d").await;
    loop {
        let item = delivered.item().await.expect("the stream goes on").expect("the stream does not fail");
        for frame in &item {
            if let Frame::Gone { key, revision, last } = frame {
                assert_eq!((key.name(), *revision), ("d", deleted));
                let number = last.as_ref().map(|last| history.world.number(last));
                assert!(number.is_none_or(|number| number == 4), "the last state is the object's");
                assert!(last.as_ref().is_none_or(|last| last.revision() == deleted));
                return;
            }
        }
    }
}

/// A recreated object has another uid.
pub async fn a_recreated_object_has_another_uid<W: ContractWorld>(world: W) {
    let mut history = History::begin(world).await;
    let source = history.world.source();
    let uid = async || {
        let page = list(&source, ListRequest::all(ReadAt::Latest)).await;
        let found = page.items.iter().find(|object| object.key().name() == "a");
        found.map(|object| object.uid().to_owned()).expect("the object is listed")
    };
    let first = uid().await;
    history.update("a", 7).await;
    assert_eq!(uid().await, first, "a change keeps the uid");
    history.delete("a").await;
    history.create("a", 8).await;
    assert_ne!(uid().await, first, "a new object has another uid");
}

/// A watch from before the available history fails with [`SourceError::Expired`], at once or as its first
/// item.
pub async fn a_forgotten_revision_is_expired<W: ContractWorld>(world: W) {
    let mut history = History::begin(world).await;
    let first = history.revisions()[0];
    if !history.world.compact().await {
        return;
    }
    history.update("a", 9).await;
    let opened = timeout(PATIENCE, history.world.source().watch(Start::After(first))).await;
    let error = match opened.expect("the source answers in time") {
        Err(error) => error,
        Ok(frames) => {
            let item = DeliveredState::after(frames, first, history.at(first)).item().await;
            item.expect("the stream says why it ends").err().expect("a forgotten state is not delivered")
        }
    };
    assert_eq!(error, SourceError::Expired);
}

/// A stream over a lost connection ends or fails. It does not stay silent.
pub async fn a_lost_connection_ends_the_stream<W: ContractWorld>(world: W) {
    let history = History::begin(world).await;
    let start = history.newest();
    let frames = watch(&history.world.source(), Start::After(start)).await;
    let mut delivered = DeliveredState::after(frames, start, history.at(start));
    if !history.world.disconnect().await {
        return;
    }
    while let Some(Ok(frames)) = delivered.item().await {
        delivered.take(frames, &history);
    }
}

/// An idle stream delivers its progress as often as the source promises, including past writes of other
/// kinds. If it promises it rarely, it delivers it when a reader demands it.
pub async fn an_idle_stream_delivers_progress<W: ContractWorld>(world: W) {
    let history = History::begin(world).await;
    let source = history.world.source();
    let Some(every) = source.capabilities().progress_every else { return };
    let start = history.newest();
    let frames = watch(&source, Start::After(start)).await;
    let mut delivered = DeliveredState::after(frames, start, history.at(start));
    let elsewhere = history.world.elsewhere().await.unwrap_or(start);
    let slack = Duration::from_secs(1);
    if every > PATIENCE {
        source.demand(elsewhere);
        delivered.until(elsewhere, &history).await;
        return;
    }
    for _ in 0..2 {
        let item =
            timeout(every + slack, delivered.item()).await.expect("progress comes when it is promised");
        delivered.take(item.expect("the stream goes on").expect("the stream does not fail"), &history);
    }
    assert!(delivered.revision >= Some(elsewhere), "everything up to {elsewhere} was delivered");
}

/// A call that is dropped before its response, and a stream that is dropped while open, do not affect the
/// source.
pub async fn a_dropped_call_does_not_affect_the_source<W: ContractWorld>(world: W) {
    let history = History::begin(world).await;
    let source = history.world.source();
    for _ in 0..3 {
        let _ = timeout(Duration::ZERO, source.list(ListRequest::all(ReadAt::Latest))).await;
        let _ = timeout(Duration::ZERO, source.watch(Start::After(history.newest()))).await;
        drop(watch(&source, Start::After(history.newest())).await);
    }
    let page = list(&source, ListRequest::all(ReadAt::Latest)).await;
    history.check(&page.items, page.revision);
}

/// An informer over the source shows all writes, despite lost connections and a compacted history.
pub async fn an_informer_converges<W: ContractWorld>(world: W) {
    let mut history = History::begin(world).await;
    let stop = CancellationToken::new();
    let informer = Builder::new(history.world.source()).spawn(&stop);
    caught_up(&informer, &history).await;
    for number in 50..53 {
        history.update("a", number).await;
        history.world.disconnect().await;
        history.delete("b").await;
        history.create("b", number).await;
        history.world.compact().await;
        history.update("d", number).await;
        caught_up(&informer, &history).await;
    }
    stop.cancel();
}

async fn caught_up<W: ContractWorld>(informer: &Informer<Obj<W>>, history: &History<W>) {
    let reached = timeout(PATIENCE, informer.wait_for(history.newest())).await;
    reached.expect("the cache catches up").expect("the informer goes on");
    let view = informer.view();
    let state: ObjectNumbers = view.iter().map(|object| history.read(object)).collect();
    assert_eq!(state, history.at(view.revision()), "the cache is what was true at its revision");
}

async fn list<S: ListerWatcher>(source: &S, request: ListRequest) -> Page<S::Obj> {
    let answer = timeout(PATIENCE, source.list(request)).await.expect("the source answers in time");
    answer.expect("the list succeeds")
}

async fn watch<S: ListerWatcher>(source: &S, start: Start) -> Frames<S::Obj> {
    let answer = timeout(PATIENCE, source.watch(start)).await.expect("the source answers in time");
    answer.expect("the stream opens")
}
