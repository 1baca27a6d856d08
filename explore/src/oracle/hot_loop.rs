//! `hot-loop`: after the last step one client goes on writing one object: many writes in a short real time, or a cycle of the object's
//! states. The cluster's time stands meanwhile: that it passes is an input, too.

use super::{Evidence, OracleId, Verdict};
use crate::limits;
use crate::normalise::Normaliser;
use crate::record::{ObjectKey, RecordedWrite, StoredObject, digest};
use std::collections::BTreeMap;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut by_object: BTreeMap<(&str, &ObjectKey), Vec<&RecordedWrite>> = BTreeMap::new();
    for write in evidence.program_writes().filter(|write| write.revision > evidence.run.steps_done) {
        by_object.entry((&write.client, &write.key)).or_default().push(write);
    }
    let mut verdicts = Vec::new();
    for ((client, key), writes) in by_object {
        let cycle = without_input(&writes).find_map(|writes| cycle(evidence.normaliser, writes));
        let problem = match (busiest(&writes), cycle) {
            (Some(count), _) => {
                let seconds = limits::HOT_WINDOW.as_secs();
                format!("{client} wrote {key} {count} times within {seconds} s without input")
            }
            (None, Some(length)) => {
                let times = limits::CYCLES;
                format!(
                    "{client} writes {key} in a cycle of {length} states, seen {times} times, without input"
                )
            }
            (None, None) => continue,
        };
        let slot = evidence.slot(writes[0]);
        let last = writes.last().map_or(0, |write| write.revision);
        verdicts.push(Verdict::new(OracleId::HotLoop, format!("{client} {slot}"), problem).at(last));
    }
    verdicts
}

/// The writes of one client to one object, divided where the cluster's time has passed between two of them.
fn without_input<'a, 'w>(writes: &'a [&'w RecordedWrite]) -> impl Iterator<Item = &'a [&'w RecordedWrite]> {
    let stands = i64::try_from(limits::HOT_CLOCK.as_millis()).unwrap_or(i64::MAX);
    writes.chunk_by(move |a, b| b.time - a.time < stands)
}

/// The number of writes of one client to one object in the busiest window without input, if there are too many.
pub(crate) fn busiest(writes: &[&RecordedWrite]) -> Option<usize> {
    without_input(writes).filter_map(many).max()
}

/// The number of writes in the busiest window, if there are too many.
fn many(writes: &[&RecordedWrite]) -> Option<usize> {
    let window = u64::try_from(limits::HOT_WINDOW.as_millis()).unwrap_or(u64::MAX);
    let mut times: Vec<u64> = writes.iter().map(|write| write.real).collect();
    times.sort_unstable();
    let within =
        |(at, first): (usize, &u64)| times.partition_point(|time| time - first.min(time) <= window) - at;
    times.iter().enumerate().map(within).max().filter(|most| *most > limits::HOT_WRITES)
}

/// The length of the cycle in which the last states of the object repeat.
fn cycle(normaliser: &Normaliser, writes: &[&RecordedWrite]) -> Option<usize> {
    let state = |write: &&RecordedWrite| {
        let stored = StoredObject { resource: write.key.resource.clone(), object: write.object().clone() };
        let normal = normaliser.normalise(std::slice::from_ref(&stored));
        digest(&normal.objects.into_values().collect())
    };
    let states: Vec<String> = writes.iter().map(state).collect();
    let longest = states.len() / limits::CYCLES;
    (1..=longest).find(|length| {
        let tail = &states[states.len() - length * limits::CYCLES..];
        tail.iter().zip(&tail[*length..]).all(|(a, b)| a == b)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, table, write};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    const A: &str = "configmaps/default/a";

    fn series(client: &str, values: &[&str], pause: u64) -> RunRecord {
        let values: Vec<_> = std::iter::once(&"begin").chain(values).collect();
        let writes = values.windows(2).enumerate().map(|(nth, pair)| {
            let mut write = write(nth as i64 + 1, client, A, json!({"v": pair[0]}), json!({"v": pair[1]}));
            write.real = nth as u64 * pause;
            write
        });
        run(writes.collect())
    }

    #[test]
    fn many_writes_or_a_cycle_of_states_without_input_are_a_loop() {
        let counted: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        let counted: Vec<&str> = counted.iter().map(String::as_str).collect();
        let mut with_input = series("op", &counted, 10);
        with_input.steps_done = 100;
        let times: Vec<String> = (0..3).map(|n| format!("2026-01-01T00:00:0{n}Z")).collect();
        let times: Vec<&str> = times.iter().map(String::as_str).collect();
        let passing = |mut run: RunRecord| {
            for (minute, write) in (0..).zip(&mut run.writes) {
                write.time = minute * 60_000;
            }
            run
        };
        let rows = [
            ("twelve writes at once", series("op", &counted, 10), true),
            ("twelve writes, a second apart", series("op", &counted, 1000), false),
            ("ten writes at once", series("op", &counted[..10], 10), false),
            ("while steps go on", with_input, false),
            ("by another client", series("other", &counted, 10), false),
            ("a cycle of two", series("op", &["a", "b", "a", "b", "a", "b"], 10_000), true),
            ("a cycle seen twice", series("op", &["a", "b", "a", "b"], 10_000), false),
            ("only times change", series("op", &times, 10_000), true),
            ("a time each minute of the cluster", passing(series("op", &times, 10)), false),
            ("twelve minutes of the cluster at once", passing(series("op", &counted, 10)), false),
        ];
        table(judge, &RunRecord::empty(), &rows);
    }
}
