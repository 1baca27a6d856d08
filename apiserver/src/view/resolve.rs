//! Revision expressions → revisions, by the history of this server. `kstore_api::revision_expression` parses them.

use super::history::{History, future, not_retained, oldest, shown_time};
use crate::tags;
use jiff::Timestamp;
use jiff::tz::Offset;
use kstore_api::revision_expression::{Moment, RevisionExpression};
use kstore_api::status::Status;
use kstore_registry::cache::Cache;
use kstore_registry::error;
use kstore_registry::provenance::{Note, Provenance, is_component};
use kstore_storage::storage::KeyVersion;

/// Changes of an object that are read at once to count its outside writes: few first, since most callers go back by one or two; then all
/// that one request looks at. Two pages, because a storage without an index of changes reads its whole history for each.
const PAGES: [usize; 2] = [64, 19_936];

/// An object of a request, as far back as its caller may see it.
pub(crate) struct VisibleObject {
    /// Its storage key.
    pub(crate) key: String,
    /// The oldest revision whose changes the caller may see.
    pub(crate) floor: i64,
}

/// What an expression is resolved with.
pub(crate) struct Resolver<'s> {
    pub(crate) cache: &'s Cache,
    pub(crate) history: &'s History,
    pub(crate) provenance: &'s Provenance,
    /// The time of the cluster.
    pub(crate) now: Timestamp,
    /// Distance from UTC of the person's clock.
    pub(crate) offset: Offset,
    /// The object whose outside writes `X~N` counts; `None`: those of all objects.
    pub(crate) selected: Option<VisibleObject>,
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
        let found = match &self.selected {
            None => self.provenance.outside_write_before(revision, back, |_| true),
            Some(object) => self.object_write_before(object, revision, back).await?,
        };
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

    /// The revision of the `back`-th newest outside write to an object before a revision; `None` if fewer are known. The storage has all
    /// that are retained, however old; the memory of provenance knows of some that are not retained any more.
    async fn object_write_before(
        &self,
        object: &VisibleObject,
        revision: i64,
        back: u32,
    ) -> Result<Option<i64>, Status> {
        let (mut before, mut left) = (revision, back);
        for limit in PAGES {
            let page = self.cache.storage().versions(&object.key, before, limit).await;
            let page = page.map_err(error::of_read)?;
            let visible = page.versions.partition_point(|version| version.revision >= object.floor);
            for version in page.versions[..visible].iter().filter(|version| is_outside(version)) {
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ok(Some(version.revision));
                }
            }
            let has_older = page.older > 0 && visible == page.versions.len();
            let Some(last) = page.versions.last().filter(|_| has_older) else {
                let remembered =
                    self.provenance.outside_write_before(revision, back, |key| key == object.key);
                return Ok(remembered.filter(|found| *found >= object.floor));
            };
            before = last.revision;
        }
        let most: usize = PAGES.iter().sum();
        Err(Status::bad_request(format!(
            "fewer than {back} of the {most} newest changes before {revision} are outside writes, and older ones are not counted: name an \
             older revision"
        )))
    }
}

/// Whether a change names no cause, and its writer is not a component of the control plane. Without a note it is not known.
fn is_outside(version: &KeyVersion) -> bool {
    let note = version.note.as_deref().and_then(Note::decode);
    note.is_some_and(|note| note.causes.is_empty() && !is_component(&note.user))
}
