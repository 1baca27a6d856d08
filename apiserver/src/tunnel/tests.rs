//! Tests of tunnels without a network: messages to the node are read from the outbox, messages from the node
//! are passed in directly.

use super::limits::{CALL_STREAMS, CALL_STREAMS_OF_NAMESPACE};
use super::*;
use bytes::Bytes;
use futures::FutureExt as _;
use kstore_api::status::Status;
use kstore_storage::limits::{STREAM_FRAME_COST, STREAM_WINDOW, TUNNEL_STREAMS, TUNNEL_STREAMS_OF_USER};
use pb::tunnel_down::Message as Down;
use pb::tunnel_up::Message as Up;

fn open(node: &str) -> pb::StreamOpen {
    pb::StreamOpen { node: node.to_owned(), ..Default::default() }
}

/// Tunnels that any user may open.
fn tunnels() -> Tunnels {
    Tunnels::new(|_, _| true)
}

fn user(name: &str) -> Arc<UserInfo> {
    UserInfo::new(name, [""; 0]).into()
}

fn data(id: u64, bytes: usize) -> Up {
    Up::Data(pb::StreamData { id, channel: 1, data: vec![b'x'; bytes].into(), end: false })
}

fn sent(outbox: &mut Outbox) -> Vec<Down> {
    std::iter::from_fn(|| outbox.try_recv().ok()).filter_map(|message| message.message).collect()
}

/// Opens a stream, which the node accepts.
async fn begun(tunnels: &Tunnels, link: &Link, outbox: &mut Outbox) -> (Reader, Writer, u64) {
    let stream = tunnels.open("ann", open("n")).unwrap();
    let Some(Down::Open(opened)) = sent(outbox).pop() else { panic!("nothing was opened") };
    link.receive(Up::Begun(pb::StreamBegun { id: opened.id })).unwrap();
    let (reader, writer) = stream.begun().await.unwrap();
    (reader, writer, opened.id)
}

#[tokio::test]
async fn the_latest_tunnel_of_a_node_is_used() {
    let tunnels = tunnels();
    assert_eq!(tunnels.open("ann", open("n")).err(), Some(OpenError::NoTunnel));
    let ((old, mut old_out), (new, mut new_out)) = (Link::new(), Link::new());
    assert_eq!(tunnels.serve(&old, &user("sim"), vec!["n".to_owned(), "m".to_owned()]), []);
    assert_eq!(tunnels.serve(&new, &user("sim"), vec!["n".to_owned()]), []);
    let streams = (tunnels.open("ann", open("n")).unwrap(), tunnels.open("ann", open("m")).unwrap());
    assert_eq!((sent(&mut new_out).len(), sent(&mut old_out).len()), (1, 1));
    drop(streams);
    tunnels.end(&new);
    let fallen_back = tunnels.open("ann", open("n")).unwrap();
    assert_eq!(sent(&mut old_out).len(), 2, "an end and an opening");
    drop(fallen_back);
    tunnels.end(&old);
    assert_eq!((tunnels.open("ann", open("m")).err(), tunnels.nodes()), (Some(OpenError::NoTunnel), 0));
}

#[tokio::test]
async fn a_node_stays_with_its_permitted_user() {
    let allowed = Arc::new(Mutex::new(true));
    let tunnels = Tunnels::new({
        let allowed = allowed.clone();
        move |user, _| user.username != "first" || *allowed.lock()
    });
    let ((first, mut first_out), (second, mut second_out)) = (Link::new(), Link::new());
    assert_eq!(tunnels.serve(&first, &user("first"), vec!["n".to_owned()]), []);
    let refused =
        tunnels.serve(&second, &user("second"), vec!["m".to_owned(), "n".to_owned(), "o".to_owned()]);
    assert_eq!(refused, [Claimed { node: "n".to_owned(), owner: "first".to_owned() }]);
    for others in ["m", "o"] {
        drop(tunnels.open("ann", open(others)).unwrap());
        assert!(!sent(&mut second_out).is_empty(), "the nodes beside it are served");
    }
    drop(tunnels.open("ann", open("n")).unwrap());
    assert!(!sent(&mut first_out).is_empty());
    assert!(sent(&mut second_out).is_empty());
    // The permission is revoked.
    *allowed.lock() = false;
    assert_eq!(tunnels.open("ann", open("n")).err(), Some(OpenError::NoTunnel));
    assert_eq!(tunnels.serve(&second, &user("second"), vec!["n".to_owned()]), []);
    let stream = tunnels.open("ann", open("n")).unwrap();
    assert_eq!((sent(&mut first_out).len(), sent(&mut second_out).len()), (0, 1));
    drop(stream);
}

#[test]
fn a_node_user_serves_only_its_own_node() {
    let tunnels = tunnels();
    assert!(tunnels.allows(&user("system:node:a"), "a"));
    assert!(!tunnels.allows(&user("system:node:a"), "b"));
    assert!(tunnels.allows(&user("sim"), "a") && tunnels.allows(&user("sim"), "b"));
}

#[tokio::test]
async fn senders_stay_within_the_granted_window() {
    let (tunnels, (link, mut outbox)) = (tunnels(), Link::new());
    assert_eq!(tunnels.serve(&link, &user("sim"), vec!["n".to_owned()]), []);
    let (mut reader, writer, id) = begun(&tunnels, &link, &mut outbox).await;

    // To the node: as much as the window holds, and nothing more until the node grants it.
    let all = Bytes::from(vec![b'y'; STREAM_WINDOW]);
    let mut sending = std::pin::pin!(writer.send(0, all));
    assert!(sending.as_mut().now_or_never().is_none(), "it waits");
    let down = |outbox: &mut Outbox| -> usize {
        let messages = sent(outbox).into_iter();
        messages.map(|m| if let Down::Data(d) = m { d.data.len() } else { 0 }).sum()
    };
    let before = down(&mut outbox);
    assert!(before <= STREAM_WINDOW - STREAM_FRAME_COST, "{before}");
    link.receive(Up::Credit(pb::StreamCredit { id, bytes: 32 * 1024 })).unwrap();
    assert!(sending.await);
    assert_eq!(before + down(&mut outbox), STREAM_WINDOW);
    let too_much = Up::Credit(pb::StreamCredit { id, bytes: u32::MAX });
    assert_eq!(link.receive(too_much), Err(Violation::Credit));

    // From the node: data that is not read is not granted, and more than was granted is a violation.
    let frame = STREAM_WINDOW / 4 - STREAM_FRAME_COST;
    for _ in 0..4 {
        link.receive(data(id, frame)).unwrap();
    }
    assert_eq!(link.receive(data(id, 0)), Err(Violation::Window));
    assert!(matches!(reader.next().await, Some(FromNode::Data { data, .. }) if data.len() == frame));
    assert_eq!(sent(&mut outbox), [], "granted when the next is asked for");
    reader.next().await;
    let granted = u32::try_from(STREAM_WINDOW / 4).unwrap();
    assert_eq!(sent(&mut outbox), [Down::Credit(pb::StreamCredit { id, bytes: granted })]);
    link.receive(data(id, frame)).unwrap();
}

#[tokio::test]
async fn a_stream_ends_from_either_side_and_with_its_tunnel() {
    let (tunnels, (link, mut outbox)) = (tunnels(), Link::new());
    assert_eq!(tunnels.serve(&link, &user("sim"), vec!["n".to_owned()]), []);

    let (reader, writer, id) = begun(&tunnels, &link, &mut outbox).await;
    drop(reader);
    assert_eq!(sent(&mut outbox), [Down::Close(pb::StreamClose { id, status_json: Bytes::new() })]);
    assert!(!writer.send(0, Bytes::from_static(b"late")).await);
    link.receive(data(id, 1)).unwrap();

    let (mut reader, writer, id) = begun(&tunnels, &link, &mut outbox).await;
    let status = Status::bad_request("no such container");
    let close = pb::StreamClose { id, status_json: status.to_json().into() };
    link.receive(data(id, 3)).unwrap();
    link.receive(Up::Close(close)).unwrap();
    assert!(matches!(reader.next().await, Some(FromNode::Data { .. })), "what came before is read first");
    assert_eq!(reader.next().await, Some(FromNode::Closed(Box::new(status))));
    assert!(!writer.end(0).await);
    drop(reader);
    assert_eq!(sent(&mut outbox), [], "the node knows already");

    let (mut reader, writer, _) = begun(&tunnels, &link, &mut outbox).await;
    tunnels.end(&link);
    assert_eq!(reader.next().await, None);
    assert!(!writer.end(0).await);
}

#[tokio::test]
async fn streams_of_a_tunnel_are_bounded_in_all_and_for_each_user() {
    let (tunnels, (link, _outbox)) = (tunnels(), Link::new());
    assert_eq!(tunnels.serve(&link, &user("sim"), vec!["n".to_owned()]), []);
    let open_as = |user: usize| tunnels.open(format!("user-{user}").as_str(), open("n"));
    let users = TUNNEL_STREAMS / TUNNEL_STREAMS_OF_USER;
    let mut streams: Vec<_> = (0..TUNNEL_STREAMS_OF_USER).map(|_| open_as(0).unwrap()).collect();
    assert_eq!(open_as(0).err(), Some(OpenError::BusyForUser));
    streams.extend(
        (TUNNEL_STREAMS_OF_USER..TUNNEL_STREAMS).map(|number| open_as(number % (users - 1) + 1).unwrap()),
    );
    assert_eq!(open_as(users).err(), Some(OpenError::Busy));
    streams.pop();
    assert!(open_as(users).is_ok());
}

#[tokio::test]
async fn slow_webhooks_of_a_namespace_leave_streams_to_those_of_others_and_to_users() {
    let (tunnels, (link, _outbox)) = (tunnels(), Link::new());
    assert_eq!(tunnels.serve(&link, &user("sim"), vec!["n".to_owned()]), []);
    let call = |namespace: &str| tunnels.open(StreamOwner::Calls(namespace.into()), open("n"));
    let all_of = |namespace: &str| std::iter::from_fn(|| call(namespace).ok()).collect::<Vec<_>>();
    let mut slow = all_of("slow");
    assert_eq!(slow.len(), CALL_STREAMS_OF_NAMESPACE);
    assert_eq!(call("slow").err(), Some(OpenError::BusyWithCallsOfNamespace));
    let other = call("other").unwrap();
    // A user of the namespace's name is another owner.
    assert!(tunnels.open("slow", open("n")).is_ok());
    drop(other);
    let several: Vec<_> = ["a", "b", "c", "d"].into_iter().flat_map(all_of).collect();
    assert_eq!(slow.len() + several.len(), CALL_STREAMS);
    assert_eq!(call("e").err(), Some(OpenError::BusyWithCalls));
    let users: Vec<_> =
        (0..TUNNEL_STREAMS_OF_USER).map(|_| tunnels.open("ann", open("n")).unwrap()).collect();
    slow.pop();
    assert!(call("e").is_ok() && users.len() + CALL_STREAMS < TUNNEL_STREAMS);
}
