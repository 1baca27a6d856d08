//! `kstore-server record`: an import of a running cluster, and then all of its changes at their revisions. `follow` has the watches,
//! `merge` puts their changes into one order, `writer` adds them to the store.

mod follow;
mod limits;
mod merge;
mod summary;
mod writer;

use crate::args::{RecordArgs, SecretPolicy};
use crate::client_command::print;
use crate::import::report::{ImportReport, RecordingGap, RecordingReport};
use crate::import::{
    self, Conversion, ImportedObject, ListedResource, ObjectSet, ReadCluster, ReadList, ReadPace, Target,
    UnusableSource,
};
use crate::runtime;
use crate::shutdown::Signals;
use anyhow::Context as _;
use follow::{ListedAt, Watch, WatchMessage};
use kstore_client::Client;
use kstore_nondet::Nondet;
use kstore_store::{Revision, maintenance};
use limits::{FARTHEST_LIST, QUEUED_MESSAGES};
use merge::{Change, Merger, WatchId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use writer::RecordingWriter;

/// Time between two progress lines on a terminal.
const PROGRESS: Duration = Duration::from_secs(1);

/// Longest wait at the end for changes that the source has already made.
const LAST_CHANGES: Duration = Duration::from_secs(5);

/// Records until the time is over, a signal, or a failure.
pub(crate) fn record(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let target = Target::of(Some(&args.dir))?;
    runtime::block_on(async {
        let mut signals = Signals::catch()?;
        let prepared = tokio::select! {
            biased;
            caught = signals.next() => {
                target.clear();
                return Ok(ExitCode::from(caught.exit_code()));
            }
            prepared = Recorder::prepare(target.dir(), args) => prepared,
        };
        let mut recorder = match prepared {
            Ok(recorder) => recorder,
            Err(error) => {
                target.clear();
                return Err(error);
            }
        };
        print(&recorder.beginning())?;
        let recorded = recorder.run(args, &mut signals).await;
        tokio::select! {
            biased;
            ended = recorder.end(target.dir(), args, recorded) => ended,
            // The store is as after a crash: it opens with all that was synced.
            again = signals.next() => Ok(ExitCode::from(again.exit_code())),
        }
    })
}

/// A recording.
struct Recorder {
    client: Client,
    objects: ObjectSet,
    report: ImportReport,
    merger: Merger<ImportedObject>,
    writer: RecordingWriter,
    /// The names of the watched resources, by watch.
    watched: BTreeMap<WatchId, String>,
    messages: mpsc::Receiver<(WatchId, WatchMessage)>,
    began: Instant,
    gaps: Vec<RecordingGap>,
    /// The watches, which end with the value.
    _watches: JoinSet<()>,
}

impl Recorder {
    /// Imports the cluster into a directory, and opens the watches.
    ///
    /// # Errors
    /// The cluster cannot be read, or the directory cannot be written.
    async fn prepare(dir: &Path, args: &RecordArgs) -> anyhow::Result<Self> {
        let nondet = Nondet::real();
        let rng = nondet.rng.fork("import");
        let conversion = Conversion::new(args.secrets, false, args.excluded.clone(), &rng);
        let mut objects = ObjectSet::new(conversion, &nondet);
        let mut report = ImportReport::new(args.kubeconfig.display().to_string(), nondet.clock.now(), false);
        let pace = ReadPace { page: args.page, requests_per_second: args.requests_per_second };
        let cluster = import::read_cluster(&args.kubeconfig, pace, &mut objects, &mut report).await?;
        let ReadCluster { client, server, revision, lists } = cluster;
        let lists = of_one_etcd(lists, revision, &mut objects, &mut report);
        if objects.is_empty() {
            return Err(UnusableSource(format!("{server} has no object that can be recorded")).into());
        }
        let revision = lists.iter().map(|list| list.revision).fold(revision, i64::max);
        objects.complete_at(revision, &mut report);
        let authors = objects.authors();
        import::create_base(dir, &nondet, &mut objects, &mut report, Revision(revision))?;
        report.count_masked(args.secrets);
        import::write_report(dir, &report)?;
        let writer = RecordingWriter::open(dir, authors, &nondet).await?;

        let mut merger = Merger::new(revision, args.reorder);
        let (sender, messages) = mpsc::channel(QUEUED_MESSAGES);
        let (mut watched, mut watches) = (BTreeMap::new(), JoinSet::new());
        for ReadList { resource, namespace, revision, known } in lists {
            if is_left_out(&resource, args) {
                continue;
            }
            let id = merger.add_watch(revision, known);
            watched.insert(id, resource.label());
            let watch = Watch::new(id, &client, (&resource, &namespace), revision);
            watches.spawn(watch.follow(sender.clone()));
        }
        let (began, gaps) = (Instant::now(), Vec::new());
        Ok(Self {
            client,
            objects,
            report,
            merger,
            writer,
            watched,
            messages,
            began,
            gaps,
            _watches: watches,
        })
    }

    /// What is printed when the watches are open.
    fn beginning(&self) -> String {
        let ImportReport { source, objects, compacted, .. } = &self.report;
        format!("recording {source} from revision {compacted} on, with {objects} objects; Ctrl-C ends it\n")
    }

    /// Records until the time is over, a signal, or as many bytes as there may be.
    async fn run(&mut self, args: &RecordArgs, signals: &mut Signals) -> anyhow::Result<()> {
        let end = args.duration.and_then(|duration| self.began.checked_add(duration));
        let mut progress = ProgressLine::new();
        loop {
            let ready = self.merger.deadline().and_then(|ready| self.began.checked_add(ready));
            tokio::select! {
                biased;
                _ = signals.next() => return Ok(()),
                () = sleep_until_some(end) => return Ok(()),
                message = self.messages.recv() => match message {
                    Some((watch, message)) => self.add(watch, message),
                    None => return Ok(()),
                },
                () = sleep_until_some(ready) => {}
                () = progress.due() => progress.show(&summary::progress(&self.writer.totals(), self.began.elapsed())),
            }
            self.writer.write(self.merger.ready(self.began.elapsed())).await?;
            if args.max_bytes.is_some_and(|most| self.writer.totals().bytes >= most) {
                tracing::warn!("the recording has the bytes of --max-bytes");
                return Ok(());
            }
        }
    }

    /// Adds what a watch says.
    fn add(&mut self, watch: WatchId, message: WatchMessage) {
        let arrival = self.began.elapsed();
        match message {
            WatchMessage::Put(object) => {
                self.objects.define(&object.value);
                let revision = object.revision();
                if let Some((key, object)) = self.objects.convert(object.value, &mut self.report) {
                    self.merger.change(watch, revision, key, Change::Put(object), arrival);
                }
            }
            WatchMessage::Gone { object, revision } => {
                if let Some(key) = self.objects.key_of(object) {
                    self.merger.change(watch, revision, key, Change::Delete, arrival);
                }
            }
            WatchMessage::Unreadable(why) => {
                tracing::warn!(resource = self.label(watch), "a change is not recorded: {why}");
            }
            WatchMessage::Progress(revision) => self.merger.progress(watch, revision),
            WatchMessage::ListBegins => self.merger.list_begins(watch),
            WatchMessage::Listed(object, at) => {
                let state = object.revision();
                if let Some((key, object)) = self.objects.convert(object.value, &mut self.report) {
                    self.merger.listed(watch, at.revision, (key, state, object), (at.gap, arrival));
                }
            }
            WatchMessage::ListEnds(ListedAt { revision, gap }) => {
                self.merger.list_ends(watch, revision, (gap, arrival));
                let resource = self.label(watch).to_owned();
                self.gaps.push(RecordingGap { resource, revision, seconds: gap.as_secs().max(1) });
            }
        }
    }

    fn label(&self, watch: WatchId) -> &str {
        self.watched.get(&watch).map(String::as_str).unwrap_or_default()
    }

    /// Ends the recording in order: waits a moment for what the source has already changed, writes what waits, and prints what was
    /// recorded.
    async fn end(
        mut self,
        dir: &Path,
        args: &RecordArgs,
        recorded: anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let written = match recorded {
            Ok(()) => {
                self.receive_last().await;
                let left = self.merger.finish();
                self.writer.write(left).await
            }
            Err(error) => Err(error),
        };
        let totals = self.writer.totals();
        self.report.recording = Some(RecordingReport {
            changes: totals.changes,
            late: totals.late,
            seconds: self.began.elapsed().as_secs(),
            gaps: std::mem::take(&mut self.gaps),
        });
        self.report.revision = totals.revision;
        self.report.versions = self.report.objects + totals.changes;
        let watched = self.watched.len();
        self.writer.close().await;
        import::write_report(dir, &self.report)?;
        let shown = dir.display();
        written.with_context(|| format!("{shown} has the recording up to revision {}", totals.revision))?;
        let mut text = self.report.text();
        text.push_str(&summary::summary(&self.report, watched, &totals));
        if let Some(out) = &args.out {
            maintenance::save(dir, out, &mut |_, _| {})
                .with_context(|| format!("cannot write {}; the recording is in {shown}", out.display()))?;
            text.push_str(&format!("{} has it, too\n", out.display()));
        }
        print(&format!("{text}to look at it: kstore-server --data-dir {shown} --read-only\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Reads the watches until they have passed the newest revision of the source, or for a few seconds.
    async fn receive_last(&mut self) {
        let until = Instant::now() + LAST_CHANGES;
        let newest = tokio::time::timeout_at(until, newest_revision(&self.client)).await.ok().flatten();
        let Some(newest) = newest else { return };
        while !self.merger.has_passed(newest) {
            tokio::select! {
                biased;
                message = self.messages.recv() => match message {
                    Some((watch, message)) => self.add(watch, message),
                    None => return,
                },
                () = sleep_until(until) => return,
            }
        }
    }
}

/// The newest revision of a cluster; `None` if it does not say so.
async fn newest_revision(client: &Client) -> Option<i64> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMetadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMetadata {
        resource_version: String,
    }
    let answer = client.get_path("/api/v1/namespaces?limit=1").await.ok()?;
    serde_json::from_slice::<List>(&answer).ok()?.metadata.resource_version.parse().ok()
}

/// The lists whose revisions are those of the first list's etcd. The objects of the others are removed: no order with them is known.
fn of_one_etcd(
    lists: Vec<ReadList>,
    revision: i64,
    objects: &mut ObjectSet,
    report: &mut ImportReport,
) -> Vec<ReadList> {
    let is_same =
        |list: &ReadList| (revision..=revision.saturating_add(FARTHEST_LIST)).contains(&list.revision);
    let (lists, others): (Vec<_>, Vec<_>) = lists.into_iter().partition(is_same);
    for ReadList { resource, known, .. } in others {
        known.keys().for_each(|key| objects.remove(key));
        report.not_read.insert(resource.label(), "its resource versions are of another etcd".to_owned());
    }
    lists
}

/// Whether no object of a resource is stored, so that it needs no watch.
fn is_left_out(resource: &ListedResource, args: &RecordArgs) -> bool {
    let drops_secrets = args.secrets == SecretPolicy::Drop;
    args.excluded.contains(&resource.plural) || (drops_secrets && resource.label() == "secrets")
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The line of progress on a terminal, which is erased at the end.
struct ProgressLine {
    is_terminal: bool,
    next: Instant,
    width: usize,
}

impl ProgressLine {
    fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), next: Instant::now() + PROGRESS, width: 0 }
    }

    /// Waits until the line is to be shown anew; for ever without a terminal.
    async fn due(&self) {
        sleep_until_some(self.is_terminal.then_some(self.next)).await;
    }

    fn show(&mut self, text: &str) {
        let _ = write!(std::io::stderr(), "\r{text:width$}", width = self.width);
        self.width = text.chars().count();
        self.next = Instant::now() + PROGRESS;
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.width > 0 {
            let _ = write!(std::io::stderr(), "\r{:width$}\r", "", width = self.width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_another_etcd_are_left_out_with_their_objects() {
        let nondet = Nondet::simulated(1);
        let conversion = Conversion::new(SecretPolicy::Mask, false, Vec::new(), &nondet.rng);
        let mut objects = ObjectSet::new(conversion, &nondet);
        let mut report = ImportReport::default();
        let mut list = |plural: &str, kind: &str, revision: i64| {
            let value = json!({"apiVersion": "v1", "kind": kind,
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": revision.to_string()}});
            let known = objects.add(value, &mut report).into_iter().collect();
            let (group, api_version) = (String::new(), "v1".to_owned());
            let (plural, kind) = (plural.to_owned(), kind.to_owned());
            let resource = ListedResource { group, api_version, plural, kind, is_namespaced: true };
            ReadList { resource, namespace: String::new(), revision, known }
        };
        let lists = vec![
            list("pods", "Pod", 1_000),
            list("secrets", "Secret", 1_200),
            list("events", "Event", 90_000_000),
            list("configmaps", "ConfigMap", 900),
        ];
        let kept = of_one_etcd(lists, 1_000, &mut objects, &mut report);
        let kept: Vec<_> = kept.iter().map(|list| &*list.resource.plural).collect();
        assert_eq!(kept, ["pods", "secrets"]);
        assert_eq!(report.not_read.keys().collect::<Vec<_>>(), ["configmaps", "events"]);
        let keys: Vec<_> = objects.authors().into_keys().collect();
        assert_eq!(keys, ["/registry/pods/n/a", "/registry/secrets/n/a"]);
    }
}
