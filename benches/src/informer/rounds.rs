//! [`Row`]: one operation, measured for one side or for two in alternating rounds.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::time::Duration;

/// Rounds of each side.
pub(crate) const ROUNDS: usize = 7;

pub(crate) const HEAD: &str = "| what | per item: ours least, median | processor | kube-rs least, median | processor | kube-rs ÷ ours |\n\
    |---|---|---|---|---|---|";

/// One round: prepares, and calls the recorder once for the measured part.
pub(crate) type Side = Box<dyn FnMut(&mut Recorder) -> anyhow::Result<()>>;

/// A measured operation.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Number of items per round.
    items: f64,
    ours: Side,
    theirs: Option<Side>,
}

/// Measures the relevant part of a round.
#[derive(Default)]
pub(crate) struct Recorder {
    wall: Vec<f64>,
    processor: Vec<f64>,
}

/// The result of a row.
pub(crate) struct RowResult {
    name: &'static str,
    items: f64,
    ours: Recorder,
    theirs: Option<Recorder>,
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        items: usize,
        ours: impl FnMut(&mut Recorder) -> anyhow::Result<()> + 'static,
    ) -> Self {
        Self { name, items: items as f64, ours: Box::new(ours), theirs: None }
    }

    /// Adds the other side's rounds.
    pub(crate) fn beside(
        mut self,
        theirs: impl FnMut(&mut Recorder) -> anyhow::Result<()> + 'static,
    ) -> Self {
        self.theirs = Some(Box::new(theirs));
        self
    }

    pub(crate) fn measure(mut self) -> anyhow::Result<RowResult> {
        let (mut ours, mut theirs) = (Recorder::default(), Recorder::default());
        for _ in 0..ROUNDS {
            (self.ours)(&mut ours)?;
            if let Some(side) = &mut self.theirs {
                side(&mut theirs)?;
            }
        }
        let theirs = self.theirs.map(|_| theirs);
        Ok(RowResult { name: self.name, items: self.items, ours, theirs })
    }
}

impl Recorder {
    /// Measures one round.
    pub(crate) fn time<R>(&mut self, what: impl FnOnce() -> R) -> R {
        let (wall, processor) = (tokio::time::Instant::now(), processor());
        let result = what();
        self.wall.push(wall.elapsed().as_secs_f64());
        self.processor.push((self::processor() - processor).as_secs_f64());
        result
    }
}

/// CPU time of this process so far.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

fn minimum(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The time per item of `items`, in a suitable unit.
fn each(seconds: f64, items: f64) -> String {
    let nanos = seconds * 1e9 / items;
    match nanos {
        0.0..1e3 => format!("{nanos:.0} ns"),
        1e3..1e6 => format!("{:.2} µs", nanos / 1e3),
        _ => format!("{:.2} ms", nanos / 1e6),
    }
}

impl Recorder {
    fn columns(&self, items: f64) -> String {
        format!(
            "{}, {} | {}",
            each(minimum(&self.wall), items),
            each(median(&self.wall), items),
            each(minimum(&self.processor), items)
        )
    }
}

impl fmt::Display for RowResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} | ", self.name, self.ours.columns(self.items))?;
        match &self.theirs {
            None => write!(f, "| | |"),
            Some(theirs) => {
                let ratio = minimum(&theirs.wall) / minimum(&self.ours.wall);
                write!(f, "{} | {ratio:.1} |", theirs.columns(self.items))
            }
        }
    }
}
