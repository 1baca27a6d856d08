//! `kstore-server undo` of many writes and by users with rights in one namespace, and `diff` of the states between writes.

use crate::SERVER;
use crate::history::{command, editor, map, revision, start, succeed, text, value, write};
use kstore_nondet::Nondet;
use kstore_tests::wait::until;
use serde_json::{Value, json};
use std::process::Command;

/// More objects than one transaction takes were refused.
#[tokio::test(flavor = "multi_thread")]
async fn many_objects_are_taken_back_in_several_transactions() {
    const MANY: usize = 140;
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let mut since = String::new();
    for number in 0..MANY {
        since = write(&https, "POST", "", map(&format!("c-{number}"), json!({"k": "one"}))).await.to_string();
    }
    for number in 0..MANY {
        let name = format!("c-{number}");
        write(&https, "PUT", &format!("/{name}"), map(&name, json!({"k": "two"}))).await;
    }
    let values = async || {
        let list = succeed(&https, "GET", "/api/v1/namespaces/default/configmaps", json!({})).await;
        let values = list["items"].as_array().unwrap().iter().map(|item| item["data"]["k"].clone());
        (values.collect::<Vec<Value>>(), revision(&list))
    };
    let plan = text(&command(&server, &["undo", "--since", &since]));
    assert!(plan.contains("140 objects would be written"), "{plan}");
    let done = text(&command(&server, &["undo", "--since", &since, "--yes"]));
    let last = done.lines().last().unwrap_or_default();
    assert!(last.starts_with("140 objects written at #") && last.matches('#').count() == 2, "{done}");
    let (found, since) = values().await;
    assert_eq!(found, vec![json!("one"); MANY]);

    // The server refuses what the second transaction would create.
    succeed(&https, "DELETE", "/api/v1/namespaces/default/configmaps", json!({})).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"count/configmaps": "130"});
    let mut quota =
        succeed(&https, "POST", quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    quota["status"] = json!({"hard": hard, "used": {"count/configmaps": "0"}});
    succeed(&https, "PUT", &format!("{quotas}/q/status"), quota).await;
    let arguments = ["undo", "--since", &since, "--kind", "configmaps", "--yes"];
    let refused = command(&server, &arguments);
    let (code, refused) = (refused.status.code(), text(&refused));
    assert_eq!(code, Some(3), "{refused}");
    let written: Vec<&str> =
        refused.split("kstore-server undo ").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    assert!(refused.contains("12 objects not written") && refused.contains("exceeded quota"), "{refused}");
    assert_eq!(values().await.0.len(), 128, "what was before is written");
    // The quota is written, too, so that fewer objects fit in a transaction.
    assert_eq!(written.len(), 2, "{refused}");
    for revision in written {
        let back = command(&server, &["undo", revision, "--yes"]);
        assert_eq!(back.status.code(), Some(0), "{}", text(&back));
    }
    assert!(values().await.0.is_empty());
}

/// Where few objects of many were written, only those are read. Pages of both states, which a label selector asks for, say the same.
#[tokio::test(flavor = "multi_thread")]
async fn states_are_compared_alike_by_their_writes_and_by_their_pages() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let mut from = 0;
    for number in 0..60 {
        from = write(&https, "POST", "", map(&format!("c-{number}"), json!({"k": "one"}))).await;
    }
    write(&https, "PUT", "/c-7", map("c-7", json!({"k": "two"}))).await;
    for value in ["two", "one"] {
        write(&https, "PUT", "/c-8", map("c-8", json!({"k": value}))).await;
    }
    write(&https, "DELETE", "/c-9", json!({})).await;
    write(&https, "DELETE", "/c-10", json!({})).await;
    write(&https, "POST", "", map("c-10", json!({"k": "another life"}))).await;
    write(&https, "POST", "", map("new", json!({"k": "one"}))).await;
    write(&https, "POST", "", map("gone", json!({"k": "one"}))).await;
    write(&https, "DELETE", "/gone", json!({})).await;
    let list = succeed(&https, "GET", "/api/v1/namespaces/default/configmaps", json!({})).await;
    let to: i64 = revision(&list).parse().unwrap();
    for (a, b, added) in [(from, to, 2), (to, from, 2)] {
        let (a, b) = (a.to_string(), b.to_string());
        let compare = |more: &[&str]| -> Value {
            let arguments = [&["diff", &a, &b, "--kind", "configmaps", "-o", "json"], more].concat();
            serde_json::from_slice(&command(&server, &arguments).stdout).unwrap()
        };
        let (by_writes, by_pages) = (compare(&[]), compare(&["-l", "not!=there"]));
        assert_eq!(by_writes, by_pages);
        assert_eq!(
            by_writes["kinds"],
            json!([{"resource": "configmaps", "added": added, "changed": 1, "removed": 2, "statusOnly": 0}])
        );
    }
}

/// `undo REVISION` and `undo --since` were refused to a user with rights in one namespace, who may not read the notes of writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_role_edit_takes_back_single_writes_and_those_since_a_revision() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let file = editor(&server, &https, dir.path()).await;
    let run = |arguments: &[&str]| {
        text(&Command::new(SERVER).args(arguments).arg("--kubeconfig").arg(&file).output().unwrap())
    };
    let mut since = String::new();
    for name in ["a", "b", "c"] {
        since = write(&https, "POST", "", map(name, json!({"k": "one"}))).await.to_string();
    }
    // Managed fields have seconds: two writes of one program in one second are told apart only in the notes.
    let clock = Nondet::real().clock;
    let created = clock.now().as_second();
    until("the next second begins", async || (clock.now().as_second() > created).then_some(())).await;
    let other = "/api/v1/namespaces/kube-system/configmaps";
    let elsewhere = succeed(&https, "POST", other, map("other", json!({"k": "one"}))).await;
    let second = write(&https, "PUT", "/a", map("a", json!({"k": "two"}))).await.to_string();
    write(&https, "DELETE", "/b", json!({})).await;
    write(&https, "POST", "", map("new", json!({"k": "one"}))).await;
    let by_component = "/api/v1/namespaces/default/configmaps/c?fieldManager=job-controller";
    succeed(&https, "PUT", by_component, map("c", json!({"k": "two"}))).await;

    let hidden = run(&["undo", &revision(&elsewhere)]);
    assert!(hidden.contains("none to an object that you may list"), "{hidden}");
    let plan = run(&["undo", &second]);
    for part in [&*format!("undo of #{second}, "), "update configmaps default/a", "two → one", "kstore:see"]
    {
        assert!(plan.contains(part), "{part}: {plan}");
    }
    assert!(!plan.contains("kubernetes-admin"), "users are of the notes: {plan}");

    let done = run(&["undo", "--since", &since, "--yes"]);
    assert!(done.contains("3 writes to 3 objects since") && done.contains("3 objects written at"), "{done}");
    for (name, expected) in [("a", Some("one")), ("b", Some("one")), ("c", Some("two")), ("new", None)] {
        assert_eq!(value(&https, name).await.as_deref(), expected, "{name}: {done}");
    }
    let kept = succeed(&https, "GET", &format!("{other}/other"), json!({})).await;
    assert_eq!(kept["data"]["k"], "one");
}
