//! What all processes of a command share: the output and input of the command, time, and new processes.

use super::Process;
use crate::limits::{INPUT_BYTES, LOOP_ROUND, LOOP_ROUNDS, NETWORK_CALLS};
use crate::shell::memory::{Bounds, Buffer};
use crate::shell::{Environment, NetworkCall, NetworkReply, ShellStep};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The shared state of a command.
#[derive(Debug)]
pub(in crate::shell) struct Kernel {
    pub(in crate::shell) shared: Arc<Environment>,
    pub(in crate::shell) bounds: Bounds,
    pub(in crate::shell) steps: VecDeque<ShellStep>,
    /// Time since the beginning of the command.
    pub(in crate::shell) elapsed: Duration,
    /// When the next process wakes up that sleeps.
    pub(super) next_wake: Option<Duration>,
    pub(super) wants_input: bool,
    pub(super) wants_line: bool,
    input: Option<Buffer>,
    input_at: usize,
    input_ended: bool,
    /// The next line of an interactive shell.
    line: Option<Offered>,
    /// Rounds of loops since the last sleep.
    rounds: u32,
    pub(super) spawned: Vec<Process>,
    /// Processes that live.
    pub(super) living: usize,
    next_pid: u32,
    /// Signals that are not delivered yet.
    pub(super) sent: Vec<(u32, u8)>,
    /// The numbers of all processes that live.
    pub(super) pids: BTreeSet<u32>,
    pub(in crate::shell) random: u64,
    /// The signals that ended processes.
    pub(super) deaths: BTreeMap<u32, u8>,
    /// Calls on the network without a reply yet, and replies that are not taken, by number.
    calls: BTreeMap<u64, Option<NetworkReply>>,
    next_call: u64,
}

/// A line for an interactive shell.
#[derive(Debug)]
pub(in crate::shell) enum Offered {
    Line(String),
    End,
}

/// Bytes of input that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputResult {
    Some,
    End,
    Wait,
}

impl Kernel {
    /// The state at the beginning of a command.
    pub(in crate::shell) fn new(shared: Arc<Environment>) -> Self {
        let bounds = Bounds { allowance: shared.memory.clone(), work: shared.work.clone() };
        let seed = shared.hostname.bytes().fold(shared.now.unsigned_abs(), |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        Self {
            shared,
            bounds,
            steps: VecDeque::new(),
            elapsed: Duration::ZERO,
            next_wake: None,
            wants_input: false,
            wants_line: false,
            input: None,
            input_at: 0,
            input_ended: false,
            line: None,
            rounds: 0,
            spawned: Vec::new(),
            living: 1,
            next_pid: 2,
            sent: Vec::new(),
            pids: BTreeSet::new(),
            random: seed,
            deaths: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_call: 1,
        }
    }

    pub(super) fn clear(&mut self) {
        self.spawned.clear();
        self.calls.clear();
        self.input = None;
        self.line = None;
    }

    pub(super) fn begin_round(&mut self) {
        (self.next_wake, self.wants_input, self.wants_line) = (None, false, false);
    }

    /// Whether the step must end: the command is killed, or its time slice is used.
    pub(super) fn is_interrupted(&self) -> bool {
        self.bounds.work.killed().is_some() || self.bounds.work.is_slice_used()
    }

    /// The wall time in seconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.shared.now.saturating_add(i64::try_from(self.elapsed.as_secs()).unwrap_or(i64::MAX))
    }

    /// Moves the clock.
    pub(in crate::shell) fn pass(&mut self, time: Duration) {
        self.rounds = 0;
        self.elapsed = self.elapsed.saturating_add(time);
    }

    /// The number of a new process.
    pub(super) fn new_pid(&mut self) -> u32 {
        let pid = self.next_pid;
        self.next_pid += 1;
        self.pids.insert(pid);
        pid
    }

    /// Notes that a process sleeps until this time.
    pub(in crate::shell) fn wake_at(&mut self, at: Duration) {
        self.next_wake = Some(self.next_wake.map_or(at, |next| next.min(at)));
    }

    /// Whether a process with this number lives.
    pub(in crate::shell) fn knows(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    /// Sends a signal to a process.
    pub(in crate::shell) fn send(&mut self, pid: u32, signal: u8) {
        self.sent.push((pid, signal));
    }

    /// Counts a round of a loop. Returns the time until which its process must sleep, if it must.
    pub(super) fn count_round(&mut self) -> Option<Duration> {
        self.rounds += 1;
        (self.rounds > LOOP_ROUNDS).then(|| self.elapsed.saturating_add(LOOP_ROUND))
    }

    /// Sends bytes to the client.
    pub(super) fn print(&mut self, channel: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match Buffer::of(bytes.to_vec(), &self.bounds) {
            Some(bytes) => self.print_buffer(channel, bytes),
            None => self.bounds.work.kill(crate::shell::Killed::Memory),
        }
    }

    /// Sends bytes whose memory is reserved to the client.
    pub(super) fn print_buffer(&mut self, channel: u32, bytes: Buffer) {
        if !bytes.is_empty() {
            self.steps.push_back(ShellStep::Print(channel, bytes.into_output()));
        }
    }

    /// Passes bytes of the command's input to `take`, which returns how many of them it takes.
    pub(super) fn read_input(&mut self, take: &mut dyn FnMut(&[u8]) -> usize) -> InputResult {
        let Some(input) = &self.input else {
            self.wants_input = !self.input_ended;
            return if self.input_ended { InputResult::End } else { InputResult::Wait };
        };
        let rest = &input.as_ref()[self.input_at..];
        self.bounds.work.spend(rest.len() + 32);
        self.input_at += take(rest);
        if self.input_at >= input.len() {
            (self.input, self.input_at) = (None, 0);
        }
        InputResult::Some
    }

    /// Adds input of the command, or its end. Returns false if there is too much of it.
    pub(in crate::shell) fn offer_input(&mut self, bytes: Option<&[u8]>) -> bool {
        let Some(bytes) = bytes else {
            self.input_ended = true;
            return true;
        };
        let bounds = &self.bounds;
        let input = self.input.get_or_insert_with(|| Buffer::new(bounds));
        let fits = input.len() + bytes.len() <= INPUT_BYTES && input.try_push(bytes);
        if !fits {
            (self.input, self.input_at, self.input_ended) = (None, 0, true);
        }
        fits
    }

    /// Begins a call on the network; returns its number. `None` if there are too many.
    pub(super) fn begin_call(&mut self, call: NetworkCall) -> Option<u64> {
        if self.calls.len() >= NETWORK_CALLS {
            return None;
        }
        let number = self.next_call;
        self.next_call += 1;
        self.calls.insert(number, None);
        self.steps.push_back(ShellStep::Network(number, Box::new(call)));
        Some(number)
    }

    /// Keeps the reply to a call until its process takes it.
    pub(in crate::shell) fn offer_reply(&mut self, number: u64, reply: NetworkReply) {
        if let Some(slot) = self.calls.get_mut(&number) {
            *slot = Some(reply);
        }
    }

    /// The reply to a call, if it is there.
    pub(super) fn take_reply(&mut self, number: u64) -> Option<NetworkReply> {
        let reply = self.calls.get_mut(&number)?.take();
        if reply.is_some() {
            self.calls.remove(&number);
        }
        reply
    }

    /// Sets the next line of an interactive shell.
    pub(in crate::shell) fn offer_line(&mut self, line: Offered) {
        self.line = Some(line);
    }

    /// The next line of an interactive shell; `None` if the client must be asked.
    pub(super) fn take_line(&mut self) -> Option<Offered> {
        let line = self.line.take();
        self.wants_line = line.is_none();
        line
    }
}
