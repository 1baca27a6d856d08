//! The documents below `/debug/api_priority_and_fairness/`: levels, queues and requests as aligned columns
//! separated by commas, with the columns of Kubernetes.

use super::Fairness;
use super::estimate::Work;
use super::level::{Level, Occupant};
use super::matching::{DigestTarget, RequestDigest};
use super::queue_set::RequestState;
use jiff::Timestamp;
use kstore_access::percent_encoding::decode;
use kstore_access::resource_location::location;
use std::sync::Arc;
use std::time::Duration;

/// A document about the state of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// One line for each level.
    Levels,
    /// One line for each queue.
    Queues,
    /// One line for each request.
    Requests {
        /// Whether the lines tell the user and the path.
        has_details: bool,
    },
}

/// Paths of the documents.
pub const DUMPS: [&str; 3] = [
    "/debug/api_priority_and_fairness/dump_priority_levels",
    "/debug/api_priority_and_fairness/dump_queues",
    "/debug/api_priority_and_fairness/dump_requests",
];

impl Dump {
    /// The document at a path.
    pub fn at(path: &str, has_details: bool) -> Option<Self> {
        let [levels, queues, requests] = DUMPS;
        match path {
            path if path == levels => Some(Self::Levels),
            path if path == queues => Some(Self::Queues),
            path if path == requests => Some(Self::Requests { has_details }),
            _ => None,
        }
    }
}

const LEVEL_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];

const QUEUE_COLUMNS: [&str; 9] = [
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];

// `FlowDistingsher` is spelled as in Kubernetes, since programs parse these columns.
const REQUEST_COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];

const DETAIL_COLUMNS: [&str; 8] =
    ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];

/// The start time of a request that has not started, as Go writes it.
const NEVER: &str = "0001-01-01T00:00:00Z";

impl Fairness {
    /// Writes a document.
    pub fn dump(&self, dump: Dump) -> String {
        let active = self.active.read();
        let (levels, config) = (active.levels.clone(), active.config.levels.clone());
        drop(active);
        let is_quiescing = |level: &Level| !config.contains_key(&level.name);
        match dump {
            Dump::Levels => table(
                &LEVEL_COLUMNS,
                levels.values().map(|level| level_cells(level, is_quiescing(level))).collect(),
            ),
            Dump::Queues => {
                table(&QUEUE_COLUMNS, levels.values().flat_map(|level| queue_cells(level)).collect())
            }
            Dump::Requests { has_details } => {
                let mut columns = REQUEST_COLUMNS.to_vec();
                if has_details {
                    columns.extend(DETAIL_COLUMNS);
                }
                let (mut rows, wall) = (Vec::new(), self.nondet.clock.now());
                for level in levels.values() {
                    level.each_request(|request, now| {
                        rows.push(request_cells(&level.name, request, |time| ago(wall, now, time)));
                        if has_details {
                            rows.last_mut().expect("a row was pushed").extend(detail_cells(request.about));
                        }
                    });
                }
                table(&columns, rows)
            }
        }
    }
}

/// Columns whose cells are padded to the same width, and separated by commas.
fn table(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let head = columns.iter().map(|column| (*column).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for row in &all {
        for (column, cell) in row.iter().enumerate() {
            out.push_str(cell);
            if column + 1 < row.len() {
                out.push(',');
                out.extend(std::iter::repeat_n(' ', widths[column] - cell.len() + 1));
            }
        }
        out.push('\n');
    }
    out
}

fn level_cells(level: &Arc<Level>, is_quiescing: bool) -> Vec<String> {
    let counts = level.counts();
    vec![
        level.name.clone(),
        counts.active_queues.to_string(),
        (counts.waiting == 0 && counts.running == 0).to_string(),
        is_quiescing.to_string(),
        counts.waiting.to_string(),
        counts.running.to_string(),
        counts.dispatched.to_string(),
        counts.rejected.to_string(),
        counts.timed_out.to_string(),
        counts.cancelled.to_string(),
    ]
}

fn queue_cells(level: &Level) -> Vec<Vec<String>> {
    let cells = |(index, queue): (usize, super::queue_set::QueueState)| {
        vec![
            level.name.clone(),
            index.to_string(),
            queue.waiting.to_string(),
            queue.running.to_string(),
            queue.seats.to_string(),
            format!("{:.8}ss", queue.served_until),
            queue.waiting_seats.to_string(),
            queue.widest_seats.to_string(),
            format!("{:.8}ss", queue.waiting_work),
        ]
    };
    level.queues().into_iter().enumerate().map(cells).collect()
}

fn request_cells(
    level: &str,
    request: &RequestState<'_, Occupant>,
    wall: impl Fn(Duration) -> String,
) -> Vec<String> {
    let index = |index: Option<usize>| index.map_or_else(|| "-1".to_owned(), |index| index.to_string());
    let Work { seats, final_seats, extra } = request.work;
    vec![
        level.to_owned(),
        request.about.flow.schema.name.clone(),
        index(request.queue),
        index(request.position),
        distinguisher(request.about),
        wall(request.arrived),
        seats.to_string(),
        final_seats.to_string(),
        format!("{extra:?}"),
        request.started.map_or_else(|| NEVER.to_owned(), wall),
    ]
}

/// The value that distinguishes the request's flow from others of its schema.
fn distinguisher(occupant: &Occupant) -> String {
    let summary = &occupant.summary;
    let resource = location(summary.uri.path()).unwrap_or_default();
    let target = DigestTarget::Resource {
        group: &resource.group,
        resource: &resource.resource,
        subresource: &resource.subresource,
        namespace: super::namespace_of(&resource),
    };
    let digest = RequestDigest { user: &summary.user, verb: summary.verb, target };
    occupant.flow.schema.distinguisher.map_or("", |by| by.value(&digest)).to_owned()
}

fn detail_cells(occupant: &Occupant) -> Vec<String> {
    let summary = &occupant.summary;
    let path = summary.uri.path();
    let resource = location(path).unwrap_or_default();
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let version = match segments.next() {
        Some("api") => segments.next(),
        Some("apis") => segments.nth(1),
        _ => None,
    };
    let namespace = super::namespace_of(&resource).to_owned();
    vec![
        summary.user.username.clone(),
        summary.verb.to_owned(),
        path.to_owned(),
        namespace,
        resource.name,
        decode(version.unwrap_or_default()),
        resource.resource,
        resource.subresource,
    ]
}

/// The wall time of `time`, if it is `wall` at `now`.
fn ago(wall: Timestamp, now: Duration, time: Duration) -> String {
    wall.checked_sub(now.saturating_sub(time)).unwrap_or(wall).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded_and_separated_by_commas() {
        let rows = vec![vec!["a-long-name".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["Name", "Requests"], rows), "Name,        Requests\na-long-name, 1\n");
    }
}
