//! The clients of a cluster, as its listener sees them: who they are, what they have in flight, what was delivered to them, and whether
//! they are quiet. `identity`, `quiet` and `view` are pure; `process` asks the system.

pub mod identity;
pub mod process;
pub mod quiet;
pub mod view;

mod active;
mod report;

use crate::basis::ViewAt;
use crate::limits;
use crate::request::RequestTarget;
pub use active::{ActiveRequest, FrameGuard, Unidentified};
use identity::{ClientDefinition, short_agent};
use jiff::{SignedDuration, Timestamp};
use kstore_api::status::Status;
use kstore_nondet::Clock;
use parking_lot::Mutex;
use process::{ProcessSample, SocketQueues};
use quiet::{Busy, QuietFacts};
pub use report::ClientReport;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use view::ClientView;

/// The client to which requests belong once [`limits::CLIENTS`] are told apart. It counts.
pub const OTHER: &str = "other";

/// Most users and agents that are shown of one client.
const NAMES: usize = 16;

/// Agents of people's tools, which act and do not react: the clock does not wait for them.
const UNCOUNTED: [&str; 1] = ["kubectl"];

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
    pub target: Option<&'a RequestTarget>,
    /// Method and path, for requests without a target.
    pub path: &'a str,
    /// Whether the request lasts until its client ends it.
    pub is_long: bool,
    /// The program that the server started and whose process sends the request.
    pub program: Option<&'a str>,
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
}

#[derive(Debug, Default)]
struct ClientsState {
    clients: BTreeMap<String, ClientState>,
    /// Requests whose user is being authenticated.
    unidentified: usize,
    next_request: u64,
    /// Port of the cluster's listener, to find sockets; 0: none.
    port: u16,
}

#[derive(Debug)]
struct ClientState {
    definition: Option<ClientDefinition>,
    users: BTreeSet<String>,
    agents: BTreeSet<String>,
    in_flight: BTreeMap<u64, (String, Timestamp)>,
    watches: BTreeMap<u64, OpenWatch>,
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

#[derive(Debug)]
struct OpenWatch {
    resource: String,
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
            in_flight: BTreeMap::new(),
            watches: BTreeMap::new(),
            last_traffic: Timestamp::UNIX_EPOCH,
            retryable: None,
            requests: 0,
            writes: 0,
            view: ClientView::default(),
            incarnation: 0,
        }
    }

    fn is_counted(&self, now: Timestamp) -> bool {
        if let Some(definition) = &self.definition {
            return definition.counted.unwrap_or(true);
        }
        let is_tool = self.agents.iter().all(|agent| UNCOUNTED.contains(&&**agent));
        let is_recent = elapsed(self.last_traffic, now) < limits::RECENT;
        !is_tool && (!self.watches.is_empty() || !self.in_flight.is_empty() || is_recent)
    }

    fn process(&self) -> Option<u32> {
        self.definition.as_ref()?.process
    }

    fn facts(&self, now: Timestamp, looks: &Looks<'_>, port: u16) -> QuietFacts {
        let definition = self.definition.clone().unwrap_or_default();
        let process = self.process().map(|process| (process, looks.running_threads(process)));
        let in_flight = self.in_flight.values();
        let in_flight = in_flight.map(|(what, since)| (what.clone(), elapsed(*since, now))).collect();
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
    pub sockets: BTreeMap<(SocketAddrV4, SocketAddrV4), SocketQueues>,
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
        let sent = self.sockets.get(&(ours, peer)).is_some_and(|queues| queues.unacknowledged > 0);
        sent || self.sockets.get(&(peer, ours)).is_some_and(|queues| queues.unread > 0)
    }
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    let elapsed: SignedDuration = now.duration_since(since);
    elapsed.try_into().unwrap_or(Duration::ZERO)
}

impl Default for Clients {
    fn default() -> Self {
        Self { state: Mutex::default(), clock: Clock::real() }
    }
}

impl Clients {
    /// Sets the port of the cluster's listener.
    pub fn listen_on(&self, port: u16) {
        self.state.lock().port = port;
    }

    /// The port of the cluster's listener.
    pub fn port(&self) -> u16 {
        self.state.lock().port
    }

    /// A request came whose user is not known yet. While the guard lives, the cluster is not quiet.
    pub fn unidentified(self: &Arc<Self>) -> Unidentified {
        self.state.lock().unidentified += 1;
        Unidentified(self.clone())
    }

    /// Notes a request, and finds its client.
    pub fn arrive(self: &Arc<Self>, arrival: &Arrival<'_>) -> ActiveRequest {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let name = state.client_of(arrival);
        state.next_request += 1;
        let id = state.next_request;
        let client = state.clients.entry(name.clone()).or_insert_with(|| ClientState::new(None));
        remember(&mut client.users, arrival.user);
        remember(&mut client.agents, short_agent(arrival.agent));
        client.requests += 1;
        // Leader election is no work: it goes on for ever.
        let is_ignored = arrival.target.is_some_and(RequestTarget::is_of_lease);
        if let Some(target) = arrival.target {
            client.writes += u64::from(target.verb.is_write());
            client.view.began(&target.resource, target.verb, target.version);
        }
        if !is_ignored {
            client.last_traffic = now;
            client.retryable = None;
            if arrival.is_long {
                let resource = arrival.target.map(|target| target.resource.clone()).unwrap_or_default();
                client.watches.insert(id, OpenWatch { resource, peer: arrival.peer, untaken: 0 });
            } else {
                client.in_flight.insert(id, (what(arrival), now));
            }
        }
        let is_counted = !is_ignored && client.is_counted(now);
        let incarnation = client.incarnation;
        drop(state);
        let resource = arrival.target.map(|target| target.resource.clone()).unwrap_or_default();
        let flags = (arrival.is_long, is_counted, is_ignored);
        ActiveRequest::new(self.clone(), name, id, resource, flags).of_incarnation(incarnation)
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
            (!client.in_flight.is_empty() || says_busy) && client.is_counted(now)
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
            let reasons = client.facts(now, looks, state.port).reasons();
            busy.extend(reasons.into_iter().map(|reason| Busy::of_client(name, reason)));
        }
        busy.truncate(limits::REASONS);
        busy
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
        self.with(name, |client, _| client.incarnation = program.incarnation);
        Ok(())
    }

    /// Forgets the definition of a client, which is known by its agent again when it comes back.
    pub fn forget(&self, name: &str) {
        self.state.lock().clients.remove(name);
    }

    /// All clients, or the one with this name.
    pub fn reports(&self, only: Option<&str>) -> Vec<ClientReport> {
        let sockets = process::sockets();
        let processes = self.processes();
        let now_running = processes.iter().filter_map(|process| Some((*process, process::sample(*process)?)));
        let looks = Looks { now: now_running.collect(), before: None, sockets };
        let (now, state) = (self.clock.now(), self.state.lock());
        let wanted = state.clients.iter().filter(|(name, _)| only.is_none_or(|only| only == **name));
        wanted.map(|(name, client)| report::report(name, client, (now, &looks, state.port))).collect()
    }

    /// What a client has been shown of each kind that it reads.
    pub fn delivered(&self, name: &str) -> Vec<ViewAt> {
        let state = self.state.lock();
        let kinds = state.clients.get(name).into_iter().flat_map(|client| &client.view.kinds);
        let kinds = kinds.filter(|(_, kind)| kind.watches > 0 || kind.lists > 0 || kind.gets > 0);
        kinds
            .map(|(resource, kind)| ViewAt { resource: resource.clone(), delivered: kind.delivered })
            .collect()
    }

    /// The view of a client.
    pub fn view(&self, name: &str) -> Option<ClientView> {
        self.state.lock().clients.get(name).map(|client| client.view.clone())
    }
}

impl ClientsState {
    /// The name of the client of a request: the program whose process it is, a definition that matches, else the agent (with the user if
    /// another user has the agent), else [`OTHER`].
    fn client_of(&self, arrival: &Arrival<'_>) -> String {
        if let Some(program) = arrival.program.filter(|program| self.clients.contains_key(*program)) {
            return program.to_owned();
        }
        let matches = |client: &ClientState| {
            let matched = client.definition.as_ref().and_then(|definition| definition.matched.as_ref());
            matched.is_some_and(|matched| matched.matches(arrival.user, arrival.agent))
        };
        if let Some((name, _)) = self.clients.iter().find(|(_, client)| matches(client)) {
            return name.clone();
        }
        let agent = short_agent(arrival.agent);
        let name = if agent.is_empty() { arrival.user } else { agent };
        let is_of_user = |name: &str| {
            self.clients.get(name).is_none_or(|known| {
                known.definition.is_none() && (known.users.is_empty() || known.users.contains(arrival.user))
            })
        };
        let name = if is_of_user(name) { name.to_owned() } else { format!("{name} as {}", arrival.user) };
        match self.clients.contains_key(&name) || self.clients.len() < limits::CLIENTS {
            true => name,
            false => OTHER.to_owned(),
        }
    }
}

fn remember(names: &mut BTreeSet<String>, name: &str) {
    if !name.is_empty() && names.len() < NAMES && !names.contains(name) {
        names.insert(name.to_owned());
    }
}

/// A request in a few words: `update jobs.batch/x/status`.
fn what(arrival: &Arrival<'_>) -> String {
    let Some(target) = arrival.target else { return arrival.path.to_owned() };
    let parts = [&target.resource, &target.namespace, &target.name, &target.subresource];
    let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
    format!("{} {}", target.verb, parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Verb, Version};

    fn target(verb: Verb, resource: &str) -> RequestTarget {
        RequestTarget {
            verb,
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: "ns".to_owned(),
            name: "n".to_owned(),
            version: Version::Unset,
            sends_initial_events: false,
        }
    }

    fn arrival<'a>(user: &'a str, agent: &'a str, target: &'a RequestTarget, is_long: bool) -> Arrival<'a> {
        Arrival { user, agent, peer: None, target: Some(target), path: "", is_long, program: None }
    }

    fn lines(clients: &Clients) -> Vec<String> {
        clients.busy(&Looks::default()).iter().map(Busy::line).collect()
    }

    #[test]
    fn a_request_in_flight_makes_its_client_busy_until_its_answer_is_taken() {
        let clients = Arc::new(Clients::default());
        let job = target(Verb::Update, "jobs.batch");
        let active = Arc::new(clients.arrive(&arrival("u", "backup/v1", &job, false)));
        assert!(active.is_counted() && clients.has_in_flight());
        assert!(
            lines(&clients)[0].starts_with("client backup: 1 request in flight (update jobs.batch/ns/n, ")
        );
        active.answered(409);
        let frame = active.frame(Vec::new());
        drop(active);
        assert!(clients.has_in_flight(), "the answer is not taken");
        drop(frame);
        assert!(!clients.has_in_flight());
        assert!(
            lines(&clients).iter().any(|line| line.contains("answered with 409")),
            "{:?}",
            lines(&clients)
        );
        let again = clients.arrive(&arrival("u", "backup/v1", &job, false));
        again.answered(200);
        drop(again);
        assert!(!lines(&clients).iter().any(|line| line.contains("answered with")));
    }

    #[test]
    fn tools_of_people_and_leases_are_not_counted() {
        let clients = Arc::new(Clients::default());
        let (pod, lease) = (target(Verb::Get, "pods"), target(Verb::Update, "leases.coordination.k8s.io"));
        let kubectl = clients.arrive(&arrival("admin", "kubectl/v1.36", &pod, false));
        let election = clients.arrive(&arrival("u", "operator", &lease, false));
        assert!(!kubectl.is_counted() && !election.is_counted() && !clients.has_in_flight());
        assert_eq!(lines(&clients), Vec::<String>::new());
    }

    #[test]
    fn a_watch_is_unread_while_its_connection_has_not_taken_an_event() {
        let clients = Arc::new(Clients::default());
        let pods = target(Verb::Watch, "pods");
        let watch = Arc::new(clients.arrive(&arrival("u", "op", &pods, true)));
        let frames = [watch.frame(Vec::new()), watch.frame(Vec::new())];
        assert!(
            lines(&clients).contains(&"client op: does not read its watch of pods (2 events)".to_owned())
        );
        drop(frames);
        assert!(!lines(&clients).iter().any(|line| line.contains("does not read")));
        assert!(!clients.has_in_flight(), "a watch is not in flight");
        assert_eq!(clients.reports(Some("op"))[0].watches, 1);
        drop(watch);
        assert_eq!(clients.reports(Some("op"))[0].watches, 0);
    }

    #[test]
    fn definitions_name_clients_and_may_exempt_them() {
        let clients = Arc::new(Clients::default());
        let defined = |json: &str| serde_json::from_str::<ClientDefinition>(json).unwrap();
        clients.define("mine", defined(r#"{"match":{"agent":"go-*"},"counted":false}"#)).unwrap();
        let pod = target(Verb::Get, "pods");
        let active = clients.arrive(&arrival("u", "go-http/2", &pod, false));
        assert_eq!((active.client(), active.is_counted()), ("mine", false));
        clients.define("mine", defined(r#"{"counted":true,"busy":true,"window":"1ms"}"#)).unwrap();
        drop(active);
        assert!(lines(&clients).contains(&"client mine: says that it is busy".to_owned()));
        assert!(clients.define("mine", defined(r#"{"window":"x"}"#)).is_err());
        let other = clients.arrive(&arrival("v", "curl", &pod, false));
        let same_agent = clients.arrive(&arrival("w", "curl", &pod, false));
        assert_eq!((other.client(), same_agent.client()), ("curl", "curl as w"));
    }

    #[test]
    fn a_program_is_known_by_its_process_and_else_by_its_user() {
        let clients = Arc::new(Clients::default());
        let program = |process: u32, incarnation: u32| ProgramClient {
            user: "kstore:lab:backup".to_owned(),
            process,
            incarnation,
            is_counted: true,
        };
        clients.define_program("backup", &program(7, 0)).unwrap();
        clients.define_program("second", &program(8, 0)).unwrap();
        let pod = target(Verb::Get, "pods");
        let of = |program: Option<&str>, user: &str| {
            let arrival = Arrival { program, ..arrival(user, "go/1", &pod, false) };
            let active = clients.arrive(&arrival);
            (active.client().to_owned(), active.incarnation())
        };
        assert_eq!(of(Some("second"), "kstore:lab:backup"), ("second".to_owned(), 0));
        assert_eq!(of(None, "kstore:lab:backup"), ("backup".to_owned(), 0), "by the user");
        assert_eq!(of(None, "other").0, "go");
        clients.define_program("second", &program(9, 1)).unwrap();
        assert_eq!(of(Some("second"), "kstore:lab:backup"), ("second".to_owned(), 1));
        assert_eq!(of(Some("none"), "other").0, "go", "an unknown program is no client");
    }

    #[test]
    fn clients_beyond_the_bound_are_one() {
        let clients = Arc::new(Clients::default());
        let pod = target(Verb::Get, "pods");
        for number in 0..limits::CLIENTS {
            drop(clients.arrive(&arrival("u", &format!("agent-{number}"), &pod, false)));
        }
        assert_eq!(clients.arrive(&arrival("u", "one-more", &pod, false)).client(), OTHER);
    }
}
