//! Lists: the newest state from the cache, older ones and later pages from the storage at their revision. Entries are
//! shared, not copied; nothing is parsed unless a selector must look into a historic object.

use super::{Registry, entry_of};
use crate::cache::Entry;
use crate::error;
use crate::request::{ListAt, ListOptions};
use crate::storage::prefix_end;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kstore_api::status::Status;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One page.
#[derive(Clone, Debug)]
pub struct Listed {
    /// In key order.
    pub items: Vec<Arc<Entry>>,
    /// The revision at which this is the whole truth; the same for all pages of one list.
    pub revision: i64,
    /// Where the next page begins; "" on the last.
    pub continue_token: String,
    /// How many are left behind this page, when that is known.
    pub remaining: Option<i64>,
}

/// Where a paged list goes on. Opaque to clients; the form is Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueToken {
    v: String,
    rv: i64,
    start: String,
}

impl ContinueToken {
    const VERSION: &'static str = "meta.k8s.io/v1";

    /// Behind the key `last` (without `prefix`) of a list at `revision`.
    pub fn after(last: &str, revision: i64) -> Self {
        Self { v: Self::VERSION.into(), rv: revision, start: format!("{last}\0") }
    }

    /// The text that clients carry.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("a token is plain data"))
    }

    /// From what a client sent.
    pub fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |reason: &str| Status::bad_request(format!("invalid continue token: {reason}"));
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| invalid("not base64"))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|_| invalid("not a token"))?;
        if token.v != Self::VERSION || token.start.split('/').any(|segment| segment == "..") {
            return Err(invalid("not one of this server"));
        }
        Ok(token)
    }
}

impl Registry {
    /// Lists what `options` select.
    pub async fn list(&self, options: &ListOptions) -> Result<Listed, Status> {
        if !options.continue_token.is_empty() {
            let token = ContinueToken::decode(&options.continue_token)?;
            return self.list_page(options, token).await;
        }
        let wanted = match options.at {
            ListAt::Exact(revision) => {
                let current = self.not_older_than(revision).await?;
                if revision != current {
                    return self.list_stored(options, "", revision).await;
                }
                revision
            }
            ListAt::Newest => 0,
            ListAt::NotOlderThan(revision) => revision,
        };
        self.not_older_than(wanted).await?;
        let (items, revision) = self.cache.scan(&options.filter);
        Ok(cut(items, revision, options))
    }

    async fn list_page(&self, options: &ListOptions, token: ContinueToken) -> Result<Listed, Status> {
        if token.rv > 0 {
            let listed = self.list_stored(options, &token.start, token.rv).await;
            return listed
                .map_err(|status| if status.code == 410 { inconsistent(status, &token) } else { status });
        }
        // A token of revision −1 asks to go on at the newest revision: complete, but not consistent with earlier pages.
        let revision = self.fresh().await?;
        self.list_stored(options, &token.start, revision).await
    }

    /// Reads pages of the storage until `limit` objects matched.
    async fn list_stored(&self, options: &ListOptions, start: &str, revision: i64) -> Result<Listed, Status> {
        let filter = &options.filter;
        let prefix = filter.resource.storage_prefix(&filter.namespace);
        let end = prefix_end(&prefix);
        let mut from = format!("{prefix}{start}");
        let mut items = Vec::new();
        loop {
            let read = self.cache.storage().list(&from, &end, options.limit, revision).await;
            let page = read.map_err(error::of_read)?;
            let last = page.items.last().map(|raw| String::from_utf8_lossy(&raw.key).into_owned());
            for (read, raw) in page.items.iter().enumerate() {
                let entry = entry_of(filter.resource, raw)?;
                if !filter.matches(&entry) {
                    continue;
                }
                let key = entry.key.clone();
                items.push(Arc::new(entry));
                let left = page.count - read as i64 - 1;
                if options.limit > 0 && items.len() as i64 == options.limit && left > 0 {
                    let last = key.strip_prefix(&prefix).unwrap_or_default();
                    let continue_token = ContinueToken::after(last, revision).encode();
                    let remaining = (!filter.selects()).then_some(left);
                    return Ok(Listed { items, revision, continue_token, remaining });
                }
            }
            let (Some(last), true) = (last, page.more) else {
                return Ok(Listed { items, revision, continue_token: String::new(), remaining: None });
            };
            from = format!("{last}\0");
        }
    }
}

/// 410 with a token that goes on at the newest revision. Clients look for the beginning of the text.
fn inconsistent(status: Status, token: &ContinueToken) -> Status {
    let next = ContinueToken { rv: -1, ..token.clone() };
    let text = "The provided continue parameter is too old to display a consistent list result. Start a new list without it, \
        or go on with the continue token of this answer: the rest is then read at the newest revision, so that objects which \
        changed since the first page may be missing or appear twice.";
    status.with_message(text).continued_by(next.encode())
}

/// The first page of what the cache holds.
fn cut(mut items: Vec<Arc<Entry>>, revision: i64, options: &ListOptions) -> Listed {
    let limit = usize::try_from(options.limit).unwrap_or(0);
    let mut listed = Listed { items: Vec::new(), revision, continue_token: String::new(), remaining: None };
    if limit > 0 && items.len() > limit {
        let remaining = items.len() - limit;
        items.truncate(limit);
        let prefix = options.filter.resource.storage_prefix(&options.filter.namespace);
        let last = items.last().expect("a limit is positive");
        let last = last.key.strip_prefix(&prefix).unwrap_or_default();
        listed.continue_token = ContinueToken::after(last, revision).encode();
        listed.remaining = (!options.filter.selects()).then_some(remaining as i64);
    }
    listed.items = items;
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_survive_the_trip_and_forged_ones_are_refused() {
        let token = ContinueToken::after("default/a", 7);
        assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        let forged = ContinueToken::after("../secrets/x", 7).encode();
        for bad in ["", "%%%", "e30", &forged] {
            assert!(ContinueToken::decode(bad).is_err(), "{bad}");
        }
    }
}
