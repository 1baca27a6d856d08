//! `request-storm`: more than so many equal requests in a row with equal answers, between which their client let hardly any real time pass,
//! in no reference. The time until an answer begins is that of the lab and of a busy machine, and does not count.

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
                "{client} asked more than {count} times with pauses of at most {seconds} s in all, and equal answers: {what}"
            );
            Verdict::new(OracleId::RequestStorm, format!("{client} {what}"), summary)
        })
        .collect()
}

/// Clients with the requests that they repeated too often. Requests of several clients may alternate, those of one may not.
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
        let first = row.len().checked_sub(limits::STORM_REQUESTS + 1);
        let is_storm = first.is_some_and(|first| pauses(&row[first..]) <= window);
        let storm = (request.client.clone(), request.what());
        if is_storm && !found.contains(&storm) {
            found.push(storm);
        }
    }
    found
}

/// Milliseconds of real time that the client of a row of requests let pass between answers and next requests.
fn pauses(row: &[&RecordedRequest]) -> u64 {
    row.windows(2).map(|pair| pair[1].real.saturating_sub(pair[0].real + pair[0].took)).sum()
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
        let mut delayed = requests("op", 60, 100, 0);
        for request in &mut delayed.requests {
            request.took = 90;
        }
        table(judge, &RunRecord::empty(), &[("slowly answered", delayed, true)]);
        table(judge, &requests("op", 60, 10, 0), &[("as the reference", requests("op", 70, 5, 0), false)]);
    }
}
