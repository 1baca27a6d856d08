//! Lists: the newest state from the cache, older states and later pages from the storage at their revision.
//! Entries are shared, not copied; only objects that have changed since are parsed.

use super::unreadable::{list_status, unreadable_raw};
use super::{Registry, entry_of};
use crate::cache::{Filter, Snapshot};
use crate::entry::Entry;
use crate::error;
use crate::request::{ListAt, ListOptions};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_storage::limits;
use kstore_storage::storage::{Raw, prefix_end};
use kstore_storage::storage_key::ROOT;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The objects in key order.
    pub items: Vec<Arc<Entry>>,
    /// The revision of the list; the same for all pages of one list.
    pub revision: i64,
    /// Token of the next page; empty on the last page.
    pub continue_token: String,
    /// The number of objects after this page, if known.
    pub remaining: Option<i64>,
}

impl Listed {
    fn empty(revision: i64) -> Self {
        Self { items: Vec::new(), revision, continue_token: String::new(), remaining: None }
    }

    /// Makes the next page, if there is one, show the newest state instead of that of this page.
    pub fn continue_at_newest(&mut self) {
        if let Ok(token) = ContinueToken::decode(&self.continue_token) {
            self.continue_token = ContinueToken { rv: -1, ..token }.encode();
        }
    }

    /// Makes the next page begin after an entry of this page.
    pub fn continue_behind(&mut self, filter: &Filter, last: &Entry) {
        let prefix = filter.resource.storage_prefix(&filter.namespace);
        self.continue_token = ContinueToken::after(relative_key(&prefix, last), self.revision).encode();
    }
}

/// The position and revision at which a paged list continues. Opaque to clients; the format is Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueToken {
    v: String,
    rv: i64,
    start: String,
}

impl ContinueToken {
    const VERSION: &'static str = "meta.k8s.io/v1";

    /// The token that continues after the key `last` (without `prefix`) of a list at `revision`.
    pub fn after(last: &str, revision: i64) -> Self {
        Self { v: Self::VERSION.into(), rv: revision, start: format!("{last}\0") }
    }

    /// The revision of the list that the token continues; negative if it continues at the newest state.
    pub fn revision(&self) -> i64 {
        self.rv
    }

    /// Encodes the token for clients.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("a token is plain data"))
    }

    /// Decodes a token that a client sent.
    pub fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |reason: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {reason}"))
        };
        let bytes =
            URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|e| invalid(&e.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|e| invalid(&e.to_string()))?;
        let odd = |segment: &str| matches!(segment, "." | "..");
        match token {
            Self { ref v, .. } if v != Self::VERSION => {
                Err(invalid(&format!("server does not recognize this encoded version {v:?}")))
            }
            Self { rv: 0, .. } => {
                Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"))
            }
            Self { ref start, .. } if start.is_empty() => {
                Err(invalid("encoded start key empty (version meta.k8s.io/v1)"))
            }
            Self { ref start, .. } if start.split('/').any(odd) => Err(invalid(&format!("{start:?}"))),
            token => Ok(token),
        }
    }
}

impl Registry {
    /// Lists what `options` select.
    ///
    /// # Errors
    /// 500 if an object of the list cannot be decrypted, or read at all where that is reported: a list without it would be taken for
    /// complete.
    pub async fn list(&self, options: &ListOptions) -> Result<Listed, Status> {
        let listed = self.list_readable(options).await?;
        match self.cache.refusal_of_list(&options.filter) {
            Some(refusal) => Err(refusal),
            None => Ok(listed),
        }
    }

    async fn list_readable(&self, options: &ListOptions) -> Result<Listed, Status> {
        if !options.continue_token.is_empty() {
            let token = ContinueToken::decode(&options.continue_token)?;
            return self.list_page(options, token).await;
        }
        match options.at {
            ListAt::Newest => self.not_older_than(0).await?,
            ListAt::NotOlderThan(revision) => self.not_older_than(revision).await?,
            ListAt::Exact(revision) => {
                self.not_older_than(revision).await?;
                return self.list_at(options, "", revision).await;
            }
        };
        Ok(page_of(&self.cache.snapshot(&options.filter), "", options).await)
    }

    async fn list_page(&self, options: &ListOptions, token: ContinueToken) -> Result<Listed, Status> {
        if token.rv > 0 {
            self.not_older_than(token.rv).await?;
            let listed = self.list_at(options, &token.start, token.rv).await;
            return listed
                .map_err(|status| if status.code == 410 { expired_token(status, &token) } else { status });
        }
        // A token with revision −1 asks to continue at the newest revision: complete, but not consistent with
        // earlier pages.
        self.fresh().await?;
        Ok(page_of(&self.cache.snapshot(&options.filter), &token.start, options).await)
    }

    /// Lists the state at a revision: from the cache if this kind has not changed since, otherwise from the
    /// history.
    async fn list_at(&self, options: &ListOptions, start: &str, revision: i64) -> Result<Listed, Status> {
        let snapshot = self.cache.snapshot(&options.filter);
        let unchanged = snapshot.changed <= revision && revision <= snapshot.revision;
        if unchanged {
            // A compacted revision must be refused (410), whether or not the kind has changed since.
            self.cache.storage().get(ROOT, revision).await.map_err(error::of_read)?;
            return Ok(page_of(&snapshot.at(revision), start, options).await);
        }
        if let Some(key) = options.filter.only_key() {
            return self.list_one(options, &key, revision).await;
        }
        self.list_stored(options, start, revision, &snapshot).await
    }

    /// Lists the only object that can match, at a revision.
    async fn list_one(&self, options: &ListOptions, key: &str, revision: i64) -> Result<Listed, Status> {
        let read = self.cache.storage().get(key, revision).await.map_err(error::of_read)?;
        let entry = read.and_then(|raw| entry_of(options.filter.resource, &raw).ok());
        let items = entry.filter(|entry| options.filter.matches(entry)).map(Arc::new);
        Ok(Listed { items: items.into_iter().collect(), ..Listed::empty(revision) })
    }

    /// Reads pages from the storage until `limit` objects matched. Unchanged objects are the cache's own
    /// entries.
    async fn list_stored(
        &self,
        options: &ListOptions,
        start: &str,
        revision: i64,
        now: &Snapshot,
    ) -> Result<Listed, Status> {
        let filter = &options.filter;
        let prefix = filter.resource.storage_prefix(&filter.namespace);
        let end = prefix_end(&prefix);
        let mut from = format!("{prefix}{start}");
        let mut listed = Listed::empty(revision);
        let reports = self.cache.reports_unreadable();
        loop {
            let read = self.cache.storage().list(&from, &end, page_size(options), revision).await;
            let page = read.map_err(error::of_read)?;
            for (read, raw) in page.items.iter().enumerate() {
                if options.limit > 0 && listed.items.len() as i64 == options.limit {
                    let last = listed.items.last().expect("a limit is positive");
                    listed.continue_token =
                        ContinueToken::after(relative_key(&prefix, last), revision).encode();
                    listed.remaining = (!filter.selects()).then_some(page.count - read as i64);
                    return Ok(listed);
                }
                if let Some(reason) = raw.undecrypted.as_ref().filter(|_| !reports) {
                    return Err(list_status(&String::from_utf8_lossy(&raw.key), reason));
                }
                let entry = match shared_entry(filter.resource, raw, now) {
                    Ok(entry) => entry,
                    Err(_) if reports => return Err(unreadable_raw(filter.resource, raw)),
                    // A value that is not an object is left out, as the cache does.
                    Err(_) => continue,
                };
                if filter.matches(&entry) {
                    listed.items.push(entry);
                }
            }
            let (Some(last), true) = (page.items.last(), page.more) else { return Ok(listed) };
            from = format!("{}\0", String::from_utf8_lossy(&last.key));
        }
    }
}

/// Objects to read per page: one more than the limit, to know whether more follow. Selectors may skip
/// objects, so that small limits do not mean small reads. Without a limit pages bound the values that are read but not needed.
fn page_size(options: &ListOptions) -> i64 {
    match options.limit {
        0 => limits::LIST_CHUNK_ITEMS as i64,
        limit => (limit + 1).max(limits::LIST_CHUNK_ITEMS as i64),
    }
}

/// The entry of an object at an old revision: the cache's own if the object has not changed since.
fn shared_entry(resource: &'static Resource, raw: &Raw, now: &Snapshot) -> Result<Arc<Entry>, Status> {
    let key = std::str::from_utf8(&raw.key).unwrap_or_default();
    match now.get(key).filter(|entry| entry.revision == raw.revision) {
        Some(entry) => Ok(entry.clone()),
        None => entry_of(resource, raw).map(Arc::new),
    }
}

/// The entry's key without the listed prefix.
fn relative_key<'e>(prefix: &str, entry: &'e Entry) -> &'e str {
    entry.key().strip_prefix(prefix).unwrap_or_default()
}

/// 410 with a token that continues at the newest revision. Clients recognize the beginning of the text.
fn expired_token(status: Status, token: &ContinueToken) -> Status {
    let next = ContinueToken { rv: -1, ..token.clone() };
    let text = "The provided continue parameter is too old to display a consistent list result. Start a new list without it, \
        or go on with the continue token of this answer: the rest is then read at the newest revision, so that objects which \
        changed since the first page may be missing or appear twice.";
    status.with_message(text).continued_by(next.encode())
}

/// Cuts one page out of the cache's snapshot.
async fn page_of(snapshot: &Snapshot, start: &str, options: &ListOptions) -> Listed {
    let limit = usize::try_from(options.limit).unwrap_or(0);
    let prefix = options.filter.resource.storage_prefix(&options.filter.namespace);
    let from = if start.is_empty() { String::new() } else { format!("{prefix}{start}") };
    let found = snapshot.select_in_steps(&options.filter, &from, limit).await;
    let mut listed = Listed { items: found.entries, ..Listed::empty(snapshot.revision) };
    if let (true, Some(last)) = (found.more, listed.items.last()) {
        listed.continue_token = ContinueToken::after(relative_key(&prefix, last), snapshot.revision).encode();
        listed.remaining = found.remaining.map(|n| n as i64);
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_round_trip_and_forged_ones_are_refused() {
        let token = ContinueToken::after("default/a", 7);
        assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        let forged = ContinueToken::after("../secrets/x", 7).encode();
        for bad in ["", "%%%", "e30", &forged] {
            assert!(ContinueToken::decode(bad).is_err(), "{bad}");
        }
    }
}
