//! [`Stage`]: what the operations of one transaction want, before any of it is stored; and [`View`], the cluster as an
//! operation sees it: the watch cache, and over it what earlier operations of its transaction made. Not the commit: that is
//! `Registry::commit_stage`.

use crate::cache::{Cache, Entry, Filter};
use crate::kinds::Kinds;
use crate::lookup::Lookup;
use crate::storage::{Commit, Guard, Raw, Write};
use bytes::Bytes;
use kstore_api::kind::Resource;
use kstore_api::status::Status;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Guards and writes that belong together, collected by the operations of one transaction. Shared by `Arc` while it lasts.
#[derive(Debug)]
pub struct Stage(Mutex<Staged>);

#[derive(Debug, Default)]
struct Staged {
    /// The kinds whose keys the transaction may write.
    kinds: Arc<Kinds>,
    /// The revision at which each key was when the transaction first relied on it; 0: it was absent.
    base: BTreeMap<String, i64>,
    /// What becomes of keys, in the order in which they were first written.
    writes: Vec<Write>,
    /// Written objects as they are now; `None`: removed.
    objects: BTreeMap<String, Option<Arc<Entry>>>,
}

impl Stage {
    /// Nothing is staged yet; `kinds` are those that are served.
    pub(crate) fn new(kinds: Arc<Kinds>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Staged { kinds, ..Staged::default() })))
    }

    /// Takes in what one operation wants. The first guard is the object's own; its revision on return is the one at which
    /// the transaction found the object.
    ///
    /// # Errors
    /// 400 if a key is wanted that this transaction removes or claims elsewhere: one revision cannot show both.
    pub(super) fn add(&self, guards: &[Guard], writes: Vec<Write>) -> Result<i64, Status> {
        let mut staged = self.0.lock();
        for guard in guards {
            staged.expect(guard)?;
        }
        for write in writes {
            staged.write(write)?;
        }
        let own = guards.first().map_or("", |guard| guard.key.as_str());
        Ok(staged.base.get(own).copied().unwrap_or(0))
    }

    /// The commit that does all of it.
    pub(super) fn commit(&self, note: Bytes) -> Commit {
        let staged = self.0.lock();
        let guards =
            staged.base.iter().map(|(key, revision)| Guard { key: key.clone(), revision: *revision });
        Commit { guards: guards.collect(), writes: staged.writes.clone(), note }
    }

    /// The rests of the keys behind a prefix that this transaction writes.
    pub(super) fn written_below(&self, prefix: &str) -> Vec<String> {
        let staged = self.0.lock();
        let keys = staged.objects.range(prefix.to_owned()..).map(|(key, _)| key.strip_prefix(prefix));
        keys.map_while(|rest| rest.map(str::to_owned)).collect()
    }

    /// The object under a key, if this transaction has written it: `Some(None)` if it removes it.
    pub fn object(&self, key: &str) -> Option<Option<Arc<Entry>>> {
        self.0.lock().objects.get(key).cloned()
    }
}

impl Staged {
    fn expect(&mut self, guard: &Guard) -> Result<(), Status> {
        match self.objects.get(&guard.key) {
            // A guard that expects no object was made without the view, or would bring back what the transaction removes.
            Some(_) if guard.revision == 0 && self.base.get(&guard.key) != Some(&0) => {
                Err(twice(&guard.key, "is removed and made again"))
            }
            Some(None) => Err(twice(&guard.key, "is made and removed again")),
            _ => {
                self.base.entry(guard.key.clone()).or_insert(guard.revision);
                Ok(())
            }
        }
    }

    fn write(&mut self, write: Write) -> Result<(), Status> {
        let key = key_of(&write).to_owned();
        let entry = match &write {
            Write::Put { value, .. } => self.entry(&key, value)?,
            Write::Delete { .. } => None,
        };
        let is_known = self.objects.insert(key.clone(), entry).is_some();
        // Only then: a transaction of many objects would compare each with all before it.
        let earlier = is_known.then(|| self.writes.iter_mut().find(|other| key_of(other) == key));
        match earlier.flatten() {
            Some(earlier) => *earlier = write,
            None => self.writes.push(write),
        }
        Ok(())
    }

    /// The object that a key will hold; none for keys of no kind.
    fn entry(&self, key: &str, value: &Bytes) -> Result<Option<Arc<Entry>>, Status> {
        let Some(resource) = self.kinds.of_key(key.as_bytes()) else { return Ok(None) };
        let revision = self.base.get(key).copied().unwrap_or(0);
        let raw = Raw { key: Bytes::from(key.to_owned()), value: value.clone(), revision, created: revision };
        Entry::from_raw(resource, &raw).map(Arc::new).map(Some).map_err(Status::internal)
    }
}

fn key_of(write: &Write) -> &str {
    match write {
        Write::Put { key, .. } | Write::Delete { key } => key,
    }
}

fn twice(key: &str, what: &str) -> Status {
    let name = key.trim_start_matches(crate::cache::ROOT);
    Status::bad_request(format!("{name} {what} in one transaction: use two transactions"))
}

/// The cluster as one operation sees it.
#[derive(Clone)]
pub(crate) struct View {
    cache: Arc<Cache>,
    stage: Option<Arc<Stage>>,
}

impl View {
    pub(crate) fn new(cache: Arc<Cache>, stage: Option<Arc<Stage>>) -> Self {
        Self { cache, stage }
    }

    /// The object under a storage key.
    pub(crate) fn get(&self, resource: &Resource, key: &str) -> Option<Arc<Entry>> {
        let staged = self.stage.as_ref().and_then(|stage| stage.object(key));
        staged.unwrap_or_else(|| self.cache.get(resource, key))
    }

    /// Whether a namespace may have objects of a kind: one look, without touching the objects.
    pub(crate) fn has_any(&self, resource: &'static Resource, namespace: &str) -> bool {
        let prefix = resource.storage_prefix(namespace);
        if self.stage.as_ref().is_some_and(|stage| !stage.written_below(&prefix).is_empty()) {
            return true;
        }
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        self.cache.count(resource) > 0
            && !self.cache.snapshot(&filter).select(&filter, "", 1).entries.is_empty()
    }

    /// All objects that match, in key order.
    pub(crate) fn scan(&self, filter: &Filter) -> Vec<Arc<Entry>> {
        let (found, _) = self.cache.scan(filter);
        let Some(stage) = &self.stage else { return found };
        let staged = stage.0.lock();
        let mut all: BTreeMap<String, Arc<Entry>> =
            found.into_iter().map(|entry| (entry.key().to_owned(), entry)).collect();
        let prefix = filter.resource.storage_prefix(&filter.namespace);
        for (key, entry) in
            staged.objects.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix))
        {
            all.remove(key.as_str());
            if let Some(entry) = entry.as_ref().filter(|entry| filter.matches(entry)) {
                all.insert(entry.key().to_owned(), entry.clone());
            }
        }
        all.into_values().collect()
    }
}

impl Lookup for View {
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let entry = View::get(self, resource, &resource.storage_key(namespace, name))?;
        Some(Arc::new(entry.parse()))
    }

    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>> {
        View::get(self, resource, key)
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        self.scan(&filter).iter().map(|entry| Arc::new(entry.parse())).collect()
    }

    fn kinds(&self) -> Arc<Kinds> {
        self.cache.kinds()
    }

    fn version(&self, resource: &'static Resource) -> i64 {
        Lookup::version(&*self.cache, resource)
    }
}
