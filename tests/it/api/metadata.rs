//! Generation: when it moves, for every kind. And what of metadata is the server's.

use super::{DEPLOYMENTS, PODS, case, run};
use kstore_api::kind::{self, GenerationRule, Resource};
use kstore_api::{meta, strategy};
use kstore_tests::{Setup, manifests, simulate};
use serde_json::{Value, json};

/// Kinds whose generation begins with 1 and moves with the spec.
const WITH_SPEC: &[&str] = &[
    "cronjobs",
    "customresourcedefinitions",
    "daemonsets",
    "deviceclasses",
    "devicetaintrules",
    "flowschemas",
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

/// What the rule of a kind is, written down a second time.
fn rule(row: &Resource) -> GenerationRule {
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

/// How far the generation goes when one member of an object changes.
fn step(row: &Resource, subresource: &str, pointer: &str) -> i64 {
    let mut old = json!({"metadata": {"name": "a", "annotations": {"a": "1"}, "labels": {"a": "1"}},
        "spec": {"a": "1"}, "webhooks": [{"name": "a"}], "template": {"a": "1"}, "endpoints": [{"a": "1"}], "data": {"a": "1"}});
    meta::set_generation(&mut old, 5);
    let mut new = old.clone();
    *new.pointer_mut(pointer).unwrap() = json!("2");
    // What the author says of it counts for nothing.
    meta::set_generation(&mut new, 99);
    strategy::prepare_update(row, subresource, &mut new, &old);
    meta::generation(&new) - 5
}

#[test]
fn the_generation_of_every_kind_moves_with_what_its_rule_names_and_nothing_else() {
    for row in kind::stored() {
        let rule = rule(row);
        let name = row.qualified();
        let mut new = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}});
        strategy::prepare_create(row, &mut new);
        let first = i64::from(!matches!(rule, GenerationRule::None | GenerationRule::SpecFromZero));
        assert_eq!(meta::generation(&new), first, "{name} at create");
        let moves = |pointer: &str| step(row, "", pointer);
        let spec = matches!(
            rule,
            GenerationRule::Spec | GenerationRule::SpecOrAnnotations | GenerationRule::SpecFromZero
        );
        let content = rule == GenerationRule::ContentOrLabels;
        assert_eq!(moves("/spec/a"), i64::from(spec || content), "{name}: spec");
        assert_eq!(
            moves("/metadata/annotations/a"),
            i64::from(rule == GenerationRule::SpecOrAnnotations),
            "{name}: annotations"
        );
        assert_eq!(moves("/metadata/labels/a"), i64::from(content), "{name}: labels");
        assert_eq!(
            moves("/webhooks/0/name"),
            i64::from(rule == GenerationRule::Webhooks || content),
            "{name}: webhooks"
        );
        assert_eq!(
            moves("/template/a"),
            i64::from(rule == GenerationRule::Template || content),
            "{name}: template"
        );
        assert_eq!(moves("/data/a"), i64::from(content), "{name}: data");
        if row.has_status() {
            assert_eq!(step(row, "status", "/spec/a"), 0, "{name}: nothing of it through status");
        }
    }
}

#[test]
fn generations_move_by_scale_and_deletion_and_not_by_status() {
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
fn system_metadata_stays_what_it_was_whatever_an_update_says() {
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
