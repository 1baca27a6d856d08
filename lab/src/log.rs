//! The request log of a cluster: its newest requests with their answers, up to a number of bytes.

use crate::basis::ViewAt;
use crate::client::identity::glob;
use crate::limits;
use crate::request::{Verb, Version};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};

/// A request in the log. It is complete when its answer has begun; of a watch the counts go on until it ends.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggedRequest {
    /// Position in the log; the first is 1.
    pub n: u64,
    /// Time of the cluster.
    pub time: Timestamp,
    /// Real time.
    pub real: Timestamp,
    /// Client.
    pub client: String,
    /// Number of times that the client's program was started again before.
    #[serde(skip_serializing_if = "is_zero")]
    pub incarnation: u32,
    /// User; empty if the request was refused before it was known.
    pub user: String,
    /// User agent up to the first slash.
    pub agent: String,
    /// Verb; `None` for paths outside the resource API, whose path is in `name`.
    pub verb: Option<Verb>,
    /// Resource as `plural.group`.
    pub resource: String,
    /// Subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object, or the path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// State that a read asked for.
    pub version: Version,
    /// HTTP status; 0: not answered yet, or the client left before.
    pub code: u16,
    /// Revision of the store when the answer began.
    pub revision: i64,
    /// Milliseconds of real time until the answer began.
    pub took: u64,
    /// Address of the client, which is its connection.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub connection: String,
    /// Events that a watch delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
    /// Revision of the last delivered event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<i64>,
    /// Whether a watch has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<bool>,
    /// Revision of the object in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_version: Option<i64>,
    /// Cache that answered; empty: the server itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cache: String,
    /// Fault that was injected.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fault: String,
    /// Plan that held the request or gave it a fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan: String,
    /// Of a write: what its client had been shown when it came.
    #[serde(skip)]
    pub basis: Option<Arc<[ViewAt]>>,
    /// Of a write: revision of the client's write before; 0: none is known.
    #[serde(skip)]
    pub previous_write: i64,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A write of an object, whose client is looked for.
#[derive(Clone, Copy, Debug)]
pub struct WrittenBy<'a> {
    /// Revision of the write.
    pub revision: i64,
    /// Resource, as `plural.group`.
    pub resource: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// User of the writer.
    pub user: &'a str,
    /// Agent of the writer, up to the first slash.
    pub agent: &'a str,
}

impl LoggedRequest {
    /// Bytes that the entry takes in memory, about.
    fn size(&self) -> usize {
        let texts = [&self.client, &self.user, &self.agent, &self.resource, &self.subresource];
        let more = [&self.namespace, &self.name, &self.connection, &self.cache, &self.fault, &self.plan];
        let texts = texts.iter().chain(&more).map(|text| text.len()).sum::<usize>();
        let views = self.basis.iter().flat_map(|views| views.iter());
        let views = views.map(|view| size_of::<ViewAt>() + view.resource.len()).sum::<usize>();
        size_of::<Self>() + texts + views
    }
}

/// Which requests of the log an answer has. Empty members match all.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Client.
    pub client: Option<String>,
    /// User, as a glob.
    pub user: Option<String>,
    /// Agent, as a glob.
    pub agent: Option<String>,
    /// Verb.
    pub verb: Option<String>,
    /// Resource, as a glob.
    pub resource: Option<String>,
    /// Namespace, as a glob.
    pub namespace: Option<String>,
    /// Name, as a glob.
    pub name: Option<String>,
    /// HTTP status.
    pub code: Option<u16>,
}

impl LogFilter {
    /// Whether a request matches.
    pub fn matches(&self, request: &LoggedRequest) -> bool {
        let is =
            |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| glob(wanted, text));
        is(&self.client, &request.client)
            && is(&self.user, &request.user)
            && is(&self.agent, &request.agent)
            && is(&self.verb, request.verb.map_or("", Verb::as_str))
            && is(&self.resource, &request.resource)
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && self.code.is_none_or(|code| code == request.code)
    }
}

/// The next requests for a follower of the log.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Matching requests, the oldest first.
    pub entries: Vec<LoggedRequest>,
    /// Number of the last request that was looked at: the position to go on from.
    pub next: u64,
    /// Whether a request without an answer holds back those after it.
    pub is_held_back: bool,
}

/// The wanted requests are no longer in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The oldest request that is there.
    pub oldest: u64,
}

/// The log of a cluster.
#[derive(Debug)]
pub struct RequestLog {
    state: Mutex<LogState>,
    /// Signals each new entry.
    pub(crate) added: Notify,
    /// Signals each answer, and the end of the log.
    pub(crate) answered: Notify,
    /// Permits for followers.
    pub(crate) followers: Arc<Semaphore>,
    most: usize,
}

#[derive(Debug, Default)]
struct LogState {
    entries: VecDeque<LoggedRequest>,
    bytes: usize,
    /// Number of the newest entry.
    newest: u64,
    /// Whether the cluster has ended, so that no further entries come.
    has_ended: bool,
}

impl RequestLog {
    /// A log that keeps up to this many bytes.
    pub fn new(most: usize) -> Self {
        let followers = Arc::new(Semaphore::new(limits::FOLLOWERS));
        Self { state: Mutex::default(), added: Notify::new(), answered: Notify::new(), followers, most }
    }

    /// Appends a request and returns its number. The oldest go if there is no room.
    pub fn append(&self, mut request: LoggedRequest) -> u64 {
        let mut state = self.state.lock();
        state.newest += 1;
        request.n = state.newest;
        state.bytes += request.size();
        state.entries.push_back(request);
        while state.bytes > self.most {
            let Some(oldest) = state.entries.pop_front() else { break };
            state.bytes -= oldest.size();
        }
        let number = state.newest;
        drop(state);
        self.added.notify_waiters();
        number
    }

    /// Changes an entry that is still there. Texts stay as they are.
    pub fn change(&self, number: u64, change: impl FnOnce(&mut LoggedRequest)) {
        let mut state = self.state.lock();
        let Some(first) = state.entries.front().map(|entry| entry.n) else { return };
        let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let Some(entry) = at.and_then(|at| state.entries.get_mut(at)) else { return };
        let before = entry.code;
        change(entry);
        let is_answered = before == 0 && entry.code != 0;
        drop(state);
        if is_answered {
            self.answered.notify_waiters();
        }
    }

    /// The next matching requests after number `since`, in order, each when its answer has begun. A request that has none holds back those
    /// after it for [`limits::FOLLOW_PATIENCE`] of real time. `None`: the log has ended, and all of it was read.
    ///
    /// # Errors
    /// Requests after `since` were dropped for newer ones.
    pub fn follow(
        &self,
        filter: &LogFilter,
        since: u64,
        now: Timestamp,
    ) -> Result<Option<Followed>, Forgotten> {
        let state = self.state.lock();
        let oldest = state.entries.front().map_or(state.newest + 1, |entry| entry.n);
        if since + 1 < oldest {
            return Err(Forgotten { oldest });
        }
        let mut followed = Followed { next: since, ..Followed::default() };
        for entry in state.entries.iter().skip_while(|entry| entry.n <= since) {
            let waits = now.duration_since(entry.real).unsigned_abs() < limits::FOLLOW_PATIENCE;
            followed.is_held_back = entry.code == 0 && waits && !state.has_ended;
            if followed.is_held_back || followed.entries.len() >= limits::FOLLOW_PIECE {
                break;
            }
            followed.next = entry.n;
            if filter.matches(entry) {
                followed.entries.push(entry.clone());
            }
        }
        let is_over = state.has_ended && followed.next == state.newest && followed.entries.is_empty();
        Ok((!is_over).then_some(followed))
    }

    /// The number before the oldest entry: the position from which a follower reads all that is there.
    pub fn begin(&self) -> u64 {
        let state = self.state.lock();
        state.entries.front().map_or(state.newest, |entry| entry.n - 1)
    }

    /// Ends the log: followers read what is there, and end.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        self.answered.notify_waiters();
    }

    /// Up to `limit` matching requests after number `since`, the oldest first, and the number to go on from.
    ///
    /// # Errors
    /// Requests after `since` were dropped for newer ones.
    pub fn read(
        &self,
        filter: &LogFilter,
        since: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<LoggedRequest>, u64), Forgotten> {
        let state = self.state.lock();
        let oldest = state.entries.front().map_or(state.newest + 1, |entry| entry.n);
        if since.is_some_and(|since| since + 1 < oldest) {
            return Err(Forgotten { oldest });
        }
        let after = state.entries.iter().filter(|entry| since.is_none_or(|since| entry.n > since));
        let found: Vec<_> = after.filter(|entry| filter.matches(entry)).take(limit).cloned().collect();
        let next = if found.len() == limit { found.last().map_or(0, |entry| entry.n) } else { state.newest };
        Ok((found, next))
    }

    /// The request that wrote an object at a revision, if the log has it.
    pub fn write_of(&self, revision: i64, resource: &str, name: &str) -> Option<LoggedRequest> {
        let state = self.state.lock();
        let is_write = |entry: &&LoggedRequest| {
            entry.verb.is_some_and(Verb::is_write)
                && (200..300).contains(&entry.code)
                && entry.resource == resource
                && (entry.name == name || entry.name.is_empty())
                && entry.object_version.map_or(entry.revision >= revision, |version| version == revision)
        };
        state
            .entries
            .iter()
            .filter(is_write)
            .min_by_key(|entry| (entry.object_version.is_none(), entry.revision))
            .cloned()
    }

    /// The client that wrote an object at a revision, by its user and its agent up to the first slash. Its request may still be under way,
    /// so that of two programs with one user that write one object at a time the newer request is taken.
    pub fn writer_of(&self, written: &WrittenBy<'_>) -> Option<String> {
        let WrittenBy { revision, resource, name, user, agent } = *written;
        let state = self.state.lock();
        let is_writer = |entry: &&LoggedRequest| {
            let is_of_object = entry.resource == resource && (entry.name == name || entry.name.is_empty());
            let is_under_way = entry.code == 0 && entry.fault != "unavailable";
            let has_written = (200..300).contains(&entry.code)
                && entry.object_version.map_or(entry.revision >= revision, |version| version == revision);
            entry.verb.is_some_and(Verb::is_write)
                && (entry.user == user && entry.agent == agent && is_of_object)
                && (is_under_way || has_written)
        };
        let newest = state.entries.iter().rev().take(limits::WRITER_ENTRIES);
        let known = |entry: &&LoggedRequest| (entry.object_version.is_none(), entry.code != 0);
        // Of equal ones the first is taken, which is the newest.
        newest.filter(is_writer).min_by_key(known).map(|entry| entry.client.clone())
    }

    /// The revision of a client's newest write; 0: the log has none.
    pub fn last_write(&self, client: &str) -> i64 {
        let state = self.state.lock();
        let is_write = |entry: &&LoggedRequest| {
            entry.client == client
                && entry.verb.is_some_and(Verb::is_write)
                && (200..300).contains(&entry.code)
        };
        let last = state.entries.iter().rev().find(is_write);
        last.map_or(0, |entry| entry.object_version.unwrap_or(entry.revision))
    }

    /// Empties the log. Numbers go on.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.entries.clear();
        state.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, code: u16) -> LoggedRequest {
        LoggedRequest {
            n: 0,
            time: Timestamp::UNIX_EPOCH,
            real: Timestamp::UNIX_EPOCH,
            client: "op".to_owned(),
            incarnation: 0,
            user: "u".to_owned(),
            agent: "op".to_owned(),
            verb: Some(Verb::Get),
            resource: "pods".to_owned(),
            subresource: String::new(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            version: Version::Unset,
            code,
            revision: 1,
            took: 0,
            connection: String::new(),
            delivered: None,
            last: None,
            ended: None,
            object_version: None,
            basis: None,
            previous_write: 0,
            cache: String::new(),
            fault: String::new(),
            plan: String::new(),
        }
    }

    #[test]
    fn the_writer_of_an_object_is_known_while_its_request_is_under_way() {
        let log = RequestLog::new(1 << 20);
        let write = |client: &str, code: u16| {
            let entry =
                LoggedRequest { client: client.to_owned(), verb: Some(Verb::Update), ..request("a", code) };
            log.append(entry)
        };
        let by = |revision, user| {
            log.writer_of(&WrittenBy { revision, resource: "pods", name: "a", user, agent: "op" })
        };
        write("refused", 409);
        assert_eq!(by(5, "u"), None, "it wrote nothing");
        let first = write("first", 0);
        assert_eq!(by(5, "u").as_deref(), Some("first"));
        assert_eq!(by(5, "other"), None);
        log.change(first, |entry| (entry.code, entry.revision, entry.object_version) = (200, 6, Some(5)));
        write("second", 0);
        assert_eq!(by(5, "u").as_deref(), Some("first"), "the answer tells");
        assert_eq!(by(7, "u").as_deref(), Some("second"));
        let reset = write("third", 0);
        log.change(reset, |entry| "unavailable".clone_into(&mut entry.fault));
        assert_eq!(by(7, "u").as_deref(), Some("second"), "a request that was reset was not performed");
    }

    fn names(log: &RequestLog, filter: &LogFilter, since: Option<u64>) -> Vec<String> {
        log.read(filter, since, 10).unwrap().0.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn requests_are_found_by_filters_and_position() {
        let log = RequestLog::new(100_000);
        for (name, code) in [("a", 200), ("b", 404), ("ab", 200)] {
            log.append(request(name, code));
        }
        assert_eq!(names(&log, &LogFilter::default(), Some(1)), ["b", "ab"]);
        let named = LogFilter { name: Some("a*".to_owned()), ..LogFilter::default() };
        assert_eq!(names(&log, &named, None), ["a", "ab"]);
        let failed = LogFilter { code: Some(404), verb: Some("get".to_owned()), ..LogFilter::default() };
        assert_eq!(names(&log, &failed, None), ["b"]);
        log.change(2, |entry| entry.code = 500);
        assert_eq!(names(&log, &failed, None), Vec::<String>::new());
        assert_eq!(log.read(&named, None, 1).unwrap().1, 1, "where a full answer goes on");
        log.clear();
        assert_eq!(log.append(request("c", 200)), 4);
    }

    #[test]
    fn followers_get_each_request_once_in_order_when_it_is_answered() {
        let log = RequestLog::new(4 * request("0", 200).size());
        let (all, begin) = (LogFilter::default(), Timestamp::UNIX_EPOCH);
        let follow = |since: u64, now: Timestamp| {
            let followed = log.follow(&all, since, now).unwrap();
            followed.map(|read| {
                let names: Vec<_> = read.entries.iter().map(|entry| entry.name.clone()).collect();
                (names.join(" "), read.next, read.is_held_back)
            })
        };
        assert_eq!(follow(log.begin(), begin), Some((String::new(), 0, false)));
        for (name, code) in [("a", 200), ("b", 0), ("c", 200)] {
            log.append(request(name, code));
        }
        assert_eq!(follow(0, begin), Some(("a".to_owned(), 1, true)), "b has no answer yet");
        log.change(2, |entry| entry.code = 404);
        assert_eq!(follow(1, begin), Some(("b c".to_owned(), 3, false)));
        log.append(request("d", 0));
        log.append(request("e", 200));
        let later = begin + limits::FOLLOW_PATIENCE;
        assert_eq!(follow(3, later), Some(("d e".to_owned(), 5, false)), "nothing waits for ever");
        assert_eq!(log.follow(&all, 0, later).unwrap_err(), Forgotten { oldest: 2 });
        log.append(request("f", 0));
        log.end();
        assert_eq!(follow(5, begin), Some(("f".to_owned(), 6, false)), "the rest at the end");
        assert_eq!(follow(6, begin), None);
        let some = LogFilter { name: Some("c".to_owned()), ..LogFilter::default() };
        assert_eq!(log.follow(&some, 2, begin).unwrap().unwrap().entries.len(), 1);
        assert!(log.follow(&some, 3, begin).unwrap().is_none(), "nothing else matches");
    }

    #[test]
    fn the_request_of_a_write_is_found_by_its_revision_and_object() {
        let log = RequestLog::new(100_000);
        let write = |name: &str, revision: i64, object_version: Option<i64>| LoggedRequest {
            verb: Some(Verb::Update),
            revision,
            object_version,
            ..request(name, 200)
        };
        log.append(write("a", 7, Some(5)));
        log.append(write("a", 7, Some(7)));
        log.append(write("b", 9, None));
        let found = |revision: i64, name: &str| log.write_of(revision, "pods", name).map(|entry| entry.n);
        assert_eq!((found(5, "a"), found(7, "a"), found(6, "a")), (Some(1), Some(2), None));
        assert_eq!((found(8, "b"), found(10, "b")), (Some(3), None), "by the revision when it was answered");
        assert_eq!((log.last_write("op"), log.last_write("other")), (9, 0));
    }

    #[test]
    fn the_oldest_requests_go_and_a_reader_learns_it() {
        let log = RequestLog::new(3 * request("0", 200).size());
        for number in 0..5 {
            log.append(request(&number.to_string(), 200));
        }
        assert_eq!(names(&log, &LogFilter::default(), None), ["2", "3", "4"]);
        assert_eq!(names(&log, &LogFilter::default(), Some(2)), ["2", "3", "4"]);
        assert_eq!(log.read(&LogFilter::default(), Some(1), 1).unwrap_err(), Forgotten { oldest: 3 });
        log.change(1, |_| panic!("it is gone"));
    }
}
