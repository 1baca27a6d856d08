//! [`View`]: the read-only API of the cluster as of one revision, or of a range of revisions. A request names it by the path
//! `/kstore/v1/at/REVISION`, which Kubernetes' own paths follow, or by the header `kstore-at`.
//!
//! A view changes which revision a request reads, and by which definitions; the pipeline authorizes it as any other, with the permissions
//! of today and the rule of former namespaces. Its answers are of the past: nothing can be written, and nodes and aggregated API servers,
//! which have no past, are not reached.

mod bound;
pub(crate) mod history;
mod range;
pub(crate) mod resolve;
mod times;

use bound::ViewBound;
use history::{future, not_retained, shown_time, time_of};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::{Reason, Status};
use kstore_api::table::human_duration;
use kstore_nondet::{Clock, Nondet};
use kstore_registry::cache::{Cache, Filter, ReadBound, WatchStart};
use kstore_registry::entry::Entry;
use kstore_registry::error;
use kstore_registry::kinds::{CustomVersion, Kinds};
use kstore_registry::registry::ContinueToken;
use kstore_registry::request::{Action, GetOptions, ListAt, ListOptions, WatchOptions};
use kstore_storage::storage::{Raw, ReadError, prefix_end};
use kstore_storage::storage_key::{DEFINITIONS_ROOT, ROOT};
use parking_lot::Mutex;
pub(crate) use range::ViewRange;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Views that are kept for the next request, with their compiled definitions.
const VIEWS: usize = 16;

/// Views that are kept for one user: one that reads many revisions must not make the others' definitions be compiled for each request.
const VIEWS_OF_USER: usize = 4;

/// The header with the revision of an answer.
const REVISION: HeaderName = HeaderName::from_static("kstore-revision");
/// The header with the time of that revision.
const TIME: HeaderName = HeaderName::from_static("kstore-time");

/// The cluster as of a revision.
#[derive(Debug)]
pub(crate) struct View {
    range: ViewRange,
    /// When the revision was written, if its note is retained.
    time: Option<Timestamp>,
    /// The kinds that were served at the revision.
    pub kinds: Arc<Kinds>,
    /// The definitions of the custom kinds by key; `None`: those of the present.
    definitions: Option<BTreeMap<String, Arc<Entry>>>,
}

/// The views of the newest requests.
#[derive(Default)]
pub(crate) struct Views {
    recent: Mutex<VecDeque<RecentView>>,
}

/// A kept view.
struct RecentView {
    view: Arc<View>,
    /// The user who opened it first, of whose views it is one.
    user: Box<str>,
}

impl Views {
    /// Opens the view of a range.
    ///
    /// # Errors
    /// 504 if a revision does not exist yet; 410 if the first one is no longer retained; or the storage does not answer.
    pub(crate) async fn open(
        &self,
        cache: &Cache,
        (range, user): (ViewRange, &str),
        now: Timestamp,
    ) -> Result<Arc<View>, Status> {
        let newest = cache.fresh().await.map_err(error::of_read)?;
        if range.upto > newest {
            return Err(future(range.upto, newest));
        }
        let storage = cache.storage();
        match storage.get(ROOT, range.from).await {
            Err(ReadError::Compacted { .. }) => {
                return Err(not_retained(storage, &format!("revision {}", range.from), now).await);
            }
            read => drop(read.map_err(error::of_read)?),
        }
        if let Some(known) = self.known(range).filter(|known| known.is_current(cache)) {
            return Ok(known);
        }
        let (kinds, definitions) = self.kinds_at(cache, range.from).await?;
        let time = time_of(storage, range.from).await;
        let view = Arc::new(View { range, time, kinds, definitions });
        self.keep(view.clone(), user);
        Ok(view)
    }

    /// Keeps a view as the newest one of a user. Beyond their bounds the oldest view of the user goes, or the oldest of all.
    fn keep(&self, view: Arc<View>, user: &str) {
        let mut recent = self.recent.lock();
        recent.retain(|other| other.view.range != view.range);
        recent.push_front(RecentView { view, user: user.into() });
        if recent.iter().filter(|kept| &*kept.user == user).count() > VIEWS_OF_USER
            && let Some(oldest) = recent.iter().rposition(|kept| &*kept.user == user)
        {
            recent.remove(oldest);
        }
        recent.truncate(VIEWS);
    }

    /// The view of an earlier request, which becomes the newest one.
    fn known(&self, range: ViewRange) -> Option<Arc<View>> {
        let mut recent = self.recent.lock();
        let at = recent.iter().position(|kept| kept.view.range == range)?;
        let known = recent.remove(at)?;
        let view = known.view.clone();
        recent.push_front(known);
        Some(view)
    }

    /// The kinds that were served at a revision, with the definitions of the custom ones unless they are those of the present.
    async fn kinds_at(
        &self,
        cache: &Cache,
        revision: i64,
    ) -> Result<(Arc<Kinds>, Option<BTreeMap<String, Arc<Entry>>>), Status> {
        let present = cache.kinds();
        if cache.snapshot(&Filter::all(definitions_row())).changed <= revision {
            return Ok((present, None));
        }
        let (from, storage) = (format!("{DEFINITIONS_ROOT}/"), cache.storage());
        let stored =
            storage.list(&from, &prefix_end(&from), 0, revision).await.map_err(error::of_read)?.items;
        let entry = |raw: &Raw| Some((key_of(raw), Arc::new(Entry::from_raw(definitions_row(), raw).ok()?)));
        let definitions: BTreeMap<String, Arc<Entry>> = stored.iter().filter_map(entry).collect();
        if let Some(known) = self.compiled(&definitions) {
            return Ok((known, Some(definitions)));
        }
        let mut changes: BTreeMap<String, Option<&Raw>> =
            present.definitions().map(|kind| (kind.key.clone(), None)).collect();
        changes.extend(stored.iter().map(|raw| (key_of(raw), Some(raw))));
        let is_same = |key: &str, raw: &Raw| {
            present.definitions().any(|kind| kind.key == key && kind.revision == raw.revision)
        };
        changes.retain(|key, raw| raw.is_none_or(|raw| !is_same(key, raw)));
        let kinds = Arc::new(present.with(changes.iter().map(|(key, raw)| (key.as_str(), *raw))));
        Ok((kinds, Some(definitions)))
    }

    /// The compiled kinds of a recent view with the same definitions.
    fn compiled(&self, definitions: &BTreeMap<String, Arc<Entry>>) -> Option<Arc<Kinds>> {
        let revisions = |all: &BTreeMap<String, Arc<Entry>>| {
            all.iter().map(|(key, entry)| (key.clone(), entry.revision)).collect::<Vec<_>>()
        };
        let wanted = revisions(definitions);
        let recent = self.recent.lock();
        let same = recent
            .iter()
            .find(|kept| kept.view.definitions.as_ref().map(revisions).as_ref() == Some(&wanted));
        same.map(|kept| kept.view.kinds.clone())
    }
}

impl View {
    /// Whether a request may be served in the view: it reads, and does not reach a node.
    pub(crate) fn serves(method: &Method, resource: &Resource, subresource: &str, is_stream: bool) -> bool {
        let reads = matches!(*method, Method::GET | Method::HEAD) && !is_stream;
        // Who the caller is does not depend on the revision.
        let asks = *method == Method::POST
            && resource.is("authentication.k8s.io", "selfsubjectreviews")
            && subresource.is_empty();
        reads || asks
    }

    /// 405: the request would change something, or there is no past of what it asks for.
    pub(crate) fn read_only(&self) -> Status {
        let text =
            format!("the server shows the cluster as of revision {}, which cannot be changed", self.range);
        let mut status = Status::bad_request(text);
        (status.code, status.reason) = (405, Reason::MethodNotAllowed);
        status
    }

    /// The stored definition of a custom kind, as of the revision; `None`: it is that of the present.
    pub(crate) fn definition(&self, custom: &CustomVersion) -> Option<Arc<Entry>> {
        self.definitions.as_ref()?.get(&custom.kind.key).cloned()
    }

    /// Whether the view has definitions of its own, or those of the present are still the same.
    fn is_current(&self, cache: &Cache) -> bool {
        self.definitions.is_some() || Arc::ptr_eq(&self.kinds, &cache.kinds())
    }

    /// A clock that stands at the time of the revision when the answer begins: ages are relative to it.
    pub(crate) fn clock(&self, present: &Nondet) -> Nondet {
        match self.time {
            Some(time) => Nondet { clock: Clock::simulated_from(time), ..present.clone() },
            None => present.clone(),
        }
    }

    /// The range of the view in words, for annotations of audit events.
    pub(crate) fn shown(&self) -> String {
        self.range.to_string()
    }

    /// The action in the view, with the bound of a watch.
    ///
    /// # Errors
    /// 504 if it asks for a later revision than the view's; 400 for a continue token of another state.
    pub(crate) fn bounded(&self, action: Action) -> Result<(Action, Option<Arc<dyn ReadBound>>), Status> {
        Ok(match action {
            Action::Get(options) => {
                self.check(options.exact.max(options.not_older_than))?;
                let exact = if options.exact > 0 { options.exact } else { self.range.from };
                (Action::Get(GetOptions { exact, not_older_than: 0 }), None)
            }
            Action::List(options) => (Action::List(self.bounded_list(options)?), None),
            Action::Watch(options) => {
                let bound = ViewBound::new(self.range, self.kinds.clone());
                (Action::Watch(self.bounded_watch(options)?), Some(Arc::new(bound)))
            }
            action => (action, None),
        })
    }

    fn bounded_list(&self, options: ListOptions) -> Result<ListOptions, Status> {
        if !options.continue_token.is_empty() {
            let revision = ContinueToken::decode(&options.continue_token)?.revision();
            if revision <= 0 || revision > self.range.from {
                return Err(Status::bad_request(format!(
                    "the continue token is not of the cluster as of revision {}: start a new list without it",
                    self.range
                )));
            }
            return Ok(options);
        }
        let at = match options.at {
            ListAt::Newest => self.range.from,
            ListAt::NotOlderThan(revision) => {
                self.check(revision)?;
                self.range.from
            }
            ListAt::Exact(revision) => {
                self.check(revision)?;
                revision
            }
        };
        Ok(ListOptions { at: ListAt::Exact(at), ..options })
    }

    fn bounded_watch(&self, options: WatchOptions) -> Result<WatchOptions, Status> {
        self.check(options.mark_initial_end.unwrap_or(0))?;
        let start = match options.start {
            WatchStart::State => WatchStart::State,
            WatchStart::After(0) => WatchStart::After(self.range.from),
            WatchStart::After(revision) | WatchStart::Resume(revision) if revision > self.range.upto => {
                return Err(error::revision_too_large(revision, self.range.upto));
            }
            start => start,
        };
        Ok(WatchOptions { start, ..options })
    }

    /// Checks that the state of a revision is not newer than the view.
    fn check(&self, revision: i64) -> Result<(), Status> {
        if revision > self.range.from {
            return Err(error::revision_too_large(revision, self.range.from));
        }
        Ok(())
    }

    /// Adds the revision and its time to an answer.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        headers.extend(HeaderValue::from_str(&self.range.to_string()).ok().map(|value| (REVISION, value)));
        let time = self.time.map(|time| format!("{time:.6}"));
        headers.extend(time.and_then(|time| HeaderValue::from_str(&time).ok()).map(|value| (TIME, value)));
    }

    /// The text of the warning that each answer has.
    pub(crate) fn warning(&self, now: Timestamp) -> String {
        let when = self.time.map(|time| {
            let ago = human_duration(now.duration_since(time).as_secs().max(0));
            format!(" ({}, {ago} ago)", shown_time(time, now))
        });
        let what = if self.range.from == self.range.upto { "revision" } else { "revisions" };
        format!("the cluster as of {what} {}{}; nothing can be changed", self.range, when.unwrap_or_default())
    }
}

fn definitions_row() -> &'static Resource {
    kind::lookup("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .expect("definitions are a built-in kind")
}

fn key_of(raw: &Raw) -> String {
    String::from_utf8_lossy(&raw.key).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_users_views_do_not_displace_those_of_others() {
        let (views, kinds) = (Views::default(), Arc::new(Kinds::built_in()));
        let range = |revision| ViewRange { from: revision, upto: revision };
        let open = |revision, user: &str| {
            let view = View { range: range(revision), time: None, kinds: kinds.clone(), definitions: None };
            views.keep(Arc::new(view), user);
        };
        let kept = || views.recent.lock().iter().map(|kept| kept.view.range.from).collect::<Vec<_>>();
        open(1, "jane");
        open(2, "joe");
        (10..40).for_each(|revision| open(revision, "eve"));
        assert_eq!(kept(), [39, 38, 37, 36, 2, 1]);
        assert!(views.known(range(1)).is_some() && views.known(range(10)).is_none());
        assert_eq!(kept()[0], 1, "the newest again");
        for user in 0..20 {
            open(100 + user, &user.to_string());
        }
        assert_eq!(kept().len(), VIEWS);
    }
}
