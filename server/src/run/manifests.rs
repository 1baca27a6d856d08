//! Reads the objects of `run` from files, folders and standard input, before the cluster starts, so that a
//! missing file fails at once.

use crate::args::{ManifestPath, Setup};
use kstore_client::manifest::{self, ManifestError, ManifestObject};
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Largest manifest file that is read: several times the size of the largest CRD bundles.
const MAX_BYTES: u64 = 64 << 20;
/// Extensions of the files that are read from a folder, as with kubectl.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// An object, and the name of its file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SourcedObject {
    /// The file's name in messages.
    pub(super) source: String,
    pub(super) object: ManifestObject,
}

/// Why objects could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("cannot read {path}: {error}")]
    Io { path: String, error: io::Error },
    #[error("cannot read {path}: it is larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge { path: String },
    #[error("{path} has no files that end in .json, .yaml or .yml")]
    EmptyFolder { path: String },
    #[error("{path} has no {what}")]
    NoObjects { path: String, what: &'static str },
    #[error("{path}: {error}")]
    Manifest { path: String, error: ManifestError },
}

/// Reads the objects of a setup: the definitions of `--crd`, then the objects of `--manifest` in their order.
///
/// # Errors
/// The first path that cannot be read, has no objects, or contains an object without a name or kind.
pub(super) fn read(setup: &Setup) -> Result<Vec<SourcedObject>, ReadError> {
    let mut all = Vec::new();
    for path in &setup.definitions {
        let mut found = objects(path)?;
        found.retain(|found| found.object.is_definition());
        add(&mut all, found, path, "CustomResourceDefinition")?;
    }
    for path in &setup.manifests {
        add(&mut all, objects(path)?, path, "Kubernetes objects")?;
    }
    Ok(all)
}

fn add(
    all: &mut Vec<SourcedObject>,
    found: Vec<SourcedObject>,
    path: &ManifestPath,
    what: &'static str,
) -> Result<(), ReadError> {
    if found.is_empty() {
        return Err(ReadError::NoObjects { path: path.to_string(), what });
    }
    for SourcedObject { source, object } in &found {
        object.check().map_err(|error| ReadError::Manifest { path: source.clone(), error })?;
    }
    all.extend(found);
    Ok(())
}

/// Reads the objects of a file, of the files in a folder, or of standard input.
fn objects(path: &ManifestPath) -> Result<Vec<SourcedObject>, ReadError> {
    let mut all = Vec::new();
    match path {
        ManifestPath::Stdin => all.extend(parse(path.to_string(), io::stdin().lock())?),
        ManifestPath::Path(path) => {
            for file in files(path)? {
                let name = file.display().to_string();
                let open = std::fs::File::open(&file);
                let open = open.map_err(|error| ReadError::Io { path: name.clone(), error })?;
                all.extend(parse(name, open)?);
            }
        }
    }
    Ok(all)
}

fn parse(source: String, reader: impl io::Read) -> Result<Vec<SourcedObject>, ReadError> {
    let mut text = String::new();
    let read = reader.take(MAX_BYTES + 1).read_to_string(&mut text);
    let read = read.map_err(|error| ReadError::Io { path: source.clone(), error })?;
    if read as u64 > MAX_BYTES {
        return Err(ReadError::TooLarge { path: source });
    }
    let objects = manifest::objects(&text);
    let objects = objects.map_err(|error| ReadError::Manifest { path: source.clone(), error })?;
    Ok(objects.into_iter().map(|object| SourcedObject { source: source.clone(), object }).collect())
}

/// The file itself, or the manifest files of a folder, sorted by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let unreadable = |error| ReadError::Io { path: path.display().to_string(), error };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        // `is_dir` follows links: mounted ConfigMaps are folders of links.
        if ENDINGS.contains(&ending) && !file.is_dir() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(ReadError::EmptyFolder { path: path.display().to_string() });
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::WaitFor;
    use std::time::Duration;

    fn object(kind: &str, name: &str) -> String {
        let api_version = if kind == "CustomResourceDefinition" { "apiextensions.k8s.io/v1" } else { "v1" };
        format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\n")
    }

    fn names(definitions: &[PathBuf], manifests: &[PathBuf]) -> Result<Vec<String>, String> {
        let paths = |paths: &[PathBuf]| paths.iter().cloned().map(ManifestPath::Path).collect();
        let (definitions, manifests) = (paths(definitions), paths(manifests));
        let setup = Setup {
            definitions,
            manifests,
            wait: WaitFor::Applied,
            timeout: Duration::ZERO,
            from: None,
            page: None,
            report: None,
        };
        let read = read(&setup).map_err(|error| error.to_string())?;
        Ok(read.iter().map(|read| read.object.name().to_owned()).collect())
    }

    #[test]
    fn folders_are_read_in_name_order_without_subfolders_and_definitions_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        };
        write("objects/b.yml", object("Pod", "b"));
        write("objects/a.yaml", format!("{}---\n{}", object("Pod", "a1"), object("Namespace", "a2")));
        write("objects/c.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}"#.into());
        write("objects/readme.md", "no manifest".into());
        write("objects/sub/d.yaml", object("Pod", "d"));
        write("crds/kustomization.yaml", "resources: [x.yaml]\n".into());
        write(
            "crds/x.yaml",
            format!("{}---\n{}", object("Pod", "p"), object("CustomResourceDefinition", "x")),
        );
        write("single.txt", object("Pod", "single"));
        let [objects, crds, single] = ["objects", "crds", "single.txt"].map(|name| dir.path().join(name));
        let read = names(&[crds], &[single, objects]).unwrap();
        assert_eq!(read, ["x", "single", "a1", "a2", "b", "c"]);

        write("none/readme.md", String::new());
        write("nothing.yaml", "# nothing\n".into());
        write("bad.yaml", format!("{}---\nkind: Pod\n", object("Pod", "a")));
        write("broken/a.yaml", "a: b: c".into());
        let said = |definitions: &[&str], manifests: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>();
            let refusal = names(&paths(definitions), &paths(manifests)).unwrap_err();
            refusal.replace(&format!("{}/", dir.path().display()), "")
        };
        for (definitions, manifests, want) in [
            (
                &[][..],
                &["missing.yaml"][..],
                "cannot read missing.yaml: No such file or directory (os error 2)",
            ),
            (&[], &["none"], "none has no files that end in .json, .yaml or .yml"),
            (&[], &["nothing.yaml"], "nothing.yaml has no Kubernetes objects"),
            (&["objects"], &[], "objects has no CustomResourceDefinition"),
            (
                &[],
                &["bad.yaml"],
                "bad.yaml: document 2 of the manifest has no apiVersion; every object needs apiVersion, kind and metadata.name",
            ),
            (
                &[],
                &["broken"],
                "broken/a.yaml: document 1 of the manifest (line 1) cannot be parsed: yaml: line 1: mapping values are not allowed in this context",
            ),
        ] {
            assert_eq!(said(definitions, manifests), want);
        }
    }
}
