//! Revision expressions → revisions, by the history of this server. `kstore_api::revision_expression` parses them.

use super::history::{History, future, not_retained, oldest, shown_time};
use crate::tags;
use jiff::Timestamp;
use jiff::tz::Offset;
use kstore_api::revision_expression::{Moment, RevisionExpression};
use kstore_api::status::Status;
use kstore_registry::cache::Cache;
use kstore_registry::error;
use kstore_registry::provenance::Provenance;

/// What an expression is resolved with.
pub(crate) struct Resolver<'s> {
    pub(crate) cache: &'s Cache,
    pub(crate) history: &'s History,
    pub(crate) provenance: &'s Provenance,
    /// The time of the cluster.
    pub(crate) now: Timestamp,
    /// Distance from UTC of the person's clock.
    pub(crate) offset: Offset,
    /// The storage key of the object whose outside writes `X~N` counts; `None`: those of all objects.
    pub(crate) selected: Option<String>,
}

impl Resolver<'_> {
    /// The revision that a text names.
    ///
    /// # Errors
    /// 400 for a text of another form, and for an unknown tag; 504 for the future; 410 for a state that is not retained; 404 if there
    /// are fewer outside writes.
    pub(crate) async fn resolve(&self, text: &str) -> Result<i64, Status> {
        let expression =
            RevisionExpression::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
        let newest = self.cache.fresh().await.map_err(error::of_read)?;
        let storage = self.cache.storage();
        let revision = match &expression.moment {
            Moment::Now => newest,
            Moment::Oldest => oldest(storage).await?,
            Moment::Revision(revision) => *revision,
            Moment::Tag(name) => self.tagged(name)?,
            moment => self.state_at(moment, newest).await?,
        };
        if revision > newest {
            return Err(future(revision, newest));
        }
        if revision < oldest(storage).await? {
            return Err(not_retained(storage, &format!("revision {revision}"), self.now).await);
        }
        self.outside_write_before(revision, expression.back).await
    }

    /// The revision of a tag.
    fn tagged(&self, name: &str) -> Result<i64, Status> {
        let tags = tags::in_cache(self.cache);
        let known = || match tags.is_empty() {
            true => "this server has none".to_owned(),
            false => {
                format!("this server has {}", tags.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
        };
        tags.get(name).copied().ok_or_else(|| {
            Status::bad_request(format!(
                "there is no tag {name:?}: {}. Write a tag, a number such as 244, `now`, `oldest`, a duration such as 5m, or a time such \
                 as 23:38:56",
                known()
            ))
        })
    }

    async fn state_at(&self, moment: &Moment, newest: i64) -> Result<i64, Status> {
        let Some(time) = moment.time(self.now, self.offset) else {
            return Err(Status::bad_request("the time is out of range"));
        };
        if time > self.now {
            let (time, now) = (shown_time(time, self.now), shown_time(self.now, self.now));
            let text = format!("{time} is in the future: it is {now}, and the newest revision is {newest}");
            return Err(Status::timeout("", 0).with_message(text));
        }
        let storage = self.cache.storage();
        match self.history.state_at(storage, newest, time).await? {
            Some(revision) => Ok(revision),
            None => {
                let what = format!("the state at {}", shown_time(time, self.now));
                Err(not_retained(storage, &what, self.now).await)
            }
        }
    }

    async fn outside_write_before(&self, revision: i64, back: u32) -> Result<i64, Status> {
        if back == 0 {
            return Ok(revision);
        }
        let selects = |key: &str| self.selected.as_ref().is_none_or(|selected| selected == key);
        let found = self.provenance.outside_write_before(revision, back, selects);
        let Some(found) = found else {
            let mut status =
                Status::bad_request(format!("fewer than {back} outside writes before {revision} are known"));
            (status.code, status.reason) = (404, kstore_api::status::Reason::NotFound);
            return Err(status);
        };
        let storage = self.cache.storage();
        match found < oldest(storage).await? {
            true => Err(not_retained(storage, &format!("revision {found}"), self.now).await),
            false => Ok(found),
        }
    }
}
