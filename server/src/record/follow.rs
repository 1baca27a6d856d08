//! The watches of a recording: one for each list that was read. A watch that breaks resumes where it was; one whose revision the server
//! does not have any more lists its resource again.

use super::limits::{FIRST_RETRY, LONGEST_RETRY};
use super::merge::WatchId;
use crate::import::ListedResource;
use kstore_api::{meta, object};
use kstore_client::{Client, Gvr, RestSource};
use kstore_informer::{
    Continue, Frame, Key, ListRequest, ListerWatcher as _, Object, ReadAt, Revision, SourceError, Start,
};
use kstore_nondet::Backoff;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Objects that one request of a list asks for.
const PAGE: NonZeroU32 = NonZeroU32::new(500).expect("500 is not zero");

/// An object of a watch.
pub(super) struct WatchedObject {
    key: Key,
    uid: String,
    revision: Revision,
    /// The object as the server sent it, with its kind.
    pub(super) value: Value,
}

impl WatchedObject {
    fn decode(
        resource: &ListedResource,
        json: &[u8],
        revision: impl Fn(&str) -> Revision,
    ) -> serde_json::Result<Self> {
        let mut value: Value = serde_json::from_slice(json)?;
        if object::kind(&value).is_empty() {
            // The items of a list leave out what they all are.
            object::set_type_meta(&mut value, &resource.api_version, &resource.kind);
        }
        let key = Key::new(meta::namespace(&value), meta::name(&value));
        let (uid, revision) = (meta::uid(&value).to_owned(), revision(meta::resource_version(&value)));
        Ok(Self { key, uid, revision, value })
    }

    /// The revision of the state.
    pub(super) fn revision(&self) -> i64 {
        signed(self.revision)
    }
}

impl Object for WatchedObject {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

/// What a watch says.
pub(super) enum WatchMessage {
    /// An object has a new state.
    Put(WatchedObject),
    /// An object of this name was deleted; it has a kind and a name, and nothing else.
    Gone { object: Value, revision: i64 },
    /// An object has a state that is no JSON object; the text says why.
    Unreadable(String),
    /// Everything up to this revision was delivered.
    Progress(i64),
    /// Changes are lost, and a list of all objects begins. A list before it that has no end counts no more.
    ListBegins,
    /// An object of the list.
    Listed(WatchedObject, ListedAt),
    /// The list has ended.
    ListEnds(ListedAt),
}

/// The list after a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedAt {
    /// The revision of the list.
    pub(super) revision: i64,
    /// How long the watch had not been heard of.
    pub(super) gap: Duration,
}

/// A watch of one resource, in all namespaces or in one.
pub(super) struct Watch {
    id: WatchId,
    source: RestSource<WatchedObject>,
    resource: ListedResource,
    /// The newest revision up to which all changes were delivered.
    complete: Revision,
    /// The newest revision of a change.
    newest: Revision,
    /// When the server was last heard of.
    heard: Instant,
}

/// Why a watch ends.
enum WatchEnd {
    /// The recorder reads no more.
    Unread,
    /// The server ended it, or cannot be reached: it resumes.
    Broken,
    /// The server does not have the changes after its revision any more.
    Expired,
}

impl Watch {
    /// A watch of the changes after a revision, in a namespace or with an empty one in all.
    pub(super) fn new(
        id: WatchId,
        client: &Client,
        (resource, namespace): (&ListedResource, &str),
        after: i64,
    ) -> Self {
        let version = resource.api_version.rsplit('/').next().unwrap_or_default().to_owned();
        let gvr = Gvr::new(resource.group.clone(), version, resource.plural.clone());
        let decoded = resource.clone();
        let source = client.rest(gvr).project(move |raw| {
            WatchedObject::decode(&decoded, raw.json(), |version| raw.revision_of(version))
        });
        let source = if namespace.is_empty() { source } else { source.namespace(namespace) };
        let after = Revision(u64::try_from(after).unwrap_or_default());
        Self { id, source, resource: resource.clone(), complete: after, newest: after, heard: Instant::now() }
    }

    /// Sends what the watch says, with its number, until the receiver is dropped.
    pub(super) async fn follow(mut self, to: mpsc::Sender<(WatchId, WatchMessage)>) {
        let mut waits = Backoff::doubling(FIRST_RETRY, LONGEST_RETRY).waits();
        loop {
            let before = self.heard;
            let end = match self.read(&to).await {
                WatchEnd::Expired => self.list(&to).await,
                end => end,
            };
            if matches!(end, WatchEnd::Unread) {
                return;
            }
            match self.heard > before {
                // The server answers, and has ended the watch as it does every few minutes.
                true => waits.reset(),
                false => tokio::time::sleep(waits.advance()).await,
            }
        }
    }

    /// Reads one watch to its end.
    async fn read(&mut self, to: &mpsc::Sender<(WatchId, WatchMessage)>) -> WatchEnd {
        use futures::StreamExt as _;
        let mut frames = match self.source.watch(Start::After(self.complete)).await {
            Ok(frames) => frames,
            Err(error) => return end_of(&error),
        };
        while let Some(batch) = frames.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return end_of(&error),
            };
            self.heard = Instant::now();
            for frame in batch {
                if to.send((self.id, self.message(frame))).await.is_err() {
                    return WatchEnd::Unread;
                }
            }
        }
        WatchEnd::Broken
    }

    fn message(&mut self, frame: Frame<WatchedObject>) -> WatchMessage {
        let revision = frame.revision();
        if let Frame::Progress { .. } = frame {
            self.complete = self.complete.max(revision);
        } else if revision > self.newest {
            // The rest of the revision may follow.
            self.complete = self.complete.max(Revision(revision.0 - 1));
        }
        self.newest = self.newest.max(revision);
        match frame {
            Frame::Put(object) => WatchMessage::Put(object),
            Frame::Gone { key, revision, .. } => {
                let object = json!({"apiVersion": self.resource.api_version, "kind": self.resource.kind,
                    "metadata": {"namespace": key.namespace(), "name": key.name()}});
                WatchMessage::Gone { object, revision: signed(revision) }
            }
            Frame::Undecodable(undecodable) => WatchMessage::Unreadable(undecodable.error),
            Frame::Progress { revision, .. } => WatchMessage::Progress(signed(revision)),
        }
    }

    /// Sends all objects, page by page: as many wait as there may be changes.
    async fn list(&mut self, to: &mpsc::Sender<(WatchId, WatchMessage)>) -> WatchEnd {
        let gap = self.heard.elapsed();
        let mut next: Option<Continue> = None;
        if to.send((self.id, WatchMessage::ListBegins)).await.is_err() {
            return WatchEnd::Unread;
        }
        loop {
            let request = ListRequest { at: ReadAt::Latest, limit: Some(PAGE), next };
            let page = match self.source.list(request).await {
                Ok(page) => page,
                // A list that takes too long expires, too: it begins again.
                Err(_) => return WatchEnd::Broken,
            };
            let at = ListedAt { revision: signed(page.revision), gap };
            for object in page.items {
                if to.send((self.id, WatchMessage::Listed(object, at))).await.is_err() {
                    return WatchEnd::Unread;
                }
            }
            next = page.next;
            if next.is_some() {
                continue;
            }
            (self.complete, self.newest, self.heard) = (page.revision, page.revision, Instant::now());
            return match to.send((self.id, WatchMessage::ListEnds(at))).await {
                Ok(()) => WatchEnd::Broken,
                Err(_) => WatchEnd::Unread,
            };
        }
    }
}

fn end_of(error: &SourceError) -> WatchEnd {
    match error {
        SourceError::Expired | SourceError::Ahead { .. } => WatchEnd::Expired,
        SourceError::Throttled { .. }
        | SourceError::Unreachable(_)
        | SourceError::Internal(_)
        | SourceError::Unsupported(_)
        | SourceError::Fatal(_) => {
            tracing::debug!(%error, "a watch broke and resumes");
            WatchEnd::Broken
        }
    }
}

fn signed(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::merge::Merger;
    use super::*;
    use axum::body::Body;
    use http::{Request, Response};
    use parking_lot::Mutex;
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::sync::Arc;

    /// A cluster that answers the n-th request with the n-th text, and after them does not answer. Returns the paths of the requests, too.
    fn cluster(answers: &[(u16, &str)]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (paths, answers) =
            (asked.clone(), answers.iter().map(|(code, text)| (*code, (*text).to_owned())));
        let answers: Arc<Mutex<std::collections::VecDeque<_>>> = Arc::new(Mutex::new(answers.collect()));
        let service = tower::service_fn(move |request: Request<tonic::body::Body>| {
            paths.lock().push(request.uri().to_string());
            let answer = answers.lock().pop_front();
            async move {
                let Some((code, text)) = answer else { return std::future::pending().await };
                Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(text)).unwrap())
            }
        });
        (Client::over(service, "test"), asked)
    }

    fn pods() -> ListedResource {
        ListedResource {
            group: String::new(),
            api_version: "v1".to_owned(),
            plural: "pods".to_owned(),
            kind: "Pod".to_owned(),
            is_namespaced: true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_resumes_before_an_incomplete_revision_and_lists_after_a_410() {
        let event = |kind: &str, name: &str, revision: u32| {
            format!(
                r#"{{"type":"{kind}","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"a","resourceVersion":"{revision}"}}}}}}"#
            ) + "\n"
        };
        let first =
            [event("ADDED", "one", 12), event("BOOKMARK", "", 15), event("MODIFIED", "one", 20)].concat();
        let page = |next: &str, name: &str| {
            format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"40"{next}}},"items":[{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"33"}}}}]}}"#
            )
        };
        let (list, rest) = (page(r#","continue":"more""#, "two"), page("", "three"));
        let expired =
            r#"{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired","message":"too old"}"#;
        let deleted = event("DELETED", "two", 41);
        let (client, asked) = cluster(&[
            (200, &first),
            (503, "busy"),
            (410, expired),
            (200, &list),
            (200, &rest),
            (200, &deleted),
        ]);
        let (to, mut from) = mpsc::channel(10);
        let id = Merger::<()>::new(10, Duration::ZERO).add_watch(10, BTreeMap::new());
        let following = tokio::spawn(Watch::new(id, &client, (&pods(), ""), 10).follow(to));
        let mut said = Vec::new();
        for _ in 0..8 {
            said.push(match from.recv().await.unwrap().1 {
                WatchMessage::Put(object) => format!("{} {}", object.key, object.revision()),
                WatchMessage::Gone { object, revision } => format!("-{} {revision}", meta::name(&object)),
                WatchMessage::Unreadable(why) => why,
                WatchMessage::Progress(revision) => format!("progress {revision}"),
                WatchMessage::ListBegins => "a list begins".to_owned(),
                WatchMessage::Listed(object, ListedAt { revision, gap }) => {
                    assert!(gap >= FIRST_RETRY, "{gap:?}");
                    assert_eq!(object::kind(&object.value), "Pod");
                    format!("{} listed at {revision}", object.key)
                }
                WatchMessage::ListEnds(at) => format!("all at {}", at.revision),
            });
        }
        let changes = ["a/one 12", "progress 15", "a/one 20"];
        let listed = ["a list begins", "a/two listed at 40", "a/three listed at 40", "all at 40"];
        assert_eq!(said, [&changes[..], &listed, &["-two 41"]].concat());
        drop(from);
        following.abort();
        let versions: Vec<_> = asked
            .lock()
            .iter()
            .map(|path| {
                path.split("resourceVersion=")
                    .nth(1)
                    .map_or("list", |rest| rest.split('&').next().unwrap())
                    .to_owned()
            })
            .collect();
        assert_eq!(versions[..6], ["10", "19", "19", "list", "list", "40"]);
    }
}
