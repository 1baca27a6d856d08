//! Built-in flow schemas and priority levels: two mandatory objects of each, and the suggested ones. The
//! apiserver enforces them.

use crate::meta;
use crate::object::{list, semantically_equal, text};
use crate::version::Minor;
use serde_json::{Value, json};

/// Annotation: the server keeps the content up to date unless a user sets it to false.
pub const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// API group of flow schemas and priority levels.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Group and version of flow schemas and priority levels.
pub const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

/// All built-in objects of the newest version before defaulting; priority levels precede the schemas that name them.
pub fn objects() -> Vec<Value> {
    objects_of(Minor::DEFAULT)
}

/// All built-in objects of a version of Kubernetes before defaulting; priority levels precede the schemas that name them.
pub fn objects_of(minor: Minor) -> Vec<Value> {
    let mut objects = vec![exempt_level(), catch_all_level()];
    objects.extend(SUGGESTED_LEVELS.iter().map(limited_level));
    objects.extend([exempt_schema(), catch_all_schema()]);
    objects.extend(suggested_schemas());
    if minor <= LAST_WITH_FORMER_ELECTIONS {
        objects.extend(former_elections());
    }
    objects
}

/// The mandatory object of this kind and name, if there is one; its `spec` is fixed.
pub fn mandatory(name: &str, kind: &str) -> Option<Value> {
    match (kind, name) {
        ("PriorityLevelConfiguration", "exempt") => Some(exempt_level()),
        ("PriorityLevelConfiguration", "catch-all") => Some(catch_all_level()),
        ("FlowSchema", "exempt") => Some(exempt_schema()),
        ("FlowSchema", "catch-all") => Some(catch_all_schema()),
        _ => None,
    }
}

/// Name of a FlowSchema's priority level.
pub fn level_of(schema: &Value) -> &str {
    text(&schema["spec"]["priorityLevelConfiguration"]["name"])
}

/// The condition `Dangling` that a FlowSchema should have; `None` if it already has it. `level_exists`:
/// whether its level exists. `now` is the time of the change.
pub fn dangling(schema: &Value, level_exists: bool, now: &str) -> Option<Value> {
    let level = level_of(schema);
    let (status, reason, state) = match level_exists {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {state}");
    let condition =
        list(&schema["status"]["conditions"]).iter().find(|condition| condition["type"] == "Dangling");
    let is_right = condition.is_some_and(|condition| {
        condition["status"] == status
            && condition["reason"] == reason
            && condition["message"] == message.as_str()
    });
    let since = condition
        .filter(|condition| condition["status"] == status)
        .map(|condition| text(&condition["lastTransitionTime"]));
    (!is_right).then(|| {
        json!({
            "type": "Dangling", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since.unwrap_or(now),
        })
    })
}

/// What the server does about one built-in object.
#[derive(Clone, Debug, PartialEq)]
pub enum Upkeep {
    /// The object is as it should be, or belongs to a user.
    Keep,
    /// The object is missing.
    Create,
    /// The object should have this content.
    Update(Value),
}

/// What to do about a built-in object, by its stored state. The spec of a mandatory object is always restored,
/// except for the seats of the exempt level, which users may set. The spec of a suggested object is restored
/// if its annotation [`AUTO_UPDATE`] is true. Without a valid annotation it is taken as true if no user has
/// changed the spec, and the annotation is added.
pub fn upkeep(stored: Option<&Value>, built_in: &Value) -> Upkeep {
    let Some(stored) = stored else { return Upkeep::Create };
    if meta::is_being_deleted(stored) {
        return Upkeep::Keep;
    }
    let is_mandatory = mandatory(meta::name(built_in), text(&built_in["kind"])).is_some();
    let annotation = text(&stored["metadata"]["annotations"][AUTO_UPDATE]);
    let is_automatic = match annotation {
        _ if is_mandatory => true,
        "true" => true,
        "false" => false,
        _ => meta::generation(stored) == 1,
    };
    let mut wanted = stored.clone();
    if is_automatic {
        wanted["spec"] = built_in["spec"].clone();
        if stored["spec"]["exempt"].is_object() && built_in["spec"]["exempt"].is_object() {
            wanted["spec"]["exempt"] = stored["spec"]["exempt"].clone();
        }
    }
    let value = if is_automatic { "true" } else { "false" };
    let is_right = annotation == value && semantically_equal(&stored["spec"], &wanted["spec"]);
    if is_right {
        return Upkeep::Keep;
    }
    if !wanted["metadata"]["annotations"].is_object() {
        wanted["metadata"]["annotations"] = json!({});
    }
    wanted["metadata"]["annotations"][AUTO_UPDATE] = value.into();
    Upkeep::Update(wanted)
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": { "name": name, "annotations": { AUTO_UPDATE: "true" } },
        "spec": spec,
    })
}

fn level(name: &str, spec: Value) -> Value {
    object("PriorityLevelConfiguration", name, spec)
}

fn exempt_level() -> Value {
    level(
        "exempt",
        json!({ "type": "Exempt", "exempt": { "nominalConcurrencyShares": 0, "lendablePercent": 0 } }),
    )
}

fn catch_all_level() -> Value {
    let limited =
        json!({ "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": { "type": "Reject" } });
    level("catch-all", json!({ "type": "Limited", "limited": limited }))
}

/// Name, shares, lendable percent, queues, and hand size of a priority level.
type LimitedLevel = (&'static str, i64, i64, i64, i64);

const SUGGESTED_LEVELS: [LimitedLevel; 6] = [
    ("system", 30, 33, 64, 6),
    ("node-high", 40, 25, 64, 6),
    ("leader-election", 10, 0, 16, 4),
    ("workload-high", 40, 50, 128, 6),
    ("workload-low", 100, 90, 128, 6),
    ("global-default", 20, 50, 128, 6),
];

fn limited_level((name, shares, lendable, queues, hand): &LimitedLevel) -> Value {
    let queuing = json!({ "queues": queues, "handSize": hand, "queueLengthLimit": 50 });
    let response = json!({ "type": "Queue", "queuing": queuing });
    let limited =
        json!({ "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response });
    level(name, json!({ "type": "Limited", "limited": limited }))
}

/// A schema with one rule. Requests are distinguished by user or namespace, or not at all.
fn schema((name, level): (&str, &str), precedence: i64, method: Option<&str>, rule: Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": { "name": level },
        "matchingPrecedence": precedence,
        "rules": [rule],
    });
    if let Some(method) = method {
        spec["distinguisherMethod"] = json!({ "type": method });
    }
    object("FlowSchema", name, spec)
}

/// A rule that allows everything to these subjects.
fn everything(subjects: Value) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [resources(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
    })
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster: bool) -> Value {
    let mut rule =
        json!({ "verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"] });
    if cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn groups(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "kind": "Group", "group": { "name": name } })).collect()
}

fn user(name: &str) -> Value {
    json!({ "kind": "User", "user": { "name": name } })
}

fn system_accounts() -> Value {
    json!({ "kind": "ServiceAccount", "serviceAccount": { "name": "*", "namespace": "kube-system" } })
}

const ANYBODY: &[&str] = &["system:unauthenticated", "system:authenticated"];
const NODES: &[&str] = &["system:nodes"];
const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const BY_USER: Option<&str> = Some("ByUser");
const BY_NAMESPACE: Option<&str> = Some("ByNamespace");

fn exempt_schema() -> Value {
    schema(("exempt", "exempt"), 1, None, everything(groups(&["system:masters"])))
}

fn catch_all_schema() -> Value {
    schema(("catch-all", "catch-all"), 10_000, BY_USER, everything(groups(ANYBODY)))
}

/// The last version that expects leader elections by Endpoints and ConfigMaps.
const LAST_WITH_FORMER_ELECTIONS: Minor = Minor::V33;

/// The schemas of such leader elections, and that of the controllers whose requests for Endpoints are none.
fn former_elections() -> [Value; 2] {
    const VERBS: &[&str] = &["get", "create", "update"];
    let account = |name| json!({ "kind": "ServiceAccount", "serviceAccount": { "name": name, "namespace": "kube-system" } });
    let endpoints = json!({
        "subjects": [user(CONTROLLERS), account("endpoint-controller"), account("endpointslicemirroring-controller")],
        "resourceRules": [resources(VERBS, "", &["endpoints"], false)],
    });
    let election = json!({
        "subjects": [system_accounts()],
        "resourceRules": [
            resources(VERBS, "", &["endpoints", "configmaps"], false),
            resources(VERBS, "coordination.k8s.io", &["leases"], false),
        ],
    });
    [
        schema(("endpoint-controller", "workload-high"), 150, BY_USER, endpoints),
        schema(("workload-leader-election", "leader-election"), 200, BY_USER, election),
    ]
}

fn suggested_schemas() -> [Value; 9] {
    let probes = json!({
        "subjects": groups(ANYBODY),
        "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"] }],
    });
    let leases = |verbs| resources(verbs, "coordination.k8s.io", &["leases"], false);
    let election = json!({
        "subjects": [user(CONTROLLERS), user(SCHEDULER), system_accounts()],
        "resourceRules": [leases(&["get", "create", "update"])],
    });
    let node = json!({
        "subjects": groups(NODES),
        "resourceRules": [resources(&["*"], "", &["nodes", "nodes/status"], true), leases(&["*"])],
    });
    let workload =
        |name, who| schema((name, "workload-high"), 800, BY_NAMESPACE, everything(json!([user(who)])));
    let accounts = ("kube-system-service-accounts", "workload-high");
    [
        schema(("probes", "exempt"), 2, None, probes),
        schema(("system-leader-election", "leader-election"), 100, BY_USER, election),
        schema(("system-node-high", "node-high"), 400, BY_USER, node),
        schema(("system-nodes", "system"), 500, BY_USER, everything(groups(NODES))),
        workload("kube-controller-manager", CONTROLLERS),
        workload("kube-scheduler", SCHEDULER),
        schema(accounts, 900, BY_NAMESPACE, everything(json!([system_accounts()]))),
        schema(
            ("service-accounts", "workload-low"),
            9_000,
            BY_USER,
            everything(groups(&["system:serviceaccounts"])),
        ),
        schema(("global-default", "global-default"), 9_900, BY_USER, everything(groups(ANYBODY))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{defaults, kind, validate};

    #[test]
    fn schemas_dangle_while_their_level_is_missing() {
        let mut schema = json!({"spec": {"priorityLevelConfiguration": {"name": "gold"}}});
        let missing = dangling(&schema, false, "t1").unwrap();
        let text = "This FlowSchema references the PriorityLevelConfiguration object named \"gold\" but there is no such object";
        let want = json!({"type": "Dangling", "status": "True", "reason": "NotFound", "message": text, "lastTransitionTime": "t1"});
        assert_eq!(missing, want);
        schema["status"]["conditions"] = json!([missing]);
        assert_eq!(dangling(&schema, false, "t2"), None, "it is right already");
        let found = dangling(&schema, true, "t2").unwrap();
        assert_eq!((&found["status"], &found["lastTransitionTime"]), (&json!("False"), &json!("t2")));
        assert!(found["message"].as_str().unwrap().ends_with("named \"gold\" and it exists"));
    }

    #[test]
    fn built_in_objects_are_restored_unless_a_user_has_taken_them_over() {
        let built_in = objects().into_iter().find(|object| object["metadata"]["name"] == "system").unwrap();
        let changed = |annotation: Value, generation: i64| {
            let mut stored = built_in.clone();
            stored["metadata"]["annotations"] = annotation;
            stored["metadata"]["generation"] = generation.into();
            stored["spec"]["limited"]["nominalConcurrencyShares"] = 77.into();
            stored
        };
        let shares_and_annotation = |upkeep: Upkeep| match upkeep {
            Upkeep::Update(object) => Some((
                object["spec"]["limited"]["nominalConcurrencyShares"].as_i64().unwrap(),
                object["metadata"]["annotations"][AUTO_UPDATE].as_str().unwrap().to_owned(),
            )),
            Upkeep::Keep | Upkeep::Create => None,
        };
        let marked = |value: &str| json!({ AUTO_UPDATE: value });
        let table = [
            ("automatic", changed(marked("true"), 2), Some((30, "true"))),
            ("a user's", changed(marked("false"), 2), None),
            ("unmarked and changed", changed(Value::Null, 2), Some((77, "false"))),
            ("unmarked, of an older server", changed(Value::Null, 1), Some((30, "true"))),
            ("with a word that means nothing", changed(marked("maybe"), 2), Some((77, "false"))),
        ];
        for (what, stored, want) in table {
            let want = want.map(|(shares, value)| (shares, value.to_owned()));
            assert_eq!(shares_and_annotation(upkeep(Some(&stored), &built_in)), want, "{what}");
        }
        assert_eq!(upkeep(None, &built_in), Upkeep::Create);
        let mut dying = changed(marked("true"), 2);
        dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(upkeep(Some(&dying), &built_in), Upkeep::Keep);
    }

    #[test]
    fn mandatory_objects_are_restored_whatever_their_annotation_says() {
        for built_in in objects() {
            let (name, kind) = (built_in["metadata"]["name"].as_str(), built_in["kind"].as_str());
            assert_eq!(upkeep(Some(&built_in), &built_in), Upkeep::Keep);
            if mandatory(name.unwrap(), kind.unwrap()).is_some() {
                let mut stored = built_in.clone();
                stored["metadata"]["annotations"][AUTO_UPDATE] = json!("false");
                assert_eq!(upkeep(Some(&stored), &built_in), Upkeep::Update(built_in));
            }
        }
        let mut exempt = exempt_level();
        exempt["spec"]["exempt"]["nominalConcurrencyShares"] = json!(10);
        assert_eq!(upkeep(Some(&exempt), &exempt_level()), Upkeep::Keep, "users may set its seats");
    }

    #[test]
    fn built_in_objects_are_valid_and_have_their_defaults() {
        for object in objects_of(Minor::V33) {
            let row = kind::lookup_api_version(API_VERSION, object["kind"].as_str().unwrap()).unwrap();
            let mut filled = object.clone();
            defaults::apply(row, &mut filled);
            assert_eq!(filled, object);
            assert_eq!(validate::create(row, &object).aggregate(), "[]", "{}", object["metadata"]["name"]);
        }
        assert_eq!(objects().len(), 19);
        for minor in Minor::SERVED {
            let names: Vec<String> =
                objects_of(minor).iter().map(|object| meta::name(object).to_owned()).collect();
            for former in ["endpoint-controller", "workload-leader-election"] {
                assert_eq!(names.iter().any(|name| name == former), minor == Minor::V33, "{minor}");
            }
        }
    }
}
