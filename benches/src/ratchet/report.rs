//! The report: a table in Markdown, and below it what failed and what to do. Pure.

use super::accepted::Accepted;
use super::measure::Measured;
use super::verdict::{TOLERANCE, Verdict, percent};
use std::fmt::Write as _;

/// The command that accepts counts, which builds the program as the gate does.
const ACCEPT: &str = ".ci/checks/ratchet --accept";

/// The text, and whether a path or a line fails.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) has_failed: bool,
}

/// Compares counts with the accepted ones. `is_path` tells whether a path with this name exists.
pub(super) fn report(accepted: &Accepted, measured: &Measured, is_path: impl Fn(&str) -> bool) -> Report {
    let mut text = format!("Counted on {}.\n\n{HEAD}\n", measured.platform);
    let (mut failures, mut gains) = (Vec::new(), Vec::new());
    for count in &measured.counts {
        let (name, now) = (count.name, grouped(count.instructions));
        let before = accepted.instructions(name);
        let verdict = Verdict::of(before, count.instructions);
        let difference = before.map(|before| format!("{:+.2} %", percent(before, count.instructions)));
        let difference = difference.unwrap_or_default();
        let before = before.map_or_else(String::new, grouped);
        let _ = writeln!(text, "| {name} | {before} | {now} | {difference} | {} |", word(verdict));
        let sentence = format!("{name}: accepted {before}, measured {now}, {difference}");
        match verdict {
            Verdict::Holds => {}
            Verdict::Gain => gains.push((name, sentence)),
            Verdict::Exceeded => failures.push((name, format!("{sentence}, above {TOLERANCE} %"))),
            Verdict::Unaccepted => {
                failures.push((name, format!("{name}: no accepted count, measured {now}")));
            }
        }
    }
    for (_, sentence) in &gains {
        let _ = write!(text, "\nGAIN  {sentence}");
    }
    if !gains.is_empty() {
        let _ = writeln!(text, "\nAccept the gain, or its loss will not be noticed: {}", accept(&gains));
    }
    for (_, sentence) in &failures {
        let _ = write!(text, "\nFAIL  {sentence}");
        if accepted.platform != measured.platform {
            let _ = write!(text, " (the accepted counts are of another platform: {})", accepted.platform);
        }
    }
    if !failures.is_empty() {
        let _ = writeln!(text, "\nFind the cause, or accept the count with a reason: {}", accept(&failures));
    }
    let strays: Vec<&str> =
        accepted.lines.iter().map(|line| &*line.name).filter(|name| !is_path(name)).collect();
    for name in &strays {
        let _ = writeln!(text, "\nFAIL  {name}: an accepted count, but no such path; delete its line");
    }
    Report { text, has_failed: !failures.is_empty() || !strays.is_empty() }
}

/// The command that accepts the counts of these paths.
fn accept(paths: &[(&str, String)]) -> String {
    let names: Vec<&str> = paths.iter().map(|(name, _)| *name).collect();
    format!("{ACCEPT} {} --why \"TEXT\"", names.join(" "))
}

const HEAD: &str = "| path | accepted | measured | difference | verdict |\n|---|---|---|---|---|";

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Gain => "gain: accept it",
        Verdict::Exceeded | Verdict::Unaccepted => "**failed**",
    }
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::measure::Count;
    use super::*;

    fn of(platform: &str, counts: &[(&'static str, u64)]) -> Report {
        let accepted =
            Accepted::new(Vec::new(), "x86_64").with("get", 100_000, "first").with("put", 200_000, "first");
        let counts = counts.iter().map(|&(name, instructions)| Count { name, instructions }).collect();
        report(&accepted, &Measured { platform: platform.to_owned(), counts }, |name| name != "gone")
    }

    #[test]
    fn an_exceeded_count_names_path_counts_difference_and_remedy() {
        let report = of("x86_64", &[("get", 103_100), ("put", 205_800)]);
        assert!(report.has_failed);
        assert!(report.text.contains("get: accepted 100,000, measured 103,100, +3.10 %"), "{}", report.text);
        assert!(report.text.contains("--accept get --why"), "{}", report.text);
        assert!(report.text.contains("| put | 200,000 | 205,800 | +2.90 % | holds |"), "{}", report.text);
        assert!(!report.text.contains("another platform"));
    }

    #[test]
    fn a_failure_on_another_platform_says_so() {
        let report = of("aarch64", &[("get", 110_000)]);
        assert!(report.has_failed && report.text.contains("another platform: x86_64"), "{}", report.text);
        assert!(!of("aarch64", &[("get", 100_000)]).has_failed);
    }

    #[test]
    fn a_gain_is_no_failure_and_asks_to_be_accepted() {
        let report = of("x86_64", &[("get", 90_000)]);
        assert!(!report.has_failed && report.text.contains("--accept get --why"), "{}", report.text);
    }

    #[test]
    fn a_path_without_a_line_and_a_line_without_a_path_fail() {
        let report = of("x86_64", &[("new", 1)]);
        assert!(report.has_failed && report.text.contains("new: no accepted count"), "{}", report.text);
        let accepted = Accepted::new(Vec::new(), "x86_64").with("gone", 1, "first");
        let measured = Measured { platform: "x86_64".to_owned(), counts: Vec::new() };
        let stray = super::report(&accepted, &measured, |name| name != "gone");
        assert!(stray.has_failed && stray.text.contains("gone: an accepted count"), "{}", stray.text);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
