//! What an import did: printed for people, kept in the data directory for programs, and in short in the store.

use super::convert::LeftOut;
use crate::args::SecretPolicy;
use jiff::Timestamp;
use kstore_registry::provenance::Note;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Most objects that a group of left out ones names.
const EXAMPLES: usize = 3;
/// Most groups of left out objects. Reasons may name places in texts, and be different for each object; further ones are one group a kind.
const GROUPS: usize = 100;
/// The reason of that group.
const FURTHER: &str = "further reasons";
/// Most kinds that the printed report names.
const KINDS: usize = 12;

/// Result of an import, which is kept in its data directory ([`crate::data_dir::IMPORT_FILE`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ImportReport {
    /// The version of this document.
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The imported file or folder.
    pub(crate) source: String,
    /// When it was imported.
    pub(crate) time: String,
    /// The user of the machine who imported it.
    pub(super) by: String,
    /// Whether a control plane is to go on with the data.
    pub(super) live: bool,
    /// Newest revision of the source.
    pub(crate) revision: i64,
    /// Oldest readable revision.
    pub(crate) compacted: i64,
    /// Number of objects at the newest revision.
    pub(crate) objects: u64,
    /// Number of versions of objects, deletions included.
    pub(crate) versions: u64,
    /// Number of objects of each kind.
    pub(super) kinds: BTreeMap<String, u64>,
    /// Number of Secrets whose values were replaced.
    pub(super) masked: u64,
    /// Number of objects of each kind that the source lacks and that were made.
    pub(super) made: BTreeMap<String, u64>,
    pub(super) left_out: Vec<LeftOutGroup>,
    /// Kinds that could not be read from a cluster, or only in part, with the reason.
    pub(crate) not_read: BTreeMap<String, String>,
    /// Kinds of which a cluster had no state at the revision of the others.
    pub(super) newer: BTreeSet<String>,
    /// What was recorded after the import; `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recording: Option<RecordingReport>,
}

/// What `kstore-server record` added to an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RecordingReport {
    /// Number of changes of objects.
    pub(crate) changes: u64,
    /// Number of changes that came too late for their revision, and have a later one.
    pub(crate) late: u64,
    /// How long was recorded, in seconds.
    pub(crate) seconds: u64,
    /// The periods in which the recorder missed changes. It stored the difference between the states before and after each.
    pub(crate) gaps: Vec<RecordingGap>,
}

/// A time in which a recorder saw no changes of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RecordingGap {
    /// Plural and group.
    pub(crate) resource: String,
    /// The revision of the list after the gap.
    pub(crate) revision: i64,
    /// Length of the gap.
    pub(crate) seconds: u64,
}

/// Objects that were left out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeftOutGroup {
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) count: u64,
    /// Some of their keys or names.
    pub(super) examples: Vec<String>,
}

impl ImportReport {
    /// A report of an import that begins.
    pub(crate) fn new(source: String, time: Timestamp, live: bool) -> Self {
        let by = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
        let (api_version, kind) = ("kstore/v1".to_owned(), "ImportReport".to_owned());
        let time = kstore_api::meta::format_time(time);
        Self { api_version, kind, source, time, by, live, ..Self::default() }
    }

    /// Counts an object that is left out.
    pub(super) fn leave_out(&mut self, left_out: LeftOut, example: &str) {
        let LeftOut { kind, mut reason } = left_out;
        let is_known =
            |reason: &str| self.left_out.iter().any(|group| group.kind == kind && group.reason == reason);
        if self.left_out.len() >= GROUPS && !is_known(&reason) {
            reason = FURTHER.into();
        }
        let found = self.left_out.iter_mut().find(|group| group.kind == kind && group.reason == *reason);
        let group = match found {
            Some(group) => group,
            None => {
                self.left_out.push(LeftOutGroup { kind, reason: reason.into(), ..LeftOutGroup::default() });
                self.left_out.last_mut().expect("a group was just added")
            }
        };
        group.count += 1;
        if group.examples.len() < EXAMPLES {
            group.examples.push(example.to_owned());
        }
    }

    /// Counts an object of the newest revision.
    pub(super) fn keep(&mut self, kind: String) {
        self.objects += 1;
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// Takes back the count of an object, which was deleted.
    pub(super) fn remove(&mut self, kind: &str) {
        self.objects = self.objects.saturating_sub(1);
        if let Some(count) = self.kinds.get_mut(kind) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(kind);
            }
        }
    }

    /// Notes how many Secrets have other values, if they are masked.
    pub(crate) fn count_masked(&mut self, secrets: SecretPolicy) {
        if secrets == SecretPolicy::Mask {
            self.masked = self.kinds.get("secrets").copied().unwrap_or_default();
        }
    }

    /// The record of the import in the store: who imported what, and when.
    pub(super) fn record(&self) -> Vec<u8> {
        let short = Self { kinds: BTreeMap::new(), left_out: Vec::new(), ..self.clone() };
        serde_json::to_vec(&short).expect("a report is JSON")
    }

    /// The provenance of the revision of that record.
    pub(super) fn note(&self, time: Timestamp) -> Note {
        let agent = format!("kstore-server/{} (import of {})", crate::VERSION, self.source);
        let (user, verb) = (self.by.clone(), "import".to_owned());
        Note { user, agent, verb, causes: Vec::new(), time_us: time.as_microsecond() }
    }

    /// The report for people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "imported {} of {} from {}, at revision {}",
            counted(self.objects, "object"),
            counted(self.kinds.len() as u64, "kind"),
            self.source,
            self.revision
        );
        if self.versions > self.objects {
            let _ = write!(text, "; {} versions from revision {} on", self.versions, self.compacted.max(1));
        }
        text.push('\n');
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let more = kinds.len().saturating_sub(KINDS);
        let mut named: Vec<_> =
            kinds.iter().take(KINDS).map(|(kind, count)| format!("{count} {kind}")).collect();
        if more > 0 {
            named.push(format!("{more} more kinds"));
        }
        let _ = writeln!(text, "           {}", named.join(" · "));
        if self.masked > 0 {
            let _ = writeln!(text, "masked     the values of {}", counted(self.masked, "Secret"));
        }
        for (kind, count) in &self.made {
            let _ = writeln!(text, "made       {count} {kind}, which the source names and does not have");
        }
        for (kind, reason) in &self.not_read {
            let _ = writeln!(text, "not read   {kind}: {reason}");
        }
        if !self.newer.is_empty() {
            let kinds: Vec<_> = self.newer.iter().map(String::as_str).collect();
            let _ = writeln!(
                text,
                "newer      {}: the cluster has no state of them at one revision",
                kinds.join(", ")
            );
        }
        for LeftOutGroup { kind, reason, count, examples } in &self.left_out {
            let example = examples.first().map(|example| format!(", such as {example}")).unwrap_or_default();
            let _ = writeln!(text, "left out   {count} {kind}: {reason}{example}");
        }
        text
    }
}

pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_groups_what_is_left_out_and_names_some_of_it() {
        let mut report = ImportReport::new("prod.db".into(), Timestamp::UNIX_EPOCH, false);
        for at in 0..5 {
            let left_out = LeftOut { kind: "pods".into(), reason: "it is not JSON".into() };
            report.leave_out(left_out, &format!("default/p{at}"));
        }
        report.leave_out(LeftOut { kind: "leases".into(), reason: "--exclude".into() }, "a/b");
        report.keep("pods".into());
        report.keep("pods".into());
        report.keep("nodes".into());
        (report.revision, report.masked) = (412, 1);
        report.made.insert("namespaces".into(), 2);
        assert_eq!(
            report.text(),
            "imported 3 objects of 2 kinds from prod.db, at revision 412\n           2 pods · 1 nodes\n\
             masked     the values of 1 Secret\n\
             made       2 namespaces, which the source names and does not have\n\
             left out   5 pods: it is not JSON, such as default/p0\n\
             left out   1 leases: --exclude, such as a/b\n"
        );
        assert_eq!(report.left_out[0].examples.len(), EXAMPLES);
        for at in 0..300 {
            let reason = format!("it is not JSON: column {at}").into();
            report.leave_out(LeftOut { kind: "maps".into(), reason }, "a/b");
        }
        assert_eq!(report.left_out.len(), GROUPS + 1);
        assert_eq!(report.left_out.last().map(|group| group.count), Some(300 - 98));
        report.left_out.truncate(2);
        let read: ImportReport = serde_json::from_slice(&serde_json::to_vec(&report).unwrap()).unwrap();
        assert_eq!(read, report);
        assert!(report.record().len() < 500);
    }
}
