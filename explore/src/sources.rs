//! The files that a scenario names, read before anything starts, with the digests that a replay compares.

use crate::limits;
use crate::replay::file_digest;
use crate::scenario::{Scenario, StepAction};
use kstore_client::manifest::{self, ManifestObject};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Extensions of the files that are read from a folder, as with kubectl.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// The files of a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A file is larger than [`limits::FILE_BYTES`].
    #[error("{0} is larger than {max} bytes", max = limits::FILE_BYTES)]
    TooLarge(PathBuf),
    /// A file is no manifest.
    #[error("{path}: {problem}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The objects of a scenario's files.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Definitions of custom resources, then further objects, in order.
    pub prepared: Vec<ManifestObject>,
    /// Objects that `apply` steps apply, by path.
    pub applied: BTreeMap<PathBuf, Vec<ManifestObject>>,
    /// Digests of all files, by path relative to the scenario.
    pub digests: BTreeMap<String, String>,
}

impl Sources {
    /// Reads the files of a scenario in `folder`.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn read(scenario: &Scenario, folder: &Path) -> Result<Self, SourceError> {
        let mut sources = Self::default();
        for path in scenario.cluster.crds.iter().chain(&scenario.cluster.manifests) {
            let mut objects = sources.objects(path, folder)?;
            manifest::sort_for_apply(&mut objects);
            sources.prepared.extend(objects);
        }
        for step in &scenario.steps {
            if let StepAction::Apply(path) = &step.action {
                let objects = sources.objects(path, folder)?;
                sources.applied.insert(path.clone(), objects);
            }
        }
        Ok(sources)
    }

    /// Values that steps set, which are compared as they are.
    pub fn given(&self, scenario: &Scenario) -> Vec<Value> {
        let applied = self.applied.values().flatten().map(|object| object.value.clone());
        let patches = scenario.steps.iter().filter_map(|step| match &step.action {
            StepAction::Patch { merge, .. } => Some(merge.clone()),
            _ => None,
        });
        applied.chain(patches).collect()
    }

    fn objects(&mut self, path: &Path, folder: &Path) -> Result<Vec<ManifestObject>, SourceError> {
        let mut all = Vec::new();
        for file in files(path)? {
            let bytes =
                std::fs::read(&file).map_err(|error| SourceError::Io { path: file.clone(), error })?;
            if bytes.len() > limits::FILE_BYTES {
                return Err(SourceError::TooLarge(file));
            }
            let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            self.digests.insert(name, file_digest(&bytes));
            let wrong = |problem: String| SourceError::Manifest { path: file.clone(), problem };
            let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
            let objects = manifest::objects(&text).map_err(|error| wrong(error.to_string()))?;
            for object in &objects {
                object.check().map_err(|error| wrong(error.to_string()))?;
            }
            all.extend(objects);
        }
        Ok(all)
    }
}

/// The file itself, or the manifest files of a folder, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let failed = |error| SourceError::Io { path: path.to_owned(), error };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        if ENDINGS.contains(&ending) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: explore.kstore.io/v1alpha1\nkind: Scenario\nmetadata: {name: t}\n";

    #[test]
    fn the_files_of_a_scenario_are_read_with_their_digests() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("crds")).unwrap();
        write("crds/a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n");
        write("crds/readme.md", "none");
        write("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {a: x}\n");
        let text = format!("{HEAD}cluster: {{crds: [crds]}}\nsteps: [{{apply: b.yaml}}]\n");
        let scenario = Scenario::parse(&text, &folder.path().join("s.yaml")).unwrap();
        let sources = Sources::read(&scenario, folder.path()).unwrap();
        assert_eq!(sources.prepared.len(), 1);
        assert_eq!(sources.digests.keys().collect::<Vec<_>>(), ["b.yaml", "crds/a.yaml"]);
        assert_eq!(sources.given(&scenario)[0]["data"]["a"], "x");
        write("b.yaml", "kind: ConfigMap\n");
        let refused = Sources::read(&scenario, folder.path()).unwrap_err().to_string();
        assert!(refused.contains("b.yaml: ") && refused.contains("apiVersion"), "{refused}");
    }
}
