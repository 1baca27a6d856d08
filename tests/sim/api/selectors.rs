//! Selectors of lists and watches: their meaning, the selectable fields of each kind, and refused selectors.

use super::{CONFIG_MAPS, PODS, config_map, names, query};
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn fill(cluster: &Cluster) {
    for (name, labels) in [
        ("a", json!({"app": "web", "tier": "front", "n": "5"})),
        ("b", json!({"app": "web", "n": "10"})),
        ("c", json!({"app": "db", "tier": ""})),
        ("d", json!({})),
    ] {
        let made = cluster.rest().call("POST", CONFIG_MAPS, config_map(name, &labels)).await;
        assert_eq!(made.code, 201);
    }
}

#[test]
fn label_selectors_work_in_lists_and_watches() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster).await;
        for (selector, wanted) in [
            ("", "abcd"),
            ("app", "abc"),
            ("!app", "d"),
            ("app=web", "ab"),
            ("app==web", "ab"),
            ("app!=web", "cd"),
            ("app in (web, db)", "abc"),
            ("app notin (web)", "cd"),
            ("app=web,tier", "a"),
            ("app=web,!tier", "b"),
            ("tier=", "c"),
            ("tier in ()", "c"),
            ("n>5", "b"),
            ("n<10", "a"),
            (" app = web , n > 1 ", "ab"),
            ("none=x", ""),
        ] {
            let text = format!("labelSelector={}", escaped(selector));
            let list = query(cluster, CONFIG_MAPS, &text).await;
            assert_eq!((list.code, names(&list.json()).concat()), (200, wanted.to_owned()), "{selector:?}");
            let seen = query(cluster, CONFIG_MAPS, &format!("watch=1&timeoutSeconds=1&{text}")).await;
            let seen: Vec<Value> = seen
                .body
                .split(|byte| *byte == b'\n')
                .filter_map(|line| serde_json::from_slice(line).ok())
                .collect();
            let seen: String =
                seen.iter().map(|event| event["object"]["metadata"]["name"].as_str().unwrap()).collect();
            assert_eq!(seen, wanted, "{selector:?} watched");
        }
    });
}

#[test]
fn field_selectors_work() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster).await;
        for (selector, wanted) in [
            ("metadata.name=a", "a"),
            ("metadata.name==a", "a"),
            ("metadata.name!=a", "bcd"),
            ("metadata.name!=a,metadata.name!=b", "cd"),
            ("metadata.namespace=default", "abcd"),
            ("metadata.namespace=other", ""),
            ("metadata.name=a,metadata.namespace=default", "a"),
            ("metadata.name=a\\,b", ""),
        ] {
            let list = query(cluster, CONFIG_MAPS, &format!("fieldSelector={}", escaped(selector))).await;
            assert_eq!((list.code, names(&list.json()).concat()), (200, wanted.to_owned()), "{selector:?}");
        }
    });
}

#[test]
fn every_kind_supports_exactly_its_selectable_fields() {
    simulate(Setup::api_alone(), async |cluster| {
        let event = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
        let joined = |prefix: &str, fields: &[&str]| {
            fields.iter().map(|field| format!("{prefix}.{field}")).collect::<Vec<_>>()
        };
        let list = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>();
        let mut core_event = joined("involvedObject", &event);
        core_event.extend(list(&["reason", "reportingComponent", "source", "type"]));
        let mut new_event = joined("regarding", &event);
        new_event.extend(list(&["reason", "reportingController", "type"]));
        for (path, fields) in [
            (
                "/api/v1/pods",
                list(&[
                    "spec.nodeName",
                    "spec.host",
                    "spec.restartPolicy",
                    "spec.schedulerName",
                    "spec.serviceAccountName",
                    "spec.hostNetwork",
                    "status.phase",
                    "status.podIP",
                    "status.podIPs",
                    "status.nominatedNodeName",
                ]),
            ),
            ("/api/v1/nodes", list(&["spec.unschedulable"])),
            ("/api/v1/namespaces", list(&["status.phase"])),
            ("/api/v1/secrets", list(&["type"])),
            ("/api/v1/services", list(&["spec.clusterIP", "spec.type"])),
            ("/api/v1/replicationcontrollers", list(&["status.replicas"])),
            ("/apis/batch/v1/jobs", list(&["status.successful"])),
            ("/api/v1/events", core_event),
            ("/apis/events.k8s.io/v1/events", new_event),
            ("/apis/certificates.k8s.io/v1/certificatesigningrequests", list(&["spec.signerName"])),
            ("/apis/resource.k8s.io/v1/resourceslices", list(&["spec.nodeName", "spec.driver"])),
            ("/apis/apps/v1/deployments", vec![]),
        ] {
            for field in fields.iter().chain(&[String::from("metadata.name")]) {
                let reply = query(cluster, path, &format!("fieldSelector={field}%3Dx")).await;
                assert_eq!(reply.code, 200, "{path} {field}: {}", reply.text("/message"));
            }
            let reply = query(cluster, path, "fieldSelector=spec.foo%3Dx").await;
            assert_eq!((reply.code, reply.text("/reason")), (400, "BadRequest".into()), "{path}");
            let message = reply.text("/message");
            let known =
                "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
            assert!(
                message == known || (message.contains("spec.foo") && message.contains("not supported")),
                "{path}: {message}"
            );
        }
    });
}

#[test]
fn invalid_selectors_are_refused_with_the_offending_token() {
    simulate(Setup::api_alone(), async |cluster| {
        for (parameter, selector, message) in [
            ("labelSelector", "a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("labelSelector", "=b", "found '=', expected: !, identifier, or 'end of string'"),
            ("labelSelector", "a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("labelSelector", "a in (b", "unable to parse requirement: "),
            ("labelSelector", "a>x", "unable to parse requirement: "),
            ("labelSelector", "-=b", "unable to parse requirement: "),
            ("labelSelector", "a,", "found '', expected: identifier after ','"),
            (
                "fieldSelector",
                "metadata.name",
                "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
            ("fieldSelector", "metadata.name=a\\b", "invalid field selector: invalid escape sequence: \\b"),
        ] {
            for watch in ["", "&watch=1&timeoutSeconds=1"] {
                let reply =
                    query(cluster, CONFIG_MAPS, &format!("{parameter}={}{watch}", escaped(selector))).await;
                let said = reply.text("/message");
                assert_eq!(
                    (reply.code, said.contains(message)),
                    (400, true),
                    "{selector:?}: {} {said}",
                    reply.code
                );
            }
        }
    });
}

/// As `kubectl describe` requests events of a cluster-wide object.
#[test]
fn events_are_selected_by_fields_of_their_object_including_an_empty_namespace() {
    simulate(Setup::api_alone(), async |cluster| {
        let event = |name: &str, object: Value| json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": "r", "message": "m", "type": "Normal", "involvedObject": object});
        cluster.create(event("of-node", json!({"kind": "Node", "name": "n", "uid": "n"}))).await;
        cluster
            .create(event("of-pod", json!({"kind": "Pod", "name": "n", "uid": "u", "namespace": "default"})))
            .await;
        let of = async |text: &str| {
            names(
                &query(cluster, "/api/v1/events", &format!("fieldSelector={}&limit=500", escaped(text)))
                    .await
                    .json(),
            )
        };
        let node =
            "involvedObject.name=n,involvedObject.namespace=,involvedObject.kind=Node,involvedObject.uid=n";
        let pod = "involvedObject.name=n,involvedObject.namespace=default,involvedObject.kind=Pod,involvedObject.uid=u";
        assert_eq!((of(node).await, of(pod).await), (vec!["of-node".to_owned()], vec!["of-pod".to_owned()]));
    });
}

/// As `kubectl describe node` and `kubectl drain` request pods.
#[test]
fn active_pods_of_a_node_are_selected_by_node_and_phase() {
    simulate(Setup::api_alone(), async |cluster| {
        for (name, node, phase) in [
            ("a", "n", "Running"),
            ("b", "n", "Succeeded"),
            ("c", "n", "Failed"),
            ("d", "m", "Running"),
            ("e", "n", "Pending"),
        ] {
            cluster.create(kstore_tests::manifests::pod(name, json!({"nodeName": node}))).await;
            let status = json!({"status": {"phase": phase}});
            assert_eq!(
                super::send(cluster, "PATCH", &format!("{PODS}/{name}/status"), &status).await.code,
                200
            );
        }
        let of = async |text: &str| {
            names(&query(cluster, "/api/v1/pods", &format!("fieldSelector={}", escaped(text))).await.json())
                .concat()
        };
        assert_eq!(of("spec.nodeName=n,status.phase!=Failed,status.phase!=Succeeded").await, "ae");
        assert_eq!(of("spec.nodeName=n").await, "abce");
        assert_eq!(of("status.phase=Running").await, "ad");
    });
}
