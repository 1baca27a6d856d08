//! Tests of the permissions of all files in a real directory. Secrets are stored as plain bytes, so no other user of
//! the machine may read the files.

use super::conformance::block_on_real;
use crate::maintenance::{self, Restore};
use crate::{Config, EngineKind, OpenError, Store};
use kstore_nondet::{Nondet, Rng};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn config(dir: &Path, engine: EngineKind) -> Config {
    Config { engine, ..Config::durable(dir) }
}

async fn open(config: &Config) -> Result<Store, OpenError> {
    Store::open(config.clone(), Nondet::real()).await
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A path and everything below it.
fn tree(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        all.extend(fs::read_dir(path).unwrap().flat_map(|entry| tree(&entry.unwrap().path())));
    }
    all
}

#[track_caller]
fn assert_private(root: &Path) {
    for path in tree(root) {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{} has mode {:o}", path.display(), mode(&path));
    }
}

#[test]
fn stored_files_are_owner_only_under_any_umask() {
    let root = tempfile::tempdir().unwrap();
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    block_on_real(async {
        for (engine, name) in [(EngineKind::Segments, "segments"), (EngineKind::Sled, "sled")] {
            let config = config(&root.path().join(name).join("data"), engine);
            let store = open(&config).await.unwrap();
            store.put("secret", vec![7; 100_000]).await.unwrap();
            let snapshot = root.path().join(format!("{name}.db"));
            let (of, to) = (store.clone(), snapshot.clone());
            tokio::task::spawn_blocking(move || maintenance::snapshot_to_file(&of, &to))
                .await
                .unwrap()
                .unwrap();
            store.close().await;
            let restored = root.path().join(format!("{name}-restored"));
            let request = Restore { snapshot, dir: restored, engine, unchecked: false, bump: 0 };
            maintenance::restore(&request, &Rng::seeded(1), &mut |_, _| ()).unwrap();
        }
    });
    rustix::process::umask(before);
    for made in tree(root.path()).iter().skip(1) {
        assert_private(made);
    }
}

#[test]
fn a_start_restricts_files_that_other_users_could_read() {
    let root = tempfile::tempdir().unwrap();
    block_on_real(async {
        for (engine, name) in [(EngineKind::Segments, "segments"), (EngineKind::Sled, "sled")] {
            let dir = root.path().join(name);
            let config = config(&dir, engine);
            let store = open(&config).await.unwrap();
            store.put("secret", "value").await.unwrap();
            store.close().await;
            for path in tree(&dir) {
                set_mode(&path, if path.is_dir() { 0o755 } else { 0o644 });
            }
            let store = open(&config).await.unwrap();
            assert_private(&dir);
            assert_eq!(store.get("secret").unwrap().unwrap().value(), b"value");
            store.close().await;
        }
    });
}

#[test]
fn a_shared_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    block_on_real(async {
        let config = config(dir.path(), EngineKind::Segments);
        set_mode(dir.path(), 0o1777);
        let refused = open(&config).await.err();
        assert!(matches!(refused, Some(OpenError::Exposed { mode: 0o1777, .. })), "{refused:?}");
        let text = refused.unwrap().to_string();
        assert!(text.contains("mode 1777") && text.contains("chmod -R go="), "{text}");

        // Another user's directory beside the store's: a mode that does not let others write stays as it is.
        fs::create_dir(dir.path().join("photos")).unwrap();
        set_mode(dir.path(), 0o777);
        assert!(matches!(open(&config).await.err(), Some(OpenError::Exposed { .. })));
        set_mode(dir.path(), 0o755);
        let store = open(&config).await.unwrap();
        store.close().await;
        assert_eq!(mode(dir.path()), 0o755);
        assert_private(&dir.path().join("wal"));
        assert_private(&dir.path().join("engine"));
        assert_private(&dir.path().join("MANIFEST"));
    });
}

/// Regression: the files of a directory that was not the store's lost their modes.
#[test]
fn files_of_others_keep_their_modes() {
    let root = tempfile::tempdir().unwrap();
    block_on_real(async {
        for (engine, name) in [(EngineKind::Segments, "segments"), (EngineKind::Sled, "sled")] {
            let dir = root.path().join(name);
            let others = ["run.sh", "wal/photo.jpg", "engine/notes.txt", "engine/more/x", "src/main.rs"];
            for file in others {
                let path = dir.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "theirs").unwrap();
                set_mode(&path, 0o755);
            }
            set_mode(&dir, 0o755);
            for _ in 0..2 {
                let store = open(&config(&dir, engine)).await.unwrap();
                store.put("secret", "value").await.unwrap();
                store.close().await;
                for file in others {
                    assert_eq!(mode(&dir.join(file)), 0o755, "{file}");
                }
                assert_private(&dir.join("MANIFEST"));
            }
        }
    });
}

#[test]
fn only_directories_of_a_store_and_empty_ones_have_no_foreign_entries() {
    let foreign = |dir: &Path| maintenance::foreign_entries(dir, 3, &|name, _| name == "pki").unwrap();
    let root = tempfile::tempdir().unwrap();
    let none: [&str; 0] = [];
    assert_eq!(foreign(&root.path().join("missing")), none);
    let dir = root.path().join("mount");
    fs::create_dir_all(dir.join("lost+found")).unwrap();
    fs::write(dir.join(".DS_Store"), "").unwrap();
    fs::create_dir(dir.join("pki")).unwrap();
    assert_eq!(foreign(&dir), none, "an empty mount with the caller's directory");
    // What a start that was interrupted may leave.
    for name in ["LOCK", "RESERVE", "MANIFEST.tmp", "RESTORING"] {
        fs::write(dir.join(name), "").unwrap();
    }
    for name in ["wal/1.tmp", "engine/00000000.seg.broken"] {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), "").unwrap();
    }
    assert_eq!(foreign(&dir), none);

    let dir = root.path().join("project");
    fs::create_dir_all(dir.join("src")).unwrap();
    for name in ["run.sh", ".gitignore", "README.md"] {
        fs::write(dir.join(name), "").unwrap();
    }
    assert_eq!(foreign(&dir), [".gitignore", "README.md", "run.sh"]);
    // A log of another program.
    let dir = root.path().join("other");
    fs::create_dir_all(dir.join("wal")).unwrap();
    fs::write(dir.join("wal/00000000"), "").unwrap();
    assert_eq!(foreign(&dir), ["wal"]);
    fs::write(dir.join("MANIFEST"), "Manifest-Version: 1.0").unwrap();
    assert_eq!(foreign(&dir), ["wal"], "a manifest of another program");

    block_on_real(async {
        for (engine, name) in [(EngineKind::Segments, "segments"), (EngineKind::Sled, "sled")] {
            let dir = root.path().join(name);
            let store = open(&config(&dir, engine)).await.unwrap();
            store.put("key", vec![7; 100_000]).await.unwrap();
            assert_eq!(foreign(&dir), none, "every file of a store is known");
            store.close().await;
            assert_eq!(foreign(&dir), none);
            fs::write(dir.join("notes.txt"), "a file beside a store").unwrap();
            assert_eq!(foreign(&dir), none);
            // A damaged store is a store.
            for name in ["MANIFEST", "MANIFEST.old"] {
                let _ = fs::remove_file(dir.join(name));
            }
            assert_eq!(foreign(&dir), none);
        }
    });
}
