//! The clients of a cluster, as its listener sees them: who they are, what they have in flight, what was delivered to them, and whether
//! they are quiet. `identity`, `quiet` and `view` are pure; `process` asks the system.

pub mod identity;
pub mod process;
pub mod quiet;
pub mod socket;
pub mod view;
pub mod wire;

mod active;
mod report;

use crate::basis::ViewAt;
use crate::limits;
use crate::order::SerialOrder;
use crate::request::RequestTarget;
use active::RequestFlags;
pub use active::{ActiveRequest, FrameGuard, Unidentified, WaitGuard};
use identity::{ClientDefinition, short_agent};
use jiff::{SignedDuration, Timestamp};
use kstore_api::status::Status;
use kstore_apiserver::{EdgeActivity, OpenSockets};
use kstore_nondet::Clock;
use parking_lot::Mutex;
use process::ProcessSample;
use quiet::{Busy, FirstWatches, QuietFacts};
pub use report::ClientReport;
use socket::{SocketAddresses, SocketQueues};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use view::ClientView;

/// The client to which requests belong once [`limits::CLIENTS`] are told apart. It counts.
pub const OTHER: &str = "other";

/// Most users and agents that are shown of one client.
const NAMES: usize = 16;

/// Agents of people's tools, which act and do not react: the clock does not wait for them.
const UNCOUNTED: [&str; 2] = ["kubectl", "kubectl-dispatcher"];

/// A request as the listener knows it.
#[derive(Clone, Debug)]
pub struct Arrival<'a> {
    /// Authenticated user; empty if it is unknown.
    pub user: &'a str,
    /// Whole user agent.
    pub agent: &'a str,
    /// Address of the client.
    pub peer: Option<SocketAddr>,
    /// What is asked for; `None` for paths outside the resource API.
    pub target: Option<&'a Arc<RequestTarget>>,
    /// Method and path, for requests without a target.
    pub path: &'a str,
    /// Whether the request lasts until its client ends it.
    pub is_long: bool,
    /// The program that the server started and whose process sends the request.
    pub program: Option<&'a str>,
}

/// Who sent a request. Requests of one client, user and agent share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSender {
    /// Name of the client.
    pub client: String,
    /// Authenticated user; empty if it is unknown.
    pub user: String,
    /// User agent up to the first slash.
    pub agent: String,
}

/// A program as its client.
#[derive(Clone, Debug)]
pub struct ProgramClient {
    /// User of its kubeconfig.
    pub user: String,
    /// Leader of its process group.
    pub process: u32,
    /// Number of starts before this one.
    pub incarnation: u32,
    /// Whether the clock waits for it.
    pub is_counted: bool,
}

/// The clients of one cluster. Used by the listener's threads and the cluster's.
#[derive(Debug)]
pub struct Clients {
    state: Mutex<ClientsState>,
    clock: Clock,
    /// Port of the cluster's listener, to find sockets; 0: none.
    port: AtomicU16,
    /// In which their requests, and events to them, may wait for their turns.
    order: Arc<SerialOrder>,
    /// What the listener does at the moment.
    edge: Arc<EdgeActivity>,
    /// The listener's connections.
    open: Arc<OpenSockets>,
}

#[derive(Debug, Default)]
struct ClientsState {
    clients: BTreeMap<String, ClientState>,
    /// Requests whose user is being authenticated.
    unidentified: usize,
    next_request: u64,
}

#[derive(Debug)]
struct ClientState {
    definition: Option<ClientDefinition>,
    users: BTreeSet<String>,
    agents: BTreeSet<String>,
    /// Up to [`NAMES`] senders of its requests, whose users and agents are in the sets.
    senders: Vec<Arc<RequestSender>>,
    in_flight: BTreeMap<u64, RequestInFlight>,
    watches: BTreeMap<u64, OpenWatch>,
    first_watches: FirstWatches,
    /// Real time of the last request, delivery or answer.
    last_traffic: Timestamp,
    /// Code of the last answer, if clients retry it.
    retryable: Option<u16>,
    requests: u64,
    writes: u64,
    view: ClientView,
    /// Number of times that the program was started again.
    incarnation: u32,
}

/// A request whose answer the client's connection has not taken; of one that lasts, its beginning.
#[derive(Debug)]
struct RequestInFlight {
    target: Option<Arc<RequestTarget>>,
    /// Path of a request without a target.
    path: Box<str>,
    since: Timestamp,
    /// Whether it lasts until its client ends it. It is then no request in flight but for the serial order, until it is answered.
    is_long: bool,
    /// Number of reasons for which it stands still until something else happens: its turn, or the release by a plan.
    waits: usize,
    incarnation: u32,
}

impl RequestInFlight {
    /// The request in a few words: `update jobs.batch/x/status`.
    fn what(&self) -> String {
        let Some(target) = &self.target else { return self.path.to_string() };
        let parts = [&target.resource, &target.namespace, &target.name, &target.subresource];
        let parts: Vec<&str> =
            parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
        format!("{} {}", target.verb, parts.join("/"))
    }
}

#[derive(Debug)]
struct OpenWatch {
    resource: String,
    incarnation: u32,
    peer: Option<SocketAddr>,
    /// Events that the connection has not taken.
    untaken: usize,
}

impl ClientState {
    fn new(definition: Option<ClientDefinition>) -> Self {
        Self {
            definition,
            users: BTreeSet::new(),
            agents: BTreeSet::new(),
            senders: Vec::new(),
            in_flight: BTreeMap::new(),
            watches: BTreeMap::new(),
            first_watches: FirstWatches::default(),
            last_traffic: Timestamp::UNIX_EPOCH,
            retryable: None,
            requests: 0,
            writes: 0,
            view: ClientView::default(),
            incarnation: 0,
        }
    }

    /// The sender of a request of this client, whose name is `name`.
    fn sender(&mut self, name: &str, user: &str, agent: &str) -> Arc<RequestSender> {
        let is_it = |sender: &&Arc<RequestSender>| sender.user == user && sender.agent == agent;
        if let Some(known) = self.senders.iter().find(is_it) {
            return known.clone();
        }
        remember(&mut self.users, user);
        remember(&mut self.agents, agent);
        let (client, user, agent) = (name.to_owned(), user.to_owned(), agent.to_owned());
        let sender = Arc::new(RequestSender { client, user, agent });
        if self.senders.len() < NAMES {
            self.senders.push(sender.clone());
        }
        sender
    }

    fn is_counted(&self, now: Timestamp) -> bool {
        if let Some(definition) = &self.definition {
            return definition.counted.unwrap_or(true);
        }
        let is_tool = self.agents.iter().all(|agent| UNCOUNTED.contains(&&**agent));
        let is_recent = elapsed(self.last_traffic, now) < limits::RECENT;
        !is_tool && (!self.watches.is_empty() || !self.in_flight.is_empty() || is_recent)
    }

    /// Notes a request in flight.
    fn begin(&mut self, id: u64, arrival: &Arrival<'_>, now: Timestamp) {
        self.last_traffic = now;
        self.retryable = None;
        let incarnation = self.incarnation;
        if arrival.is_long {
            let resource = arrival.target.map(|target| target.resource.clone()).unwrap_or_default();
            self.first_watches.begin(&resource, now);
            let watch = OpenWatch { resource, incarnation, peer: arrival.peer, untaken: 0 };
            self.watches.insert(id, watch);
        }
        let path = if arrival.target.is_none() { arrival.path.into() } else { Box::default() };
        let (target, is_long) = (arrival.target.cloned(), arrival.is_long);
        let request = RequestInFlight { target, path, since: now, is_long, waits: 0, incarnation };
        self.in_flight.insert(id, request);
    }

    fn process(&self) -> Option<u32> {
        self.definition.as_ref()?.process
    }

    /// Requests in flight; a watch that begins is none.
    fn short_requests(&self) -> impl Iterator<Item = &RequestInFlight> {
        self.in_flight.values().filter(|request| !request.is_long)
    }

    /// Whether the serial order waits for the progress of a request, or a connection has not taken an answer.
    fn is_moving(&self, is_calling: bool) -> bool {
        let moves = |request: &RequestInFlight| request.waits == 0 && !is_calling;
        self.in_flight.values().any(moves) || self.watches.values().any(|watch| watch.untaken > 0)
    }

    /// Whether connections are open of a process that is gone, or of the one before the newest start.
    fn has_dead_connections(&self, looks: &Looks<'_>) -> bool {
        let is_gone = self.process().is_some_and(|process| !looks.now.contains_key(&process));
        let incarnations = self.in_flight.values().map(|request| request.incarnation);
        let mut incarnations = incarnations.chain(self.watches.values().map(|watch| watch.incarnation));
        incarnations.any(|incarnation| is_gone || incarnation != self.incarnation)
    }

    fn facts(&self, now: Timestamp, looks: &Looks<'_>, port: u16) -> QuietFacts {
        let definition = self.definition.clone().unwrap_or_default();
        let process = self.process().map(|process| (process, looks.running_threads(process)));
        let in_flight = self.short_requests();
        let in_flight = in_flight.map(|request| (request.what(), elapsed(request.since, now))).collect();
        let mut unread: BTreeMap<&str, usize> = BTreeMap::new();
        for watch in self.watches.values() {
            if watch.untaken > 0 || looks.has_unread(watch.peer, port) {
                *unread.entry(&watch.resource).or_default() += watch.untaken;
            }
        }
        QuietFacts {
            in_flight,
            unread: unread.into_iter().map(|(kind, events)| (kind.to_owned(), events)).collect(),
            process,
            silent_for: elapsed(self.last_traffic, now),
            window: definition.window().ok().flatten().unwrap_or(limits::WINDOW),
            filling_for: self.first_watches.newest().map(|newest| elapsed(newest, now)),
            retryable: self.retryable,
            retry: limits::RETRY,
            says_busy: definition.busy.unwrap_or(false),
        }
    }
}

/// Looks at processes and sockets, now and before.
#[derive(Debug, Default)]
pub struct Looks<'a> {
    /// Processes now; a missing one is gone.
    pub now: BTreeMap<u32, ProcessSample>,
    /// Processes at the look before.
    pub before: Option<&'a BTreeMap<u32, ProcessSample>>,
    /// Connections now.
    pub sockets: BTreeMap<SocketAddresses, SocketQueues>,
}

impl Looks<'_> {
    /// Threads that ran since the look before: `None` without one, 0 if the process is gone.
    fn running_threads(&self, process: u32) -> Option<usize> {
        let before = self.before?;
        let Some(now) = self.now.get(&process) else { return Some(0) };
        let before = before.get(&process)?;
        let has_run = now.run_time != before.run_time || now.slices != before.slices;
        Some(if has_run { now.runnable.max(1) } else { now.runnable })
    }

    /// Whether bytes of the server are unread in a connection of this client.
    fn has_unread(&self, peer: Option<SocketAddr>, port: u16) -> bool {
        let Some(SocketAddr::V4(peer)) = peer else { return false };
        let ours = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
        let sent = self.sockets.get(&(ours, peer)).is_some_and(|queues| queues.undelivered > 0);
        sent || self.sockets.get(&(peer, ours)).is_some_and(|queues| queues.unread > 0)
    }
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    let elapsed: SignedDuration = now.duration_since(since);
    elapsed.try_into().unwrap_or(Duration::ZERO)
}

impl Default for Clients {
    fn default() -> Self {
        let (order, edge, open) = (Arc::default(), Arc::default(), Arc::default());
        Self { state: Mutex::default(), clock: Clock::real(), port: AtomicU16::new(0), order, edge, open }
    }
}

impl Clients {
    /// Sets the port of the cluster's listener.
    pub fn listen_on(&self, port: u16) {
        self.port.store(port, Ordering::Release);
    }

    /// The port of the cluster's listener.
    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Acquire)
    }

    /// The serial order.
    pub fn order(&self) -> &Arc<SerialOrder> {
        &self.order
    }

    /// What the listener does at the moment.
    pub fn edge(&self) -> &Arc<EdgeActivity> {
        &self.edge
    }

    /// The listener's connections.
    pub fn open(&self) -> &Arc<OpenSockets> {
        &self.open
    }

    /// What the kernel holds for the listener and for both ends of its connections.
    pub fn queues(&self) -> BTreeMap<SocketAddresses, SocketQueues> {
        socket::queues(self.port(), &self.open)
    }

    /// Whether the listener has not accepted all connections, or not read all that clients sent.
    pub fn has_unread(&self) -> bool {
        socket::has_unread(&self.queues(), self.port())
    }

    /// A request came whose user is not known yet. While the guard lives, the cluster is not quiet.
    pub fn unidentified(self: &Arc<Self>) -> Unidentified {
        self.state.lock().unidentified += 1;
        Unidentified(self.clone())
    }

    /// Notes a request, and finds its client.
    pub fn arrive(self: &Arc<Self>, arrival: &Arrival<'_>) -> ActiveRequest {
        let now = self.clock.now();
        // Leader election is no work: it goes on for ever.
        let is_ignored = arrival.target.is_some_and(|target| target.is_of_lease());
        let mut state = self.state.lock();
        let state = &mut *state;
        let name = state.client_of(arrival);
        state.next_request += 1;
        let id = state.next_request;
        if !state.clients.contains_key(&*name) {
            state.clients.insert(name.to_string(), ClientState::new(None));
        }
        let client = state.clients.get_mut(&*name).expect("it was added");
        let sender = client.sender(&name, arrival.user, short_agent(arrival.agent));
        client.requests += 1;
        if let Some(target) = arrival.target {
            client.writes += u64::from(target.verb.is_write());
            client.view.began(&target.resource, target.verb, target.version);
        }
        if !is_ignored {
            client.begin(id, arrival, now);
        }
        let flags = RequestFlags {
            is_long: arrival.is_long,
            is_counted: !is_ignored && client.is_counted(now),
            is_ignored,
        };
        let active = ActiveRequest::new(self.clone(), sender, id, arrival.target.cloned(), flags);
        active.of_incarnation(client.incarnation).at(now)
    }

    /// Runs `change` on a client, if it still exists.
    fn with(&self, client: &str, change: impl FnOnce(&mut ClientState, Timestamp)) {
        let now = self.clock.now();
        if let Some(client) = self.state.lock().clients.get_mut(client) {
            change(client, now);
        }
    }

    /// Notes traffic of a client that is not a request of the API, such as the end of a wait for a time.
    pub fn touch(&self, client: &str) {
        self.with(client, |client, now| client.last_traffic = now);
    }

    /// Whether a counted client has a request in flight, or one is being authenticated.
    pub fn has_in_flight(&self) -> bool {
        let (now, state) = (self.clock.now(), self.state.lock());
        let of_client = |client: &ClientState| {
            let says_busy = client.definition.as_ref().is_some_and(|defined| defined.busy == Some(true));
            (client.short_requests().next().is_some() || says_busy) && client.is_counted(now)
        };
        state.unidentified > 0 || state.clients.values().any(of_client)
    }

    /// Processes of counted clients.
    pub fn processes(&self) -> Vec<u32> {
        let (now, state) = (self.clock.now(), self.state.lock());
        let counted = state.clients.values().filter(|client| client.is_counted(now));
        counted.filter_map(ClientState::process).collect()
    }

    /// Why counted clients are not quiet; empty if all are.
    pub fn busy(&self, looks: &Looks<'_>) -> Vec<Busy> {
        let (now, state) = (self.clock.now(), self.state.lock());
        let mut busy = Vec::new();
        if state.unidentified > 0 {
            let what = format!("{} requests are being authenticated", state.unidentified);
            busy.push(Busy { part: "listener".to_owned(), what, client: String::new() });
        }
        for (name, client) in state.clients.iter().filter(|(_, client)| client.is_counted(now)) {
            let reasons = client.facts(now, looks, self.port()).reasons();
            busy.extend(reasons.into_iter().map(|reason| Busy::of_client(name, reason)));
        }
        busy.truncate(limits::REASONS);
        busy
    }

    /// Why counted clients are not quiet but for what waits for its turn or is held by a plan; empty if all are. While the cluster calls
    /// other servers, requests in flight may wait for these.
    pub fn busy_in_order(&self, looks: &Looks<'_>, is_calling: bool) -> Vec<Busy> {
        let (now, state) = (self.clock.now(), self.state.lock());
        let mut busy = Vec::new();
        if state.unidentified > 0 {
            let what = format!("{} requests are being authenticated", state.unidentified);
            busy.push(Busy { part: "listener".to_owned(), what, client: String::new() });
        }
        for (name, client) in state.clients.iter().filter(|(_, client)| client.is_counted(now)) {
            let moving = client.in_flight.values().filter(|request| request.waits == 0 && !is_calling);
            let in_flight = moving.map(|request| (request.what(), elapsed(request.since, now))).collect();
            let facts = QuietFacts { in_flight, ..client.facts(now, looks, self.port()) };
            busy.extend(facts.reasons().into_iter().map(|reason| Busy::of_client(name, reason)));
            if client.has_dead_connections(looks) {
                busy.push(Busy::of_client(name, "connections of its last process are being closed"));
            }
        }
        busy.truncate(limits::REASONS);
        busy
    }

    /// Whether a counted client has a request that does not wait, or an answer that its connection has not taken. While the cluster calls
    /// other servers, requests may wait for these.
    pub fn is_moving(&self, is_calling: bool) -> bool {
        let (now, state) = (self.clock.now(), self.state.lock());
        let mut counted = state.clients.values().filter(|client| client.is_counted(now));
        state.unidentified > 0 || counted.any(|client| client.is_moving(is_calling))
    }

    /// Names of the clients for which the clock waits.
    pub fn counted(&self) -> Vec<String> {
        let (now, state) = (self.clock.now(), self.state.lock());
        let counted = state.clients.iter().filter(|(_, client)| client.is_counted(now));
        counted.map(|(name, _)| name.clone()).collect()
    }

    /// Names a client, or changes its definition.
    ///
    /// # Errors
    /// The definition is wrong, or there are too many clients.
    pub fn define(&self, name: &str, newer: ClientDefinition) -> Result<(), Status> {
        newer.window()?;
        let mut state = self.state.lock();
        if !state.clients.contains_key(name) && state.clients.len() >= limits::CLIENTS {
            return Err(crate::error::too_many(
                "clients",
                limits::CLIENTS,
                "too many clients are told apart",
            ));
        }
        let client = state.clients.entry(name.to_owned()).or_insert_with(|| ClientState::new(None));
        let mut definition = client.definition.take().unwrap_or_default().updated(newer);
        definition.matched.get_or_insert_with(|| identity::ClientMatch {
            agent: name.to_owned(),
            ..identity::ClientMatch::default()
        });
        client.definition = Some(definition);
        Ok(())
    }

    /// Notes the process of a program that was started, and how often it was started before. Requests of its process belong to it, and
    /// others of its user.
    ///
    /// # Errors
    /// 429: too many clients are told apart.
    pub fn define_program(&self, name: &str, program: &ProgramClient) -> Result<(), Status> {
        let matched = identity::ClientMatch { user: program.user.clone(), agent: String::new() };
        let definition = ClientDefinition {
            matched: Some(matched),
            process: Some(program.process),
            counted: Some(program.is_counted),
            ..ClientDefinition::default()
        };
        self.define(name, definition)?;
        self.with(name, |client, _| {
            if client.incarnation != program.incarnation {
                client.incarnation = program.incarnation;
                client.first_watches = FirstWatches::default();
                client.view.restarted();
            }
        });
        Ok(())
    }

    /// Forgets the definition of a client, which is known by its agent again when it comes back.
    pub fn forget(&self, name: &str) {
        self.state.lock().clients.remove(name);
    }

    /// All clients, or the one with this name.
    pub fn reports(&self, only: Option<&str>) -> Vec<ClientReport> {
        let sockets = self.queues();
        let processes = self.processes();
        let now_running = processes.iter().filter_map(|process| Some((*process, process::sample(*process)?)));
        let looks = Looks { now: now_running.collect(), before: None, sockets };
        let (now, state) = (self.clock.now(), self.state.lock());
        let wanted = state.clients.iter().filter(|(name, _)| only.is_none_or(|only| only == **name));
        wanted.map(|(name, client)| report::report(name, client, (now, &looks, self.port()))).collect()
    }

    /// What a client has been shown of each kind that it reads.
    pub fn delivered(&self, name: &str) -> Vec<ViewAt> {
        self.state.lock().clients.get(name).map_or_else(Vec::new, |client| client.view.basis())
    }

    /// The view of a client.
    pub fn view(&self, name: &str) -> Option<ClientView> {
        self.state.lock().clients.get(name).map(|client| client.view.clone())
    }
}

impl ClientsState {
    /// The name of the client of a request: the program whose process it is, a definition that matches, else the agent (with the user if
    /// another user has the agent), else [`OTHER`].
    fn client_of<'a>(&self, arrival: &Arrival<'a>) -> Cow<'a, str> {
        if let Some(program) = arrival.program.filter(|program| self.clients.contains_key(*program)) {
            return program.into();
        }
        let matches = |client: &ClientState| {
            let matched = client.definition.as_ref().and_then(|definition| definition.matched.as_ref());
            matched.is_some_and(|matched| matched.matches(arrival.user, arrival.agent))
        };
        if let Some((name, _)) = self.clients.iter().find(|(_, client)| matches(client)) {
            return name.clone().into();
        }
        let agent = short_agent(arrival.agent);
        let name = if agent.is_empty() { arrival.user } else { agent };
        // Of the client with this name, whether the request is of its user; `None` if there is no such client.
        let is_of_user = self.clients.get(name).map(|known| {
            known.definition.is_none() && (known.users.is_empty() || known.users.contains(arrival.user))
        });
        let name = match is_of_user {
            Some(true) => return name.into(),
            Some(false) => Cow::from(format!("{name} as {}", arrival.user)),
            None => name.into(),
        };
        match self.clients.contains_key(&*name) || self.clients.len() < limits::CLIENTS {
            true => name,
            false => OTHER.into(),
        }
    }
}

/// Adds a name to those that are shown, unless there are [`NAMES`].
fn remember(names: &mut BTreeSet<String>, name: &str) {
    if !name.is_empty() && names.len() < NAMES && !names.contains(name) {
        names.insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests;
