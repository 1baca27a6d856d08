//! `request-storm`: more than so many equal requests in a row with equal answers within a short real time, in no reference.

use super::{Evidence, OracleId, Verdict};
use crate::limits;
use crate::record::{RecordedRequest, RunRecord};
use std::collections::BTreeMap;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let known: Vec<(String, String)> =
        evidence.references.iter().flat_map(|reference| storms(&reference.record)).collect();
    let found = storms(evidence.run).into_iter().filter(|(client, _)| evidence.is_program(client));
    let fresh = found.filter(|storm| !known.contains(storm));
    fresh
        .map(|(client, what)| {
            let (count, seconds) = (limits::STORM_REQUESTS, limits::STORM_WINDOW.as_secs());
            let summary = format!(
                "{client} asked more than {count} times within {seconds} s, with equal answers: {what}"
            );
            Verdict::new(OracleId::RequestStorm, format!("{client} {what}"), summary)
        })
        .collect()
}

/// Clients with what they asked too often. Requests of several clients may alternate, those of one may not.
fn storms(run: &RunRecord) -> Vec<(String, String)> {
    let window = u64::try_from(limits::STORM_WINDOW.as_millis()).unwrap_or(u64::MAX);
    let mut rows: BTreeMap<&str, Vec<&RecordedRequest>> = BTreeMap::new();
    let mut found = Vec::new();
    for request in &run.requests {
        let row = rows.entry(&request.client).or_default();
        if row.last().is_some_and(|last| last.what() != request.what() || last.code != request.code) {
            row.clear();
        }
        row.push(request);
        let is_storm = row.len() > limits::STORM_REQUESTS
            && request.real - row[row.len() - 1 - limits::STORM_REQUESTS].real <= window;
        let storm = (request.client.clone(), request.what());
        if is_storm && !found.contains(&storm) {
            found.push(storm);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{request, table};
    use super::*;

    fn requests(client: &str, count: u64, pause: u64, every: u64) -> RunRecord {
        let requests = (0..count).map(|n| {
            let verb = if every > 0 && n % every == 0 { "list" } else { "watch" };
            let mut request = request(n, client, verb, "configmaps/default/a", 410);
            request.real = n * pause;
            request
        });
        RunRecord { requests: requests.collect(), ..RunRecord::empty() }
    }

    #[test]
    fn equal_requests_without_pause_are_a_storm() {
        let rows = [
            ("sixty at once", requests("op", 60, 10, 0), true),
            ("fifty at once", requests("op", 50, 10, 0), false),
            ("sixty, slowly", requests("op", 60, 100, 0), false),
            ("with others between", requests("op", 60, 10, 20), false),
            ("by another client", requests("other", 60, 10, 0), false),
        ];
        table(judge, &RunRecord::empty(), &rows);
        table(judge, &requests("op", 60, 10, 0), &[("as the reference", requests("op", 70, 5, 0), false)]);
    }
}
