//! The request log of a cluster: its newest requests with their answers, up to a number of bytes.

use crate::basis::ViewAt;
use crate::client::RequestSender;
use crate::client::identity::glob;
use crate::limits;
use crate::request::{RequestTarget, Verb, Version, is_of_events};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::futures::Notified;
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
#[derive(Clone, Copy, Debug, Default)]
pub struct WrittenBy<'a> {
    /// Revision of the write.
    pub revision: i64,
    /// Resource, as `plural.group`.
    pub resource: &'a str,
    /// Namespace of the object; empty: it has none.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Verb, with the subresource after a slash, as in [`Note`](kstore_registry::provenance::Note); empty: unknown.
    pub verb: &'a str,
    /// User of the writer.
    pub user: &'a str,
    /// Agent of the writer, up to the first slash.
    pub agent: &'a str,
}

/// A request as the log keeps it: what it shares with others is counted, and what is rare is boxed.
#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    pub(crate) n: u64,
    pub(crate) time: Timestamp,
    pub(crate) real: Timestamp,
    pub(crate) sender: Arc<RequestSender>,
    pub(crate) incarnation: u32,
    /// `None` for paths outside the resource API.
    pub(crate) target: Option<Arc<RequestTarget>>,
    /// Path of a request without a target.
    pub(crate) path: Box<str>,
    pub(crate) code: u16,
    pub(crate) revision: i64,
    pub(crate) took: u64,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) object_version: Option<i64>,
    /// Of a watch.
    pub(crate) watch: Option<Box<LoggedWatch>>,
    /// Of a write.
    pub(crate) write: Option<Box<LoggedWrite>>,
    /// Of a request that something perturbed.
    pub(crate) perturbed: Option<Box<LoggedPerturbation>>,
}

/// What a watch delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoggedWatch {
    pub(crate) delivered: u64,
    pub(crate) last: Option<i64>,
    pub(crate) has_ended: bool,
}

/// What the client of a write had been shown and written when it came.
#[derive(Clone, Debug)]
pub(crate) struct LoggedWrite {
    /// The newest revision when the request came: what it writes is newer.
    pub(crate) since: i64,
    pub(crate) basis: Arc<[ViewAt]>,
    /// Revision of the client's write before; 0: none is known.
    pub(crate) previous: i64,
}

/// What perturbed a request, each empty if nothing did.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoggedPerturbation {
    pub(crate) cache: String,
    pub(crate) fault: String,
    pub(crate) plan: String,
}

impl LogRecord {
    /// Bytes that the entry takes in memory, about.
    fn size(&self) -> usize {
        let target = self.target.as_ref().map_or(0, |target| {
            let texts = [&target.resource, &target.subresource, &target.namespace, &target.name];
            size_of::<RequestTarget>() + texts.iter().map(|text| text.len()).sum::<usize>()
        });
        let views = self.write.iter().flat_map(|write| write.basis.iter());
        let views = views.map(|view| size_of::<ViewAt>() + view.resource.len()).sum::<usize>();
        let write = self.write.as_ref().map_or(0, |_| size_of::<LoggedWrite>());
        size_of::<Self>() + self.path.len() + target + write + views
    }

    fn verb(&self) -> Option<Verb> {
        self.target.as_ref().map(|target| target.verb)
    }

    fn resource(&self) -> &str {
        self.target.as_ref().map_or("", |target| &target.resource)
    }

    fn namespace(&self) -> &str {
        self.target.as_ref().map_or("", |target| &target.namespace)
    }

    fn subresource(&self) -> &str {
        self.target.as_ref().map_or("", |target| &target.subresource)
    }

    /// Name of the object, or the path.
    fn name(&self) -> &str {
        self.target.as_ref().map_or(&self.path, |target| &target.name)
    }

    fn fault(&self) -> &str {
        self.perturbed.as_ref().map_or("", |perturbed| &perturbed.fault)
    }

    /// Whether it is a write that succeeded.
    fn has_written(&self) -> bool {
        self.verb().is_some_and(Verb::is_write) && (200..300).contains(&self.code)
    }

    /// Whether the request, if it was performed, may be the one that made a write.
    fn may_have_made(&self, written: &WrittenBy<'_>) -> bool {
        let verb = self.verb().map_or("", Verb::as_str);
        let does = match written.verb.split_once('/') {
            _ if written.verb.is_empty() => true,
            None => verb == written.verb && self.subresource().is_empty(),
            Some((wanted, below)) => verb == wanted && self.subresource() == below,
        };
        does && (self.resource() == written.resource
            || [self.resource(), written.resource].into_iter().all(is_of_events))
            && (self.name() == written.name || self.name().is_empty())
            && (self.namespace() == written.namespace || self.namespace().is_empty())
            && self.write.as_ref().is_none_or(|write| write.since < written.revision)
            && self.object_version.is_none_or(|version| version == written.revision)
    }

    /// Whether the request was performed and may be the one that made a write.
    fn has_made(&self, written: &WrittenBy<'_>) -> bool {
        // An answer without the object's version is newer than the write.
        let is_answered_after = || self.object_version.is_some() || self.revision >= written.revision;
        self.has_written() && is_answered_after() && self.may_have_made(written)
    }

    /// What perturbs the request.
    pub(crate) fn perturbed(&mut self) -> &mut LoggedPerturbation {
        self.perturbed.get_or_insert_default()
    }

    /// The request as readers of the log get it.
    fn shown(&self) -> LoggedRequest {
        let text = |of: fn(&RequestTarget) -> &String| {
            self.target.as_ref().map(|target| of(target).clone()).unwrap_or_default()
        };
        let perturbed = self.perturbed.as_deref().cloned().unwrap_or_default();
        LoggedRequest {
            n: self.n,
            time: self.time,
            real: self.real,
            client: self.sender.client.clone(),
            incarnation: self.incarnation,
            user: self.sender.user.clone(),
            agent: self.sender.agent.clone(),
            verb: self.verb(),
            resource: text(|target| &target.resource),
            subresource: text(|target| &target.subresource),
            namespace: text(|target| &target.namespace),
            name: self.name().to_owned(),
            version: self.target.as_ref().map(|target| target.version).unwrap_or_default(),
            code: self.code,
            revision: self.revision,
            took: self.took,
            connection: self.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            delivered: self.watch.as_ref().map(|watch| watch.delivered),
            last: self.watch.as_ref().and_then(|watch| watch.last),
            ended: self.watch.as_ref().map(|watch| watch.has_ended),
            object_version: self.object_version,
            cache: perturbed.cache,
            fault: perturbed.fault,
            plan: perturbed.plan,
            basis: self.write.as_ref().map(|write| write.basis.clone()),
            previous_write: self.write.as_ref().map_or(0, |write| write.previous),
        }
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
    fn matches(&self, request: &LogRecord) -> bool {
        let is =
            |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| glob(wanted, text));
        is(&self.client, &request.sender.client)
            && is(&self.user, &request.sender.user)
            && is(&self.agent, &request.sender.agent)
            && is(&self.verb, request.verb().map_or("", Verb::as_str))
            && is(&self.resource, request.resource())
            && is(&self.namespace, request.target.as_ref().map_or("", |target| &target.namespace))
            && is(&self.name, request.name())
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
    added: Notify,
    /// Signals each answer, and the end of the log.
    answered: Notify,
    /// Whether anything ever waited for entries or answers. Until then requests signal nothing.
    is_awaited: AtomicBool,
    /// Permits for followers.
    pub(crate) followers: Arc<Semaphore>,
    most: usize,
}

#[derive(Debug, Default)]
struct LogState {
    entries: VecDeque<LogRecord>,
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
        Self {
            state: Mutex::default(),
            added: Notify::new(),
            answered: Notify::new(),
            is_awaited: AtomicBool::new(false),
            followers,
            most,
        }
    }

    /// Appends a request and returns its number. The oldest go if there is no room.
    pub(crate) fn append(&self, mut request: LogRecord) -> u64 {
        // Freed after the lock: mostly one, since requests are of about one size.
        let mut dropped = None;
        let mut state = self.state.lock();
        state.newest += 1;
        request.n = state.newest;
        state.bytes += request.size();
        state.entries.push_back(request);
        while state.bytes > self.most {
            dropped = state.entries.pop_front();
            let Some(oldest) = &dropped else { break };
            state.bytes -= oldest.size();
        }
        let number = state.newest;
        drop(state);
        drop(dropped);
        self.signal(&self.added);
        number
    }

    /// Wakes what waits. Whatever waits has said so before it looked at the log.
    fn signal(&self, signal: &Notify) {
        if self.is_awaited.load(Ordering::Acquire) {
            signal.notify_waiters();
        }
    }

    /// The next new entry, and the next answer or the end of the log, from this call on.
    pub(crate) fn next(&self) -> (Notified<'_>, Notified<'_>) {
        self.is_awaited.store(true, Ordering::Release);
        (self.added.notified(), self.answered.notified())
    }

    /// Changes an entry that is still there. What [`LogRecord::size`] counts stays as it is.
    pub(crate) fn change(&self, number: u64, change: impl FnOnce(&mut LogRecord)) {
        let mut state = self.state.lock();
        let Some(first) = state.entries.front().map(|entry| entry.n) else { return };
        let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        let Some(entry) = at.and_then(|at| state.entries.get_mut(at)) else { return };
        let before = entry.code;
        change(entry);
        let is_answered = before == 0 && entry.code != 0;
        drop(state);
        if is_answered {
            self.signal(&self.answered);
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
                followed.entries.push(entry.shown());
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
        let found: Vec<_> =
            after.filter(|entry| filter.matches(entry)).take(limit).map(LogRecord::shown).collect();
        let next = if found.len() == limit { found.last().map_or(0, |entry| entry.n) } else { state.newest };
        Ok((found, next))
    }

    /// The request that made a write, if the log has it. Of several that may have, one by the write's user is taken, and of these the one
    /// that was answered first.
    pub fn write_of(&self, written: &WrittenBy<'_>) -> Option<LoggedRequest> {
        let state = self.state.lock();
        let key = |entry: &&LogRecord| {
            (entry.object_version.is_none(), entry.sender.user != written.user, entry.revision)
        };
        let made = state.entries.iter().filter(|entry| entry.has_made(written));
        made.min_by_key(key).map(LogRecord::shown)
    }

    /// The client that made a write, by its user and its agent up to the first slash. Its request may still be under way, so that of two
    /// programs with one user that write one object at a time the newer request is taken.
    pub fn writer_of(&self, written: &WrittenBy<'_>) -> Option<String> {
        let state = self.state.lock();
        let is_writer = |entry: &&LogRecord| {
            let is_under_way = entry.code == 0 && entry.fault() != "unavailable";
            entry.verb().is_some_and(Verb::is_write)
                && (entry.sender.user == written.user && entry.sender.agent == written.agent)
                && (is_under_way && entry.may_have_made(written) || entry.has_made(written))
        };
        let newest = state.entries.iter().rev().take(limits::WRITER_ENTRIES);
        let known = |entry: &&LogRecord| (entry.object_version.is_none(), entry.code != 0);
        // Of equal ones the first is taken, which is the newest.
        newest.filter(is_writer).min_by_key(known).map(|entry| entry.sender.client.clone())
    }

    /// The revision of a client's newest write; 0: the log has none.
    pub fn last_write(&self, client: &str) -> i64 {
        let state = self.state.lock();
        let is_write = |entry: &&LogRecord| entry.sender.client == client && entry.has_written();
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
pub(crate) mod tests;
