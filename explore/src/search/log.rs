//! The log of a run as text: its steps, its requests and writes in the order of their times, and the ends of the programs' outputs. Pure.

use crate::limits;
use crate::record::RunEnd;
use crate::run::RunOutcome;
use crate::secrets::SecretValues;
use std::fmt::Write as _;

/// The log, without values of Secrets, in at most about [`limits::LOG_BYTES`].
pub(super) fn text(outcome: &RunOutcome, secrets: &SecretValues) -> String {
    let record = &outcome.record;
    let mut text = String::new();
    for step in &record.steps {
        let _ = writeln!(text, "step    {} from revision {} to {}", step.name, step.begin, step.end);
    }
    text.push_str(&within(&rows(outcome), limits::LOG_BYTES));
    let ended = match &record.ended {
        RunEnd::Converged => "converged".to_owned(),
        RunEnd::Quiet => "quiet in another state than a reference's".to_owned(),
        RunEnd::Looping => "writing one object again and again".to_owned(),
        RunEnd::StepTimedOut { step, problem } => format!("step {step} waited in vain: {problem}"),
        RunEnd::StepFailed { step, problem } => format!("step {step} failed: {problem}"),
        RunEnd::Busy(reasons) => format!("busy: {}", reasons.join("; ")),
    };
    let _ = writeln!(text, "ended   {ended}");
    for exit in &record.exits {
        let _ = writeln!(text, "exit    {} ended by itself with code {}", exit.program, exit.code);
    }
    for (program, output) in &outcome.outputs {
        let _ = writeln!(text, "output of {program}");
        let lines: Vec<String> = output.lines().map(|line| format!("        {line}\n")).collect();
        text.push_str(&within(&lines, limits::LOG_BYTES));
    }
    secrets.hide(&text)
}

/// Requests and writes in the order of their times, a line each.
fn rows(outcome: &RunOutcome) -> Vec<String> {
    let record = &outcome.record;
    let requests = record.requests.iter().map(|request| {
        let fault = if request.fault.is_empty() { String::new() } else { format!("  [{}]", request.fault) };
        let (client, what, version) = (&request.client, request.what(), &request.version);
        let shown = if request.revision > 0 { format!(" at {}", request.revision) } else { String::new() };
        (request.real, format!("request {client} {what} rv={version} -> {}{shown}{fault}", request.code))
    });
    let writes = record.writes.iter().map(|write| {
        let seen: Vec<String> =
            write.views.iter().map(|view| format!("{}@{}", view.resource, view.delivered)).collect();
        let seen = if seen.is_empty() { String::new() } else { format!("; had seen {}", seen.join(" ")) };
        let changed = write.changed();
        let changed = match write.before.is_some() && write.after.is_some() && !changed.is_empty() {
            true => format!(" ({})", changed.join(", ")),
            false => String::new(),
        };
        let (revision, client, verb, key) = (write.revision, &write.client, &write.verb, &write.key);
        (write.real, format!("write   {revision} by {client} {verb} of {key}{changed}{seen}"))
    });
    let mut rows: Vec<(u64, String)> = requests.chain(writes).collect();
    rows.sort_by_key(|(real, _)| *real);
    rows.into_iter().map(|(real, row)| format!("{real:>8} ms  {row}\n")).collect()
}

/// The lines in one text. If they are longer than `most` bytes, lines of the middle are left out: the begin and the end explain most.
fn within(lines: &[String], most: usize) -> String {
    if lines.iter().map(String::len).sum::<usize>() <= most {
        return lines.concat();
    }
    let fitting = |lines: &mut dyn Iterator<Item = &String>| {
        let mut left = most / 2;
        lines.take_while(|line| left.checked_sub(line.len()).map(|rest| left = rest).is_some()).count()
    };
    let (begin, end) = (fitting(&mut lines.iter()), fitting(&mut lines.iter().rev()));
    let left_out = lines.len() - begin - end;
    format!(
        "{}… {left_out} lines are left out\n{}",
        lines[..begin].concat(),
        lines[lines.len() - end..].concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_says_how_many_lines_are_left_out() {
        let lines: Vec<String> = (0..100).map(|n| format!("{n:>9}\n")).collect();
        assert_eq!(within(&lines, 1000), lines.concat());
        let text = within(&lines, 100);
        assert_eq!(text.lines().count(), 11, "{text}");
        assert!(text.contains("… 90 lines are left out\n       95\n"), "{text}");
        assert_eq!(within(&["x".repeat(50)], 10), "… 1 lines are left out\n");
    }
}
