//! Tests of the revision history: data, names, numbers, limits and collisions, with tables and random
//! templates.

use super::{
    NewestRevision, Owner, POD_LABEL, RevisionCollision, clash, create, data, equal, hash, newest, surplus,
    template_of,
};
use crate::action::Action;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use proptest::prelude::*;
use serde_json::{Value, from_value, json};

fn set(image: &str, more: Value) -> StatefulSet {
    let mut set = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "s1", "annotations": {"kubernetes.io/change-cause": "why"}},
        "spec": {
            "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 2,
            "template": {"metadata": {"labels": {"app": "web"}},
                         "spec": {"containers": [{"name": "c", "image": image, "resources": {}}]}},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    from_value(set).unwrap()
}

fn owner(set: &StatefulSet, collisions: Option<i32>) -> Owner<'_> {
    let spec = set.spec.as_ref().unwrap();
    Owner {
        kind: "StatefulSet",
        metadata: &set.metadata,
        selector: &spec.selector,
        template: &spec.template,
        collisions,
        limit: spec.revision_history_limit,
        label: POD_LABEL,
    }
}

/// The revision of a set with this number.
fn revision(set: &StatefulSet, number: i64) -> ControllerRevision {
    create(owner(set, None), number)
}

fn written(newest: NewestRevision<'_>) -> ControllerRevision {
    let NewestRevision::After(action) = newest else { panic!("nothing is written") };
    match *action {
        Action::Create(object) | Action::Update(object) => object.typed().unwrap(),
        other => panic!("no revision is written: {other:?}"),
    }
}

#[test]
fn a_revision_is_a_patch_that_replaces_the_template() {
    let set = set("nginx:1", json!({}));
    let made = written(newest(owner(&set, None), &[]));
    assert_eq!(
        made.data.as_ref().unwrap().0,
        json!({"spec": {"template": {
            "$patch": "replace",
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1", "resources": {}}]},
        }}})
    );
    let (meta, labels) = (&made.metadata, made.metadata.labels.as_ref().unwrap());
    let hash = &labels[POD_LABEL];
    assert_eq!((made.revision, meta.name.as_ref().unwrap()), (1, &format!("web-{hash}")));
    assert_eq!((labels["app"].as_str(), meta.annotations.as_ref().unwrap().len()), ("web", 1));
    let owner = &meta.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
        ("StatefulSet", "s1", Some(true))
    );
    assert_eq!(template_of(&made).unwrap(), set.spec.as_ref().unwrap().template);
}

#[test]
fn revision_data_has_gos_empty_objects() {
    let claim = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}});
    let template = json!({"spec": {
        "containers": [{"name": "c"}, {"name": "d", "resources": {"limits": {"cpu": "1"}}}],
        "initContainers": [{"name": "i"}], "volumes": [claim, {"name": "w", "emptyDir": {}}],
    }});
    let data = data(&from_value(template).unwrap());
    assert_eq!(
        data.to_string(),
        concat!(
            r#"{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":[{"name":"c","resources":{}},"#,
            r#"{"name":"d","resources":{"limits":{"cpu":"1"}}}],"initContainers":[{"name":"i","resources":{}}],"#,
            r#""volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{},"spec":{"accessModes":["ReadWriteOnce"],"#,
            r#""resources":{}}}},"name":"v"},{"emptyDir":{},"name":"w"}]}}}}"#,
        ),
        "members in order, nothing between them"
    );
}

#[test]
fn hashes_depend_on_data_and_collision_count() {
    let data = data(&set("nginx:1", json!({})).spec.unwrap().template);
    let hashes = [hash(&data, 0), hash(&data, 1), hash(&json!({}), 0)];
    assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
    assert!(
        hashes.iter().all(|h| h.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))),
        "{hashes:?}"
    );
    // FNV-1 of the four bytes `null` and of the digit `0`, computed by hand from its definition.
    let expected = b"null0".iter().fold(2_166_136_261_u32, |h, b| h.wrapping_mul(16_777_619) ^ u32::from(*b));
    assert_eq!(hash(&Value::Null, 0), crate::template::encoded(expected));
}

#[test]
fn long_revision_names_are_truncated() {
    let mut set = set("nginx:1", json!({}));
    set.metadata.name = Some("n".repeat(253));
    let name = revision(&set, 1).metadata.name.unwrap();
    assert!(
        name.len() <= 253 && name.starts_with(&"n".repeat(223)) && name.as_bytes()[223] == b'-',
        "{name}"
    );
}

#[test]
fn equal_templates_reuse_their_revision_with_a_higher_number() {
    let [one, two] = ["nginx:1", "nginx:2"].map(|image| set(image, json!({})));
    let (first, second) = (revision(&one, 1), revision(&two, 2));
    assert_eq!(newest(owner(&two, None), &[&first, &second]), NewestRevision::Is(&second));
    // Back to the first template: the same name, the highest number.
    let back = written(newest(owner(&one, None), &[&second, &first]));
    assert_eq!((&back.metadata.name, back.revision), (&first.metadata.name, 3));
    assert_eq!(newest(owner(&one, None), &[&second, &back]), NewestRevision::Is(&back));
    // Equal numbers are corrected too.
    let twin = ControllerRevision { revision: 1, ..second };
    assert_eq!(written(newest(owner(&two, None), &[&first, &twin])).revision, 2);
}

#[test]
fn revision_data_of_an_older_release_is_equal() {
    let set = set("nginx:1", json!({}));
    let mut old = revision(&set, 4);
    let template = &mut old.data.as_mut().unwrap().0["spec"]["template"];
    template["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(newest(owner(&set, None), &[&old]), NewestRevision::Is(&old));
    // An empty selector has a meaning.
    let term = |selector: Value| {
        let term = json!({"topologyKey": "z", "namespaceSelector": selector});
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "affinity":
            {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
    };
    let [absent, empty] = [Value::Null, json!({})].map(|s| self::set("", json!({"template": term(s)})));
    let first = revision(&absent, 1);
    assert!(matches!(newest(owner(&empty, None), &[&first]), NewestRevision::After(_)));
}

#[test]
fn the_last_of_several_equal_revisions_is_used() {
    let set = set("nginx:1", json!({}));
    let [mut a, mut b] = [revision(&set, 3), revision(&set, 5)];
    a.metadata.name = Some("copied".into());
    b.metadata.name = Some("web-b".into());
    assert_eq!(newest(owner(&set, None), &[&b, &a]), NewestRevision::Is(&b));
    assert_eq!(equal(owner(&set, None), &[&b, &a]), [&a, &b]);
}

#[test]
fn the_oldest_unused_revisions_beyond_the_limit_are_deleted() {
    let sets: Vec<_> = (1..=5).map(|i| set(&format!("nginx:{i}"), json!({}))).collect();
    let revisions: Vec<_> = sets.iter().zip(1..).map(|(set, number)| revision(set, number)).collect();
    let all: Vec<_> = revisions.iter().rev().collect();
    let names = |actions: Vec<Action>| -> Vec<String> {
        let name = |action| match action {
            Action::Delete { target, .. } => target.name,
            other => panic!("{other:?}"),
        };
        actions.into_iter().map(name).collect()
    };
    let name = |i: usize| revisions[i].metadata.name.clone().unwrap();
    let owner = owner(&sets[0], None);
    assert_eq!(names(surplus(owner, &all, |_| false)), [name(0), name(1), name(2)]);
    let is_live = |r: &ControllerRevision| r.revision == 1;
    assert_eq!(names(surplus(owner, &all, is_live)), [name(1), name(2), name(3)]);
    assert_eq!(names(surplus(owner, &all[..2], |_| false)), [""; 0]);
    assert_eq!(names(surplus(Owner { limit: Some(0), ..owner }, &all[..1], |_| false)), [name(4)]);
    assert_eq!(names(surplus(Owner { limit: None, ..owner }, &all, |_| false)), [""; 0]);
}

#[test]
fn a_name_collision_is_permanent_only_if_the_holder_cannot_become_the_revision() {
    let [one, two] = ["nginx:1", "nginx:2"].map(|image| set(image, json!({})));
    let owned = revision(&one, 1);
    let with = |change: &dyn Fn(&mut ControllerRevision)| {
        let mut holder = owned.clone();
        change(&mut holder);
        clash(owner(&one, None), &holder)
    };
    assert_eq!(with(&|_| {}), RevisionCollision::Temporary, "its own, not seen yet");
    assert_eq!(
        with(&|r| r.metadata.owner_references = None),
        RevisionCollision::Temporary,
        "about to be adopted"
    );
    let stray = |r: &mut ControllerRevision| {
        r.metadata.owner_references = None;
        r.metadata.labels = None;
    };
    assert_eq!(with(&stray), RevisionCollision::Permanent, "no controller adopts it");
    let earlier =
        |r: &mut ControllerRevision| r.metadata.owner_references.as_mut().unwrap()[0].uid = "s0".into();
    assert_eq!(with(&earlier), RevisionCollision::Temporary, "of an earlier set, about to be collected");
    let foreign = |r: &mut ControllerRevision| {
        r.metadata.owner_references.as_mut().unwrap()[0].kind = "DaemonSet".into();
    };
    assert_eq!(with(&foreign), RevisionCollision::Permanent);
    assert_eq!(clash(owner(&two, None), &owned), RevisionCollision::Permanent, "another template");
    let renamed = create(owner(&one, Some(1)), 1);
    assert_ne!(renamed.metadata.name, owned.metadata.name);
}

proptest! {
    /// Numbers only increase, the newest is the highest, names are unique, and the limit is respected.
    #[test]
    fn numbers_rise_and_history_is_bounded(images in prop::collection::vec(0u8..5, 1..30), limit in 0i32..4) {
        let mut revisions: Vec<ControllerRevision> = vec![];
        let mut highest = 0;
        for image in images {
            let set = set(&format!("nginx:{image}"), json!({"revisionHistoryLimit": limit}));
            let owner = owner(&set, None);
            let all: Vec<_> = revisions.iter().collect();
            if let NewestRevision::After(action) = newest(owner, &all) {
                let new = written(NewestRevision::After(action));
                prop_assert!(new.revision > highest);
                revisions.retain(|r| r.metadata.name != new.metadata.name);
                revisions.push(new);
            }
            let all: Vec<_> = revisions.iter().collect();
            let NewestRevision::Is(current) = newest(owner, &all) else { panic!("one run settles it") };
            prop_assert_eq!(current.revision, revisions.iter().map(|r| r.revision).max().unwrap());
            prop_assert_eq!(template_of(current).unwrap(), set.spec.clone().unwrap().template);
            highest = current.revision;
            let old: Vec<_> = revisions.iter().filter(|r| r.revision != highest).collect();
            let gone: Vec<_> = surplus(owner, &old, |_| false).into_iter().map(|action| match action {
                Action::Delete { target, .. } => target.name,
                other => panic!("{other:?}"),
            }).collect();
            revisions.retain(|r| !gone.contains(r.metadata.name.as_ref().unwrap()));
            prop_assert!(revisions.len() <= 1 + limit as usize);
        }
    }
}
