//! Server-managed metadata: the generation of every kind, and system fields that clients cannot change.

use super::{DEPLOYMENTS, PODS, case, run};
use kstore_api::resource::{GenerationRule, Resource};
use kstore_api::{kind, meta, strategy};
use kstore_tests::{Setup, manifests, simulate};
use serde_json::{Value, json};

/// Kinds whose generation starts at 1 and increases with the spec.
const WITH_SPEC: &[&str] = &[
    "cronjobs",
    "customresourcedefinitions",
    "daemonsets",
    "deviceclasses",
    "devicetaintrules",
    "flowschemas",
    "horizontalpodautoscalers",
    "ingressclasses",
    "ingresses",
    "jobs",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "networkpolicies",
    "poddisruptionbudgets",
    "pods",
    "prioritylevelconfigurations",
    "replicasets",
    "replicationcontrollers",
    "resourceslices",
    "statefulsets",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// The generation rule of a kind, written a second time as the test's oracle.
fn expected_rule(row: &Resource) -> GenerationRule {
    match row.plural {
        "deployments" => GenerationRule::SpecOrAnnotations,
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => GenerationRule::Webhooks,
        "endpointslices" => GenerationRule::ContentOrLabels,
        "podtemplates" => GenerationRule::Template,
        "csidrivers" => GenerationRule::SpecFromZero,
        "priorityclasses" => GenerationRule::Fixed,
        plural if WITH_SPEC.contains(&plural) => GenerationRule::Spec,
        _ => GenerationRule::None,
    }
}

/// By how much the generation increases when one member of an object changes.
fn generation_increase(row: &Resource, subresource: &str, pointer: &str) -> i64 {
    let mut old = json!({"metadata": {"name": "a", "annotations": {"a": "1"}, "labels": {"a": "1"}},
        "spec": {"a": "1"}, "webhooks": [{"name": "a"}], "template": {"a": "1"}, "endpoints": [{"a": "1"}], "data": {"a": "1"}});
    meta::set_generation(&mut old, 5);
    let mut new = old.clone();
    *new.pointer_mut(pointer).unwrap() = json!("2");
    // The client's value of the field is ignored.
    meta::set_generation(&mut new, 99);
    strategy::prepare_update(row, subresource, &mut new, &old);
    meta::generation(&new) - 5
}

#[test]
fn the_generation_of_every_kind_increases_only_by_its_rule() {
    for row in kind::stored() {
        let expected_rule = expected_rule(row);
        let name = row.qualified();
        let mut new = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}});
        strategy::prepare_create(row, &mut new);
        let first = i64::from(!matches!(expected_rule, GenerationRule::None | GenerationRule::SpecFromZero));
        assert_eq!(meta::generation(&new), first, "{name} at create");
        let moves = |pointer: &str| generation_increase(row, "", pointer);
        let spec = matches!(
            expected_rule,
            GenerationRule::Spec | GenerationRule::SpecOrAnnotations | GenerationRule::SpecFromZero
        );
        let content = expected_rule == GenerationRule::ContentOrLabels;
        assert_eq!(moves("/spec/a"), i64::from(spec || content), "{name}: spec");
        assert_eq!(
            moves("/metadata/annotations/a"),
            i64::from(expected_rule == GenerationRule::SpecOrAnnotations),
            "{name}: annotations"
        );
        assert_eq!(moves("/metadata/labels/a"), i64::from(content), "{name}: labels");
        assert_eq!(
            moves("/webhooks/0/name"),
            i64::from(expected_rule == GenerationRule::Webhooks || content),
            "{name}: webhooks"
        );
        assert_eq!(
            moves("/template/a"),
            i64::from(expected_rule == GenerationRule::Template || content),
            "{name}: template"
        );
        assert_eq!(moves("/data/a"), i64::from(content), "{name}: data");
        if row.has_status() {
            assert_eq!(
                generation_increase(row, "status", "/spec/a"),
                0,
                "{name}: nothing of it through status"
            );
        }
    }
}

#[test]
fn generation_increases_by_scale_and_deletion_and_not_by_status() {
    simulate(Setup::api_alone(), async |cluster| {
        let web = format!("{DEPLOYMENTS}/web");
        let generation = |n: i64| json!({"metadata": {"generation": n}});
        run(
            cluster,
            [
                case("first", ("POST", DEPLOYMENTS), manifests::deployment("web", 1), 201, generation(1)),
                case(
                    "labels",
                    ("PATCH", &web),
                    json!({"metadata": {"labels": {"a": "b"}}}),
                    200,
                    generation(1),
                ),
                case(
                    "annotations",
                    ("PATCH", &web),
                    json!({"metadata": {"annotations": {"a": "b"}}}),
                    200,
                    generation(2),
                ),
                case("spec", ("PATCH", &web), json!({"spec": {"replicas": 2}}), 200, generation(3)),
                case("the same spec", ("PATCH", &web), json!({"spec": {"replicas": 2}}), 200, generation(3)),
                case(
                    "one's own number",
                    ("PATCH", &web),
                    json!({"metadata": {"generation": 77}}),
                    200,
                    generation(3),
                ),
                case(
                    "scale",
                    ("PATCH", &format!("{web}/scale")),
                    json!({"spec": {"replicas": 3}}),
                    200,
                    json!({}),
                ),
                case("counts as spec", ("GET", &web), Value::Null, 200, generation(4)),
                case(
                    "status",
                    ("PATCH", &format!("{web}/status")),
                    json!({"status": {"observedGeneration": 4, "replicas": 3}}),
                    200,
                    generation(4),
                ),
                case(
                    "held",
                    ("PATCH", &web),
                    json!({"metadata": {"finalizers": ["x/y"]}}),
                    200,
                    generation(4),
                ),
                case("deleted", ("DELETE", &web), Value::Null, 200, generation(5)),
                case("once", ("DELETE", &web), Value::Null, 200, generation(5)),
            ],
        )
        .await;
    });
}

#[test]
fn updates_cannot_change_system_metadata() {
    simulate(Setup::api_alone(), async |cluster| {
        let pod = cluster.create(manifests::pod("p", json!({}))).await;
        let one = format!("{PODS}/p");
        let mut next = pod.clone();
        next["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
        next["metadata"]["selfLink"] = json!("/mine");
        next["metadata"]["labels"] = json!({"new": "label"});
        run(cluster, [
            case("kept", ("PUT", &one), next, 200, json!({"metadata": {"uid": pod["metadata"]["uid"], "selfLink": null,
                "creationTimestamp": pod["metadata"]["creationTimestamp"], "labels": {"new": "label"}, "generation": 1}})),
        ]).await;
    });
}
