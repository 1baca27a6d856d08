//! The request log.

use super::*;

/// A request of a client for a pod.
pub(crate) fn sent(client: &str, verb: Verb, name: &str, code: u16) -> LogRecord {
    let target = RequestTarget {
        verb,
        resource: "pods".to_owned(),
        subresource: String::new(),
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        version: Version::Unset,
        sends_initial_events: false,
    };
    let (client, user, agent) = (client.to_owned(), "u".to_owned(), "op".to_owned());
    LogRecord {
        n: 0,
        time: Timestamp::UNIX_EPOCH,
        real: Timestamp::UNIX_EPOCH,
        sender: Arc::new(RequestSender { client, user, agent }),
        incarnation: 0,
        target: Some(Arc::new(target)),
        path: Box::default(),
        code,
        revision: 1,
        took: 0,
        peer: None,
        object_version: None,
        watch: None,
        write: None,
        perturbed: None,
    }
}

fn request(name: &str, code: u16) -> LogRecord {
    sent("op", Verb::Get, name, code)
}

/// A write of a pod.
fn written<'a>(revision: i64, name: &'a str, verb: &'a str) -> WrittenBy<'a> {
    WrittenBy { revision, resource: "pods", namespace: "ns", name, verb, user: "u", agent: "op" }
}

#[test]
fn the_writer_of_an_object_is_known_while_its_request_is_under_way() {
    let log = RequestLog::new(1 << 20);
    let write = |client: &str, code: u16| log.append(sent(client, Verb::Update, "a", code));
    let by =
        |revision, user| log.writer_of(&WrittenBy { user, agent: "op", ..written(revision, "a", "update") });
    write("refused", 409);
    assert_eq!(by(5, "u"), None, "it wrote nothing");
    let first = write("first", 0);
    assert_eq!(by(5, "u").as_deref(), Some("first"));
    assert_eq!(by(5, "other"), None);
    log.change(first, |entry| (entry.code, entry.revision, entry.object_version) = (200, 6, Some(5)));
    write("second", 0);
    assert_eq!(by(5, "u").as_deref(), Some("first"), "the answer tells");
    assert_eq!(by(7, "u").as_deref(), Some("second"));
    let reset = write("third", 0);
    log.change(reset, |entry| "unavailable".clone_into(&mut entry.perturbed().fault));
    assert_eq!(by(7, "u").as_deref(), Some("second"), "a request that was reset was not performed");
}

fn names(log: &RequestLog, filter: &LogFilter, since: Option<u64>) -> Vec<String> {
    log.read(filter, since, 10).unwrap().0.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn requests_are_found_by_filters_and_position() {
    let log = RequestLog::new(100_000);
    for (name, code) in [("a", 200), ("b", 404), ("ab", 200)] {
        log.append(request(name, code));
    }
    assert_eq!(names(&log, &LogFilter::default(), Some(1)), ["b", "ab"]);
    let named = LogFilter { name: Some("a*".to_owned()), ..LogFilter::default() };
    assert_eq!(names(&log, &named, None), ["a", "ab"]);
    let failed = LogFilter { code: Some(404), verb: Some("get".to_owned()), ..LogFilter::default() };
    assert_eq!(names(&log, &failed, None), ["b"]);
    log.change(2, |entry| entry.code = 500);
    assert_eq!(names(&log, &failed, None), Vec::<String>::new());
    assert_eq!(log.read(&named, None, 1).unwrap().1, 1, "where a full answer goes on");
    log.clear();
    assert_eq!(log.append(request("c", 200)), 4);
}

#[test]
fn followers_get_each_request_once_in_order_when_it_is_answered() {
    let log = RequestLog::new(4 * request("0", 200).size());
    let (all, begin) = (LogFilter::default(), Timestamp::UNIX_EPOCH);
    let follow = |since: u64, now: Timestamp| {
        let followed = log.follow(&all, since, now).unwrap();
        followed.map(|read| {
            let names: Vec<_> = read.entries.iter().map(|entry| entry.name.clone()).collect();
            (names.join(" "), read.next, read.is_held_back)
        })
    };
    assert_eq!(follow(log.begin(), begin), Some((String::new(), 0, false)));
    for (name, code) in [("a", 200), ("b", 0), ("c", 200)] {
        log.append(request(name, code));
    }
    assert_eq!(follow(0, begin), Some(("a".to_owned(), 1, true)), "b has no answer yet");
    log.change(2, |entry| entry.code = 404);
    assert_eq!(follow(1, begin), Some(("b c".to_owned(), 3, false)));
    log.append(request("d", 0));
    log.append(request("e", 200));
    let later = begin + limits::FOLLOW_PATIENCE;
    assert_eq!(follow(3, later), Some(("d e".to_owned(), 5, false)), "nothing waits for ever");
    assert_eq!(log.follow(&all, 0, later).unwrap_err(), Forgotten { oldest: 2 });
    log.append(request("f", 0));
    log.end();
    assert_eq!(follow(5, begin), Some(("f".to_owned(), 6, false)), "the rest at the end");
    assert_eq!(follow(6, begin), None);
    let some = LogFilter { name: Some("c".to_owned()), ..LogFilter::default() };
    assert_eq!(log.follow(&some, 2, begin).unwrap().unwrap().entries.len(), 1);
    assert!(log.follow(&some, 3, begin).unwrap().is_none(), "nothing else matches");
}

#[test]
fn the_request_of_a_write_is_found_by_its_revision_and_object() {
    let log = RequestLog::new(100_000);
    let write = |name: &str, revision: i64, object_version: Option<i64>| LogRecord {
        revision,
        object_version,
        ..sent("op", Verb::Update, name, 200)
    };
    log.append(write("a", 7, Some(5)));
    log.append(write("a", 7, Some(7)));
    log.append(write("b", 9, None));
    let found = |revision, name| log.write_of(&written(revision, name, "update")).map(|entry| entry.n);
    assert_eq!((found(5, "a"), found(7, "a"), found(6, "a")), (Some(1), Some(2), None));
    assert_eq!((found(8, "b"), found(10, "b")), (Some(3), None), "by the revision when it was answered");
    assert_eq!((log.last_write("op"), log.last_write("other")), (9, 0));
}

#[test]
fn a_write_is_not_that_of_a_later_request_for_its_object() {
    let log = RequestLog::new(100_000);
    // The answer to a binding has no version: its pod may have changed further.
    let mut bind = sent("scheduler", Verb::Create, "a", 201);
    Arc::make_mut(bind.target.as_mut().unwrap()).subresource = "binding".to_owned();
    bind.revision = 9;
    bind.write = Some(Box::new(LoggedWrite { since: 7, basis: Arc::default(), previous: 0 }));
    let bind = log.append(bind);
    // An update that changes nothing is answered with the version of the write before.
    let write = Some(Box::new(LoggedWrite { since: 8, basis: Arc::default(), previous: 0 }));
    log.append(LogRecord {
        revision: 8,
        object_version: Some(8),
        write,
        ..sent("idle", Verb::Update, "a", 200)
    });
    let found = |revision, verb| log.write_of(&written(revision, "a", verb)).map(|entry| entry.n);
    assert_eq!(found(8, "create"), None, "the controller that made the pod is not in the log");
    assert_eq!(found(7, "create/binding"), None, "it came later");
    assert_eq!(found(8, "create/binding"), Some(bind));
    assert_eq!((found(8, "update"), found(8, "transact")), (None, None));
    let elsewhere = WrittenBy { namespace: "other", ..written(8, "a", "create/binding") };
    assert!(log.write_of(&elsewhere).is_none(), "a pod of the same name in another namespace");
}

#[test]
fn events_of_both_groups_are_one_resource() {
    let log = RequestLog::new(100_000);
    let mut create = sent("op", Verb::Create, "", 201);
    Arc::make_mut(create.target.as_mut().unwrap()).resource = "events.events.k8s.io".to_owned();
    (create.revision, create.object_version) = (5, Some(5));
    let create = log.append(create);
    let found = log.write_of(&WrittenBy { resource: "events", ..written(5, "e", "create") });
    assert_eq!(found.map(|entry| entry.n), Some(create));
}

#[test]
fn the_oldest_requests_go_and_a_reader_learns_it() {
    let log = RequestLog::new(3 * request("0", 200).size());
    for number in 0..5 {
        log.append(request(&number.to_string(), 200));
    }
    assert_eq!(names(&log, &LogFilter::default(), None), ["2", "3", "4"]);
    assert_eq!(names(&log, &LogFilter::default(), Some(2)), ["2", "3", "4"]);
    assert_eq!(log.read(&LogFilter::default(), Some(1), 1).unwrap_err(), Forgotten { oldest: 3 });
    log.change(1, |_| panic!("it is gone"));
}

#[test]
fn readers_get_requests_with_all_that_is_known_of_them() {
    let log = RequestLog::new(100_000);
    let (perturbed, mut entry) =
        (LoggedPerturbation { fault: "slow".to_owned(), ..LoggedPerturbation::default() }, request("a", 0));
    entry.perturbed = Some(Box::new(perturbed));
    entry.peer = Some(([127, 0, 0, 1], 7).into());
    entry.watch = Some(Box::new(LoggedWatch { delivered: 2, last: Some(9), has_ended: false }));
    let path = LogRecord { target: None, path: "/version".into(), ..request("", 200) };
    log.append(entry);
    log.append(path);
    let (read, _) = log.read(&LogFilter::default(), None, 2).unwrap();
    let first = serde_json::to_value(&read[0]).unwrap();
    let expected = serde_json::json!({
        "n": 1, "time": "1970-01-01T00:00:00Z", "real": "1970-01-01T00:00:00Z", "client": "op", "user": "u", "agent": "op", "verb": "get",
        "resource": "pods", "namespace": "ns", "name": "a", "version": "unset", "code": 0, "revision": 1, "took": 0,
        "connection": "127.0.0.1:7", "delivered": 2, "last": 9, "ended": false, "fault": "slow",
    });
    assert_eq!(first, expected);
    assert_eq!((read[1].name.as_str(), read[1].verb, read[1].resource.as_str()), ("/version", None, ""));
}

#[test]
fn a_log_of_the_default_size_has_some_25_000_reads_or_9_000_writes() {
    let kept = |verb: Verb, kinds: usize| {
        let log = RequestLog::new(limits::LOG_BYTES);
        let view = |number: usize| ViewAt {
            resource: format!("deployments{number}.apps"),
            delivered: 1,
            partial: false,
        };
        let basis: Arc<[ViewAt]> = (0..kinds).map(view).collect();
        for number in 0..40_000 {
            let mut request = sent("op", verb, &format!("web-5c9f7d8b6-{number:05}"), 200);
            let write = || Box::new(LoggedWrite { since: 1, basis: basis.clone(), previous: 1 });
            request.write = verb.is_write().then(write);
            log.append(request);
        }
        let state = log.state.lock();
        assert!(state.bytes <= limits::LOG_BYTES);
        state.entries.len()
    };
    let (reads, writes) = (kept(Verb::Get, 0), kept(Verb::Update, 10));
    assert!((23_000..27_000).contains(&reads), "{reads}");
    assert!((8_000..10_000).contains(&writes), "{writes}");
}
