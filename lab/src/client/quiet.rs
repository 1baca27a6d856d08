//! Whether a client is quiet (§3.3): its facts, and the reasons why it is not, as texts. Pure.

use crate::limits;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// A reason why a cluster or a client is busy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Busy {
    /// The part of the cluster, or `client`.
    pub part: String,
    /// The reason, for people.
    pub what: String,
    /// Name of the client; empty for a part of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
}

impl Busy {
    /// A reason of a client.
    pub fn of_client(client: &str, what: impl Into<String>) -> Self {
        Self { part: "client".to_owned(), what: what.into(), client: client.to_owned() }
    }

    /// A reason of a part of the cluster, as `kstore-cluster` words it: `workqueue replicaset: 2 ready keys`.
    pub fn of_cluster(text: &str) -> Self {
        let (part, what) = text.split_once(": ").unwrap_or(("cluster", text));
        Self { part: part.to_owned(), what: what.to_owned(), client: String::new() }
    }

    /// The reason in a line.
    pub fn line(&self) -> String {
        match self.client.is_empty() {
            true => format!("{}: {}", self.part, self.what),
            false => format!("client {}: {}", self.client, self.what),
        }
    }
}

/// What is known of a client at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuietFacts {
    /// Requests in flight, except watches, followed logs and waits for time, each with its age.
    pub in_flight: Vec<(String, Duration)>,
    /// Watches with events that the client has not taken, by kind, with their number; 0: bytes in a socket.
    pub unread: Vec<(String, usize)>,
    /// The process, if it is known, with the number of its threads that ran since the last look. `None` in the pair: this is the first
    /// look.
    pub process: Option<(u32, Option<usize>)>,
    /// Time since anything was delivered, answered or asked.
    pub silent_for: Duration,
    /// The time that has to be silent if the process is not known.
    pub window: Duration,
    /// Time since the client began to watch a kind for the first time.
    pub filling_for: Option<Duration>,
    /// The last answer, if it was an error that clients retry, and it has not asked again.
    pub retryable: Option<u16>,
    /// The time for which the clock waits after such an answer.
    pub retry: Duration,
    /// Whether the client says that it is busy.
    pub says_busy: bool,
}

impl QuietFacts {
    /// Why the client is not quiet; empty if it is.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.in_flight.is_empty() {
            let count = self.in_flight.len();
            let (what, age) = self.in_flight.iter().max_by_key(|(_, age)| *age).expect("there is one");
            let noun = if count == 1 { "request" } else { "requests" };
            reasons.push(format!("{count} {noun} in flight ({what}, {} ms)", age.as_millis()));
        }
        for (kind, events) in &self.unread {
            reasons.push(match events {
                0 => format!("does not read its watch of {kind}"),
                1 => format!("does not read its watch of {kind} (1 event)"),
                events => format!("does not read its watch of {kind} ({events} events)"),
            });
        }
        match self.process {
            Some((process, Some(threads))) if threads > 0 => {
                let noun = if threads == 1 { "thread" } else { "threads" };
                reasons.push(format!("process {process} runs ({threads} {noun})"));
            }
            Some((process, None)) => reasons.push(format!("process {process} is being looked at")),
            Some(_) => {}
            None if self.silent_for < self.window => {
                let (silent, window) = (self.silent_for.as_millis(), self.window.as_millis());
                reasons.push(format!("traffic {silent} ms ago (its window is {window} ms)"));
            }
            None => {}
        }
        if let Some(filling) = self.filling_for.filter(|filling| *filling < limits::FILLING) {
            reasons.push(format!("began to watch a kind {} ms ago", filling.as_millis()));
        }
        if let Some(code) = self.retryable.filter(|_| self.silent_for < self.retry) {
            reasons.push(format!("may repeat the request that was answered with {code}"));
        }
        if self.says_busy {
            reasons.push("says that it is busy".to_owned());
        }
        reasons
    }
}

/// The kinds that a client has watched since it was started, and when it began to watch the last of them for the first time. Later watches
/// of a kind fill no cache for which a client waits before it begins its work.
#[derive(Clone, Debug, Default)]
pub struct FirstWatches {
    kinds: BTreeSet<String>,
    newest: Option<Timestamp>,
}

impl FirstWatches {
    /// Notes a watch that begins.
    pub fn begin(&mut self, kind: &str, now: Timestamp) {
        if self.kinds.len() < limits::FILLED_KINDS && self.kinds.insert(kind.to_owned()) {
            self.newest = Some(now);
        }
    }

    /// When the client began to watch a kind for the first time, at last.
    pub fn newest(&self) -> Option<Timestamp> {
        self.newest
    }
}

/// Whether clients retry an answer with this code: conflicts, overload, errors of the server.
pub fn is_retryable(code: u16) -> bool {
    code == 409 || code == 429 || code >= 500
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn quiet() -> QuietFacts {
        QuietFacts { silent_for: 60 * MS, window: 50 * MS, retry: 50 * MS, ..QuietFacts::default() }
    }

    #[test]
    fn a_silent_client_is_quiet_and_each_fact_makes_it_busy() {
        assert_eq!(quiet().reasons(), Vec::<String>::new());
        let asks = vec![("update jobs.batch/x/status".to_owned(), 40 * MS)];
        let rows = [
            (
                QuietFacts { in_flight: asks, ..quiet() },
                "1 request in flight (update jobs.batch/x/status, 40 ms)",
            ),
            (
                QuietFacts { unread: vec![("pods".to_owned(), 312)], ..quiet() },
                "does not read its watch of pods (312 events)",
            ),
            (QuietFacts { process: Some((4711, Some(2))), ..quiet() }, "process 4711 runs (2 threads)"),
            (QuietFacts { process: Some((4711, None)), ..quiet() }, "process 4711 is being looked at"),
            (QuietFacts { silent_for: 12 * MS, ..quiet() }, "traffic 12 ms ago (its window is 50 ms)"),
            (
                QuietFacts { retryable: Some(409), silent_for: MS, process: Some((1, Some(0))), ..quiet() },
                "may repeat the request that was answered with 409",
            ),
            (QuietFacts { filling_for: Some(12 * MS), ..quiet() }, "began to watch a kind 12 ms ago"),
            (QuietFacts { says_busy: true, ..quiet() }, "says that it is busy"),
        ];
        for (facts, expected) in rows {
            assert_eq!(facts.reasons(), [expected]);
        }
        let filled = QuietFacts { filling_for: Some(limits::FILLING), ..quiet() };
        assert_eq!(filled.reasons(), Vec::<String>::new());
        let known = QuietFacts { silent_for: MS, process: Some((1, Some(0))), ..quiet() };
        assert_eq!(known.reasons(), Vec::<String>::new(), "a known process needs no window");
    }

    #[test]
    fn only_the_first_watch_of_a_kind_fills_a_cache() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut watches = FirstWatches::default();
        assert_eq!(watches.newest(), None);
        for (second, kind, newest) in [(1, "pods", 1), (2, "things", 2), (3, "pods", 2)] {
            watches.begin(kind, at(second));
            assert_eq!(watches.newest(), Some(at(newest)), "{kind}");
        }
        (0..1000).for_each(|nth| watches.begin(&nth.to_string(), at(9)));
        assert_eq!(watches.kinds.len(), limits::FILLED_KINDS);
    }
}
