//! [`Timeline`]: objects at a start and their changes, written as a store with history. Resource versions of the source are not kept: they
//! need not be those of one etcd, nor ascend with the times.

use super::{ObjectChange, TimedChange, simkube};
use crate::import::author::USER;
use crate::import::convert::kind_of;
use crate::import::objects::ObjectSet;
use crate::import::report::ImportReport;
use jiff::Timestamp;
use kstore_api::patch::{merge, strategic};
use kstore_api::resource::Resource;
use kstore_api::{kind, meta, object};
use kstore_registry::provenance::Note;
use kstore_store::maintenance::VersionWriter;
use kstore_store::{Revision, Stamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A recording: what there was at its start, and what changed.
#[derive(Debug, Default)]
pub(in crate::import) struct Timeline {
    begin: Vec<Value>,
    changes: Vec<TimedChange>,
    /// The program that made the recording.
    program: &'static str,
}

/// The revision of the start: the first one that a store assigns.
const BEGIN: Revision = Revision(2);

/// A version that was written.
#[derive(Clone, Copy)]
struct WrittenVersion {
    create_revision: Revision,
    version: i64,
}

/// The objects of a timeline while it is written.
#[derive(Default)]
struct TimelineState {
    /// The newest states, by key.
    states: BTreeMap<String, Value>,
    written: BTreeMap<String, WrittenVersion>,
    /// Number of versions and deletions.
    versions: u64,
}

impl Timeline {
    pub(super) fn begin_with(&mut self, object: Value) {
        self.begin.push(object);
    }

    pub(super) fn add(&mut self, program: &'static str, change: TimedChange) {
        self.program = program;
        self.changes.push(change);
    }

    /// Brings the changes into the order of their times, and begins with the objects that are created at the first time, if the source has
    /// no others.
    pub(super) fn arrange(&mut self, objects: &ObjectSet) {
        // Stable: changes of one time stay in the order of the source.
        self.changes.sort_by_key(|change| change.time_us);
        if !self.begin.is_empty() {
            return;
        }
        let Some(first) = self.changes.first().map(|change| change.time_us) else { return };
        let is_begin = |change: &TimedChange| {
            change.time_us == first
                && matches!(&change.change, ObjectChange::Put(object) if object.is_object())
        };
        let count = self.changes.iter().take_while(|change| is_begin(change)).count();
        for TimedChange { time_us, change } in self.changes.drain(..count) {
            if let ObjectChange::Put(mut object) = change {
                complete(&mut object, None, time_us, || objects.new_uid());
                self.begin.push(object);
            }
        }
    }

    /// Whether the recording is of a program that records no nodes.
    pub(in crate::import) fn lacks_nodes(&self) -> bool {
        self.program == simkube::PROGRAM
    }

    /// Whether there is nothing at the start.
    pub(in crate::import) fn is_empty(&self) -> bool {
        self.begin.is_empty()
    }

    /// The namespaces of changed objects, without those that come with the changes.
    fn namespaces(&self) -> BTreeSet<String> {
        let changed = || self.changes.iter().map(|change| change.change.object());
        let created: BTreeSet<&str> =
            changed().filter(|object| object::kind(object) == "Namespace").map(meta::name).collect();
        let used = changed().map(meta::namespace).filter(|name| !name.is_empty() && !created.contains(name));
        used.map(str::to_owned).collect()
    }

    /// Adds further objects to the start.
    pub(in crate::import) fn extend(&mut self, objects: Vec<Value>) {
        self.begin.extend(objects);
    }

    /// Writes the start at the first revision, and each change at the next one. Returns the oldest readable revision, that of the start.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(in crate::import) fn write(
        self,
        objects: &mut ObjectSet,
        writer: &mut VersionWriter<'_, '_>,
        report: &mut ImportReport,
    ) -> anyhow::Result<Revision> {
        let (mut state, first) =
            (TimelineState::default(), self.changes.first().map(|change| change.time_us));
        self.namespaces().into_iter().for_each(|name| objects.expect_namespace(name));
        for mut object in self.begin {
            if let Some(time_us) = first.filter(|_| object.is_object()) {
                complete(&mut object, None, time_us, || objects.new_uid());
            }
            if let Some((key, _)) = objects.add(object.clone(), report) {
                state.states.insert(key, object);
            }
        }
        // All of the start is one revision, so that each object was created at it.
        objects.complete_at(BEGIN.0, report);
        let begin = objects.write(writer, report)?.max(BEGIN);
        let first = WrittenVersion { create_revision: begin, version: 1 };
        state.written = state.states.keys().map(|key| (key.clone(), first)).collect();
        state.versions = report.objects;
        for TimedChange { time_us, change } in self.changes {
            state.apply(change, time_us, self.program, (objects, writer, report))?;
        }
        report.versions = state.versions;
        (report.revision, report.compacted) = (writer.revision().0, begin.0);
        Ok(begin)
    }
}

impl TimelineState {
    /// Writes a change at the next revision, unless the rules of the import leave it out.
    fn apply(
        &mut self,
        change: ObjectChange,
        time_us: i64,
        program: &str,
        (objects, writer, report): (&mut ObjectSet, &mut VersionWriter<'_, '_>, &mut ImportReport),
    ) -> anyhow::Result<()> {
        let revision = writer.revision().max(BEGIN).next();
        let Some(key) = self.key_of(change.object(), objects) else {
            if !matches!(change, ObjectChange::Delete(_)) {
                // Counts why it is left out.
                let _ = objects.convert(change.object().clone(), report);
            }
            return Ok(());
        };
        let before = self.states.get(&key);
        let object = match change {
            ObjectChange::Delete(_) => None,
            ObjectChange::Put(object) => Some(object),
            ObjectChange::Patch { object, patch } => Some(patched(before.unwrap_or(&object), &patch)),
        };
        let verb = match object {
            None if self.written.remove(&key).is_none() => return Ok(()),
            None => {
                self.states.remove(&key);
                report.remove(&kind_of(&key));
                writer.delete(key.as_bytes(), revision)?;
                "delete"
            }
            Some(mut object) => {
                complete(&mut object, before, time_us, || objects.new_uid());
                let Some((key, stored)) = objects.convert(object.clone(), report) else { return Ok(()) };
                let before = self.written.get(&key);
                let create_revision = before.map_or(revision, |before| before.create_revision);
                let version = before.map_or(1, |before| before.version + 1);
                let stamp = Stamp { create_revision, mod_revision: revision, version, ..Stamp::default() };
                writer.put(key.as_bytes(), &stored.bytes, stamp)?;
                if version == 1 {
                    report.keep(kind_of(&key));
                }
                self.written.insert(key.clone(), WrittenVersion { create_revision, version });
                self.states.insert(key, object);
                if version == 1 { "create" } else { "update" }
            }
        };
        self.versions += 1;
        let (user, agent, verb) = (USER.to_owned(), program.to_owned(), verb.to_owned());
        writer.note(revision, Note { user, agent, verb, causes: Vec::new(), time_us }.encode())?;
        Ok(())
    }

    /// The key of an object; one without a kind is that of a known object of its namespace and name.
    fn key_of(&self, named: &Value, objects: &ObjectSet) -> Option<String> {
        if !object::kind(named).is_empty() {
            return objects.key_of(named.clone());
        }
        let is_same = |known: &Value| {
            (meta::namespace(known), meta::name(known)) == (meta::namespace(named), meta::name(named))
        };
        self.states.iter().find(|(_, known)| is_same(known)).map(|(key, _)| key.clone())
    }
}

/// Gives a state what a server gives it: uid and creation time of the state before, or new ones. The resource version is that of the store.
fn complete(object: &mut Value, before: Option<&Value>, time_us: i64, new_uid: impl FnOnce() -> String) {
    meta::metadata_mut(object).remove("resourceVersion");
    if meta::creation_timestamp(object).is_empty() {
        let known = before.map(meta::creation_timestamp).filter(|known| !known.is_empty()).map(str::to_owned);
        let time = || Timestamp::from_microsecond(time_us).map(meta::format_time).unwrap_or_default();
        let created = known.unwrap_or_else(time);
        meta::metadata_mut(object).insert("creationTimestamp".to_owned(), created.into());
    }
    if meta::uid(object).is_empty() {
        let known = before.map(|before| meta::uid(before).to_owned()).filter(|known| !known.is_empty());
        let uid = known.unwrap_or_else(new_uid);
        if !uid.is_empty() {
            meta::set_uid(object, &uid);
        }
    }
}

/// A state after a patch. A patch that cannot be applied changes nothing.
fn patched(before: &Value, patch: &Value) -> Value {
    let row = kind::lookup_api_version(object::api_version(before), object::kind(before));
    let merged = match row.and_then(Resource::object_type) {
        Some(object_type) => strategic::apply(before, patch, object_type),
        None => merge::apply(before, patch),
    };
    merged.ok().filter(Value::is_object).unwrap_or_else(|| before.clone())
}

#[cfg(test)]
mod tests {
    use super::super::message_pack::tests::encode;
    use super::*;
    use crate::args::SecretPolicy;
    use crate::import::convert::Conversion;
    use kstore_client::manifest;
    use kstore_nondet::Nondet;
    use kstore_store::maintenance;
    use kstore_store::{Config, EngineKind, KeyRange, Range, Store};
    use serde_json::json;

    /// Imports the text of a source, and returns the objects by revision as `key value`, the notes, and the report.
    async fn imported(documents: Vec<Value>) -> (Vec<(i64, String)>, Vec<String>, ImportReport) {
        let (folder, nondet) = (tempfile::tempdir().unwrap(), Nondet::simulated(1));
        let mut objects =
            ObjectSet::new(Conversion::new(SecretPolicy::Mask, false, Vec::new(), &nondet.rng), &nondet);
        let (mut documents, mut report) = (documents, ImportReport::default());
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let timeline = Timeline::of(&mut documents, &mut objects, start).unwrap().unwrap();
        maintenance::create(folder.path(), EngineKind::Segments, &nondet.rng, |writer| {
            timeline.write(&mut objects, writer, &mut report)
        })
        .unwrap();
        assert_eq!(maintenance::verify(folder.path(), &mut |_, _| {}).unwrap().problems, []);
        let store = Store::open(Config::durable(folder.path()), nondet).await.unwrap();
        let (mut versions, mut notes) = (Vec::new(), Vec::new());
        for revision in store.compacted().0..=store.revision().0 {
            let found = store.range(&Range::new(KeyRange::all()).at(Revision(revision))).unwrap().kvs;
            let shown = found.iter().map(|kv| {
                let value: Value = serde_json::from_slice(kv.value()).unwrap();
                let key = String::from_utf8_lossy(kv.key()).replace("/registry/", "");
                format!(
                    "{key}@{}{}",
                    kv.mod_revision(),
                    value["data"]["k"].as_str().map(|k| format!("={k}")).unwrap_or_default()
                )
            });
            versions.push((revision, shown.collect::<Vec<_>>().join(" ")));
            let note = store.note(Revision(revision)).and_then(|note| Note::decode(&note));
            notes.extend(note.filter(|note| !note.agent.is_empty()).map(|note| {
                format!(
                    "{revision} {} by {} at {}",
                    note.verb,
                    note.agent,
                    note.time_us - 1_767_225_600_000_000
                )
            }));
        }
        store.close().await;
        (versions, notes, report)
    }

    fn map(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a", "resourceVersion": "77"}, "data": {"k": value}})
    }

    #[tokio::test]
    async fn a_recording_of_kwok_is_a_snapshot_with_patches() {
        let text = r#"
apiVersion: v1
kind: Namespace
metadata: {name: a, uid: u, creationTimestamp: $(time-offset-nanosecond -1000000000)}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
kind: ResourcePatch
resource: {version: v1, resource: configmaps}
target: {name: one, namespace: a}
durationNanosecond: 5000000
method: patch
template: {data: {k: two}}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
kind: ResourcePatch
resource: {version: v1, resource: configmaps}
target: {name: one, namespace: a}
durationNanosecond: 1000000
method: create
template: {data: {k: one}}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
kind: ResourcePatch
resource: {version: v1, resource: configmaps}
target: {name: one, namespace: a}
durationNanosecond: 9000000
method: delete
"#;
        let documents = manifest::objects(text).unwrap().into_iter().map(|object| object.value).collect();
        let (versions, notes, report) = imported(documents).await;
        assert_eq!(
            versions,
            [
                (2, "namespaces/a@2".to_owned()),
                (3, "configmaps/a/one@3=one namespaces/a@2".to_owned()),
                (4, "configmaps/a/one@4=two namespaces/a@2".to_owned()),
                (5, "namespaces/a@2".to_owned()),
            ]
        );
        assert_eq!(
            notes,
            ["3 create by kwok at 1000", "4 update by kwok at 5000", "5 delete by kwok at 9000"]
        );
        assert_eq!((report.objects, report.versions, report.revision, report.compacted), (1, 4, 5, 2));
    }

    #[tokio::test]
    async fn records_of_the_scheduler_simulator_begin_with_those_of_the_first_time() {
        let record = |time: &str, event: &str, resource: Value| json!({"time": format!("2026-01-01T00:00:{time}Z"), "event": event, "resource": resource});
        let deleted =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "a"}});
        let (versions, notes, _) = imported(vec![
            record("00", "Add", map("one", "1")),
            record("01.5", "Update", map("one", "2")),
            record("02", "Delete", deleted.clone()),
            record("03", "Delete", deleted),
            record("04", "Add", map("two", "3")),
            record("05", "Add", json!("no object")),
        ])
        .await;
        let newest = versions.last().unwrap();
        assert!(newest.1.starts_with("configmaps/a/two@"), "{versions:?}");
        let verbs: Vec<_> = notes.iter().map(|note| note.split_once(' ').unwrap().1).collect();
        assert_eq!(
            verbs,
            [
                "update by kube-scheduler-simulator at 1500000",
                "delete by kube-scheduler-simulator at 2000000",
                "create by kube-scheduler-simulator at 4000000"
            ]
        );
    }

    #[tokio::test]
    async fn a_trace_of_simkube_is_read_from_message_pack() {
        let trace = json!({"version": 2, "config": {}, "index": {}, "pod_lifecycles": {}, "events": [
            {"ts": 1_767_225_600, "applied_objs": [map("one", "1"), map("two", "1")], "deleted_objs": []},
            {"ts": 1_767_225_607, "applied_objs": [map("two", "2")], "deleted_objs": [{"metadata": {"name": "one", "namespace": "a"}}]}]});
        let bytes = encode(&trace, false);
        assert!(simkube::is_message_pack(&bytes));
        let (versions, notes, report) = imported(vec![simkube::read(&bytes).unwrap()]).await;
        let newest = &versions.last().unwrap().1;
        assert!(
            newest.starts_with("configmaps/a/two@") && newest.contains("=2 namespaces/a@"),
            "{versions:?}"
        );
        let verbs: Vec<_> = notes.iter().map(|note| note.split_once(' ').unwrap().1).collect();
        assert_eq!(verbs, ["update by simkube at 7000000", "delete by simkube at 7000000"]);
        assert_eq!(
            (report.objects, report.made.get("namespaces")),
            (2, Some(&1)),
            "the second map and the namespace"
        );
        for (trace, reason) in
            [(json!({"version": 1, "events": []}), "version 1 is not 2"), (json!({"a": 1}), "no version")]
        {
            let refused = simkube::read(&encode(&trace, false)).unwrap_err();
            assert!(refused.to_string().contains(reason), "{refused}");
        }
        assert!(simkube::read(&bytes[..bytes.len() - 1]).unwrap_err().to_string().contains("ends within"));
    }

    #[test]
    fn malformed_documents_of_a_recording_are_refused_with_the_reason() {
        let nondet = Nondet::simulated(1);
        let patch = |resource: &str, method: &str| {
            json!({"apiVersion": "action.kwok.x-k8s.io/v1alpha1", "kind": "ResourcePatch",
            "resource": {"version": "v1", "resource": resource}, "target": {"name": "a"}, "durationNanosecond": 1, "method": method})
        };
        for (document, reason) in [
            (patch("pods", "upsert"), "upsert"),
            (patch("gadgets", "create"), "no kind has the resource \"gadgets\""),
            (json!({"time": "yesterday", "event": "Add", "resource": {}}), "kube-scheduler-simulator"),
            (json!({"time": "2026-01-01T00:00:00Z", "event": "Moved", "resource": {}}), "Moved"),
            (json!({"version": 2, "events": [{"ts": "now"}]}), "SimKube"),
        ] {
            let conversion = Conversion::new(SecretPolicy::Mask, false, Vec::new(), &nondet.rng);
            let mut objects = ObjectSet::new(conversion, &nondet);
            let refused = Timeline::of(&mut vec![document], &mut objects, Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(refused.to_string().contains(reason), "{refused}");
        }
    }
}
