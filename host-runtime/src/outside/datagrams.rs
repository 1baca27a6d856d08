//! [`OutsideFlows`]: datagrams of a pod's programs to networks beyond the cluster, and their answers.

use crate::gateway::Answers;
use crate::limits::{ANSWERED_FLOW_TIME, DATAGRAM_BYTES, FLOW_DATAGRAMS, FLOW_TIME, OUTSIDE_FLOWS};
use std::collections::BTreeMap;
use std::io::Result;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Where the datagrams of a flow come from and go to, as the program has it.
type FlowEnds = (SocketAddr, SocketAddr);

/// Flows of datagrams from a pod to networks beyond the cluster. Each has a socket of this machine and a task; dropping this ends them.
#[derive(Debug, Default)]
pub struct OutsideFlows(Mutex<Flows>);

#[derive(Debug, Default)]
struct Flows {
    open: BTreeMap<FlowEnds, mpsc::Sender<Vec<u8>>>,
    tasks: JoinSet<()>,
}

impl OutsideFlows {
    /// Sends a datagram of a flow that is open; gives it back if there is none. Beyond a bound it is dropped, as datagrams are.
    ///
    /// # Errors
    /// There is no such flow: the datagram's bytes.
    pub fn pass(&self, ends: FlowEnds, bytes: Vec<u8>) -> std::result::Result<(), Vec<u8>> {
        match self.flows().open.get(&ends).filter(|flow| !flow.is_closed()) {
            Some(flow) => {
                let _ = flow.try_send(bytes);
                Ok(())
            }
            None => Err(bytes),
        }
    }

    /// Opens a flow, whose datagrams go to `target` and whose answers go to `answers`, and sends the first one. A flow ends when it was
    /// idle for a while. Where too many are open it is dropped. Must be called within a runtime.
    pub fn open(&self, ends: FlowEnds, target: SocketAddr, first: Vec<u8>, answers: Answers) {
        let mut flows = self.flows();
        flows.open.retain(|_, flow| !flow.is_closed());
        while flows.tasks.try_join_next().is_some() {}
        if flows.open.len() >= OUTSIDE_FLOWS {
            return;
        }
        let (sender, receiver) = mpsc::channel(FLOW_DATAGRAMS);
        // The channel is empty, so there is space.
        let _ = sender.try_send(first);
        flows.open.insert(ends, sender);
        flows.tasks.spawn(async move {
            // A flow that fails loses its datagrams.
            let _ = carry(target, receiver, &answers).await;
        });
    }

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries the datagrams of a flow until it was idle for long.
async fn carry(target: SocketAddr, mut sent: mpsc::Receiver<Vec<u8>>, answers: &Answers) -> Result<()> {
    let socket = socket_to(target).await?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut idle = FLOW_TIME;
    loop {
        let end = Instant::now() + idle;
        tokio::select! {
            biased;
            bytes = sent.recv() => match bytes {
                // The system may have no space for it now, or tells that an earlier one was refused.
                Some(bytes) => drop(socket.send(&bytes).await),
                None => return Ok(()),
            },
            received = socket.recv(&mut buffer) => match received {
                Ok(length) => {
                    idle = ANSWERED_FLOW_TIME;
                    answers.send(buffer[..length].to_vec());
                }
                // An earlier one was refused, which clients of the network in memory do not see either.
                Err(_) => tokio::task::yield_now().await,
            },
            () = sleep_until(end) => return Ok(()),
        }
    }
}

/// A socket of this machine that sends to an address and receives from there alone.
pub(super) async fn socket_to(target: SocketAddr) -> Result<UdpSocket> {
    let any = match target.is_ipv4() {
        true => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        false => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(target).await?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn datagrams_of_a_flow_are_sent_and_answered_and_only_within_the_bound() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = server.local_addr().unwrap();
        let flows = OutsideFlows::default();
        let program: SocketAddr = "10.128.0.5:4000".parse().unwrap();
        let (sender, mut answered) = mpsc::channel(8);
        let answers = Answers::new(move |bytes| drop(sender.try_send(bytes)));
        assert_eq!(flows.pass((program, target), b"no flow".to_vec()), Err(b"no flow".to_vec()));
        flows.open((program, target), target, b"first".to_vec(), answers.clone());
        assert_eq!(flows.pass((program, target), b"second".to_vec()), Ok(()));
        let mut buffer = [0; 16];
        let mut from = None;
        for expected in ["first", "second"] {
            let (length, client) = server.recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..length], expected.as_bytes());
            assert_eq!(*from.get_or_insert(client), client, "one flow has one socket");
        }
        server.send_to(b"answer", from.unwrap()).await.unwrap();
        assert_eq!(answered.recv().await.unwrap(), b"answer");
        for port in 0..u16::try_from(OUTSIDE_FLOWS).unwrap() {
            let other = SocketAddr::new(program.ip(), port);
            flows.open((other, target), target, b"one of many".to_vec(), answers.clone());
        }
        assert_eq!(flows.flows().open.len(), OUTSIDE_FLOWS);
        drop(flows);
        drop(answers);
        assert_eq!(answered.recv().await, None, "no task is left");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_flow_ends() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = server.local_addr().unwrap();
        let flows = Arc::new(OutsideFlows::default());
        let (sender, mut answered) = mpsc::channel::<()>(1);
        let answers = Answers::new(move |_| {
            let _ = sender.try_send(());
        });
        flows.open((target, target), target, b"alone".to_vec(), answers);
        let begun = Instant::now();
        assert_eq!(answered.recv().await, None);
        assert!(begun.elapsed() >= FLOW_TIME);
        assert_eq!(flows.pass((target, target), Vec::new()), Err(Vec::new()));
    }
}
