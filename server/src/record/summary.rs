//! What `kstore-server record` prints. Pure.

use super::writer::RecordedTotals;
use crate::import::report::{ImportReport, RecordingGap, counted};
use kstore_api::table::human_duration;
use std::fmt::Write as _;
use std::time::Duration;

/// Gaps that the summary names.
const NAMED_GAPS: usize = 5;

/// The line for a terminal while a recording runs.
pub(super) fn progress(totals: &RecordedTotals, elapsed: Duration) -> String {
    format!("{} to revision {} in {}", counted(totals.changes, "change"), totals.revision, time(elapsed))
}

/// The line at the end. `resources` is the number of watched resources.
pub(super) fn summary(report: &ImportReport, resources: usize, totals: &RecordedTotals) -> String {
    let recording = report.recording.clone().unwrap_or_default();
    let mut text = format!(
        "{} at {} · {} of {} to {} in {}",
        counted(report.objects, "object"),
        report.compacted,
        counted(totals.changes, "change"),
        counted(resources as u64, "kind"),
        totals.revision,
        time(Duration::from_secs(recording.seconds)),
    );
    if totals.late > 0 {
        let _ = write!(text, " · {} late", counted(totals.late, "write"));
    }
    if !recording.gaps.is_empty() {
        let named = recording.gaps.iter().take(NAMED_GAPS);
        let mut named: Vec<_> =
            named.map(|RecordingGap { resource, seconds, .. }| format!("{resource}, {seconds} s")).collect();
        if recording.gaps.len() > NAMED_GAPS {
            named.push("…".to_owned());
        }
        let count = counted(recording.gaps.len() as u64, "gap");
        let _ = write!(text, " · {count}: {}", named.join("; "));
    }
    text.push('\n');
    text
}

fn time(elapsed: Duration) -> String {
    human_duration(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::report::RecordingReport;

    #[test]
    fn the_summary_counts_changes_and_names_gaps() {
        let gap = |resource: &str| RecordingGap { resource: resource.to_owned(), revision: 70, seconds: 12 };
        let recording = RecordingReport {
            changes: 61,
            seconds: 90,
            gaps: vec![gap("events")],
            ..RecordingReport::default()
        };
        let mut report = ImportReport::new("prod".to_owned(), jiff::Timestamp::UNIX_EPOCH, false);
        (report.objects, report.compacted, report.recording) = (214, 50, Some(recording));
        let totals = RecordedTotals { changes: 61, late: 0, bytes: 0, revision: 120 };
        assert_eq!(
            summary(&report, 1, &totals),
            "214 objects at 50 · 61 changes of 1 kind to 120 in 90s · 1 gap: events, 12 s\n"
        );
        let many = (0..9).map(|at| gap(&format!("r{at}"))).collect();
        report.recording = Some(RecordingReport { gaps: many, ..RecordingReport::default() });
        let text = summary(&report, 3, &RecordedTotals { late: 2, ..totals });
        assert!(
            text.contains("of 3 kinds") && text.contains(" · 2 writes late · 9 gaps: r0, 12 s"),
            "{text}"
        );
        assert!(text.ends_with("r4, 12 s; …\n"), "{text}");
        assert_eq!(progress(&totals, Duration::from_secs(61)), "61 changes to revision 120 in 61s");
    }
}
