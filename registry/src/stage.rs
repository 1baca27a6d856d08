//! [`Stage`] collects the guards and writes of a transaction's operations before any of it is stored.
//! `View` is the cluster as an operation sees it: the watch cache overlaid with the writes of earlier
//! operations. `Registry::commit_stage` commits a stage.

use crate::cache::{Cache, Change, Filter, Objects};
use crate::entry::{Entry, UncommittedEntry};
use crate::kinds::Kinds;
use crate::lookup::Lookup;
use crate::pod_dialer::PodDialer;
use bytes::Bytes;
use kstore_api::resource::Resource;
use kstore_api::selector::field;
use kstore_api::status::Status;
use kstore_storage::storage::{Commit, Guard, Raw, Write};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The guards and writes that the operations of one transaction have collected so far. Shared by `Arc`.
#[derive(Debug)]
pub struct Stage(Mutex<StagedWrites>);

#[derive(Debug, Default)]
struct StagedWrites {
    /// The kinds whose keys the transaction may write.
    kinds: Arc<Kinds>,
    /// The revision of each key when the transaction first relied on it; 0: the key was absent.
    base: BTreeMap<String, i64>,
    /// The writes, in the order in which keys were first written.
    writes: Vec<Write>,
    /// Written objects in their latest state; `None`: removed.
    objects: BTreeMap<String, Option<Arc<Entry>>>,
}

impl Stage {
    /// An empty stage; `kinds` are the kinds served now.
    pub fn new(kinds: Arc<Kinds>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(StagedWrites { kinds, ..StagedWrites::default() })))
    }

    /// Adds the guards and writes of one operation. The first guard must be the operation's own object.
    /// Returns the revision at which the transaction found that object.
    ///
    /// # Errors
    /// 400 if the transaction both removes and creates a key: one revision cannot show both.
    pub fn add(&self, guards: &[Guard], writes: Vec<Write>) -> Result<i64, Status> {
        self.add_made(guards, writes, None)
    }

    /// Adds an operation like [`Stage::add`], with the entry of the object that it writes.
    pub(crate) fn add_made(
        &self,
        guards: &[Guard],
        writes: Vec<Write>,
        made: Option<&UncommittedEntry>,
    ) -> Result<i64, Status> {
        let mut staged = self.0.lock();
        for guard in guards {
            staged.expect(guard)?;
        }
        for write in writes {
            staged.write(write, made)?;
        }
        let own = guards.first().map_or("", |guard| guard.key.as_str());
        Ok(staged.base.get(own).copied().unwrap_or(0))
    }

    /// The commit of all operations.
    pub fn commit(&self, note: Bytes) -> Commit {
        let staged = self.0.lock();
        let guards =
            staged.base.iter().map(|(key, revision)| Guard { key: key.clone(), revision: *revision });
        Commit { guards: guards.collect(), writes: staged.writes.clone(), note }
    }

    /// Entries of the objects that this transaction writes.
    pub(crate) fn entries(&self) -> Vec<UncommittedEntry> {
        self.0.lock().objects.values().flatten().map(|entry| entry.uncommitted()).collect()
    }

    /// Keys below a prefix that this transaction writes, without the prefix.
    pub(crate) fn written_below(&self, prefix: &str) -> Vec<String> {
        let staged = self.0.lock();
        let keys = staged.objects.range(prefix.to_owned()..).map(|(key, _)| key.strip_prefix(prefix));
        keys.map_while(|rest| rest.map(str::to_owned)).collect()
    }

    /// The object under a key as this transaction leaves it. `None`: not written; `Some(None)`: removed.
    pub fn object(&self, key: &str) -> Option<Option<Arc<Entry>>> {
        self.0.lock().objects.get(key).cloned()
    }
}

impl StagedWrites {
    fn expect(&mut self, guard: &Guard) -> Result<(), Status> {
        match self.objects.get(&guard.key) {
            // A guard that expects no object was made without the view, or would create again what the
            // transaction removes.
            Some(_) if guard.revision == 0 && self.base.get(&guard.key) != Some(&0) => {
                Err(conflicting_writes(&guard.key, "is removed and made again"))
            }
            Some(None) => Err(conflicting_writes(&guard.key, "is made and removed again")),
            _ => {
                self.base.entry(guard.key.clone()).or_insert(guard.revision);
                Ok(())
            }
        }
    }

    fn write(&mut self, write: Write, made: Option<&UncommittedEntry>) -> Result<(), Status> {
        let key = key_of(&write).to_owned();
        let entry = match &write {
            Write::Put { value, .. } => self.entry(&key, value, made)?,
            Write::Delete { .. } => None,
        };
        let is_known = self.objects.insert(key.clone(), entry).is_some();
        // Searched only if the key is known: otherwise large transactions would take quadratic time.
        let earlier = is_known.then(|| self.writes.iter_mut().find(|other| key_of(other) == key));
        match earlier.flatten() {
            Some(earlier) => *earlier = write,
            None => self.writes.push(write),
        }
        Ok(())
    }

    /// The object that a key will hold; `None` for keys that belong to no kind.
    fn entry(
        &self,
        key: &str,
        value: &Bytes,
        made: Option<&UncommittedEntry>,
    ) -> Result<Option<Arc<Entry>>, Status> {
        let Some(resource) = self.kinds.of_key(key.as_bytes()) else { return Ok(None) };
        let revision = self.base.get(key).copied().unwrap_or(0);
        if let Some(made) = made.filter(|made| made.is_entry_of(resource, key, value)) {
            return Ok(Some(Arc::new(made.at(revision, revision))));
        }
        let (key, value) = (Bytes::from(key.to_owned()), value.clone());
        let raw = Raw { key, value, undecrypted: None, revision, created: revision };
        Entry::from_raw(resource, &raw).map(Arc::new).map(Some).map_err(Status::internal)
    }
}

fn key_of(write: &Write) -> &str {
    match write {
        Write::Put { key, .. } | Write::Delete { key } => key,
    }
}

fn conflicting_writes(key: &str, what: &str) -> Status {
    let name = key.trim_start_matches(kstore_storage::storage_key::ROOT);
    Status::bad_request(format!("{name} {what} in one transaction: use two transactions"))
}

/// The cluster as one operation sees it: the cache with the staged writes of its transaction.
#[derive(Clone)]
pub struct View {
    cache: Arc<Cache>,
    stage: Option<Arc<Stage>>,
}

impl View {
    /// The cluster as an operation after those of `stage` sees it; without one, the cache as it is.
    pub fn new(cache: Arc<Cache>, stage: Option<Arc<Stage>>) -> Self {
        Self { cache, stage }
    }

    /// The object under a storage key.
    pub fn get(&self, resource: &Resource, key: &str) -> Option<Arc<Entry>> {
        let staged = self.stage.as_ref().and_then(|stage| stage.object(key));
        staged.unwrap_or_else(|| self.cache.get(resource, key))
    }

    /// Whether a namespace may have objects of a kind. Cheap: reads no object.
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
    pub fn scan(&self, filter: &Filter) -> Vec<Arc<Entry>> {
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
        Some(View::get(self, resource, &resource.storage_key(namespace, name))?.parsed())
    }

    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>> {
        View::get(self, resource, key)
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        self.scan(&filter).iter().map(|entry| entry.parsed()).collect()
    }

    fn kinds(&self) -> Arc<Kinds> {
        self.cache.kinds()
    }

    fn version(&self, resource: &'static Resource) -> i64 {
        Lookup::version(&*self.cache, resource)
    }

    fn pod_dialer(&self) -> Option<Arc<dyn PodDialer>> {
        self.cache.pod_dialer()
    }

    fn pods_of_node(&self, node: &str) -> Objects {
        let fields = field::Selector::one("spec.nodeName", node);
        let filter = Filter { fields, ..Filter::all(crate::lookup::core("pods")) };
        Objects::of(&self.scan(&filter))
    }

    fn staged(&self, kinds: &[&'static Resource]) -> Vec<Arc<Change>> {
        let Some(stage) = &self.stage else { return Vec::new() };
        let staged = stage.0.lock();
        let written = kinds.iter().flat_map(|kind| {
            let prefix = kind.storage_prefix("");
            let below = staged.objects.range(prefix.clone()..);
            below.take_while(move |(key, _)| key.starts_with(&prefix)).map(move |(key, new)| (kind, key, new))
        });
        let change = |(kind, key, new): (&&'static Resource, &String, &Option<Arc<Entry>>)| {
            let old = self.cache.get(kind, key);
            (new.is_some() || old.is_some()).then(|| Arc::new(Change::new(0, new.clone(), old)))
        };
        written.filter_map(change).collect()
    }
}
