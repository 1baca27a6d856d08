//! Tests of names, conditions, deletion and compilation of definitions, with literal messages.

use crate::crd::{CLEANUP_FINALIZER, Conversion, Definition, convert, deletion, discovery, names, strategy};
use crate::meta;
use crate::openapi::definition as openapi;
use serde_json::{Value, json};
use std::sync::Arc;

const NOW: &str = "2026-01-02T03:04:05Z";

fn crd(plural: &str, names: &Value, at: usize) -> Value {
    let mut crd = json!({"metadata": {"name": format!("{plural}.x.dev"), "creationTimestamp": format!("2026-01-01T00:00:{at:02}Z")},
        "spec": {"group": "x.dev", "scope": "Namespaced", "names": names, "versions": [{"name": "v1", "served": true,
            "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    crd["spec"]["names"]["plural"] = plural.into();
    strategy::set_defaults(&mut crd);
    strategy::prepare_create(&mut crd);
    crd
}

fn plan(group: &mut [&mut Value], now: &str) {
    let all: Vec<&Value> = group.iter().map(|own| &**own).collect();
    for (name, status) in names::plan_names(&all, now) {
        let own = group.iter_mut().find(|own| meta::name(own) == name).unwrap();
        own["status"] = status;
    }
}

#[test]
fn new_definitions_are_established_in_one_step() {
    let mut foo = crd("foos", &json!({"kind": "Foo", "shortNames": ["f"], "categories": ["all"]}), 0);
    plan(&mut [&mut foo], NOW);
    assert_eq!(
        foo["status"],
        json!({
            "conditions": [
                {"type": "NamesAccepted", "status": "True", "lastTransitionTime": NOW, "reason": "NoConflicts", "message": "no conflicts found"},
                {"type": "Established", "status": "True", "lastTransitionTime": NOW, "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
            ],
            "acceptedNames": {"plural": "foos", "singular": "foo", "shortNames": ["f"], "kind": "Foo", "listKind": "FooList", "categories": ["all"]},
            "storedVersions": ["v1"],
        })
    );
}

#[test]
fn free_names_are_accepted_and_the_last_conflict_is_reported() {
    let mut foo = crd("foos", &json!({"kind": "Foo", "shortNames": ["f"]}), 0);
    plan(&mut [&mut foo], NOW);
    let mut bar = crd("bars", &json!({"kind": "Foo", "shortNames": ["f"], "categories": ["all"]}), 1);
    plan(&mut [&mut foo, &mut bar], NOW);
    assert_eq!(
        bar["status"]["conditions"],
        json!([
            {"type": "NamesAccepted", "status": "False", "lastTransitionTime": NOW, "reason": "ListKindConflict", "message": "\"FooList\" is already in use"},
            {"type": "Established", "status": "False", "lastTransitionTime": NOW, "reason": "NotAccepted", "message": "not all names are accepted"},
        ])
    );
    assert_eq!(bar["status"]["acceptedNames"], json!({"plural": "bars", "kind": "", "categories": ["all"]}));
    for (names, reason, message) in [
        (
            json!({"plural": "foos", "singular": "b", "kind": "B"}),
            "PluralConflict",
            "\"foos\" is already in use",
        ),
        (
            json!({"plural": "bars", "singular": "foo", "kind": "B"}),
            "SingularConflict",
            "\"foo\" is already in use",
        ),
        (
            json!({"plural": "bars", "kind": "B", "shortNames": ["f", "foos", "x"]}),
            "ShortNamesConflict",
            "[\"f\" is already in use, \"foos\" is already in use]",
        ),
        (
            json!({"plural": "bars", "kind": "Foo", "singular": "b", "listKind": "L"}),
            "KindConflict",
            "\"Foo\" is already in use",
        ),
    ] {
        let mut bar = crd("bars", &json!({}), 1);
        bar["spec"]["names"] = names;
        strategy::set_defaults(&mut bar);
        plan(&mut [&mut foo, &mut bar], NOW);
        let condition = &bar["status"]["conditions"][0];
        assert_eq!((&condition["reason"], &condition["message"]), (&json!(reason), &json!(message)));
        assert!(!Definition::compile(&bar).unwrap().is_served());
    }
    // After the first definition is deleted the second is accepted; only changed conditions have a new time.
    let later = "2026-02-02T00:00:00Z";
    plan(&mut [&mut bar], later);
    assert!(Definition::compile(&bar).unwrap().established);
    assert_eq!(bar["status"]["conditions"][0]["lastTransitionTime"], later);
    plan(&mut [&mut bar], "2027-01-01T00:00:00Z");
    assert_eq!(bar["status"]["conditions"][0]["lastTransitionTime"], later);
}

#[test]
fn conditions_report_approval_and_invalid_ca_bundles() {
    let mut foo = crd("foos", &json!({"kind": "Foo"}), 0);
    foo["spec"]["group"] = json!("a.k8s.io");
    for (approval, status, reason, message) in [
        ("https://k8s.io/x", "True", "ApprovedAnnotation", "approved in https://k8s.io/x"),
        ("unapproved", "False", "UnapprovedAnnotation", "not approved: \"unapproved\""),
        (
            "x",
            "False",
            "InvalidAnnotation",
            "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        ),
    ] {
        foo["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": approval});
        plan(&mut [&mut foo], NOW);
        assert_eq!(
            foo["status"]["conditions"][0],
            json!({"type": "KubernetesAPIApprovalPolicyConformant", "status": status,
            "lastTransitionTime": NOW, "reason": reason, "message": message})
        );
    }
    let mut bar = crd("bars", &json!({"kind": "Bar"}), 0);
    bar["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://h", "caBundle": "Ym9ndXM="}, "conversionReviewVersions": ["x", "v1beta1", "v1"]}});
    plan(&mut [&mut bar], NOW);
    assert_eq!(
        bar["status"]["conditions"][1],
        json!({"type": "Established", "status": "False", "lastTransitionTime": NOW,
        "reason": "InvalidCABundle", "message": "The conversion webhook CABundle is invalid"})
    );
    let compiled = Definition::compile(&bar).unwrap();
    assert!(
        matches!(&compiled.conversion, Conversion::Webhook { review_version, .. } if &**review_version == "v1beta1")
    );
    assert!(compiled.is_served() && !compiled.established);
}

#[test]
fn deletion_sets_the_terminating_condition() {
    let mut foo = crd("foos", &json!({"kind": "Foo"}), 0);
    plan(&mut [&mut foo], NOW);
    foo["metadata"]["finalizers"] = json!(["x.dev/mine"]);
    deletion::begin(&mut foo, NOW);
    assert_eq!(foo["metadata"]["deletionTimestamp"], NOW);
    assert_eq!(foo["metadata"]["finalizers"], json!(["x.dev/mine", CLEANUP_FINALIZER]));
    assert!(deletion::needs_cleanup(&foo));
    let condition = |foo: &Value| {
        let own = &foo["status"]["conditions"][2];
        format!(
            "{} {} {}",
            own["status"].as_str().unwrap(),
            own["reason"].as_str().unwrap(),
            own["message"].as_str().unwrap()
        )
    };
    assert_eq!(
        condition(&foo),
        "True InstanceDeletionPending CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    );
    use deletion::Progress;
    for (progress, expected) in [
        (Progress::InProgress, "True InstanceDeletionInProgress CustomResource deletion is in progress"),
        (Progress::ListFailed("x"), "True InstanceDeletionFailed could not list instances: x"),
        (Progress::DeleteFailed("x"), "True InstanceDeletionFailed could not issue all deletes: x"),
        (
            Progress::Unconfirmed("x"),
            "True InstanceDeletionCheck could not confirm zero CustomResources remaining: x",
        ),
        (Progress::NeverEstablished, "False NeverEstablished resource was never established"),
        (
            Progress::OverlappingBuiltIn,
            "False OverlappingBuiltInResource instances overlap with built-in resources in storage",
        ),
    ] {
        assert!(deletion::set_progress(&mut foo, progress, NOW));
        assert!(!deletion::set_progress(&mut foo, progress, "2027-01-01T00:00:00Z"), "nothing new");
        assert_eq!(condition(&foo), expected);
    }
    let compiled = Definition::compile(&foo).unwrap();
    assert_eq!(discovery::verbs(&compiled), ["delete", "deletecollection", "get", "list", "watch"]);
    deletion::finish(&mut foo, Progress::Completed, NOW);
    assert_eq!(condition(&foo), "False InstanceDeletionCompleted removed all instances");
    assert_eq!(foo["metadata"]["finalizers"], json!(["x.dev/mine"]));
    assert!(!deletion::needs_cleanup(&foo));
}

#[test]
fn updates_increment_generation_and_record_storage_versions() {
    let old = crd("foos", &json!({"kind": "Foo"}), 0);
    let mut new = old.clone();
    new["status"] = json!({"conditions": "forged"});
    strategy::prepare_update(&mut new, &old);
    assert_eq!((&new["status"], meta::generation(&new)), (&old["status"], 1));
    new["spec"]["versions"] = json!([{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]);
    strategy::prepare_update(&mut new, &old);
    assert_eq!((&new["status"]["storedVersions"], meta::generation(&new)), (&json!(["v1", "v2"]), 2));
    strategy::prepare_status_update(&mut new, &old);
    assert_eq!((&new["spec"], meta::generation(&new)), (&old["spec"], 1));
}

#[test]
fn new_unknown_formats_cause_warnings() {
    let formats = |formats: &[&str]| {
        let mut own = crd("foos", &json!({"kind": "Foo"}), 0);
        let properties: Value = formats
            .iter()
            .map(|own| ((*own).to_owned(), json!({"type": "string", "format": own})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        own["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = properties;
        own
    };
    assert_eq!(
        strategy::warnings(&formats(&["date-time", "fancy"]), None),
        ["unrecognized format \"fancy\""]
    );
    assert_eq!(
        strategy::warnings(&formats(&["fancy", "odd"]), Some(&formats(&["fancy"]))),
        ["unrecognized format \"odd\""]
    );
    let of_numbers = ["double", "float", "int32", "int64"];
    let unknown = of_numbers.map(|format| format!("unrecognized format {format:?}"));
    assert_eq!(strategy::warnings(&formats(&of_numbers), None), unknown, "a text has no format of numbers");
}

#[test]
fn equal_schemas_are_shared_and_the_spec_hash_follows_the_stored_form() {
    let mut foo = crd("foos", &json!({"kind": "Foo"}), 0);
    let schema = foo["spec"]["versions"][0]["schema"].clone();
    foo["spec"]["versions"] = json!([
        {"name": "v1alpha1", "served": true, "storage": false, "deprecated": true, "schema": schema},
        {"name": "v1", "served": true, "storage": true, "schema": schema},
        {"name": "v2", "served": false, "storage": false, "deprecated": true, "deprecationWarning": "gone", "schema": {"openAPIV3Schema": {"type": "object", "nullable": false}}},
    ]);
    let first = Definition::compile(&foo).unwrap();
    let names = |own: &Definition| own.versions.iter().map(|own| own.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&first), ["v2", "v1", "v1alpha1"]);
    assert_eq!(first.served().next().unwrap().name.as_ref(), "v1");
    assert_eq!(first.storage_version().name.as_ref(), "v1");
    assert!(Arc::ptr_eq(&first.versions[1].tree, &first.versions[2].tree));
    assert_eq!(first.versions[0].warning.as_deref(), Some("gone"));
    assert_eq!(
        first.versions[2].warning.as_deref(),
        Some("x.dev/v1alpha1 Foo is deprecated; use x.dev/v1 Foo")
    );
    // Columns and names do not affect the stored form; schemas do.
    foo["spec"]["versions"][1]["additionalPrinterColumns"] =
        json!([{"name": "A", "type": "string", "jsonPath": ".a"}]);
    foo["spec"]["names"]["shortNames"] = json!(["f"]);
    let second = Definition::compile_after(&foo, Some(&first)).unwrap();
    assert_eq!(second.spec_hash, first.spec_hash);
    assert!(Arc::ptr_eq(&second.versions[0].tree, &first.versions[0].tree));
    foo["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"] = json!({"a": {"type": "string"}});
    assert_ne!(Definition::compile_after(&foo, Some(&second)).unwrap().spec_hash, first.spec_hash);
    let mut object = json!({"apiVersion": "x.dev/v1", "kind": "Foo"});
    convert::to_version(&first, "v2", &mut object);
    assert_eq!(object["apiVersion"], "x.dev/v2");
    foo["spec"]["versions"][1]["storage"] = json!(false);
    assert_eq!(Definition::compile(&foo).unwrap_err().to_string(), "spec.versions[*].storage: is missing");
}

#[test]
fn openapi_v2_accepts_everything_that_the_server_accepts() {
    let mut foo = crd("foos", &json!({"kind": "Foo"}), 0);
    foo["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    foo["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "required": ["spec", "maybe"], "properties": {
        "maybe": {"type": "object", "nullable": true, "properties": {"x": {"type": "string"}}},
        "spec": {"type": "object", "default": {}, "anyOf": [{"required": ["port"]}], "properties": {
            "port": {"x-kubernetes-int-or-string": true},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"x": {"type": "string"}}},
            "list": {"type": "array", "items": {"type": "string", "minLength": 1}, "x-kubernetes-list-type": "set"}}}}});
    let compiled = Definition::compile(&foo).unwrap();
    let fragment = openapi::v2(&compiled, &foo, "v1");
    let model = &fragment.schemas["dev.x.v1.Foo"];
    assert_eq!(model["required"], json!(["spec"]));
    assert_eq!(model["properties"]["maybe"], json!({}));
    assert_eq!(
        model["properties"]["spec"],
        json!({"type": "object", "properties": {
        "port": {"x-kubernetes-int-or-string": true},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "list": {"type": "array", "items": {"type": "string", "minLength": 1}, "x-kubernetes-list-type": "set"}}})
    );
    assert_eq!(
        model["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert!(fragment.schemas.contains_key("dev.x.v1.FooList"));
    assert!(fragment.paths.contains_key("/apis/x.dev/v1/namespaces/{namespace}/foos/{name}/scale"));
    let text = json!([fragment.paths, fragment.schemas]).to_string();
    assert!(!text.contains("#/components/"), "{text}");
    let v3 = openapi::v3(&compiled, &foo, "v1");
    assert_eq!(
        v3.schemas["dev.x.v1.Foo"]["properties"]["spec"]["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    );
    assert!(v3.references().contains("io.k8s.api.autoscaling.v1.Scale"));
    // A root that keeps unknown fields has no properties in v2.
    foo["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] =
        json!(true);
    let open = openapi::v2(&compiled, &foo, "v1").schemas["dev.x.v1.Foo"].clone();
    assert_eq!(
        open,
        json!({"type": "object", "x-kubernetes-group-version-kind": [{"group": "x.dev", "version": "v1", "kind": "Foo"}]})
    );
}
