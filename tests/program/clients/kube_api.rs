//! kube-rs's request layer: every call of `Api`, its errors, patches, subresources and discovery.

use super::{KubeRsFixture, from};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kstore_tests::wait::PATIENCE;
use kube_client::Error;
use kube_client::api::{
    Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, ResourceExt as _, WatchEvent,
    WatchParams,
};
use kube_client::core::params::{Preconditions, ValidationDirective};
use kube_client::discovery::{Discovery, Scope};
use serde_json::json;
use std::time::Duration;

fn map(name: &str, value: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name, "labels": {"test": "yes"}}, "data": {"k": value}}))
}

fn revision(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

fn deployment(name: &str, replicas: i32) -> Deployment {
    from(json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1", "ports": [{"containerPort": 80}]}]},
        }},
    }))
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Box<kube_client::core::Status> {
    match outcome {
        Err(Error::Api(status)) => status,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn an_object_lives_from_create_to_delete() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    let created = maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap(), created);
    assert_eq!(maps.get_metadata("a").await.unwrap().metadata.uid, created.metadata.uid);
    assert!(maps.get_opt("b").await.unwrap().is_none());

    let mut next = created.clone();
    next.data.as_mut().unwrap().insert("k".into(), "2".into());
    let replaced = maps.replace("a", &PostParams::default(), &next).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    let stale = refused(maps.replace("a", &PostParams::default(), &next).await);
    assert_eq!((stale.code, stale.reason.as_str()), (409, "Conflict"));
    let again = refused(maps.create(&PostParams::default(), &map("a", "1")).await);
    assert_eq!((again.code, again.reason.as_str()), (409, "AlreadyExists"));

    let foreign = Preconditions { uid: Some("other".into()), resource_version: None };
    let foreign = maps.delete("a", &DeleteParams::default().preconditions(foreign)).await;
    assert_eq!(refused(foreign).code, 409);
    let deleted = maps.delete("a", &DeleteParams::background()).await.unwrap();
    let status = deleted.right().expect("a ConfigMap is deleted at once");
    assert_eq!(status.details.unwrap().uid, created.metadata.uid.unwrap());
    assert_eq!(refused(maps.get("a").await).reason, "NotFound");
}

#[tokio::test]
async fn each_patch_type_has_its_own_effect() {
    let world = KubeRsFixture::new().await;
    let all = Api::<Deployment>::default_namespaced(world.client.clone());
    all.create(&PostParams::default(), &deployment("web", 0)).await.unwrap();
    let params = PatchParams::default();

    let containers = json!([{"name": "main", "image": "nginx:2"}]);
    let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let strategic = all.patch("web", &params, &Patch::Strategic(&template)).await.unwrap();
    let container = &strategic.spec.unwrap().template.spec.unwrap().containers[0];
    assert_eq!(container.image.as_deref(), Some("nginx:2"));
    assert_eq!(container.ports.as_ref().unwrap()[0].container_port, 80);

    let merged = all.patch("web", &params, &Patch::Merge(&template)).await.unwrap();
    assert!(merged.spec.unwrap().template.spec.unwrap().containers[0].ports.is_none());

    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let merged = all.patch_metadata("web", &params, &Patch::Merge(&labels)).await.unwrap();
    assert_eq!(merged.labels()["a"], "b");
}

#[tokio::test]
async fn applies_own_fields_conflict_and_may_be_forced() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    let config = |key: &str, value: &str| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {key: value}}))
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    maps.patch("a", &one, &config("x", "1")).await.unwrap();
    let both = maps.patch("a", &two, &config("y", "2")).await.unwrap();
    assert_eq!(both.data.unwrap().len(), 2);
    let conflict = refused(maps.patch("a", &two, &config("x", "3")).await);
    assert_eq!(conflict.code, 409);
    assert!(conflict.message.contains(r#"conflict with "one""#), "{}", conflict.message);
    let forced = maps.patch("a", &two.clone().force(), &config("x", "3")).await.unwrap();
    assert_eq!(forced.data.unwrap().into_iter().collect::<Vec<_>>(), [("x".to_owned(), "3".to_owned())]);

    let strict = PatchParams { field_validation: Some(ValidationDirective::Strict), ..one };
    let typo = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "datta": {}}));
    let typo = refused(maps.patch("a", &strict.force(), &typo).await);
    assert!(typo.message.contains("datta"), "{}", typo.message);
}

#[tokio::test]
async fn lists_page_select_and_show_metadata() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &map(name, "1")).await.unwrap();
    }
    let labelled = ListParams::default().labels("test=yes");
    let first = maps.list(&labelled.clone().limit(2)).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let rest = maps.list(&labelled.clone().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    let names: Vec<_> = first.items.iter().chain(&rest.items).map(|map| map.name_any()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(maps.list_metadata(&labelled).await.unwrap().items.len(), 3);
    let one = maps.list(&ListParams::default().fields("metadata.name=b")).await.unwrap();
    assert_eq!(one.items.len(), 1);
    let deleted = maps.delete_collection(&DeleteParams::default(), &labelled).await.unwrap();
    assert_eq!(deleted.left().unwrap().items.len(), 3);
    assert!(maps.list(&labelled).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_watch_delivers_later_events_and_a_compacted_one_is_expired() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    let list = maps.list(&ListParams::default()).await.unwrap();
    let since = list.metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "2"}}))).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let params = WatchParams::default().labels("test=yes").timeout(290);
    let events: Vec<_> =
        maps.watch(&params, &since).await.unwrap().boxed().take(3).try_collect().await.unwrap();
    assert!(matches!(
        &events[..],
        [WatchEvent::Added(_), WatchEvent::Modified(_), WatchEvent::Deleted(last)]
            if revision(last) > since.parse().unwrap()
    ));
}

#[tokio::test]
async fn status_scale_and_eviction_are_subresources() {
    let world = KubeRsFixture::new().await;
    let all = Api::<Deployment>::default_namespaced(world.client.clone());
    all.create(&PostParams::default(), &deployment("web", 1)).await.unwrap();
    assert_eq!(all.get_scale("web").await.unwrap().spec.unwrap().replicas, Some(1));
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    let scaled = all.patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas.unwrap_or(0), 0);
    let mut scale = all.get_scale("web").await.unwrap();
    scale.spec.get_or_insert_default().replicas = Some(2);
    scale.metadata.resource_version = None;
    all.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
    assert_eq!(all.get("web").await.unwrap().spec.unwrap().replicas, Some(2));

    let status = Patch::Merge(json!({"status": {"conditions": [{"type": "Seen", "status": "True"}]}}));
    let seen = all.patch_status("web", &PatchParams::default(), &status).await.unwrap();
    assert!(seen.status.unwrap().conditions.unwrap().iter().any(|condition| condition.type_ == "Seen"));

    let pods = Api::<Pod>::default_namespaced(world.client.clone());
    let pod =
        from(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "nginx"}],
        "terminationGracePeriodSeconds": 0, "nodeName": "nowhere"}}));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    pods.evict("p", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
    assert_eq!(refused(pods.evict("p", &EvictParams::default()).await).code, 404);
}

#[tokio::test]
async fn entries_are_created_once_and_then_modified() {
    let world = KubeRsFixture::new().await;
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    for (round, made) in [("1", true), ("2", false)] {
        let entry = maps.entry("a").await.unwrap();
        assert_eq!(entry.get().is_none(), made);
        let mut entry = entry.or_insert(ConfigMap::default);
        entry.get_mut().data.get_or_insert_default().insert("round".into(), round.into());
        entry.commit(&PostParams::default()).await.unwrap();
    }
    assert_eq!(maps.get("a").await.unwrap().data.unwrap()["round"], "2");
}

#[tokio::test]
async fn both_forms_of_discovery_name_the_same_kinds() {
    let world = KubeRsFixture::new().await;
    // The metrics API registers itself in the background after the start.
    let registered = async {
        loop {
            let legacy = Discovery::new(world.client.clone()).run().await.unwrap();
            if legacy.has_group("metrics.k8s.io") {
                return legacy;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let legacy = tokio::time::timeout(PATIENCE, registered).await.unwrap();
    let aggregated = Discovery::new(world.client.clone()).run_aggregated().await.unwrap();
    let kinds = |discovery: &Discovery| {
        let groups = discovery.groups_alphabetical();
        let kinds = groups.iter().flat_map(|group| group.recommended_resources());
        let mut kinds: Vec<_> = kinds
            .map(|(kind, can)| {
                format!(
                    "{}/{} {} {}",
                    kind.api_version,
                    kind.kind,
                    kind.plural,
                    can.scope == Scope::Namespaced
                )
            })
            .collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kinds(&legacy), kinds(&aggregated));
    assert!(kinds(&legacy).contains(&"apps/v1/Deployment deployments true".to_owned()));
    assert!(world.client.apiserver_version().await.unwrap().minor.parse::<u32>().is_ok());
}

#[tokio::test]
async fn cluster_wide_objects_and_all_namespaces_are_listed() {
    let world = KubeRsFixture::new().await;
    let nodes = Api::<Node>::all(world.client.clone());
    // The nodes register at some time after the start.
    let mut coming = nodes.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let mut there = 0;
    while there < 3 {
        let event = coming.try_next().await.unwrap().unwrap();
        there += usize::from(matches!(event, WatchEvent::Added(_)));
    }
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);
    let namespaces = Api::<Namespace>::all(world.client.clone());
    let made = from(json!({"metadata": {"name": "other"}}));
    namespaces.create(&PostParams::default(), &made).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(world.client.clone(), "other");
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let everywhere =
        Api::<ConfigMap>::all(world.client.clone()).list(&ListParams::default().labels("test")).await;
    assert_eq!(everywhere.unwrap().items[0].namespace().as_deref(), Some("other"));
    let refused = refused(maps.create(&PostParams::default(), &map("A_", "1")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
}
