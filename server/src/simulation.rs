//! Documents of simulated data centres: their files for `--nodes-file`, `--kwok`, `sim-lint` and `simulate`, and `sim-crds`.

use crate::args::{Documents, LoopsConfig, SimLintArgs, SimRbacArgs, Stages};
use kstore_api::kind::lookup_api_version;
use kstore_client::manifest::{ManifestObject, objects};
use kstore_kubelet_sim::sim_api;
use kstore_kwok::StageSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Largest file that is read.
const MAX_BYTES: u64 = 64 << 20;
/// Extensions of the files that are read from a folder, as with kubectl.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// What is wrong with the files, one problem a line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct Problems(pub(crate) Vec<String>);

/// An object with the name of its file.
pub(crate) type Sourced = (String, ManifestObject);

/// KWOK's groups.
const KWOK_GROUPS: [&str; 2] = [kstore_kwok::GROUP, "config.kwok.x-k8s.io"];
/// Files of kustomize, which are beside KWOK's stages.
const KUSTOMIZATIONS: [&str; 2] = ["kustomization.yaml", "kustomization.yml"];

/// Reads and checks the files of `--nodes-file` and `--kwok`, so that nothing is started with a wrong one.
///
/// # Errors
/// Every problem of the files.
pub(crate) fn with_documents(loops: &LoopsConfig) -> Result<LoopsConfig, Problems> {
    let mut loops = loops.clone();
    let Checked { objects, stages } = checked(&loops.simulation.files, &loops.simulation.kwok)?;
    loops.simulation.documents = Documents(objects.into_iter().map(|(_, object)| object).collect());
    loops.simulation.stages = Stages(Arc::new(stages));
    Ok(loops)
}

/// What files have, checked.
struct Checked {
    /// Objects of the API of simulations.
    objects: Vec<Sourced>,
    /// KWOK's stages.
    stages: StageSet,
}

/// Reads and checks documents of the API of simulations and of KWOK; the files of `kwok` have the latter alone.
fn checked(paths: &[PathBuf], kwok: &[PathBuf]) -> Result<Checked, Problems> {
    let (own, mut stages) = (read(paths)?, read(kwok)?);
    let (more, objects): (Vec<_>, Vec<_>) = own.into_iter().partition(|(_, object)| is_of_kwok(object));
    stages.extend(more);
    let mut problems: Vec<String> =
        objects.iter().flat_map(|(source, object)| sim_api::check(source, object)).collect();
    let stages = compiled(&stages).unwrap_or_else(|wrong| {
        problems.extend(wrong);
        StageSet::default()
    });
    if problems.is_empty() { Ok(Checked { objects, stages }) } else { Err(Problems(problems)) }
}

/// Whether a document is one of KWOK.
pub(crate) fn is_of_kwok(object: &ManifestObject) -> bool {
    let group = object.api_version().split('/').next().unwrap_or_default();
    KWOK_GROUPS.contains(&group)
}

/// Compiles documents of KWOK.
///
/// # Errors
/// All documents that are wrong or not supported, one a line.
pub(crate) fn compiled(documents: &[Sourced]) -> Result<StageSet, Vec<String>> {
    let stages = StageSet::read(documents.iter().map(|(source, object)| (&**source, &object.value)))?;
    let unknown = stages.kinds().filter(|kind| lookup_api_version(&kind.api_version, &kind.kind).is_none());
    let unknown: Vec<_> =
        unknown.map(|kind| format!("stages are for built-in kinds, and there is no {kind}")).collect();
    if unknown.is_empty() { Ok(stages) } else { Err(unknown) }
}

/// Reads the objects of files and folders, in their order.
///
/// # Errors
/// Every file that cannot be read or parsed.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Sourced>, Problems> {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        let files = match files(path) {
            Ok(files) => files,
            Err(error) => {
                problems.push(format!("cannot read {}: {error}", path.display()));
                continue;
            }
        };
        for file in files {
            let name = file.display().to_string();
            match parse(&file) {
                Ok(found) => all.extend(found.into_iter().map(|object| (name.clone(), object))),
                Err(error) => problems.push(format!("{name}: {error}")),
            }
        }
    }
    if problems.is_empty() { Ok(all) } else { Err(Problems(problems)) }
}

fn parse(file: &Path) -> Result<Vec<ManifestObject>, String> {
    let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BYTES >> 20));
    }
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    objects(&text).map_err(|error| error.to_string())
}

/// The file itself, or the manifest files of a folder, sorted by name.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        let is_of_kustomize = KUSTOMIZATIONS.iter().any(|name| file.ends_with(name));
        if ENDINGS.contains(&ending) && !file.is_dir() && !is_of_kustomize {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Carries out `sim-lint`.
pub(crate) fn lint(args: &SimLintArgs) -> anyhow::Result<ExitCode> {
    match checked(&args.files, &[]) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(problems) => {
            eprintln!("{problems}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Carries out `sim-crds`.
pub(crate) fn print_definitions() -> anyhow::Result<ExitCode> {
    print!("{}", sim_api::DEFINITIONS);
    Ok(ExitCode::SUCCESS)
}

/// The role of simulated nodes inside a cluster of another API server.
const ROLE: &str = include_str!("simulation_role.yaml");

/// The rules for what a pod's Secrets and tokens are read for.
const SECRETS: &str = "\
- apiGroups: ['']
  resources: [secrets]
  verbs: [get]
- apiGroups: ['']
  resources: [serviceaccounts/token]
  verbs: [create]
";

/// Carries out `sim-rbac`.
pub(crate) fn print_role(args: &SimRbacArgs) -> anyhow::Result<ExitCode> {
    print!("{}", role(args.reads_secrets));
    Ok(ExitCode::SUCCESS)
}

/// The service account, its role and the bindings, as YAML.
fn role(reads_secrets: bool) -> String {
    const PLACE: &str = "# --read-secrets\n";
    ROLE.replace(PLACE, if reads_secrets { SECRETS } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_of_all_files_are_lines() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let group = |name: &str, spec: &str| {
            format!(
                "apiVersion: sim.kstore.io/v1alpha1\nkind: NodeGroup\nmetadata: {{name: {name}}}\nspec: {spec}\n"
            )
        };
        write("a.yaml", &group("web", "{replica: 3}"));
        write(
            "b.yml",
            &format!("{}---\n{}", group("one", "{replicas: 3}"), group("two", "{namePattern: x}")),
        );
        write("notes.txt", "nothing");
        let problems = checked(&[dir.path().to_owned()], &[]).err().unwrap().0;
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].ends_with("a.yaml: document 1: NodeGroup \"web\": unknown field \"spec.replica\"; did you mean \"replicas\"?"));
        assert!(problems[1].contains("b.yml: document 2: NodeGroup \"two\""), "{problems:?}");
        write("a.yaml", "a: b: c");
        let problems = read(&[dir.path().to_owned(), dir.path().join("none")]).unwrap_err().0;
        assert!(problems.len() == 2 && problems[1].contains("No such file"), "{problems:?}");
        write("a.yaml", &group("web", "{replicas: 3}"));
        write("b.yml", "");
        let loops = LoopsConfig::default();
        let simulation =
            crate::args::SimulationFlags { files: vec![dir.path().to_owned()], ..loops.simulation.clone() };
        let read = with_documents(&LoopsConfig { simulation, ..loops }).unwrap();
        assert_eq!(read.simulation.documents.0[0].name(), "web");
    }
}
