//! API Priority and Fairness: requests of clients on the network are matched to flow schemas, and run on the
//! seats of a priority level or wait in its queues. Requests of components in this process do not come here.
//!
//! The cores are pure: `matching` and `config` (objects → rules), `estimate` (seats of a request), `queue_set`
//! with `dealer` (fair queuing), `demand` and `borrowing` (seats of levels). `level` waits and wakes, `upkeep`
//! follows the stored objects. The front ends call [`Fairness::classify`] and [`Classified::enter`].

mod borrowing;
mod config;
mod dealer;
mod demand;
mod dump;
mod estimate;
mod flow;
mod level;
mod matching;
mod metrics;
mod queue_set;

use borrowing::{SeatBounds, SeatClaim};
use config::{CATCH_ALL, Config};
pub use dump::{DUMPS, Dump};
pub use estimate::{ListFacts, Work, list as list_work, write as write_work};
use flow::{Flow, FlowMetrics, Outcome};
use http::{HeaderMap, Method};
use kstore_access::resource_location::ResourceLocation;
use kstore_nondet::Nondet;
pub use level::{Entered, RequestSummary, Seat, Waiting};
use level::{Level, LevelSeats};
pub use matching::{DigestTarget, RequestDigest};
use parking_lot::{Mutex, RwLock};
use queue_set::Rejection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Limits of the requests that a server runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Whether priority levels divide the seats; otherwise reads and writes have one queue each.
    pub is_fair: bool,
    /// Reads at a time.
    pub reads: usize,
    /// Writes at a time. Priority levels divide the sum of both.
    pub writes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            is_fair: true,
            reads: kstore_storage::limits::READS_IN_FLIGHT,
            writes: kstore_storage::limits::FAIR_WRITES_IN_FLIGHT,
        }
    }
}

/// The priority levels of one server and the flow schemas that lead to them. Shared by `Arc`.
pub struct Fairness {
    active: RwLock<Active>,
    /// Metrics by level and schema. They outlive their objects, so that counters do not go back.
    metrics: Mutex<BTreeMap<(String, String), Arc<FlowMetrics>>>,
    /// The seats that levels divide.
    total: u32,
    /// The fraction of the wanted seats that levels got in the last division.
    fair_fraction: Mutex<f64>,
    seed: u64,
    epoch: Instant,
    nondet: Nondet,
}

#[derive(Default)]
struct Active {
    config: Config,
    /// In the order in which they are matched.
    flows: Vec<Arc<Flow>>,
    /// The levels of the configuration, and removed ones that have requests.
    levels: BTreeMap<String, Arc<Level>>,
}

impl fmt::Debug for Fairness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fairness").field("total", &self.total).finish_non_exhaustive()
    }
}

impl Fairness {
    /// Levels that divide `total` seats; only the mandatory ones until [`Fairness::configure`].
    pub fn new(total: usize, nondet: Nondet) -> Self {
        let new = Self {
            active: RwLock::default(),
            metrics: Mutex::default(),
            total: u32::try_from(total).unwrap_or(u32::MAX),
            fair_fraction: Mutex::default(),
            seed: nondet.rng.fork("fairness").next_u64(),
            epoch: Instant::now(),
            nondet,
        };
        new.configure(&[], &[]);
        new
    }

    /// Applies the stored flow schemas and priority levels. Requests in a level that is gone still finish
    /// there. Does nothing if nothing has changed.
    pub fn configure(&self, schemas: &[Arc<Value>], levels: &[Arc<Value>]) {
        let config = Config::read(schemas, levels);
        let mut active = self.active.write();
        if active.config == config {
            return;
        }
        let mut runs = BTreeMap::new();
        for (name, config) in &config.levels {
            let level = match active.levels.get(name) {
                Some(level) if level.is_exempt() == (config.limiting == queue_set::Limiting::Exempt) => {
                    level.configure(config);
                    level.clone()
                }
                _ => Arc::new(Level::new(name, config, self.epoch)),
            };
            runs.insert(name.clone(), level);
        }
        for (name, level) in std::mem::take(&mut active.levels) {
            if !level.is_idle() {
                runs.entry(name).or_insert(level);
            }
        }
        let flow = |schema: &config::SchemaConfig| {
            let level = runs[&schema.level].clone();
            let metrics = self.metrics_of(&schema.level, &schema.name);
            let uid = &config.levels[&schema.level].uid;
            Arc::new(Flow::new(schema.clone(), level, uid, metrics))
        };
        let flows = config.schemas.iter().map(flow).collect();
        *active = Active { flows, levels: runs, config };
        self.divide_seats(&active);
    }

    /// Ends a period: levels lend and borrow seats by their demand, and removed levels without requests go.
    pub(crate) fn adjust(&self) {
        let mut active = self.active.write();
        // Every level must end its period.
        let changed = active.levels.values().filter(|level| level.end_period()).count();
        let Active { levels, config, .. } = &mut *active;
        let before = levels.len();
        levels.retain(|name, level| config.levels.contains_key(name) || !level.is_idle());
        // The division depends on nothing else, so that of an idle server stays.
        if changed > 0 || levels.len() != before {
            self.divide_seats(&active);
        }
    }

    fn divide_seats(&self, active: &Active) {
        let levels: Vec<&Arc<Level>> = active.levels.values().collect();
        let shares: Vec<_> = levels.iter().map(|level| level.shares()).collect();
        let bounds = borrowing::bounds(self.total, &shares);
        let before: Vec<LevelSeats> = levels.iter().map(|level| level.seats()).collect();
        let kept =
            |seats: &LevelSeats, bounds: SeatBounds| borrowing::kept(bounds, seats.demand.observed.highest);
        let mut remaining = f64::from(self.total);
        let mut claims = Vec::new();
        for ((level, seats), bounds) in levels.iter().zip(&before).zip(&bounds) {
            let least = kept(seats, *bounds);
            if level.is_exempt() {
                remaining -= least.round();
            } else {
                let wanted = seats.demand.smoothed.max(least);
                claims.push(SeatClaim { least, wanted, most: f64::from(bounds.upper) });
            }
        }
        let (divided, fraction) = borrowing::divide(remaining.max(0.0), &claims);
        *self.fair_fraction.lock() = fraction;
        let mut divided = divided.into_iter().zip(claims);
        for ((level, seats), bounds) in levels.iter().zip(before).zip(bounds) {
            let (current, target) = match level.is_exempt() {
                true => (kept(&seats, bounds), seats.demand.smoothed),
                false => divided.next().map_or((0.0, 0.0), |(seats, claim)| (seats, claim.wanted)),
            };
            level.set_seats(LevelSeats { bounds, current: borrowing::whole(current), target, ..seats });
        }
    }

    /// The schema of a request: the first that matches, or `catch-all`.
    pub fn classify(&self, request: &RequestDigest<'_>) -> Classified {
        let active = self.active.read();
        let found = active.flows.iter().find(|flow| flow.schema.rules.match_request(request));
        let last = || active.flows.iter().rfind(|flow| flow.schema.name == CATCH_ALL);
        let flow = found.or_else(last).expect("the mandatory schema is always configured").clone();
        let hash = if flow.level.is_exempt() { 0 } else { flow.hash(self.seed, request) };
        Classified { flow, hash }
    }

    fn metrics_of(&self, level: &str, schema: &str) -> Arc<FlowMetrics> {
        let mut all = self.metrics.lock();
        let key = (level.to_owned(), schema.to_owned());
        if let Some(known) = all.get(&key) {
            return known.clone();
        }
        let new = Arc::<FlowMetrics>::default();
        // Clients choose the names: beyond the bound, requests are served and not counted.
        if all.len() < kstore_storage::limits::METRIC_LABEL_VALUES {
            all.insert(key, new.clone());
        }
        new
    }
}

/// A request with its schema.
#[derive(Debug)]
pub struct Classified {
    flow: Arc<Flow>,
    hash: u64,
}

impl Classified {
    /// Nominal seats of the level, by which the work of a request is bounded.
    pub fn nominal_seats(&self) -> u32 {
        self.flow.level.nominal()
    }

    /// Adds the headers that name the schema and the level to the headers of the answer.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        self.flow.add_headers(headers);
    }

    /// Counts the watchers of the object that the request writes.
    pub fn count_watchers(&self, watchers: u64) {
        self.flow.metrics.watchers.observe(watchers as f64);
    }

    /// The request asks its level for seats; `None` if the level rejects it.
    pub fn enter(&self, work: Work, is_watch: bool, summary: RequestSummary) -> Option<Entered> {
        let metrics = &self.flow.metrics;
        metrics.seats.observe(f64::from(work.widest()));
        let outcome = match self.flow.level.enter(&self.flow, self.hash, work, is_watch, summary) {
            Ok(Entered::Running(seat)) => {
                metrics.decided(Outcome::Dispatched, Duration::ZERO);
                return Some(Entered::Running(seat));
            }
            Ok(waiting) => return Some(waiting),
            Err(Rejection::QueueFull) => Outcome::QueueFull,
            Err(Rejection::NoSeat) => Outcome::NoSeat,
        };
        metrics.decided(outcome, Duration::ZERO);
        None
    }
}

/// The namespace of a request for matching: a request about a Namespace object is also in that namespace.
pub fn namespace_of(location: &ResourceLocation) -> &str {
    match location.group.is_empty() && location.resource == "namespaces" {
        true => &location.name,
        false => &location.namespace,
    }
}

/// The verb of a request outside the resource API: its method in lower case.
pub fn path_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}
