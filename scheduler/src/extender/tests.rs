//! Tests of how answers of extenders are read, and of the choice of the extenders to call.

use super::*;
use crate::testing::{cpu_pod, pod};
use serde_json::json;

fn named(url: &str, more: fn(&mut Extender)) -> Extender {
    let mut extender = Extender {
        url_prefix: url.to_owned(),
        filter_verb: "filter".to_owned(),
        prioritize_verb: "score".to_owned(),
        preempt_verb: String::new(),
        bind_verb: String::new(),
        weight: 1,
        enable_https: false,
        tls: None,
        timeout: Duration::from_secs(1),
        node_cache_capable: false,
        managed_resources: Vec::new(),
        is_ignorable: false,
    };
    more(&mut extender);
    extender
}

fn call(topic: Topic, takes_names: bool) -> Call {
    let mut extender = named("http://x/", |_| {});
    extender.node_cache_capable = takes_names;
    Call { extender: Arc::new(extender), topic }
}

#[test]
fn answers_are_read_as_go_reads_them() {
    let filter = |takes_names, body: &str| {
        let read = Answer::read(&call(Topic::Filter([].into()), takes_names), body.as_bytes());
        read.map(|answer| match answer {
            Answer::Filter(answer) => (answer.kept.join(" "), answer.failed.len(), answer.unresolvable.len()),
            other => panic!("{other:?}"),
        })
    };
    let both =
        r#"{"NodeNames": ["a"], "Nodes": {"items": [{"metadata": {"name": "b", "labels": {"x": "y"}}}]}}"#;
    assert_eq!(filter(true, both), Ok(("a".to_owned(), 0, 0)));
    assert_eq!(
        filter(false, both),
        Ok(("b".to_owned(), 0, 0)),
        "names are for extenders that know the nodes"
    );
    let odd = r#"{"NODENAMES": ["a"], "failednodes": {"b": null}, "FailedAndUnresolvableNodes": null, "Nodes": null, "x": [[1]]}"#;
    assert_eq!(filter(true, odd), Ok(("a".to_owned(), 1, 0)));
    assert_eq!(filter(true, "null"), Ok((String::new(), 0, 0)));
    assert_eq!(filter(true, r#"{"error": "no", "nodenames": ["a"]}"#), Err("no".to_owned()));
    for wrong in ["", "7", r#"{"nodenames": "a"}"#, r#"{"nodenames": [1]}"#] {
        let error = filter(true, wrong).unwrap_err();
        assert!(error.starts_with("cannot read the answer of extender at URL http://x/filter: "), "{error}");
    }
    let score = |body: &str| Answer::read(&call(Topic::Prioritize([].into()), true), body.as_bytes());
    let expected = Answer::Prioritize(vec![("a".to_owned(), 3), (String::new(), 0)]);
    assert_eq!(score(r#"[{"host": "a", "SCORE": 3}, {}]"#), Ok(expected));
    assert_eq!(score("null"), Ok(Answer::Prioritize(vec![])));
    assert!(score(r#"[{"Host": "a", "Score": 1.5}]"#).is_err());
    let preempt = |body: &str| Answer::read(&call(Topic::Preempt([].into()), true), body.as_bytes());
    let victims = ProposedVictims { uids: vec!["u".to_owned()], violations: 2 };
    let body =
        r#"{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}, "b": null}}"#;
    let expected = vec![("a".to_owned(), victims), ("b".to_owned(), ProposedVictims::default())];
    assert_eq!(preempt(body), Ok(Answer::Preempt(expected)));
    assert_eq!(read_bind("u", b"{}"), Ok(()));
    assert_eq!(read_bind("u", br#"{"Error": "no"}"#), Err("no".to_owned()));
}

#[test]
fn deeply_nested_answers_are_errors() {
    let deep = format!("{{\"x\": {}", "[".repeat(100_000));
    assert!(Answer::read(&call(Topic::Filter([].into()), true), deep.as_bytes()).is_err());
}

#[test]
fn ignorable_extenders_come_last_and_others_are_asked_for_their_resources() {
    let extenders = Extenders::new([
        named("http://ignorable", |one| one.is_ignorable = true),
        named("http://fpga", |one| {
            let name = "example.com/fpga".to_owned();
            one.managed_resources = vec![ManagedResource { name, is_ignored_by_scheduler: false }];
        }),
        named("http://silent", |one| one.filter_verb.clear()),
    ]);
    assert!(extenders.compare_nodes() && !Extenders::default().compare_nodes());
    let urls = |pod: &PodInfo| {
        let mut place = 0;
        let next = || {
            let (found, one) = extenders.filter(pod, place)?;
            place = found + 1;
            Some(one.name().to_owned())
        };
        std::iter::from_fn(next).collect::<Vec<_>>()
    };
    assert_eq!(urls(&cpu_pod("p", "1")), ["http://ignorable"]);
    let requests = json!({ "example.com/fpga": "1" });
    let asking = pod("q", json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] }));
    assert_eq!(urls(&asking), ["http://fpga", "http://ignorable"]);
    assert_eq!(named("http://x//", |_| {}).url("v"), "http://x/v");
}
