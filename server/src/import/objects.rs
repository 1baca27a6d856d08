//! Imports objects of manifests: finds the key of each by the kinds of Kubernetes and by the definitions among the objects, and completes
//! what a server expects. Objects that were read from a server keep what they have.

use super::author::Author;
use super::convert::{Conversion, ImportedObject, LeftOut, kind_of};
use super::report::ImportReport;
use kstore_api::group_version::split_api_version;
use kstore_api::kind::{Kinds, OptIn};
use kstore_api::resource::Resource;
use kstore_api::{defaults, meta, object};
use kstore_nondet::Nondet;
use kstore_registry::provenance::Note;
use kstore_storage::storage_key::ROOT;
use kstore_store::maintenance::VersionWriter;
use kstore_store::{Revision, Stamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Highest resource version that is kept: beyond, a store has no room for further writes.
const HIGHEST: i64 = 1 << 61;
/// The namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// The resource of a custom kind.
#[derive(Clone, Debug)]
struct CustomResource {
    plural: String,
    is_namespaced: bool,
}

/// An object to be stored.
#[derive(Debug)]
struct Listed {
    /// The revision of its resource version; `None`: it has none.
    revision: Option<i64>,
    object: ImportedObject,
}

/// The objects of an import by their keys.
pub(crate) struct ObjectSet {
    kinds: Kinds,
    /// Resources of custom kinds, by group and kind.
    custom: BTreeMap<(String, String), CustomResource>,
    conversion: Conversion,
    nondet: Nondet,
    objects: BTreeMap<String, Listed>,
    /// The namespaces that objects are in.
    namespaces: BTreeSet<String>,
}

impl ObjectSet {
    pub(crate) fn new(conversion: Conversion, nondet: &Nondet) -> Self {
        Self {
            kinds: Kinds::new(OptIn::all(), &[], &[]),
            custom: BTreeMap::new(),
            conversion,
            nondet: nondet.clone(),
            objects: BTreeMap::new(),
            namespaces: BTreeSet::new(),
        }
    }

    /// Learns the kind of a CustomResourceDefinition; other objects are ignored. All definitions come before the objects.
    pub(crate) fn define(&mut self, definition: &Value) {
        if object::kind(definition) != "CustomResourceDefinition" {
            return;
        }
        let spec = &definition["spec"];
        let text = |value: &Value| object::text(value).to_owned();
        let key = (text(&spec["group"]), text(&spec["names"]["kind"]));
        let is_namespaced = object::text(&spec["scope"]) == "Namespaced";
        self.custom.insert(key, CustomResource { plural: text(&spec["names"]["plural"]), is_namespaced });
    }

    /// Whether objects of a kind can be imported: it is a stored kind of Kubernetes, or one that was defined.
    pub(super) fn is_importable(&self, api_version: &str, kind: &str) -> bool {
        match self.kinds.lookup_api_version(api_version, kind) {
            Some(row) => row.is_stored(),
            None => {
                let (group, _) = split_api_version(api_version);
                self.custom.contains_key(&(group.to_owned(), kind.to_owned()))
            }
        }
    }

    /// Adds an object, or counts it as left out. Returns its key and its revision (zero without a resource version) if the set has it.
    pub(crate) fn add(&mut self, mut value: Value, report: &mut ImportReport) -> Option<(String, i64)> {
        let example = object::ObjectKey::of(&value).to_string();
        match self.place(&mut value) {
            Ok((row, key)) => self.add_at(row, key, value, report),
            Err(reason) => {
                report.leave_out(LeftOut { kind: kind_or_document(&value), reason: reason.into() }, &example);
                None
            }
        }
    }

    fn add_at(
        &mut self,
        row: Option<&'static Resource>,
        key: String,
        mut value: Value,
        report: &mut ImportReport,
    ) -> Option<(String, i64)> {
        let example = object::ObjectKey::of(&value).to_string();
        if meta::uid(&value).is_empty() {
            // Written by a person: a server would have completed it.
            meta::fill_system_fields(&mut value, &self.nondet.rng.uuid(), self.nondet.clock.now());
            if let Some(row) = row {
                defaults::apply(row, &mut value);
            }
        }
        let revision = meta::resource_version(&value).parse().ok();
        let revision = revision.filter(|revision| (1..=HIGHEST).contains(revision));
        let namespace = meta::namespace(&value).to_owned();
        match self.conversion.convert_object(row, &key, value) {
            Ok(object) => {
                let is_older = |known: &Listed| known.revision > revision;
                if self.objects.get(&key).is_some_and(is_older) {
                    return None;
                }
                self.objects.insert(key.clone(), Listed { revision, object });
                if !namespace.is_empty() {
                    self.namespaces.insert(namespace);
                }
                Some((key, revision.unwrap_or_default()))
            }
            Err(left_out) => {
                report.leave_out(left_out, &example);
                None
            }
        }
    }

    /// Converts a further version of an object, which the set does not keep: its key and what is stored. An object that the rules leave out
    /// is counted, and `None`.
    pub(crate) fn convert(
        &mut self,
        mut value: Value,
        report: &mut ImportReport,
    ) -> Option<(String, ImportedObject)> {
        let example = object::ObjectKey::of(&value).to_string();
        let converted = match self.place(&mut value) {
            Ok((row, key)) => self.conversion.convert_object(row, &key, value).map(|object| (key, object)),
            Err(reason) => Err(LeftOut { kind: kind_or_document(&value), reason: reason.into() }),
        };
        converted.map_err(|left_out| report.leave_out(left_out, &example)).ok()
    }

    /// The key of an object that has a kind and a name; `None` if no such object is imported.
    pub(crate) fn key_of(&self, mut value: Value) -> Option<String> {
        self.place(&mut value).ok().map(|(_, key)| key)
    }

    /// The kind of a resource, by the plural in its paths; `None` if no such kind is known.
    pub(super) fn kind_of_resource(&self, group: &str, version: &str, plural: &str) -> Option<String> {
        if let Some(row) = self.kinds.lookup(group, version, plural) {
            return Some(row.kind.to_owned());
        }
        let is_same = |((known, _), custom): &(&(String, String), &CustomResource)| {
            known == group && custom.plural == plural
        };
        self.custom.iter().find(is_same).map(|((_, kind), _)| kind.clone())
    }

    /// A uid for an object that has none.
    pub(super) fn new_uid(&self) -> String {
        self.nondet.rng.uuid()
    }

    /// Makes a namespace, if the set does not have it when it is complete.
    pub(super) fn expect_namespace(&mut self, name: String) {
        self.namespaces.insert(name);
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &str) {
        self.objects.remove(key);
    }

    /// Completes the set at a revision, for a store whose later revisions are taken: objects without a resource version get this one, and
    /// missing namespaces are made.
    pub(crate) fn complete_at(&mut self, revision: i64, report: &mut ImportReport) {
        self.complete_namespaces(report);
        for listed in self.objects.values_mut() {
            listed.revision.get_or_insert(revision);
        }
    }

    /// Who wrote each object of the set, by key.
    pub(crate) fn authors(&self) -> BTreeMap<String, Option<Author>> {
        self.objects.iter().map(|(key, listed)| (key.clone(), listed.object.author.clone())).collect()
    }

    /// The row of the object's kind, if it is a built-in one, and the object's key. Sets the namespace that the object leaves out.
    fn place(&self, value: &mut Value) -> Result<(Option<&'static Resource>, String), &'static str> {
        let (api_version, kind) = (object::api_version(value), object::kind(value));
        if api_version.is_empty() || kind.is_empty() {
            return Err("they are no Kubernetes objects");
        }
        if meta::name(value).is_empty() || meta::name(value).contains('/') {
            return Err("it has no name");
        }
        let row = self.kinds.lookup_api_version(api_version, kind);
        let (group, _) = split_api_version(api_version);
        let custom = self.custom.get(&(group.to_owned(), kind.to_owned()));
        let is_namespaced = match (row, custom) {
            (Some(row), _) if !row.is_stored() => return Err("objects of this kind are not stored"),
            (Some(row), _) => row.namespaced,
            (None, Some(custom)) => custom.is_namespaced,
            (None, None) => return Err("no kind of Kubernetes, and the source has no definition of it"),
        };
        let group = group.to_owned();
        match (is_namespaced, meta::namespace(value)) {
            (true, "") => meta::set_namespace(value, DEFAULT_NAMESPACE),
            (false, namespace) if !namespace.is_empty() => {
                meta::metadata_mut(value).remove("namespace");
            }
            _ => {}
        }
        let (namespace, name) = (meta::namespace(value), meta::name(value));
        let key = match (row, custom) {
            (Some(row), _) => row.storage_row().storage_key(namespace, name),
            (None, Some(custom)) if custom.is_namespaced => {
                format!("{ROOT}{group}/{}/{namespace}/{name}", custom.plural)
            }
            (None, custom) => {
                format!("{ROOT}{group}/{}/{name}", custom.map(|custom| &*custom.plural).unwrap_or_default())
            }
        };
        Ok((row, key))
    }

    /// Makes the namespaces that objects are in and that are missing.
    fn complete_namespaces(&mut self, report: &mut ImportReport) {
        let row = self.kinds.lookup_api_version("v1", "Namespace").expect("namespaces are built in");
        for name in std::mem::take(&mut self.namespaces) {
            let key = row.storage_key("", &name);
            if self.objects.contains_key(&key) {
                continue;
            }
            let namespace = json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            let _ = self.add_at(Some(row), key, namespace, report);
            *report.made.entry("namespaces".to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Writes the objects to a new store: those with a resource version at that revision, the others at later ones. Returns the oldest
    /// readable revision, which is the newest one: nothing is known about the states before.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(super) fn write(
        &mut self,
        writer: &mut VersionWriter<'_, '_>,
        report: &mut ImportReport,
    ) -> anyhow::Result<Revision> {
        self.complete_namespaces(report);
        let mut objects: Vec<(String, Listed)> = std::mem::take(&mut self.objects).into_iter().collect();
        // Stable: the order of keys within a revision, and among objects without one.
        objects.sort_by_key(|(_, listed)| listed.revision.unwrap_or(i64::MAX));
        let mut notes: BTreeMap<Revision, Note> = BTreeMap::new();
        for (key, Listed { revision, object }) in objects {
            let revision = revision.map_or_else(|| writer.revision().next().max(Revision(2)), Revision);
            if let Some(author) = object.author {
                notes.entry(revision).or_insert_with(|| author.note(false, 0));
            }
            let stamp =
                Stamp { create_revision: revision, mod_revision: revision, version: 1, ..Stamp::default() };
            writer.put(key.as_bytes(), &object.bytes, stamp)?;
            report.keep(kind_of(&key));
        }
        for (revision, note) in notes {
            writer.note(revision, note.encode())?;
        }
        let revision = writer.revision();
        (report.revision, report.compacted) = (revision.0, revision.0);
        report.versions = report.objects;
        Ok(revision)
    }
}

/// The kind of a value, for the report.
fn kind_or_document(value: &Value) -> String {
    match object::kind(value) {
        "" => "documents".to_owned(),
        kind => kind.to_owned(),
    }
}
