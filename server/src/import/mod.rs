//! `kstore-server import`: the state of another cluster becomes a data directory. `snapshot` reads snapshots of an etcd, `cluster`
//! a running one, `files` manifests; `convert` decides about each object and `mask` hides Secrets before anything is written.

mod author;
mod cluster;
mod convert;
mod files;
mod mask;
mod nodes;
mod objects;
mod recorded;
pub(crate) mod report;
mod serve;
mod snapshot;

use crate::args::ImportArgs;
use crate::client_command;
use crate::data_dir::{self, IMPORT_FILE};
use crate::files::write_private;
use anyhow::Context as _;
pub(crate) use author::{Author, USER};
pub(crate) use cluster::{ListedResource, ReadCluster, ReadList, ReadPace, read as read_cluster};
pub(crate) use convert::{Conversion, ImportedObject};
use kstore_nondet::Nondet;
use kstore_store::maintenance::{self, RestoreError, VersionWriter};
use kstore_store::{EngineKind, Revision, Stamp};
pub(crate) use objects::ObjectSet;
use recorded::Timeline;
use report::ImportReport;
pub(crate) use serve::{read_only, serve};
use snapshot::Snapshot;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;

/// Key of the record of an import in a store: who imported what, and when. No API shows it.
const IMPORT_KEY: &[u8] = b"/kstore/import";
/// Key whose versions stand for revisions of which nothing was imported. No API shows it.
pub(crate) const LEFT_OUT_KEY: &[u8] = b"/kstore/left-out";

/// Why nothing can be imported from a source.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnusableSource(pub(crate) String);

/// Imports, prints what was done, and serves the result if that is wanted.
pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let source = match (&args.kubeconfig, &args.source) {
        (Some(kubeconfig), _) => Source::Cluster(kubeconfig),
        (None, Some(path)) if is_snapshot(path)? => Source::Snapshot(path),
        (None, Some(path)) => Source::Files(path),
        (None, None) => return Err(UnusableSource("an import needs a source".to_owned()).into()),
    };
    let target = Target::of(args.to.as_deref())?;
    let nondet = Nondet::real();
    let imported = import_to(target.dir(), &source, args, &nondet);
    if imported.is_err() {
        target.clear();
    }
    let report = imported?;
    let next = match &args.to {
        Some(dir) => next_steps(dir, args.is_live),
        None => "to keep it, import with --to DIR".to_owned(),
    };
    client_command::print(&format!("{}{next}\n", report.text()))?;
    match args.serves {
        true => serve::serve_import(target.dir(), args.listen.clone()),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// The commands for what usually follows.
fn next_steps(dir: &Path, is_live: bool) -> String {
    let dir = dir.display();
    match is_live {
        true => format!("to go on with it: kstore-server --data-dir {dir} --nodes 0"),
        false => format!("to look at it: kstore-server --data-dir {dir} --read-only"),
    }
}

/// The data directory that an import creates.
pub(crate) struct Target {
    dir: PathBuf,
    /// Whether the directory is new, so that a failed import removes it.
    is_new: bool,
    /// The folder of a directory that ends with this process.
    _temporary: Option<TempDir>,
}

impl Target {
    /// The directory of a path, or without one a temporary directory that is removed with the value.
    ///
    /// # Errors
    /// The path is a folder of others, or there can be no temporary folder.
    pub(crate) fn of(dir: Option<&Path>) -> anyhow::Result<Self> {
        match dir {
            Some(dir) => {
                data_dir::refuse_foreign(dir)?;
                Ok(Self { dir: dir.to_owned(), is_new: !dir.exists(), _temporary: None })
            }
            None => {
                let folder = tempfile::Builder::new().prefix("kstore-import-").tempdir();
                let folder = folder.context("cannot make a temporary folder")?;
                Ok(Self { dir: folder.path().join("data"), is_new: true, _temporary: Some(folder) })
            }
        }
    }

    /// The path of the directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the directory, if the import has made it.
    pub(crate) fn clear(&self) {
        if self.is_new {
            // What remains is no store, and the next import to it clears it.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// What is imported.
enum Source<'a> {
    /// A snapshot of an etcd.
    Snapshot(&'a Path),
    /// A file of manifests, or a folder of such files.
    Files(&'a Path),
    /// The cluster of a kubeconfig.
    Cluster(&'a Path),
}

/// Imports a source into a directory without a store.
fn import_to(
    dir: &Path,
    source: &Source<'_>,
    args: &ImportArgs,
    nondet: &Nondet,
) -> anyhow::Result<ImportReport> {
    let (Source::Snapshot(path) | Source::Files(path) | Source::Cluster(path)) = source;
    let mut report = ImportReport::new(path.display().to_string(), nondet.clock.now(), args.is_live);
    let rng = nondet.rng.fork("import");
    if let Source::Snapshot(path) = source {
        let snapshot = Snapshot::examine(path, args, &rng, &mut report)?;
        create(dir, nondet, &mut report, |writer, report| snapshot.write(writer, report))?;
    } else {
        let conversion = Conversion::new(args.secrets, args.is_live, args.excluded.clone(), &rng)
            .only(args.kinds.clone(), args.namespaces.clone());
        let mut objects = ObjectSet::new(conversion, nondet);
        if let Source::Cluster(kubeconfig) = source {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.context("cannot start the runtime")?;
            let pace = ReadPace { page: args.page, requests_per_second: args.requests_per_second };
            runtime.block_on(cluster::read(kubeconfig, pace, &mut objects, &mut report))?;
        } else if let Some(timeline) = read_files(path, args, &mut objects, (nondet, &mut report))? {
            create(dir, nondet, &mut report, |writer, report| timeline.write(&mut objects, writer, report))?;
            return finished(dir, args, report);
        }
        if objects.is_empty() {
            let text = format!("{} has no object that can be imported", path.display());
            return Err(UnusableSource(text).into());
        }
        create(dir, nondet, &mut report, |writer, report| objects.write(writer, report))?;
    }
    finished(dir, args, report)
}

/// Reads files into a set, or as a timeline if they are a recording.
fn read_files(
    path: &Path,
    args: &ImportArgs,
    objects: &mut ObjectSet,
    (nondet, report): (&Nondet, &mut ImportReport),
) -> anyhow::Result<Option<Timeline>> {
    let mut found = files::read(path)?;
    found.iter().for_each(|object| objects.define(object));
    let start = args.start.unwrap_or_else(|| nondet.clock.now());
    let nodes = nodes::further(args)?;
    let Some(mut timeline) = Timeline::of(&mut found, objects, start)? else {
        found.into_iter().chain(nodes).for_each(|object| drop(objects.add(object, report)));
        return Ok(None);
    };
    if timeline.lacks_nodes() && nodes.is_empty() {
        let text = format!("{} has no nodes: say which with --nodes N or --nodes-from FILE", path.display());
        return Err(UnusableSource(text).into());
    }
    timeline.extend(nodes);
    if timeline.is_empty() {
        return Err(UnusableSource(format!("{} has no object at its start", path.display())).into());
    }
    Ok(Some(timeline))
}

/// Completes and writes the report of an import.
fn finished(dir: &Path, args: &ImportArgs, mut report: ImportReport) -> anyhow::Result<ImportReport> {
    report.count_masked(args.secrets);
    write_report(dir, &report)?;
    Ok(report)
}

/// Writes the report into the data directory. With it a server on the directory calls no address in the data.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_report(dir: &Path, report: &ImportReport) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(report)?;
    let path = dir.join(IMPORT_FILE);
    write_private(&path, &text).with_context(|| format!("cannot write {}", path.display()))
}

/// Creates the store: what `fill` writes, and after it the record of the import, so that the newest imported revision stays readable.
fn create(
    dir: &Path,
    nondet: &Nondet,
    report: &mut ImportReport,
    fill: impl FnOnce(&mut VersionWriter<'_, '_>, &mut ImportReport) -> anyhow::Result<Revision>,
) -> anyhow::Result<()> {
    maintenance::create(dir, EngineKind::Segments, &nondet.rng, |writer| {
        let compacted = fill(writer, report)?;
        let revision = writer.revision().max(compacted).max(Revision::FIRST).next();
        let stamp =
            Stamp { create_revision: revision, mod_revision: revision, version: 1, ..Stamp::default() };
        writer.put(IMPORT_KEY, &report.record(), stamp)?;
        writer.note(revision, report.note(nondet.clock.now()).encode())?;
        Ok::<_, anyhow::Error>(compacted)
    })
    .map(drop)
    .map_err(occupied)
}

/// Creates the store with the objects of a set as the state at `revision`, to which the following revisions are added. The record of the
/// import is of that revision, too.
///
/// # Errors
/// The directory has a store, or cannot be written.
pub(crate) fn create_base(
    dir: &Path,
    nondet: &Nondet,
    objects: &mut ObjectSet,
    report: &mut ImportReport,
    revision: Revision,
) -> anyhow::Result<()> {
    let created = maintenance::create(dir, EngineKind::Segments, &nondet.rng, |writer| {
        let newest = objects.write(writer, report)?;
        (report.revision, report.compacted) = (revision.0, revision.0);
        let stamp =
            Stamp { create_revision: revision, mod_revision: revision, version: 1, ..Stamp::default() };
        writer.put(IMPORT_KEY, &report.record(), stamp)?;
        if newest < revision {
            writer.note(revision, report.note(nondet.clock.now()).encode())?;
        }
        Ok::<_, anyhow::Error>(revision)
    });
    created.map(drop).map_err(occupied)
}

/// Says what an existing store means for an import.
fn occupied(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<RestoreError>() {
        Some(RestoreError::Occupied { .. }) => error.context("nothing was imported"),
        _ => error,
    }
}

/// Whether a file is a database of etcd, by the number that each page of metadata has, or a file of the lab with such a database.
fn is_snapshot(path: &Path) -> anyhow::Result<bool> {
    /// Offset and value of the number in the first page of a bbolt file.
    const MAGIC: (usize, [u8; 4]) = (16, 0xED0C_DAED_u32.to_le_bytes());
    /// Begin of a snapshot file of the lab.
    const LAB: &[u8] = b"kstorelab";
    if path.is_dir() {
        return Ok(false);
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(32).read_to_end(&mut head));
    read.map_err(|error| UnusableSource(format!("cannot read {}: {error}", path.display())))?;
    Ok(head.starts_with(LAB) || head.get(MAGIC.0..MAGIC.0 + 4) == Some(&MAGIC.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::SecretPolicy;
    use kstore_registry::provenance::Note;
    use kstore_store::{Config, KeyRange, Op, Range, Store, Txn};

    fn args(secrets: SecretPolicy) -> ImportArgs {
        ImportArgs { secrets, prefix: "/registry".to_owned(), ..ImportArgs::default() }
    }

    /// The keys of a data directory at a revision, with the revisions of their versions and the values as text.
    async fn contents(store: &Store, revision: Revision) -> Vec<(String, i64, String)> {
        let found = store.range(&Range::new(KeyRange::all()).at(revision)).unwrap().kvs;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        found.iter().map(|kv| (text(kv.key()), kv.mod_revision().0, text(kv.value()))).collect()
    }

    async fn open(dir: &Path) -> Store {
        Store::open(Config::durable(dir), Nondet::real()).await.unwrap()
    }

    const DUMP: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, uid: u-1, resourceVersion: "500"}, spec: {nodeName: n}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop, uid: u-2, resourceVersion: "400"}}
- {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop, uid: u-3, resourceVersion: "450"}, data: {p: aHVudGVyMi1odW50ZXIy}}
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: shop, uid: u-4, resourceVersion: "500"}}
- {apiVersion: other.com/v1, kind: Gadget, metadata: {name: g}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com, uid: u-5, resourceVersion: "20"}
spec: {group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}}
"#;

    #[tokio::test]
    async fn manifests_keep_uids_and_resource_versions_and_missing_namespaces_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let (source, dir) = (folder.path().join("dump.yaml"), folder.path().join("data"));
        std::fs::write(&source, DUMP).unwrap();
        let files = Source::Files(&source);
        let report = import_to(&dir, &files, &args(SecretPolicy::Mask), &Nondet::real()).unwrap();
        assert_eq!((report.objects, report.masked, report.revision), (6, 1, 501));
        assert_eq!(report.made.get("namespaces"), Some(&1));
        let [left_out] = &report.left_out[..] else { panic!("{:?}", report.left_out) };
        assert_eq!((left_out.kind.as_str(), left_out.count), ("Gadget", 1));
        assert_eq!(maintenance::verify(&dir, &mut |_, _| {}).unwrap().problems, []);
        let file = std::fs::read(dir.join(IMPORT_FILE)).unwrap();
        assert_eq!(serde_json::from_slice::<ImportReport>(&file).unwrap(), report);
        let store = open(&dir).await;
        let found = contents(&store, Revision(501)).await;
        let keys: Vec<_> = found.iter().map(|(key, revision, _)| (key.as_str(), *revision)).collect();
        assert_eq!(
            keys,
            [
                ("/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", 20),
                ("/registry/configmaps/shop/c", 400),
                ("/registry/example.com/widgets/shop/w", 500),
                ("/registry/namespaces/shop", 501),
                ("/registry/pods/shop/a", 500),
                ("/registry/secrets/shop/s", 450),
            ]
        );
        let values: String = found.into_iter().map(|(_, _, value)| value).collect();
        assert!(values.contains("u-1") && !values.contains("aHVudGVyMi1odW50ZXIy"), "{values}");
        assert_eq!((store.revision(), store.compacted()), (Revision(502), Revision(501)));
        let note = Note::decode(&store.note(Revision(502)).unwrap()).unwrap();
        assert_eq!(note.verb, "import");
        assert!(note.agent.contains("dump.yaml"), "{note:?}");
        store.close().await;
        let again = import_to(&dir, &files, &args(SecretPolicy::Mask), &Nondet::real()).unwrap_err();
        assert!(format!("{again:#}").contains("contains a store already"), "{again:#}");
    }

    /// A snapshot as an API server's etcd has it, and what the API server keeps for itself.
    async fn snapshot(path: &Path) {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let secret = |value: &str| {
            format!(
                r#"{{"kind":"Secret","apiVersion":"v1","metadata":{{"name":"s","namespace":"a"}},"data":{{"p":"{value}"}}}}"#
            )
        };
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"a","uid":"u"}}"#;
        store.put("/registry/pods/a/p", pod).await.unwrap();
        store.put("/registry/secrets/a/s", secret("c2VjcmV0LW51bWJlci1vbmU=")).await.unwrap();
        store.put("/registry/masterleases/10.0.0.1", "lease").await.unwrap();
        store.put("/registry/secrets/a/s", secret("c2VjcmV0LW51bWJlci10d28=")).await.unwrap();
        store.put("/registry/pods/a/broken", "no object").await.unwrap();
        store.put("compact_rev_key", "4").await.unwrap();
        store.delete("/registry/pods/a/p").await.unwrap();
        let txn =
            vec![Op::put("/registry/masterleases/10.0.0.1", "x"), Op::put("/registry/configmaps/a/c", map())];
        store.txn(Txn::of(txn)).await.unwrap();
        store.compact(Revision(2)).await.unwrap();
        let mut file = File::create(path).unwrap();
        store.snapshot(&mut file).unwrap();
        store.close().await;
    }

    fn map() -> &'static str {
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"a"}}"#
    }

    #[tokio::test]
    async fn a_snapshot_keeps_its_history_without_what_cannot_be_served() {
        let folder = tempfile::tempdir().unwrap();
        let (source, dir) = (folder.path().join("etcd.db"), folder.path().join("data"));
        snapshot(&source).await;
        assert!(is_snapshot(&source).unwrap());
        let file = Source::Snapshot(&source);
        let checked = import_to(&dir, &file, &args(SecretPolicy::Mask), &Nondet::real()).unwrap_err();
        assert!(
            checked.is::<UnusableSource>() && checked.to_string().contains("--skip-hash-check"),
            "{checked}"
        );
        let args = ImportArgs { skips_hash_check: true, ..args(SecretPolicy::Mask) };
        let report = import_to(&dir, &file, &args, &Nondet::real()).unwrap();
        assert_eq!((report.revision, report.compacted, report.objects, report.masked), (9, 2, 2, 1));
        let reasons: Vec<_> = report.left_out.iter().map(|group| group.kind.as_str()).collect();
        assert_eq!(reasons, ["other", "masterleases", "pods"], "{:?}", report.left_out);
        assert_eq!(maintenance::verify(&dir, &mut |_, _| {}).unwrap().problems, []);
        let store = open(&dir).await;
        assert_eq!((store.revision(), store.compacted()), (Revision(10), Revision(2)));
        let keys = async |revision| {
            let found = contents(&store, Revision(revision)).await;
            let own = found.into_iter().filter(|(key, ..)| key.starts_with("/registry/"));
            own.map(|(key, revision, _)| (key, revision)).collect::<Vec<_>>()
        };
        let (pod, secret) = ("/registry/pods/a/p".to_owned(), "/registry/secrets/a/s".to_owned());
        assert_eq!(keys(3).await, [(pod.clone(), 2), (secret.clone(), 3)]);
        assert_eq!(keys(7).await, [(pod, 2), (secret.clone(), 5)]);
        assert_eq!(keys(9).await, [("/registry/configmaps/a/c".to_owned(), 9), (secret, 5)]);
        assert_eq!(store.note(Revision(5)), None, "these objects say nothing about their writers");
        let all: String =
            contents(&store, Revision(4)).await.into_iter().map(|(_, _, value)| value).collect();
        assert!(!all.contains("c2VjcmV0"), "{all}");
        store.close().await;
    }

    #[test]
    fn a_source_that_is_none_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (source, dir) = (folder.path().join("source"), folder.path().join("data"));
        for content in [&b""[..], b"\xff\xfe", b"a: b: c", b"{}", &[0; 40]] {
            std::fs::write(&source, content).unwrap();
            let to = Some(dir.clone());
            let args = ImportArgs { source: Some(source.clone()), to, ..args(SecretPolicy::Mask) };
            let refused = import(&args).unwrap_err();
            assert!(refused.is::<UnusableSource>(), "{content:?}: {refused:#}");
            assert!(!dir.exists());
        }
    }
}
