//! Turns of requests and events.

use super::choose::WaitingKind;
use super::*;
use std::collections::BTreeSet;

fn key(kind: WaitingKind, object: &str) -> OrderKey {
    let (client, resource) = ("op".to_owned(), "pods".to_owned());
    OrderKey { kind, client, verb: "update", resource, object: object.to_owned(), digest: 0, n: 0 }
}

fn event(revision: i64) -> EventId {
    (revision, "default/a".to_owned())
}

fn begun(rule: OrderRule) -> Arc<SerialOrder> {
    let order = Arc::new(SerialOrder::default());
    order.begin(("p", 0), rule, Duration::from_secs(1)).unwrap();
    order
}

/// Requests that wait, begun in this order.
async fn waiting(order: &Arc<SerialOrder>, objects: &[&str]) -> Vec<tokio::task::JoinHandle<String>> {
    let mut tasks = Vec::new();
    for object in objects {
        let (order, object) = (order.clone(), (*object).to_owned());
        tasks.push(tokio::spawn(async move {
            order.request(key(WaitingKind::Request, &object)).await;
            object
        }));
        tokio::task::yield_now().await;
    }
    tasks
}

#[tokio::test]
async fn requests_get_their_turns_one_by_one_whatever_their_arrival() {
    let order = begun(OrderRule::default());
    let tasks = waiting(&order, &["c", "a", "b"]).await;
    assert_eq!(order.busy().as_deref(), Some("waiting after turn 0: 3 requests"));
    let taken: Vec<String> = std::iter::from_fn(|| Some(order.take()?.key.object)).collect();
    assert_eq!((taken.join(""), order.position()), ("abc".to_owned(), 3));
    for task in tasks {
        task.await.unwrap();
    }
    assert!(order.take_moved());
    order.rest();
    assert_eq!(order.busy(), None);
}

#[tokio::test]
async fn a_request_whose_client_leaves_waits_no_longer() {
    let order = begun(OrderRule::default());
    let tasks = waiting(&order, &["a", "b"]).await;
    tasks[0].abort();
    tokio::task::yield_now().await;
    assert_eq!(order.take().unwrap().key.object, "b");
    assert_eq!(order.take(), None);
}

#[tokio::test]
async fn the_end_of_an_order_lets_everything_go_on() {
    let order = begun(OrderRule::default());
    let tasks = waiting(&order, &["a"]).await;
    assert!(!order.claims(7, &event(1), || key(WaitingKind::Delivery, "a")));
    assert!(order.begin(("q", 0), OrderRule::default(), Duration::ZERO).is_err(), "one at a time");
    order.end(("q", 0));
    assert!(order.is_on(), "another plan's end changes nothing");
    order.end(("p", 0));
    for task in tasks {
        task.await.unwrap();
    }
    assert!(!order.is_on() && order.claims(7, &event(1), || panic!("nothing waits")));
    order.request(key(WaitingKind::Request, "a")).await;
    assert_eq!(order.busy(), None);
}

#[test]
fn an_event_is_shown_once_it_has_its_turn_and_the_next_one_waits() {
    let order = begun(OrderRule::default());
    let ask = |revision| order.claims(7, &event(revision), || key(WaitingKind::Delivery, "a"));
    assert!(!ask(1) && !ask(1));
    let turn = order.take().unwrap();
    assert_eq!((turn.position, turn.key.n), (1, 7));
    assert!(!ask(2) && ask(1) && !ask(1), "the turn is of one event, once");
}

#[test]
fn a_watch_that_does_not_answer_the_roll_call_does_not_wait() {
    let order = begun(OrderRule::default());
    let ask = |watch| order.claims(watch, &event(1), || key(WaitingKind::Delivery, "a"));
    assert!(!ask(7) && !ask(8));
    order.call_roll();
    assert!(!ask(8), "its cache was frozen, or its watch has ended");
    assert_eq!(order.take().unwrap().key.n, 8);
    assert_eq!(order.take(), None);
}

#[test]
fn turns_are_given_at_swaps_to_others_and_not_during_a_pause() {
    let order = begun(OrderRule { seed: None, swaps: BTreeSet::from([1]) });
    let ask = |watch| order.claims(watch, &event(1), || key(WaitingKind::Delivery, "a"));
    assert!(!ask(7) && !ask(8));
    let pause = order.pause();
    assert_eq!(order.take(), None);
    drop(pause);
    assert_eq!(order.take().unwrap().key.n, 8);
}
