//! Tests of the adapter against a scripted API, with paused time: behaviour of current servers, old servers
//! and proxies.

mod server;

use super::{Kube, KubeSource};
use crate::{
    Builder, Capability, Continue, Frame, Frames, Informer, Key, ListRequest, ListerWatcher, Object, ReadAt,
    Revision, Revisions, SourceError, Start, Status,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::core::{ApiResource, DynamicObject, PartialObjectMeta};
use serde::Deserialize;
use serde_json::{Value, json};
use server::Server;
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

type ConfigMapSource = KubeSource<Kube<ConfigMap>>;

fn map(name: &str, version: &str, value: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version},
        "data": {"value": value},
    })
}

fn list(version: &str, items: &[Value], next: &str) -> String {
    json!({
        "kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": version, "continue": next}, "items": items,
    })
    .to_string()
}

fn bookmark(version: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"resourceVersion": version, "creationTimestamp": null}})
}

fn end(version: &str) -> Value {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    json!({"kind": "ConfigMap", "metadata": {"resourceVersion": version, "annotations": annotations}})
}

fn expired() -> Value {
    json!({"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version: 1 (5)"})
}

fn source(server: &Server) -> ConfigMapSource {
    ConfigMapSource::new(&server.client())
}

fn follow(source: ConfigMapSource, stop: &CancellationToken) -> Informer<Kube<ConfigMap>> {
    Builder::new(source).name("maps").spawn(stop)
}

/// Name, revision and value of all cached objects.
fn cached(informer: &Informer<Kube<ConfigMap>>) -> Vec<String> {
    let value = |m: &ConfigMap| m.data.as_ref().and_then(|d| d.get("value").cloned()).unwrap_or_default();
    informer.list().iter().map(|m| format!("{}@{}={}", m.key().name(), m.revision(), value(m))).collect()
}

async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

async fn next<T: Object>(frames: &mut Frames<T>) -> String {
    match timeout(Duration::from_secs(600), frames.next()).await.expect("something comes") {
        None => "end".into(),
        Some(Err(error)) => format!("{error:?}"),
        Some(Ok(frames)) => frames.iter().map(frame).collect::<Vec<_>>().join(" "),
    }
}

fn frame<T: Object>(frame: &Frame<T>) -> String {
    match frame {
        Frame::Put(object) => format!("+{}@{}", object.key().name(), object.revision()),
        Frame::Gone { key, revision, last } => {
            format!("-{}@{revision}{}", key.name(), if last.is_some() { "" } else { "?" })
        }
        Frame::Undecodable(what) => format!("!{}@{}", what.key.name(), what.revision),
        Frame::Progress { revision, initial_done } => {
            format!("{revision}{}", if *initial_done { "!" } else { "" })
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_continues_as_the_watch() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let open = server.opens();
    let maps = follow(source(&server), &stop);
    open.event("ADDED", &map("b", "7", "1"));
    open.event("ADDED", &map("a", "3", "1"));
    settle().await;
    assert!(!maps.is_synced() && maps.is_empty(), "nothing shows before the state is complete");
    open.event("BOOKMARK", &end("9"));
    maps.synced().await.unwrap();
    assert_eq!((cached(&maps), maps.revision()), (vec!["a@3=1".into(), "b@7=1".into()], Revision(9)));
    open.event("MODIFIED", &map("a", "10", "2"));
    open.event("DELETED", &map("b", "11", "1"));
    open.event("BOOKMARK", &bookmark("30"));
    maps.wait_for(Revision(30)).await.unwrap();
    assert_eq!(cached(&maps), ["a@10=2"]);
    assert_eq!(server.questions(), ["watch initial"]);
    assert_eq!(maps.status(), Status::Streaming);
}

/// R5: a stream that breaks before its end mark has no effect.
#[tokio::test(start_paused = true)]
async fn a_broken_streaming_list_restarts_without_effect() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let (broken, whole) = (server.opens(), server.opens());
    let maps = follow(source(&server), &stop);
    broken.event("ADDED", &map("gone", "3", "1"));
    broken.cut();
    whole.event("ADDED", &map("stays", "5", "1"));
    whole.event("BOOKMARK", &end("9"));
    maps.synced().await.unwrap();
    assert_eq!(cached(&maps), ["stays@5=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_streaming_lists_is_listed_from_then_on() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    server.says(
        422,
        r#"{"kind":"Status","code":422,"reason":"Invalid","message":"ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}"#,
    );
    server.says(200, &list("9", &[map("a", "3", "1")], ""));
    let open = server.opens();
    let source = source(&server);
    let maps = follow(source.clone(), &stop);
    maps.synced().await.unwrap();
    open.event("MODIFIED", &map("a", "10", "2"));
    maps.wait_for(Revision(10)).await.unwrap();
    assert_eq!(cached(&maps), ["a@10=2"]);
    assert!(!source.capabilities().streaming_list, "clones know what was learned");
    let requests = server.questions();
    assert_eq!(requests[0], "watch initial");
    assert!(requests[1].starts_with("list @0"), "{requests:?}");
    assert_eq!(requests[2], "watch @9");
    // A relist does not request streaming either.
    open.event("ERROR", &expired());
    server.says(200, &list("20", &[], ""));
    maps.wait_for(Revision(20)).await.unwrap();
    assert_eq!(server.questions()[0], "list @10");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_streaming_lists_is_detected() {
    let server = Server::default();
    let silent = server.opens();
    let began = Instant::now();
    let source = source(&server);
    let mut frames = source.watch(Start::Initial(ReadAt::Any)).await.unwrap();
    silent.event("ADDED", &map("a", "3", "1"));
    assert_eq!(next(&mut frames).await, "+a@3");
    assert_eq!(next(&mut frames).await, "Unsupported(StreamingList)");
    assert!(began.elapsed() < Duration::from_secs(60) && !source.capabilities().streaming_list);

    let source = self::source(&server);
    let plain = server.opens();
    let mut frames = source.watch(Start::Initial(ReadAt::Any)).await.unwrap();
    plain.event("BOOKMARK", &bookmark("9"));
    assert_eq!(next(&mut frames).await, "Unsupported(StreamingList)");
}

#[tokio::test(start_paused = true)]
async fn forbidden_and_overload_errors_do_not_disable_streaming_lists() {
    for (code, body, meant) in [
        (403, r#"{"code":403,"reason":"Forbidden","message":"no"}"#, "Fatal(\"no\")"),
        (429, "", "Throttled { retry_after: None }"),
        (500, r#"{"code":500,"reason":"InternalError","message":"x"}"#, "Internal(\"x\")"),
    ] {
        let server = Server::default();
        server.says(code, body);
        let source = source(&server);
        let error = source.watch(Start::Initial(ReadAt::Any)).await.err().unwrap();
        assert_eq!(format!("{error:?}"), meant);
        assert!(source.capabilities().streaming_list);
    }
}

#[tokio::test(start_paused = true)]
async fn a_paged_list_has_one_revision() {
    let server = Server::default();
    server.says(200, &list("9", &[map("a", "3", "1")], "tok"));
    server.says(200, &list("9", &[map("b", "4", "1")], ""));
    let source = source(&server);
    let limit = NonZeroU32::new(1);
    let page = source.list(ListRequest { at: ReadAt::Any, limit, next: None }).await.unwrap();
    assert_eq!(page.next, Some(Continue::new("tok")));
    let request = ListRequest { at: ReadAt::Any, limit, next: page.next };
    let page = source.list(request).await.unwrap();
    assert_eq!((page.items.len(), page.revision, page.next), (1, Revision(9), None));
    assert_eq!(server.questions(), ["list @0 limit 1", "list limit 1 page tok"]);
}

#[tokio::test(start_paused = true)]
async fn expired_pages_and_empty_lists_are_recognised() {
    let server = Server::default();
    server.says(410, r#"{"reason":"Expired","code":410,"metadata":{"continue":"other"}}"#);
    server.says(200, r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"5"},"items":null}"#);
    let source = source(&server);
    let next = Some(Continue::new("old"));
    let request = ListRequest { at: ReadAt::Any, limit: None, next };
    assert_eq!(source.list(request).await.err(), Some(SourceError::Expired));
    let page = source.list(ListRequest::all(ReadAt::Latest)).await.unwrap();
    assert_eq!((page.items.len(), page.revision), (0, Revision(5)));
}

/// R3: a list that is older than requested is refused.
#[tokio::test(start_paused = true)]
async fn a_list_older_than_requested_is_refused() {
    let server = Server::default();
    server.says(200, &list("4", &[], ""));
    server.says(
        504,
        r#"{"reason":"Timeout","code":504,"message":"Timeout: Too large resource version: 9, current: 4"}"#,
    );
    let open = server.opens();
    open.event("BOOKMARK", &end("4"));
    let source = source(&server);
    let at = ReadAt::NotOlderThan(Revision(9));
    let ahead = Some(SourceError::Ahead { retry_after: None });
    assert_eq!(source.list(ListRequest::all(at)).await.err(), ahead);
    assert_eq!(source.list(ListRequest::all(at)).await.err(), ahead);
    let mut frames = source.watch(Start::Initial(at)).await.unwrap();
    assert_eq!(next(&mut frames).await, "Ahead { retry_after: None }");
}

/// R9: the server's `Retry-After` is respected, and a throttled watch is resumed instead of relisted.
#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_without_a_relist() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let first = server.opens();
    let maps = follow(source(&server), &stop);
    first.event("BOOKMARK", &end("9"));
    maps.synced().await.unwrap();
    sleep(Duration::from_secs(5)).await;
    server.says_with(429, &[("retry-after", "17")], "too many");
    let second = server.opens();
    drop(first);
    second.event("ADDED", &map("a", "12", "1"));
    maps.wait_for(Revision(12)).await.unwrap();
    let requests = server.requests();
    let urls: Vec<_> = requests.iter().map(|requests| requests.url.contains("resourceVersion=9&")).collect();
    assert_eq!(urls, [false, true, true]);
    assert!(requests[2].at - requests[1].at >= Duration::from_secs(17));
}

#[tokio::test(start_paused = true)]
async fn a_watch_cut_within_a_line_resumes_after_the_last_complete_revision() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let (first, second) = (server.opens(), server.opens());
    let maps = follow(source(&server), &stop);
    first.event("ADDED", &map("a", "3", "1"));
    first.event("BOOKMARK", &end("9"));
    maps.synced().await.unwrap();
    let line = json!({"type": "MODIFIED", "object": map("a", "10", "2")}).to_string();
    first.chunk(&format!("{line}\n{}", &line[..30]));
    first.cut();
    second.event("MODIFIED", &map("a", "11", "3"));
    maps.wait_for(Revision(11)).await.unwrap();
    assert_eq!(cached(&maps), ["a@11=3"]);
    assert_eq!(server.questions(), ["watch initial", "watch @9"]);
}

#[tokio::test(start_paused = true)]
async fn each_chunk_is_one_batch_and_frames_before_an_error_are_delivered() {
    let server = Server::default();
    let open = server.opens();
    let mut frames = source(&server).watch(Start::After(Revision(9))).await.unwrap();
    let line = |kind: &str, object: Value| format!("{}\n", json!({"type": kind, "object": object}));
    open.chunk(&[line("ADDED", map("a", "10", "1")), line("ADDED", map("b", "11", "1"))].concat());
    assert_eq!(next(&mut frames).await, "+a@10 +b@11");
    open.chunk(&[line("DELETED", map("a", "12", "1")), line("ERROR", expired())].concat());
    assert_eq!(next(&mut frames).await, "-a@12");
    assert_eq!(next(&mut frames).await, "Expired");
    assert_eq!(next(&mut frames).await, "end");
    assert!(open.is_closed());
}

/// R11: an undecodable object hides only itself.
#[tokio::test(start_paused = true)]
async fn undecodable_objects_are_reported_by_name() {
    let server = Server::default();
    let bad = |version: &str| {
        let mut bad = map("bad", version, "1");
        bad["data"] = json!(7);
        bad
    };
    server.says(200, &list("9", &[bad("3"), map("good", "4", "1")], ""));
    let source = source(&server);
    let page = source.list(ListRequest::all(ReadAt::Any)).await.unwrap();
    assert_eq!(page.items[0].key(), Key::new("default", "good"));
    let [what] = page.undecodable.as_slice() else { panic!("{:?}", page.undecodable) };
    assert_eq!((&what.key, what.revision), (&Key::new("default", "bad"), Revision(3)));

    let open = server.opens();
    let mut frames = source.watch(Start::After(Revision(9))).await.unwrap();
    open.event("MODIFIED", &bad("10"));
    open.event("DELETED", &bad("11"));
    open.event("ADDED", &json!({"no": "metadata"}));
    open.event("NEWS", &map("x", "12", "1"));
    open.event("ADDED", &map("good", "13", "1"));
    let mut shown = String::new();
    while !shown.contains("13") {
        shown = [shown, next(&mut frames).await].join(" ");
    }
    assert_eq!(shown, " !bad@10 -bad@11? +good@13");
    open.chunk("no json\n");
    assert!(next(&mut frames).await.starts_with("Internal"));
}

#[tokio::test(start_paused = true)]
async fn opaque_versions_are_numbered_and_used_to_resume() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let (first, second) = (server.opens(), server.opens());
    let source = source(&server);
    assert_eq!(source.capabilities().revisions, Revisions::Own);
    let maps = follow(source.clone(), &stop);
    first.event("ADDED", &map("a", "v-3", "1"));
    first.event("BOOKMARK", &end("v/9"));
    maps.synced().await.unwrap();
    assert_eq!(source.capabilities().revisions, Revisions::Opaque);
    let before = maps.revision();
    first.event("MODIFIED", &map("a", "v/2026", "2"));
    maps.wait_for(Revision(before.0 + 1)).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    drop(first);
    second.event("DELETED", &map("a", "v-a", "2"));
    maps.until(&Key::new("default", "a"), |a| a.is_none()).await.unwrap();
    assert_eq!(server.questions(), ["watch initial", "watch @v%2F9"]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_leave_the_selectors_are_reported_as_deleted() {
    let server = Server::default();
    let open = server.opens();
    let source = source(&server).namespace("default").labels("app=web").fields("metadata.name=a");
    let mut frames = source.watch(Start::After(Revision(9))).await.unwrap();
    open.event("DELETED", &map("a", "12", "no longer matches"));
    assert_eq!(next(&mut frames).await, "-a@12");
    let url = &server.requests()[0].url;
    assert!(
        url.starts_with(
            "/api/v1/namespaces/default/configmaps?labelSelector=app%3Dweb&fieldSelector=metadata.name%3Da&"
        ),
        "{url}"
    );
}

/// R13: an object is decoded once, directly into the reader's type.
#[tokio::test(start_paused = true)]
async fn a_projection_decodes_objects_directly() {
    #[derive(Debug, Deserialize)]
    struct Slim {
        metadata: Meta,
    }
    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        name: String,
        resource_version: String,
    }
    impl Object for Slim {
        fn key(&self) -> Key {
            Key::new("", &self.metadata.name)
        }
        fn uid(&self) -> &str {
            ""
        }
        fn revision(&self) -> Revision {
            Revision(self.metadata.resource_version.parse().unwrap_or_default())
        }
    }
    let server = Server::default();
    let open = server.opens();
    let source = source(&server).project(|raw| serde_json::from_slice::<Slim>(raw.json()));
    let mut frames = source.watch(Start::After(Revision(9))).await.unwrap();
    open.event("ADDED", &map("a", "10", "1"));
    assert_eq!(next(&mut frames).await, "+a@10");
}

#[tokio::test(start_paused = true)]
async fn dynamic_and_metadata_only_resources_are_supported() {
    let server = Server::default();
    let resource = ApiResource {
        group: "example.org".into(),
        version: "v1".into(),
        api_version: "example.org/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let things = KubeSource::<Kube<DynamicObject>>::of(&server.client(), &resource);
    let metas = KubeSource::<Kube<PartialObjectMeta<ConfigMap>>>::new(&server.client());
    server.says(200, &list("9", &[map("a", "3", "1")], ""));
    server.says(200, &list("9", &[map("a", "3", "1")], ""));
    let page = things.list(ListRequest::all(ReadAt::Latest)).await.unwrap();
    assert_eq!(page.items[0].data["data"]["value"], "1");
    let page = metas.list(ListRequest::all(ReadAt::Latest)).await.unwrap();
    assert_eq!(page.items[0].metadata.name.as_deref(), Some("a"));
    let _open = (server.opens(), metas.watch(Start::After(Revision(9))).await.unwrap());
    let requests: Vec<_> =
        server.requests().into_iter().map(|requests| (requests.url, requests.accept)).collect();
    assert_eq!(requests[0].0, "/apis/example.org/v1/widgets");
    assert_eq!(requests[0].1, "application/json");
    assert!(requests[1].1.starts_with("application/json;as=PartialObjectMetadataList;"));
    assert!(requests[2].1.starts_with("application/json;as=PartialObjectMetadata;"));
}

/// R10: a silently dead connection does not block its reader forever.
#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_times_out() {
    let server = Server::default();
    let source = source(&server);
    let error = source.list(ListRequest::all(ReadAt::Any)).await.err().unwrap();
    assert!(matches!(error, SourceError::Unreachable(_)), "{error:?}");
    let _open = server.opens();
    let mut frames = source.watch(Start::After(Revision(9))).await.unwrap();
    let began = Instant::now();
    assert_eq!(next(&mut frames).await, "end");
    assert!(began.elapsed() < Duration::from_secs(310));
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_reported_as_unreachable_with_its_cause() {
    let service = tower::service_fn(|_: http::Request<kube_client::client::Body>| async {
        Err::<http::Response<kube_client::client::Body>, _>(std::io::Error::other("connection refused"))
    });
    let source = ConfigMapSource::new(&kube_client::Client::new(service, "default"));
    let error = source.list(ListRequest::all(ReadAt::Any)).await.err().unwrap();
    assert!(
        matches!(&error, SourceError::Unreachable(why) if why.contains("connection refused")),
        "{error:?}"
    );
    let error = source.watch(Start::Initial(ReadAt::Exact(Revision(3)))).await.err();
    assert_eq!(error, Some(SourceError::Unsupported(Capability::ExactList)));
}

/// R16: objects that share a revision but arrive in separate chunks are all shown, each on arrival. A break
/// between them loses none: the watch resumes after the newest complete revision.
#[tokio::test(start_paused = true)]
async fn a_shared_revision_survives_chunking_and_a_broken_connection() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let open = server.opens();
    let maps = follow(source(&server), &stop);
    ["a", "b", "c", "d"].iter().for_each(|name| open.event("ADDED", &map(name, "3", "1")));
    open.event("BOOKMARK", &end("5"));
    maps.synced().await.unwrap();
    for (name, kind) in [("a", "MODIFIED"), ("b", "DELETED"), ("c", "MODIFIED")] {
        open.event(kind, &map(name, "10", "2"));
        settle().await;
    }
    assert_eq!(
        (cached(&maps), maps.revision()),
        (vec!["a@10=2".into(), "c@10=2".into(), "d@3=1".into()], Revision(10))
    );
    let resumed = server.opens();
    open.cut();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(server.questions(), ["watch initial", "watch @5"], "revision 10 may not be complete");
    // The whole revision is delivered again, including the missing part.
    for (name, kind) in [("a", "MODIFIED"), ("b", "DELETED"), ("c", "MODIFIED"), ("d", "MODIFIED")] {
        resumed.event(kind, &map(name, "10", "2"));
        settle().await;
    }
    assert_eq!(cached(&maps), ["a@10=2", "c@10=2", "d@10=2"]);
    resumed.event("MODIFIED", &map("a", "11", "3"));
    settle().await;
    let third = server.opens();
    resumed.cut();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(server.questions(), ["watch @10"], "a higher revision completes the one before");
    third.event("MODIFIED", &map("a", "11", "3"));
    third.event("BOOKMARK", &bookmark("11"));
    settle().await;
    drop(server.opens());
    third.cut();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(server.questions()[0], "watch @11", "a bookmark completes its revision");
}
