//! [`Figures`]: what an attack cost, and the bounds on it.

use std::fmt;
use std::time::Duration;

/// Bounds on what an attack costs others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) livez_median: Duration,
    pub(super) livez_max: Duration,
    pub(super) write_median: Duration,
    pub(super) write_max: Duration,
    /// How long the program may take to end after SIGTERM.
    pub(super) end: Duration,
    /// MiB by which the program may grow.
    pub(super) memory: usize,
}

impl Bounds {
    /// Of tests, which run beside others on a busy machine with a program that is not optimised.
    pub(super) const GENEROUS: Self = Self {
        livez_median: Duration::from_millis(1_500),
        livez_max: Duration::from_secs(10),
        write_median: Duration::from_secs(3),
        write_max: Duration::from_secs(20),
        end: Duration::from_secs(30),
        memory: 0,
    };

    /// Of the report: supervisors' probes commonly have a timeout of a second.
    pub(super) const STRICT: Self = Self {
        livez_median: Duration::from_millis(250),
        livez_max: Duration::from_millis(1_500),
        write_median: Duration::from_millis(500),
        write_max: Duration::from_secs(5),
        end: Duration::from_secs(10),
        memory: 0,
    };
}

/// The median and the longest of some durations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latencies {
    pub(super) median: Duration,
    pub(super) max: Duration,
    pub(super) count: usize,
}

impl Latencies {
    pub(super) fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        let median = durations.get(durations.len() / 2).copied().unwrap_or_default();
        Self { median, max: durations.last().copied().unwrap_or_default(), count: durations.len() }
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} / {} ms", self.median.as_millis(), self.max.as_millis())
    }
}

/// What an attack cost.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) name: &'static str,
    /// Bytes that the attacker sent.
    pub(super) sent: usize,
    pub(super) time: Duration,
    /// Resident MiB before the attack, and the most during it.
    pub(super) before: usize,
    pub(super) peak: usize,
    pub(super) livez: Latencies,
    pub(super) writes: Latencies,
    /// How the program ended after SIGTERM: its code, or the signal that ended it.
    pub(super) exit: String,
    pub(super) end: Duration,
}

impl Figures {
    /// The first lines of a table of figures and verdicts.
    pub(super) const HEAD: &'static str = "\
| attack | bytes sent | s | MiB before, peak | /livez median / max | other's write median / max | exit code, s | verdict |
|---|---|---|---|---|---|---|---|";

    /// The bounds that are exceeded.
    pub(super) fn exceeds(&self, bounds: &Bounds) -> Vec<&'static str> {
        let grown = self.peak.saturating_sub(self.before);
        let checks = [
            (self.livez.count > 0 && self.writes.count > 0, "nothing was measured"),
            (self.livez.median <= bounds.livez_median, "median of /livez"),
            (self.livez.max <= bounds.livez_max, "longest /livez"),
            (self.writes.median <= bounds.write_median, "median of writes"),
            (self.writes.max <= bounds.write_max, "longest write"),
            (grown <= bounds.memory, "memory"),
            (self.exit == "0", "exit code"),
            (self.end <= bounds.end, "end after SIGTERM"),
        ];
        checks.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, sent, time, before, peak, livez, writes, exit, end } = self;
        write!(
            out,
            "| {name} | {sent} | {} | {before}, {peak} | {livez} | {writes} | {exit}, {:.1} |",
            time.as_secs(),
            end.as_secs_f64()
        )
    }
}

#[test]
fn figures_beyond_their_bounds_are_named() {
    let ms = Duration::from_millis;
    let latencies = Latencies::of(vec![ms(5), ms(1), ms(9_000)]);
    assert_eq!((latencies.median, latencies.max, latencies.count), (ms(5), ms(9_000), 3));
    let figures = Figures {
        name: "a",
        sent: 1,
        time: ms(1),
        before: 10,
        peak: 30,
        livez: latencies,
        writes: latencies,
        exit: "signal 6".to_owned(),
        end: ms(1),
    };
    let failed = figures.exceeds(&Bounds { memory: 19, ..Bounds::STRICT });
    assert_eq!(failed, ["longest /livez", "longest write", "memory", "exit code"]);
    let fine = Figures { exit: "0".to_owned(), ..figures };
    assert!(fine.exceeds(&Bounds { memory: 20, ..Bounds::GENEROUS }).is_empty());
}
