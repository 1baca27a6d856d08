//! The standard streams of a container's process to which clients attach: what they send is its input, and all of them see its output.

use crate::limits::{CONSOLE_INPUT, CONSOLE_KEPT, CONSOLE_OUTPUT};
use crate::pod_object::ContainerSpec;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// A piece of output, with its channel: 1 is standard output, 2 standard error.
pub(super) type Piece = (u32, Bytes);

/// What a client sends to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConsoleInput {
    /// Bytes of standard input.
    Bytes(Bytes),
    /// The rows and columns of the terminal.
    Size(u16, u16),
}

/// The standard streams of one run of a container.
pub(crate) struct Console {
    /// Whether the process reads what clients send.
    has_input: bool,
    /// Whether the first client that sends input ends it when it leaves.
    is_once: bool,
    state: Mutex<ConsoleState>,
}

struct ConsoleState {
    /// `None` once the input is at its end.
    input: Option<mpsc::Sender<ConsoleInput>>,
    /// `None` once the process has it.
    received: Option<mpsc::Receiver<ConsoleInput>>,
    clients: Vec<mpsc::Sender<Piece>>,
    /// The newest output, for the first client; `None` once one has attached.
    kept: Option<VecDeque<(u32, Vec<u8>)>>,
    has_ended: bool,
}

impl Console {
    /// The console of a container; `None` if it asks for none.
    pub(crate) fn of(spec: &ContainerSpec) -> Option<Self> {
        (spec.stdin || spec.tty).then(|| Self::new(spec.stdin, spec.stdin_once))
    }

    fn new(has_input: bool, is_once: bool) -> Self {
        let (input, received) = mpsc::channel(CONSOLE_INPUT);
        let state = ConsoleState {
            input: Some(input),
            received: Some(received),
            clients: Vec::new(),
            kept: Some(VecDeque::new()),
            has_ended: false,
        };
        Self { has_input, is_once, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, ConsoleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the process reads what clients send.
    pub(super) fn has_input(&self) -> bool {
        self.has_input
    }

    /// What clients send, for the process; `None` if it was taken before. It is at its end when the input is.
    pub(super) fn take_input(&self) -> Option<mpsc::Receiver<ConsoleInput>> {
        self.state().received.take()
    }

    /// Attaches a client: returns what it sees, which ends with the process. The first one also sees what was printed before.
    pub(super) fn attach(&self) -> mpsc::Receiver<Piece> {
        let mut state = self.state();
        let kept = state.kept.take().unwrap_or_default();
        let (client, shown) = mpsc::channel(CONSOLE_OUTPUT + kept.len());
        for (channel, bytes) in kept {
            // There is space for all of them.
            let _ = client.try_send((channel, bytes.into()));
        }
        if !state.has_ended {
            state.clients.push(client);
        }
        shown
    }

    /// Sends input to the process; waits while it has not read earlier input. No effect once the input is at its end.
    pub(super) async fn send(&self, input: ConsoleInput) {
        let process = self.state().input.clone();
        if let Some(process) = process {
            // The process may have ended.
            let _ = process.send(input).await;
        }
    }

    /// A client that sent input has left, or has no more: with `stdinOnce` that is the end of the process's input.
    pub(super) fn end_of_client(&self) {
        if self.is_once {
            self.state().input = None;
        }
    }

    /// Shows output to all clients; waits for each to take it.
    pub(super) async fn show(&self, channel: u32, bytes: &[u8]) {
        let clients = {
            let mut state = self.state();
            if let Some(kept) = &mut state.kept {
                return keep(kept, channel, bytes);
            }
            state.clients.retain(|client| !client.is_closed());
            state.clients.clone()
        };
        for client in clients {
            // One that leaves meanwhile takes nothing.
            let _ = client.send((channel, Bytes::copy_from_slice(bytes))).await;
        }
    }

    /// The process has ended and all of its output is shown: clients see the end.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.clients.clear();
        state.input = None;
    }
}

/// Adds output; the oldest goes once there is more than [`CONSOLE_KEPT`].
fn keep(kept: &mut VecDeque<(u32, Vec<u8>)>, channel: u32, bytes: &[u8]) {
    match kept.back_mut().filter(|(last, _)| *last == channel) {
        Some((_, last)) => last.extend_from_slice(bytes),
        None => kept.push_back((channel, bytes.to_vec())),
    }
    let mut surplus = kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>().saturating_sub(CONSOLE_KEPT);
    while let Some((_, oldest)) = kept.front_mut().filter(|_| surplus > 0) {
        let gone = surplus.min(oldest.len());
        oldest.drain(..gone);
        surplus -= gone;
        if oldest.is_empty() {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[tokio::test]
    async fn the_first_client_sees_what_was_printed_before_and_all_see_the_rest() {
        let console = Console::new(true, false);
        console.show(1, b"prompt").await;
        let mut first = console.attach();
        let mut second = console.attach();
        console.show(2, b"text").await;
        drop(console.attach());
        console.show(1, b"more").await;
        console.end();
        let all = async |client: &mut mpsc::Receiver<Piece>| {
            let mut seen = Vec::new();
            while let Some((channel, bytes)) = client.recv().await {
                seen.push((channel, String::from_utf8(bytes.to_vec()).unwrap()));
            }
            seen
        };
        let of = |pieces: &[(u32, &str)]| -> Vec<(u32, String)> {
            pieces.iter().map(|(channel, text)| (*channel, (*text).to_owned())).collect()
        };
        assert_eq!(all(&mut first).await, of(&[(1, "prompt"), (2, "text"), (1, "more")]));
        assert_eq!(all(&mut second).await, of(&[(2, "text"), (1, "more")]));
        assert_eq!(all(&mut console.attach()).await, of(&[]), "the process has ended");
    }

    #[tokio::test]
    async fn input_that_no_process_reads_yet_waits_and_ends_with_a_client_only_if_it_is_for_one() {
        for is_once in [true, false] {
            let console = Console::new(true, is_once);
            console.send(ConsoleInput::Bytes(bytes("one"))).await;
            console.end_of_client();
            console.send(ConsoleInput::Size(24, 80)).await;
            let mut process = console.take_input().unwrap();
            assert!(console.take_input().is_none());
            assert_eq!(process.recv().await, Some(ConsoleInput::Bytes(bytes("one"))));
            let next = if is_once { None } else { Some(ConsoleInput::Size(24, 80)) };
            assert_eq!(process.recv().await, next, "{is_once}");
            console.end();
            assert_eq!(process.recv().await, None);
        }
    }

    #[tokio::test]
    async fn output_without_a_client_is_kept_up_to_a_bound() {
        let console = Console::new(true, false);
        for number in 0..10 {
            console.show(1, &vec![number; CONSOLE_KEPT / 4]).await;
        }
        console.show(2, b"12").await;
        console.show(1, b"3").await;
        let mut client = console.attach();
        console.end();
        let mut seen = Vec::new();
        while let Some((channel, bytes)) = client.recv().await {
            seen.push((channel, bytes.len(), bytes[0]));
        }
        assert_eq!(seen, [(1, CONSOLE_KEPT - 3, 6), (2, 2, b'1'), (1, 1, b'3')]);
    }
}
