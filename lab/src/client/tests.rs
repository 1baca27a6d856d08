//! Clients as the listener sees them.

use super::*;
use crate::request::{Verb, Version};

fn target(verb: Verb, resource: &str) -> Arc<RequestTarget> {
    Arc::new(RequestTarget {
        verb,
        resource: resource.to_owned(),
        subresource: String::new(),
        namespace: "ns".to_owned(),
        name: "n".to_owned(),
        version: Version::Unset,
        sends_initial_events: false,
    })
}

fn arrival<'a>(user: &'a str, agent: &'a str, target: &'a Arc<RequestTarget>, is_long: bool) -> Arrival<'a> {
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
    assert!(lines(&clients)[0].starts_with("client backup: 1 request in flight (update jobs.batch/ns/n, "));
    active.answered(409);
    let frame = active.frame(Vec::new());
    drop(active);
    assert!(clients.has_in_flight(), "the answer is not taken");
    drop(frame);
    assert!(!clients.has_in_flight());
    assert!(lines(&clients).iter().any(|line| line.contains("answered with 409")), "{:?}", lines(&clients));
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
    let dispatcher = clients.arrive(&arrival("admin", "kubectl-dispatcher/v1.0", &pod, false));
    assert!(!dispatcher.is_counted());
    assert!(!kubectl.is_counted() && !election.is_counted() && !clients.has_in_flight());
    assert_eq!(lines(&clients), Vec::<String>::new());
}

#[test]
fn a_watch_is_unread_while_its_connection_has_not_taken_an_event() {
    let clients = Arc::new(Clients::default());
    let pods = target(Verb::Watch, "pods");
    let watch = Arc::new(clients.arrive(&arrival("u", "op", &pods, true)));
    let frames = [watch.frame(Vec::new()), watch.frame(Vec::new())];
    assert!(lines(&clients).contains(&"client op: does not read its watch of pods (2 events)".to_owned()));
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

#[test]
fn a_turn_waits_for_requests_that_do_not_wait_themselves_and_for_connections_of_dead_processes() {
    let clients = Arc::new(Clients::default());
    let program =
        |incarnation: u32| ProgramClient { user: "u".to_owned(), process: 7, incarnation, is_counted: true };
    clients.define_program("op", &program(0)).unwrap();
    let alive = BTreeMap::from([(7, ProcessSample::default())]);
    let looks = || Looks { now: alive.clone(), before: Some(&alive), sockets: BTreeMap::new() };
    let busy = || {
        let lines = clients.busy_in_order(&looks(), false).iter().map(Busy::line).collect::<Vec<_>>();
        lines.into_iter().filter(|line| !line.contains("began to watch")).collect::<Vec<_>>()
    };
    let (job, pods) = (target(Verb::Update, "jobs.batch"), target(Verb::Watch, "pods"));
    let request = clients.arrive(&arrival("u", "op/v1", &job, false));
    let waits = request.wait();
    assert_eq!((busy(), clients.is_moving(false)), (Vec::new(), false), "it waits for its turn");
    drop(waits);
    assert!(busy()[0].starts_with("client op: 1 request in flight") && clients.is_moving(false));
    assert!(!clients.is_moving(true), "it may wait for a webhook");
    drop(request);
    let watch = clients.arrive(&arrival("u", "op/v1", &pods, true));
    assert!(
        clients.is_moving(false) && !clients.has_in_flight(),
        "its beginning is waited for in turns only"
    );
    watch.answered(200);
    assert_eq!((busy(), clients.is_moving(false)), (Vec::new(), false));
    clients.define_program("op", &program(1)).unwrap();
    assert_eq!(busy(), ["client op: connections of its last process are being closed"]);
    drop(watch);
    assert_eq!(busy(), Vec::<String>::new());
}
