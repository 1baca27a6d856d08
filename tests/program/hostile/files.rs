//! Files of the program are readable only by its user, under any umask.

use crate::SERVER;
use kstore_tests::Launch;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Checks the modes of a folder and everything below it. Returns the number of files.
fn check(path: &Path, umask: &str) -> usize {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    let (wanted, below) = match metadata.is_dir() {
        true => {
            (0o700, std::fs::read_dir(path).unwrap().map(|entry| check(&entry.unwrap().path(), umask)).sum())
        }
        false => (0o600, 1),
    };
    let mode = metadata.permissions().mode() & 0o7777;
    assert_eq!(mode, wanted, "{} has mode {mode:o} under umask {umask}", path.display());
    below
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_files_are_private_under_any_umask() {
    for umask in ["022", "000"] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        let data = dir.path().join("data");
        let launch = Launch::new("sh", dir.path()).args(&["-c", &script, SERVER]);
        let args = ["--listen", "127.0.0.1:0", "--nodes", "0", "--data-dir", data.to_str().unwrap()];
        let server = launch.args(&args).start().unwrap();
        let while_it_runs = check(&data, umask);
        assert!(while_it_runs > 5, "{while_it_runs} files");
        assert!(server.terminate().success());
        check(&data, umask);
    }
}
