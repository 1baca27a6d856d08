//! Report files of clusters: [`Cluster::report`], and the one that a failed test leaves.
//!
//! A test that fails drops its cluster while its thread unwinds, where nothing can be awaited. So the report is made of a copy: an image of
//! the cluster, from which an API server starts on a thread of its own.

use crate::cluster::Cluster;
use crate::fork::{ClusterImage, ForkError};
use kstore_cluster::{ReportError as ReadError, ReportRequest, report};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;

/// The variable that names the folder of reports; `off`: failed tests leave none.
const VARIABLE: &str = "KSTORE_REPORTS";
/// The folder below that of cargo's output.
const FOLDER: &str = "kstore-reports";
/// The file by which cargo marks the folder of its output.
const CARGO_MARK: &str = "CACHEDIR.TAG";

/// Number of reports of each name in this process: the second one of a test has a number.
static NAMED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Why no report was saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The cluster could not be read, or is too large.
    #[error("no report: {0}")]
    Read(#[from] ReadError),
    /// The cluster could not be copied.
    #[error("no report: {0}")]
    Fork(#[from] ForkError),
    /// The file could not be written.
    #[error("the report {path} cannot be written: {error}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        error: std::io::Error,
    },
}

impl Cluster {
    /// Saves what the page of kstore shows of this cluster as one HTML file, which opens without it: who wrote what and because of what,
    /// and each object at each revision. Returns its path: `NAME.html` in the folder that the variable `KSTORE_REPORTS` names, else in
    /// `kstore-reports` of cargo's target folder. Values of Secrets are hidden.
    ///
    /// A cluster that is dropped while its thread panics, as by a failed assertion, leaves such a file with the name of the test, and its
    /// path on standard error, unless `KSTORE_REPORTS` is `off`.
    ///
    /// # Errors
    /// The cluster has ended, or the file cannot be written.
    pub async fn report(&self, name: &str) -> Result<PathBuf, ReportError> {
        let folder = folder(std::env::var_os(VARIABLE)).unwrap_or_else(|| default_folder(&own_program()));
        self.save(&folder, name, "").await
    }

    async fn save(&self, folder: &Path, name: &str, failure: &str) -> Result<PathBuf, ReportError> {
        let seed = self.builder.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        let request = ReportRequest {
            title: format!("{name}{seed}"),
            failure: failure.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..ReportRequest::default()
        };
        let report = report(self.client(), &request).await?;
        let path = folder.join(format!("{}.html", file_name(name)));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, report));
        written.map_err(|error| ReportError::Write { path: path.clone(), error })?;
        Ok(path)
    }
}

impl Drop for Cluster {
    /// Leaves a report if the thread panics.
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let Some(folder) = folder(std::env::var_os(VARIABLE)) else { return };
        // One that has ended has no image.
        let Ok(image) = self.image() else { return };
        let name = numbered(thread::current().name().unwrap_or("test"));
        let save = move || save_copy(&image, &folder, &name);
        let saved =
            thread::Builder::new().name("kstore-report".to_owned()).spawn(save).map(thread::JoinHandle::join);
        match saved {
            Ok(Ok(Ok(path))) => eprintln!("kstore-testing: the report of the cluster is {}", path.display()),
            Ok(Ok(Err(error))) => eprintln!("kstore-testing: {error}"),
            // The panic of that thread is on standard error; or there is no thread to be had.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

/// Saves the report of a copy with the API server alone, on a runtime of this thread. Time passes there, which changes nothing in a copy
/// without controllers.
fn save_copy(image: &ClusterImage, folder: &Path, name: &str) -> Result<PathBuf, ReportError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ReportError::Write { path: folder.to_owned(), error })?;
    runtime.block_on(async {
        let copy = image.start_api_only().await?;
        let saved = copy.save(folder, name, "the test panicked").await;
        copy.stop().await;
        saved
    })
}

/// The folder that the variable chooses; `None`: no report.
fn folder(variable: Option<OsString>) -> Option<PathBuf> {
    match variable {
        Some(value) if value == "off" => None,
        Some(value) if !value.is_empty() => Some(value.into()),
        _ => Some(default_folder(&own_program())),
    }
}

fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// `kstore-reports` in the folder of cargo's output in which a program is: the one with cargo's mark, else that of `PROFILE/deps/PROGRAM`.
/// For other programs in `target` of the current folder.
fn default_folder(program: &Path) -> PathBuf {
    let marked = program.ancestors().find(|folder| folder.join(CARGO_MARK).is_file());
    let deps = program.parent().filter(|folder| folder.ends_with("deps"));
    let target = marked.or_else(|| deps?.parent()?.parent());
    target.unwrap_or(Path::new("target")).join(FOLDER)
}

/// A name, with a number from its second use on.
fn numbered(name: &str) -> String {
    let mut named = NAMED.lock();
    let count = named.entry(name.to_owned()).or_default();
    *count += 1;
    match *count {
        1 => name.to_owned(),
        count => format!("{name}-{count}"),
    }
}

/// A name of a file on all systems: `module::test` is `module.test`.
fn file_name(name: &str) -> String {
    let plain = name.replace("::", ".");
    plain.chars().map(|c| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread with a name, as that of a test, whose cluster is dropped by a panic.
    fn fail(name: &str, builder: crate::Builder) -> PathBuf {
        let test = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let cluster = builder.start().await;
                cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await.unwrap();
                cluster.settled().await.unwrap();
                panic!("the expected panic of a test");
            })
        });
        assert!(test.unwrap().join().is_err());
        default_folder(&own_program()).join(format!("{name}.html"))
    }

    #[test]
    fn a_cluster_that_a_panic_drops_leaves_a_report() {
        if folder(std::env::var_os(VARIABLE)) != Some(default_folder(&own_program())) {
            return;
        }
        let name = "report-of-a-panic";
        let path = fail(name, Cluster::builder().virtual_time(7));
        let file = std::fs::read_to_string(&path).unwrap();
        assert!(file.contains("<title>kstore: report-of-a-panic, seed 7</title>"), "{}", &file[..1_000]);
        std::fs::remove_file(&path).unwrap();
        let second = fail(name, Cluster::builder().api_only().virtual_time(1));
        assert_eq!(
            (second.exists(), path.with_file_name("report-of-a-panic-2.html").exists()),
            (false, true)
        );
        std::fs::remove_file(path.with_file_name("report-of-a-panic-2.html")).unwrap();
    }

    #[tokio::test]
    async fn a_report_is_saved_when_a_test_asks_for_it() {
        let cluster = Cluster::builder().api_only().start().await;
        let folder = tempfile::tempdir().unwrap();
        let path = cluster.save(folder.path(), "tests::a b", "").await.unwrap();
        assert_eq!(path.file_name().unwrap(), "tests.a-b.html");
        assert!(std::fs::metadata(&path).unwrap().len() > 100_000);
        let error = cluster.save(&path, "x", "").await.unwrap_err().to_string();
        assert!(error.contains("tests.a-b.html"), "{error}");
    }

    #[test]
    fn a_variable_chooses_the_folder_or_none() {
        assert_eq!(folder(Some("off".into())), None);
        assert_eq!(folder(Some("a/b".into())), Some("a/b".into()));
        assert_eq!(folder(Some("".into())), folder(None));
        let target = tempfile::tempdir().unwrap();
        std::fs::write(target.path().join(CARGO_MARK), "").unwrap();
        assert_eq!(default_folder(&target.path().join("debug/deps/a")), target.path().join(FOLDER));
        for (program, folder) in [("/t/debug/deps/a", "/t"), ("/usr/bin/a", "target")] {
            assert_eq!(default_folder(Path::new(program)), Path::new(folder).join(FOLDER), "{program}");
        }
    }
}
