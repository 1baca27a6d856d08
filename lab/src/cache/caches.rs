//! [`Caches`]: the lagging caches of a cluster and the routes to them. A cache only moves forward, so that no client of it sees an older
//! state after a newer one.

use super::{CacheReport, CacheSpec, Freeze, Route, Thaw};
use crate::error::{conflict, gone, not_found, too_many};
use crate::limits;
use crate::request::RequestTarget;
use crate::select::ClientIdentity;
use kstore_api::status::Status;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// The caches and routes of a cluster.
#[derive(Debug, Default)]
pub struct Caches {
    state: Mutex<CachesState>,
    /// Whether there are routes, so that requests and watches have to look for them.
    is_routed: AtomicBool,
    /// Notified, for all waiting, when a cache or a route changes.
    pub changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct CachesState {
    caches: BTreeMap<String, LaggingCache>,
    routes: Vec<Route>,
}

#[derive(Debug, Default)]
struct LaggingCache {
    spec: CacheSpec,
    /// Revision at which all kinds stand that `kinds` does not name; `None`: they follow.
    all: Option<i64>,
    /// By kind; `None`: it follows.
    kinds: BTreeMap<String, Option<i64>>,
    /// Newest revision of each kind that a client was shown.
    shown: BTreeMap<String, i64>,
}

impl LaggingCache {
    fn stands_at(&self, resource: &str) -> Option<i64> {
        self.kinds.get(resource).copied().unwrap_or(self.all)
    }

    fn newest_shown(&self, resources: &[String]) -> i64 {
        let is_named =
            |kind: &&String| resources.is_empty() || resources.contains(kind) || *kind == OTHER_KINDS;
        let shown = self.shown.iter().filter(|(kind, _)| is_named(kind));
        shown.map(|(_, revision)| *revision).max().unwrap_or(0)
    }

    /// Sets where kinds stand, or all if none is named.
    fn set(&mut self, resources: &[String], at: Option<i64>) -> Result<(), Status> {
        if resources.is_empty() {
            (self.all, self.kinds) = (at, BTreeMap::new());
        }
        for kind in resources {
            if !self.kinds.contains_key(kind) && self.kinds.len() >= limits::CACHE_KINDS {
                let text = "a lagging cache has too many kinds by name";
                return Err(too_many("cacheKinds", limits::CACHE_KINDS, text));
            }
            self.kinds.insert(kind.clone(), at);
        }
        Ok(())
    }

    /// All kinds follow the newest state.
    fn follow(&mut self) {
        (self.all, self.kinds) = (None, BTreeMap::new());
    }
}

/// Stands in [`LaggingCache::shown`] for all kinds beyond [`limits::CACHE_KINDS`], whose names clients choose.
const OTHER_KINDS: &str = "*";

/// The cache to which a request is routed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Name of the cache.
    pub cache: String,
    /// The revision at which it stands for the kind of the request; `None`: it follows.
    pub stands_at: Option<i64>,
    /// See [`CacheSpec::window`].
    pub window: Option<u64>,
}

impl Caches {
    /// None. `changed` is notified when one changes.
    pub fn new(changed: Arc<Notify>) -> Self {
        Self { changed, ..Self::default() }
    }

    /// Makes a cache, or changes its window.
    ///
    /// # Errors
    /// 429: there are too many.
    pub fn put(&self, name: &str, spec: CacheSpec) -> Result<(), Status> {
        let mut state = self.state.lock();
        if !state.caches.contains_key(name) && state.caches.len() >= limits::CACHES {
            return Err(too_many("caches", limits::CACHES, "too many lagging caches"));
        }
        state.caches.entry(name.to_owned()).or_default().spec = spec;
        Ok(())
    }

    /// Forgets a cache and the routes to it: its clients see the newest state.
    pub fn delete(&self, name: &str) {
        let mut state = self.state.lock();
        state.caches.remove(name);
        state.routes.retain(|route| route.cache != name);
        self.is_routed.store(!state.routes.is_empty(), Ordering::Release);
        drop(state);
        self.changed.notify_waiters();
    }

    /// A cache in answers of the lab.
    ///
    /// # Errors
    /// 404: there is none.
    pub fn report(&self, name: &str, head: i64) -> Result<CacheReport, Status> {
        let state = self.state.lock();
        let cache = state.caches.get(name).ok_or_else(|| not_found("cache", name))?;
        let all = cache.all.map(|revision| ("*".to_owned(), revision));
        let kinds = cache.kinds.iter().filter_map(|(kind, at)| Some((kind.clone(), (*at)?)));
        Ok(CacheReport {
            name: name.to_owned(),
            window: cache.spec.window,
            head,
            frozen: all.into_iter().chain(kinds).collect(),
            shown: cache.shown.clone(),
        })
    }

    /// Names of the caches.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().caches.keys().cloned().collect()
    }

    /// A cache stands still. `head` is the newest revision, `oldest` the oldest that is retained.
    ///
    /// # Errors
    /// 404: there is no such cache. 409: it has shown a newer state. 410: the revision is not retained. 429: too many kinds are named.
    pub fn freeze(&self, name: &str, how: &Freeze, head: i64, oldest: i64) -> Result<(), Status> {
        let mut state = self.state.lock();
        let cache = state.caches.get_mut(name).ok_or_else(|| not_found("cache", name))?;
        let at = how.at.unwrap_or(head);
        if at > head {
            return Err(conflict(format!("the newest revision is {head}, and a cache cannot be at {at}")));
        }
        if at < oldest {
            return Err(gone(format!("revision {at} is not retained: the oldest is {oldest}")));
        }
        let shown = cache.newest_shown(&how.resources);
        if at < shown {
            return Err(conflict(format!(
                "cache {name:?} has shown revision {shown} and cannot go back to {at}"
            )));
        }
        cache.set(&how.resources, Some(at))?;
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// A cache follows the newest state again, or moves to the given revisions of its kinds.
    ///
    /// # Errors
    /// 404: there is no such cache. 429: too many kinds are named.
    pub fn thaw(&self, name: &str, how: &Thaw, steps: &BTreeMap<String, i64>) -> Result<(), Status> {
        let mut state = self.state.lock();
        let cache = state.caches.get_mut(name).ok_or_else(|| not_found("cache", name))?;
        match how.step {
            None => cache.set(&how.resources, None)?,
            Some(_) => {
                for (kind, at) in steps {
                    cache.set(std::slice::from_ref(kind), Some(*at))?;
                }
            }
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// All caches follow the newest state.
    pub fn thaw_all(&self) {
        self.state.lock().caches.values_mut().for_each(LaggingCache::follow);
        self.changed.notify_waiters();
    }

    /// The revision at which a kind stands in a cache; `None`: it follows, or there is no such cache.
    pub fn stands_at(&self, name: &str, resource: &str) -> Option<i64> {
        self.state.lock().caches.get(name)?.stands_at(resource)
    }

    /// Replaces the routes.
    ///
    /// # Errors
    /// 404: a route names no cache. 429: there are too many.
    pub fn route(&self, routes: Vec<Route>) -> Result<(), Status> {
        let mut state = self.state.lock();
        if routes.len() > limits::ROUTES {
            return Err(too_many("routes", limits::ROUTES, "too many routes"));
        }
        if let Some(unknown) = routes.iter().find(|route| !state.caches.contains_key(&route.cache)) {
            return Err(not_found("cache", &unknown.cache));
        }
        state.routes = routes;
        self.is_routed.store(!state.routes.is_empty(), Ordering::Release);
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Whether there are routes.
    pub fn is_routed(&self) -> bool {
        self.is_routed.load(Ordering::Acquire)
    }

    /// The routes in force.
    pub fn routes(&self) -> Vec<Route> {
        self.state.lock().routes.clone()
    }

    /// The cache of a request; `None`: it sees the newest state.
    pub fn of(&self, client: &ClientIdentity<'_>, target: &RequestTarget) -> Option<Routed> {
        if !self.is_routed() {
            return None;
        }
        let state = self.state.lock();
        let mut routes = state.routes.iter();
        let route = routes.find(|route| route.client.matches(client) && route.request.matches(target))?;
        let cache = state.caches.get(&route.cache)?;
        Some(Routed {
            cache: route.cache.clone(),
            stands_at: cache.stands_at(&target.resource),
            window: cache.spec.window,
        })
    }

    /// A client was shown a revision of a kind from a cache.
    pub fn showed(&self, name: &str, resource: &str, revision: i64) {
        if let Some(cache) = self.state.lock().caches.get_mut(name) {
            let is_new = !cache.shown.contains_key(resource) && cache.shown.len() >= limits::CACHE_KINDS;
            let kind = if is_new { OTHER_KINDS } else { resource };
            let shown = cache.shown.entry(kind.to_owned()).or_default();
            *shown = revision.max(*shown);
        }
    }

    /// Waits until a cache has reached a revision of a kind, or follows.
    pub async fn reached(&self, name: &str, resource: &str, revision: i64) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.stands_at(name, resource).is_none_or(|at| at >= revision) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{ClientSelector, RequestSelector};
    use http::Method;

    fn frozen(resources: &[&str], at: Option<i64>) -> Freeze {
        Freeze { resources: resources.iter().map(|kind| (*kind).to_owned()).collect(), at }
    }

    #[test]
    fn a_cache_goes_back_only_if_it_has_shown_nothing_newer() {
        let caches = Caches::default();
        caches.put("b", CacheSpec::default()).unwrap();
        assert_eq!(caches.freeze("c", &frozen(&[], None), 9, 1).unwrap_err().code, 404);
        caches.freeze("b", &frozen(&["pods"], Some(5)), 9, 1).unwrap();
        assert_eq!((caches.stands_at("b", "pods"), caches.stands_at("b", "nodes")), (Some(5), None));
        caches.showed("b", "pods", 5);
        assert_eq!(caches.freeze("b", &frozen(&["pods"], Some(4)), 9, 1).unwrap_err().code, 409);
        assert_eq!(caches.freeze("b", &frozen(&["nodes"], Some(4)), 9, 5).unwrap_err().code, 410);
        assert_eq!(caches.freeze("b", &frozen(&["nodes"], Some(10)), 9, 1).unwrap_err().code, 409);
        caches.freeze("b", &frozen(&[], None), 9, 1).unwrap();
        assert_eq!(caches.stands_at("b", "pods"), Some(9), "it moves forward");
        caches.thaw("b", &Thaw { resources: vec!["pods".to_owned()], step: None }, &BTreeMap::new()).unwrap();
        assert_eq!((caches.stands_at("b", "pods"), caches.stands_at("b", "nodes")), (None, Some(9)));
        caches.thaw_all();
        assert_eq!(caches.stands_at("b", "nodes"), None);
    }

    #[test]
    fn the_kinds_of_a_cache_are_bounded_however_they_are_named() {
        let caches = Caches::default();
        caches.put("b", CacheSpec::default()).unwrap();
        let names = |prefix: &str| -> Vec<String> {
            (0..limits::CACHE_KINDS).map(|number| format!("{prefix}{number}")).collect()
        };
        caches.freeze("b", &Freeze { resources: names("x"), at: Some(5) }, 9, 1).unwrap();
        let more = Freeze { resources: vec!["y".to_owned()], at: None };
        assert_eq!(caches.freeze("b", &more, 9, 1).unwrap_err().code, 429);
        let stepped = |kind: &str| {
            let steps = BTreeMap::from([(kind.to_owned(), 7)]);
            caches.thaw("b", &Thaw { resources: vec![kind.to_owned()], step: Some(1) }, &steps)
        };
        assert_eq!(stepped("y").unwrap_err().code, 429);
        stepped("x0").unwrap();
        assert_eq!(caches.stands_at("b", "x0"), Some(7));
    }

    #[test]
    fn the_first_route_that_matches_decides() {
        let caches = Caches::default();
        let target = RequestTarget::of(&Method::GET, &"/api/v1/pods".parse().unwrap()).unwrap();
        let client = |name| ClientIdentity { name, user: "u", agent: "a/1" };
        let route = |program: &str, resource: &str, cache: &str| Route {
            client: ClientSelector::program(program),
            request: RequestSelector { resources: vec![resource.to_owned()], ..RequestSelector::default() },
            cache: cache.to_owned(),
        };
        assert_eq!(caches.route(vec![route("x", "*", "b")]).unwrap_err().code, 404);
        for name in ["b", "c"] {
            caches.put(name, CacheSpec::default()).unwrap();
        }
        caches.route(vec![route("x", "nodes", "b"), route("x", "*", "c"), route("x", "pods", "b")]).unwrap();
        assert_eq!(caches.of(&client("x"), &target).unwrap().cache, "c");
        assert_eq!(caches.of(&client("y"), &target), None);
        caches.delete("c");
        assert_eq!(caches.of(&client("x"), &target).unwrap().cache, "b");
        for number in 0..=limits::CACHES - 2 {
            caches.put(&format!("n{number}"), CacheSpec::default()).unwrap();
        }
        assert_eq!(caches.put("more", CacheSpec::default()).unwrap_err().code, 429);
    }
}
