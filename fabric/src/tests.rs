//! The network against simple models: who reaches whom, what a stream delivers, and what the bounds leave to others.

use crate::duplex::{Duplex, Moved, Side};
use crate::limits::{BACKLOG, HOST_LISTENERS, HOST_STREAMS, QUEUE_BYTES, STREAMS, TENANT_STREAMS};
use crate::{Attachment, Fabric, Host, NetError, Stream};
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn host(fabric: &Fabric, address: &str, owner: &str, tenant: &str) -> Host {
    let address = address.parse().unwrap();
    fabric.attach(Attachment { address, owner: owner.into(), tenant: tenant.into() })
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[derive(Clone, Debug)]
enum Act {
    Write(bool, Vec<u8>),
    Read(bool, usize),
    Finish(bool),
    Close(bool),
    Reset(bool),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let act = prop_oneof![
        8 => (any::<bool>(), bytes()).prop_map(|(side, bytes)| Act::Write(side, bytes)),
        8 => (any::<bool>(), 0usize..40).prop_map(|(side, size)| Act::Read(side, size)),
        1 => any::<bool>().prop_map(Act::Finish),
        1 => any::<bool>().prop_map(Act::Close),
        1 => any::<bool>().prop_map(Act::Reset),
    ];
    proptest::collection::vec(act, 0..60)
}

proptest! {
    /// What an end reads is the beginning of what the other one wrote; an end comes once all of it is read, and never turns back.
    #[test]
    fn each_end_reads_what_the_other_wrote_in_order_and_then_its_end(acts in acts()) {
        let mut duplex = Duplex::default();
        let (mut written, mut read, mut over) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()], [false; 2]);
        let (mut gone, mut finished) = ([false; 2], [false; 2]);
        let side = |first: bool| if first { Side::Client } else { Side::Server };
        for act in acts {
            match act {
                Act::Write(first, bytes) if !gone[usize::from(!first)] => {
                    match duplex.write(side(first), &bytes) {
                        Moved::Bytes(count) => {
                            assert!(!finished[usize::from(!first)]);
                            written[usize::from(!first)].extend_from_slice(&bytes[..count]);
                        }
                        Moved::Finished => assert!(finished[usize::from(!first)]),
                        Moved::Reset => assert!(gone[usize::from(first)], "only an end that is gone resets"),
                        Moved::Wait => {}
                    }
                }
                Act::Read(first, size) if !gone[usize::from(!first)] => {
                    let (own, other) = (usize::from(!first), usize::from(first));
                    let mut buffer = vec![0; size];
                    match duplex.read(side(first), &mut buffer) {
                        Moved::Bytes(0) if size > 0 => {
                            assert_eq!(read[own], written[other], "the end comes after the last byte");
                            over[own] = true;
                        }
                        Moved::Bytes(count) => {
                            assert!(!over[own] || count == 0);
                            read[own].extend_from_slice(&buffer[..count]);
                        }
                        Moved::Reset => assert!(gone[other]),
                        Moved::Wait => assert!(!over[own] && !finished[other]),
                        Moved::Finished => unreachable!("a read is not told that"),
                    }
                    assert!(written[other].starts_with(&read[own]));
                }
                Act::Finish(first) if !gone[usize::from(!first)] => {
                    duplex.finish(side(first));
                    finished[usize::from(!first)] = true;
                }
                Act::Close(first) | Act::Reset(first) if !gone[usize::from(!first)] => {
                    match act {
                        Act::Close(_) => duplex.close(side(first)),
                        _ => duplex.reset(side(first)),
                    }
                    (gone[usize::from(!first)], finished[usize::from(!first)]) = (true, true);
                }
                Act::Write(..) | Act::Read(..) | Act::Finish(_) | Act::Close(_) | Act::Reset(_) => {}
            }
        }
    }

    /// A connection reaches exactly the listeners that a naive search of all of them finds.
    #[test]
    fn a_connection_reaches_the_host_that_listens_at_its_address(
        listening in proptest::collection::vec((0usize..3, 0usize..3, 1u16..4), 0..8),
        tries in proptest::collection::vec((0usize..3, 0usize..5, 1u16..4), 1..20),
    ) {
        let fabric = Fabric::default();
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "127.0.0.1", "10.9.9.9"];
        let hosts = [0, 1, 2].map(|index| host(&fabric, addresses[index], addresses[index], "a"));
        let mut kept = Vec::new();
        for (owner, kind, port) in listening {
            let ip = [addresses[owner], "0.0.0.0", "127.0.0.1"][kind];
            let taken = kept.iter().any(|(own, other, at, _): &(usize, &str, u16, _)| {
                *own == owner && *at == port && (*other == ip || *other == "0.0.0.0" || ip == "0.0.0.0")
            });
            match hosts[owner].listen(at(&format!("{ip}:{port}"))) {
                Ok(listener) => {
                    assert!(!taken);
                    kept.push((owner, ip, port, listener));
                }
                Err(why) => assert!(taken && why == NetError::AddressInUse, "{why}"),
            }
        }
        for (from, to, port) in tries {
            let target = if to == 3 { from } else { to };
            let hears = |ip: &str| ip == "0.0.0.0" || ip == addresses[to];
            let found = kept.iter().any(|(own, ip, at, _)| *own == target && *at == port && hears(ip));
            let got = hosts[from].connect(at(&format!("{}:{port}", addresses[to])));
            match (found, target) {
                (_, 4) => assert_eq!(got.unwrap_err(), NetError::NotAttached),
                (true, _) => assert!(got.is_ok()),
                (false, _) => assert_eq!(got.unwrap_err(), NetError::Refused),
            }
        }
        drop((kept, hosts));
        assert_eq!(fabric.sizes(), (0, 0, 0), "nothing is left");
    }
}

/// Reads the whole stream, and the error at its end.
async fn rest(stream: &mut Stream) -> (Vec<u8>, Option<std::io::ErrorKind>) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await;
    (bytes, end.err().map(|error| error.kind()))
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_its_reader_and_gets_all_bytes_through() {
    let fabric = Fabric::default();
    let (client, server) = (host(&fabric, "10.0.0.1", "a", "t"), host(&fabric, "10.0.0.2", "b", "t"));
    let mut listener = server.listen(at("0.0.0.0:80")).unwrap();
    let mut near = client.connect(at("10.0.0.2:80")).unwrap();
    let mut far = listener.accept().await.unwrap();
    assert_eq!((near.local(), near.peer()), (far.peer(), far.local()));
    let sent: Vec<u8> = (0..QUEUE_BYTES * 5).map(|number| (number % 251) as u8).collect();
    let copy = sent.clone();
    let writer = tokio::spawn(async move {
        near.write_all(&copy).await.unwrap();
        near.shutdown().await.unwrap();
        // Half closed: the other direction goes on.
        rest(&mut near).await
    });
    assert_eq!(rest(&mut far).await, (sent, None));
    far.write_all(b"bye").await.unwrap();
    drop(far);
    assert_eq!(writer.await.unwrap(), (b"bye".to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn a_peeked_byte_is_read_once_and_an_end_or_reset_is_seen() {
    let fabric = Fabric::default();
    let own = host(&fabric, "10.0.0.1", "a", "t");
    let (mut near, mut far) = own.open(at("127.0.0.1:1")).unwrap();
    let peeks = tokio::spawn(async move { (far.peek().await.unwrap(), far.peek().await.unwrap(), far) });
    tokio::task::yield_now().await;
    near.write_all(b"ab").await.unwrap();
    let (first, again, mut far) = peeks.await.unwrap();
    assert_eq!((first, again), (Some(b'a'), Some(b'a')));
    near.shutdown().await.unwrap();
    assert_eq!(rest(&mut far).await, (b"ab".to_vec(), None));
    assert_eq!(far.peek().await.unwrap(), None);
    let (near, mut far) = own.open(at("127.0.0.1:1")).unwrap();
    near.reset();
    assert_eq!(far.peek().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_closed_with_unread_bytes_or_reset_fails_the_other() {
    let fabric = Fabric::default();
    let own = host(&fabric, "10.0.0.1", "a", "t");
    for resets in [true, false] {
        let (mut near, mut far) = own.open(at("127.0.0.1:1")).unwrap();
        assert!(far.peer().ip().is_loopback(), "over loopback the client has a loopback address");
        near.write_all(b"unread").await.unwrap();
        far.write_all(b"last").await.unwrap();
        if resets {
            far.reset();
        } else {
            drop(far);
        }
        assert_eq!(rest(&mut near).await, (b"last".to_vec(), Some(std::io::ErrorKind::ConnectionReset)));
        let error = near.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    // A task that waits for bytes is woken by the end.
    let (mut near, far) = own.open(at("10.0.0.7:1")).unwrap();
    let waits = tokio::spawn(async move { rest(&mut near).await });
    tokio::task::yield_now().await;
    drop(far);
    assert_eq!(waits.await.unwrap(), (Vec::new(), None));
    assert_eq!(fabric.sizes().2, 0);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_another_pod_gets_is_lost_to_the_one_before() {
    let fabric = Fabric::default();
    let (before, client) = (host(&fabric, "10.0.0.1", "old", "t"), host(&fabric, "10.0.0.2", "c", "t"));
    let mut listener = before.listen(at("10.0.0.1:80")).unwrap();
    let after = host(&fabric, "10.0.0.1", "new", "t");
    assert_eq!(client.connect(at("10.0.0.1:80")).unwrap_err(), NetError::Refused);
    assert_eq!(before.listen(at("0.0.0.0:81")).unwrap_err(), NetError::AddressNotAvailable);
    assert_eq!(before.open(at("10.0.0.2:1")).unwrap_err(), NetError::AddressNotAvailable);
    assert!(listener.accept().await.is_none());
    drop((listener, before));
    assert!(after.listen(at("0.0.0.0:80")).is_ok());
    assert_eq!(after.listen(at("10.0.0.9:80")).unwrap_err(), NetError::AddressNotAvailable);
}

#[test]
fn streams_and_listeners_are_bounded_for_a_host_and_leave_some_to_other_tenants() {
    let fabric = Fabric::default();
    let greedy: Vec<Host> = (0..6).map(|n| host(&fabric, &format!("10.0.0.{n}"), "g", "greedy")).collect();
    let mut kept = Vec::new();
    for own in &greedy {
        while let Ok(ends) = own.open(at("10.1.0.1:1")) {
            kept.push(ends);
        }
    }
    assert_eq!(kept.len(), TENANT_STREAMS, "and not {}", 6 * HOST_STREAMS);
    let modest = host(&fabric, "10.2.0.1", "m", "modest");
    let own: Vec<_> = std::iter::from_fn(|| modest.open(at("10.1.0.1:1")).ok()).collect();
    assert_eq!(own.len(), HOST_STREAMS);
    assert!(own.len() + kept.len() < STREAMS);
    kept.clear();
    assert!(greedy[5].open(at("10.1.0.1:1")).is_ok());

    let ports: Vec<_> = std::iter::from_fn(|| modest.listen(at("0.0.0.0:0")).ok()).collect();
    assert_eq!(ports.len(), HOST_LISTENERS);
    let to = SocketAddr::new(modest.address(), ports[0].local().port());
    let waiting: Vec<_> = std::iter::from_fn(|| greedy[0].connect(to).ok()).collect();
    assert_eq!(waiting.len(), BACKLOG);
    drop((ports, waiting, own));
    assert_eq!(fabric.sizes(), (7, 0, 0));
}
