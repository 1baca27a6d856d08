//! The causal trace of an object: from the deployment that a user created to the status of its pods, as one
//! tree.

use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One write of the tree: object, verb, actor, and the index of its parent.
#[derive(Debug)]
struct TraceWrite {
    kind: String,
    verb: String,
    agent: String,
    user: String,
    revision: i64,
    parent: Option<usize>,
}

/// The tree as a list in which every write follows its parent.
fn flatten(trace: &Value) -> Vec<TraceWrite> {
    let mut writes = Vec::new();
    let mut open: Vec<(&Value, Option<usize>)> =
        trace["writes"].as_array().unwrap().iter().map(|w| (w, None)).collect();
    while let Some((node, parent)) = open.pop() {
        let text = |field: &str| node[field].as_str().unwrap().to_owned();
        let object = text("object");
        let kind = object.rsplit('/').nth(2).unwrap_or_default().to_owned();
        let (verb, agent, user) = (text("verb"), text("agent"), text("user"));
        let agent = agent.split('/').next().unwrap_or_default().to_owned();
        assert!(text("time").parse::<jiff::Timestamp>().is_ok(), "{node}");
        writes.push(TraceWrite {
            kind,
            verb,
            agent,
            user,
            revision: node["revision"].as_i64().unwrap(),
            parent,
        });
        let own = writes.len() - 1;
        open.extend(node["children"].as_array().unwrap().iter().map(|child| (child, Some(own))));
    }
    writes
}

#[test]
fn a_trace_leads_from_the_deployment_to_the_status_of_its_pods() {
    simulate(Setup::seed(1), async |cluster| {
        cluster.create(manifests::deployment("web", 2)).await;
        cluster.wait_rolled_out("web").await;
        let reply = cluster
            .rest()
            .call("GET", "/kstore/v1/trace?resource=deployments&namespace=default&name=web", "")
            .await;
        assert_eq!(reply.code, 200, "{reply:?}");
        let writes = flatten(&reply.json());

        let root = &writes.iter().min_by_key(|write| write.revision).unwrap();
        assert_eq!(
            (root.kind.as_str(), root.verb.as_str(), root.agent.as_str()),
            ("deployments", "create", "kubectl")
        );
        assert_eq!((root.user.as_str(), root.parent.is_none()), ("kubernetes-admin", true));
        assert_eq!(writes.iter().filter(|write| write.parent.is_none()).count(), 1, "one root: {writes:#?}");
        for write in &writes {
            let parent = write.parent.map(|parent| &writes[parent]);
            assert!(
                parent.is_none_or(|parent| parent.revision < write.revision),
                "{write:?} before its cause"
            );
        }

        let of = |kind: &str, verb: &str, agent: &str| {
            let found =
                |write: &&TraceWrite| write.kind == kind && write.verb == verb && write.agent == agent;
            writes.iter().filter(found).collect::<Vec<_>>()
        };
        let parents = |writes: &[&TraceWrite], all: &[TraceWrite]| -> BTreeSet<String> {
            writes.iter().filter_map(|write| write.parent).map(|parent| all[parent].kind.clone()).collect()
        };
        let sets = of("replicasets", "create", "deployment-controller");
        assert_eq!((sets.len(), parents(&sets, &writes)), (1, ["deployments".to_owned()].into()));
        let pods = of("pods", "create", "replicaset-controller");
        assert_eq!((pods.len(), parents(&pods, &writes)), (2, ["replicasets".to_owned()].into()));
        // The user is the controller's service account.
        for write in sets.iter().chain(&pods) {
            assert_eq!(write.user, format!("system:serviceaccount:kube-system:{}", write.agent));
        }
        let binds = of("pods", "create/binding", "kube-scheduler");
        assert_eq!((binds.len(), parents(&binds, &writes)), (2, ["pods".to_owned()].into()));
        assert!(binds.iter().all(|bind| writes[bind.parent.unwrap()].verb == "create"), "{binds:?}");
        let kubelet = writes.iter().filter(|write| write.agent == "kubelet").collect::<Vec<_>>();
        assert!(
            kubelet.len() >= 2
                && kubelet.iter().all(|write| write.kind == "pods" && write.verb.ends_with("/status"))
        );
        assert!(parents(&kubelet, &writes).contains("pods"), "{kubelet:?}");
        let status_writes =
            writes.iter().filter(|write| write.kind == "deployments" && write.verb.ends_with("/status"));
        assert!(status_writes.count() > 0, "the deployment's status follows from its pods");
    });
}

#[test]
fn a_trace_says_what_each_update_changed() {
    simulate(Setup::seed(1), async |cluster| {
        cluster.create(manifests::deployment("web", 1)).await;
        cluster.wait_rolled_out("web").await;
        let secret = "/api/v1/namespaces/default/secrets";
        let create = |data: &str| {
            format!(
                r#"{{"apiVersion": "v1", "kind": "Secret", "metadata": {{"name": "s"}}, "stringData": {{"k": "{data}"}}}}"#
            )
        };
        assert_eq!(cluster.rest().call("POST", secret, create("old-value")).await.code, 201);
        let replaced = cluster.rest().call("PUT", &format!("{secret}/s"), create("new-value")).await;
        assert_eq!(replaced.code, 200);
        let path = |of: &str| format!("/kstore/v1/trace?namespace=default&{of}");
        let admin = async |of: &str| cluster.rest().call("GET", &path(of), "").await;
        let web = admin("resource=deployments&name=web&changes=500").await.json().to_string();
        for change in ["Ready=True", "nodeName=node-", "readyReplicas=1", "Available=True"] {
            assert!(web.contains(change), "{change} in {web}");
        }
        let secret = admin("resource=secrets&name=s&changes=5").await.json().to_string();
        assert!(secret.contains("data.k changed"), "{secret}");
        assert!(!secret.contains("bmV3LXZhbHVl") && !secret.contains("new-value"), "{secret}");
        assert!(!admin("resource=secrets&name=s").await.json().to_string().contains("changes"));
    });
}

/// Gives jane the right to ask for traces, and with `resources` that to list these in the namespace `default`.
async fn admit_jane(cluster: &Cluster, resources: &[&str]) {
    let group = "rbac.authorization.k8s.io";
    let subjects = json!([{"apiGroup": group, "kind": "User", "name": "jane"}]);
    let of = |name: &str| json!({"apiGroup": group, "kind": "ClusterRole", "name": name});
    let (path, objects) = if resources.is_empty() {
        let binding =
            json!({"metadata": {"name": "jane"}, "roleRef": of("kstore:see"), "subjects": subjects});
        (String::new(), vec![("clusterrolebindings", binding)])
    } else {
        let rules = json!([{"apiGroups": ["apps"], "resources": resources, "verbs": ["list"]}]);
        let role = json!({"metadata": {"name": "jane"}, "rules": rules});
        let reference = json!({"apiGroup": group, "kind": "Role", "name": "jane"});
        let binding = json!({"metadata": {"name": "jane"}, "roleRef": reference, "subjects": subjects});
        ("namespaces/default/".to_owned(), vec![("roles", role), ("rolebindings", binding)])
    };
    for (kind, object) in objects {
        let path = format!("/apis/{group}/v1/{path}{kind}");
        let made = cluster.rest().call("POST", &path, object.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.json());
    }
}

/// The right to ask for traces alone showed causes, writers and names of all objects.
#[test]
fn a_trace_shows_the_writes_to_objects_that_its_caller_may_list() {
    simulate(Setup::seed(1), async |cluster| {
        cluster.create(manifests::deployment("web", 2)).await;
        cluster.wait_rolled_out("web").await;
        let jane = cluster.rest_as(UserInfo::new("jane", [""; 0]));
        let path = "/kstore/v1/trace?resource=deployments&namespace=default&name=web&changes=500";
        admit_jane(cluster, &[]).await;
        let refused = jane.call("GET", path, "").await;
        assert_eq!(refused.code, 403, "{}", refused.json());
        let missing = jane.call("GET", "/kstore/v1/trace?resource=secrets&name=none", "").await;
        assert_eq!(missing.code, 403, "whether it exists is not told either");
        admit_jane(cluster, &["deployments", "replicasets"]).await;
        let (all, seen) =
            (cluster.rest().call("GET", path, "").await.json(), jane.call("GET", path, "").await);
        assert_eq!((seen.code, &all["hiddenKinds"]), (200, &Value::Null), "{}", seen.json());
        let seen = seen.json();
        let hidden: Vec<&str> =
            seen["hiddenKinds"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(hidden.contains(&"pods") && !hidden.contains(&"replicasets.apps"), "{hidden:?}");
        let shown = |trace: &Value| -> BTreeSet<(i64, String)> {
            flatten(trace).into_iter().map(|write| (write.revision, write.kind)).collect()
        };
        let may_list = |kind: &str| ["deployments", "replicasets"].contains(&kind);
        let expected: BTreeSet<_> = shown(&all).into_iter().filter(|(_, kind)| may_list(kind)).collect();
        assert_eq!(shown(&seen), expected, "also what followed from writes to pods");
        assert!(expected.len() > 4 && expected.len() < shown(&all).len(), "{expected:?}");
        let text = seen.to_string();
        assert!(text.contains("readyReplicas") && !text.contains("node-"), "{text}");
    });
}

#[test]
fn a_trace_of_a_missing_object_answers_not_found() {
    simulate(Setup::api_alone(), async |cluster| {
        let trace =
            async |query: &str| cluster.rest().call("GET", &format!("/kstore/v1/trace?{query}"), "").await;
        assert_eq!(trace("resource=deployments&name=none").await.code, 404);
        assert_eq!(trace("resource=dogs&name=none").await.code, 400);
        assert_eq!(trace("resource=deployments").await.code, 400);
    });
}
