//! Whole images, in layouts and archives, and layers that mean harm.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use tar::{Builder, EntryType, Header};

/// An entry of a layer: its kind, its name, and its text or where it leads.
type TestEntry<'a> = (EntryType, &'a str, &'a str);

const FILE: EntryType = EntryType::Regular;

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", unpack::hex(&Sha256::digest(bytes)))
}

/// A layer with these entries. Names are written as they are, also where a builder of archives refuses them.
fn layer(entries: &[TestEntry<'_>]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (kind, name, text) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(if *kind == EntryType::Directory { 0o750 } else { 0o640 });
        header.set_uid(7);
        header.set_gid(8);
        header.set_size(0);
        let content = match kind {
            EntryType::Symlink | EntryType::Link => {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
                &[][..]
            }
            _ => text.as_bytes(),
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.append(&header, content).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn configuration(layers: &[Vec<u8>]) -> Vec<u8> {
    let digests: Vec<_> = layers.iter().map(|layer| digest(layer)).collect();
    let run = json!({"Entrypoint": ["/op"], "Cmd": ["--help"], "Env": ["A=1", "PATH=/bin"], "WorkingDir": "/w", "User": "app"});
    json!({"config": run, "rootfs": {"type": "layers", "diff_ids": digests}}).to_string().into_bytes()
}

/// A layout of an image with these layers, compressed, in a list of images for several platforms.
fn layout(folder: &Path, layers: &[Vec<u8>]) {
    layout_by(folder, layers, gzipped);
}

/// The same with layers that `compress` has compressed.
fn layout_by(folder: &Path, layers: &[Vec<u8>], compress: fn(&[u8]) -> Vec<u8>) {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let add = |bytes: &[u8]| {
        let digest = digest(bytes);
        std::fs::write(blobs.join(digest.strip_prefix("sha256:").unwrap()), bytes).unwrap();
        json!({"digest": digest, "size": bytes.len()})
    };
    let stored: Vec<Value> = layers.iter().map(|layer| add(&compress(layer))).collect();
    let manifest = json!({"config": add(&configuration(layers)), "layers": stored});
    let mut here = add(manifest.to_string().as_bytes());
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    here["platform"] = json!({"os": "linux", "architecture": architecture});
    let other = json!({"digest": digest(b""), "platform": {"os": "unknown", "architecture": "unknown"}});
    let list = add(json!({"manifests": [other, here]}).to_string().as_bytes());
    std::fs::write(folder.join("index.json"), json!({"manifests": [list]}).to_string()).unwrap();
}

/// An archive of `docker save` of an image with these layers.
fn saved(path: &Path, layers: &[Vec<u8>]) {
    let mut archive = Builder::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes).unwrap();
    };
    let names: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
    for (name, layer) in names.iter().zip(layers) {
        add(name, layer);
    }
    add("config.json", &configuration(layers));
    let list = json!([{"Config": "config.json", "RepoTags": ["me/op:v1"], "Layers": names}]);
    add("manifest.json", list.to_string().as_bytes());
    std::fs::write(path, archive.into_inner().unwrap()).unwrap();
}

fn unpacked(store: &ImageStore, path: &Path, parent: &Path) -> Result<Arc<UnpackedImage>> {
    store.unpacked(path, parent, &|_, _, _| Ok(()))
}

/// The error of an image with one layer of these entries, in whose folder nothing else may have changed.
fn refused(entries: &[TestEntry<'_>]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image.tar");
    saved(&path, &[layer(entries)]);
    let images = dir.path().join("in/images");
    std::fs::create_dir_all(&images).unwrap();
    let error = unpacked(&ImageStore::default(), &path, &images).unwrap_err().to_string();
    let outside: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().flatten().map(|one| one.file_name()).collect();
    assert_eq!(outside.len(), 2, "{outside:?}");
    assert_eq!(std::fs::read_dir(dir.path().join("in")).unwrap().count(), 1);
    error
}

#[test]
fn layouts_and_archives_are_unpacked_once_by_their_digest() {
    let dir = tempfile::tempdir().unwrap();
    let layers = [
        layer(&[
            (EntryType::Directory, "etc/", ""),
            (FILE, "etc/passwd", "app:x:1000:50::/:\n"),
            (FILE, "etc/old", "old"),
            (EntryType::Directory, "data", ""),
            (FILE, "data/one", "1"),
            (FILE, "data/two", "2"),
            (EntryType::Symlink, "lib", "usr/lib"),
            (EntryType::Char, "dev/null", ""),
        ]),
        layer(&[
            (FILE, "etc/.wh.old", ""),
            (FILE, "data/three", "3"),
            (FILE, "data/.wh..wh..opq", ""),
            (FILE, "lib/x.so", "library"),
            (EntryType::Link, "op", "usr/lib/x.so"),
        ]),
    ];
    let (folder, archive) = (dir.path().join("layout"), dir.path().join("saved.tar"));
    layout(&folder, &layers);
    saved(&archive, &layers);
    let images = dir.path().join("images");
    std::fs::create_dir(&images).unwrap();
    let store = ImageStore::default();
    let one = unpacked(&store, &folder, &images).unwrap();
    let read = |path: &str| std::fs::read_to_string(one.root().join(path)).ok();
    assert_eq!(read("usr/lib/x.so").as_deref(), Some("library"), "links of the image are followed within it");
    assert_eq!(read("op").as_deref(), Some("library"));
    assert_eq!((read("etc/old"), read("data/one"), read("data/three").as_deref()), (None, None, Some("3")));
    assert!(!one.root().join("dev/null").exists(), "there are no devices");
    let mode = |path: &str| std::fs::metadata(one.root().join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("etc"), mode("etc/passwd"), mode("usr")), (0o750, 0o640, 0o755));
    let config = one.config();
    assert_eq!((config.entrypoint.as_slice(), config.workdir.as_str()), (&["/op".to_owned()][..], "/w"));
    assert_eq!((one.user().unwrap(), one.place("/lib/y")), ((1000, 50), "/usr/lib/y".to_owned()));
    let other = unpacked(&store, &archive, &images).unwrap();
    assert_eq!(other.root(), one.root(), "the same configuration has the same files");
    assert!(Arc::ptr_eq(&other, &unpacked(&store, &archive, &images).unwrap()));
    assert_eq!(std::fs::read_dir(&images).unwrap().count(), 1);
}

#[test]
fn layers_of_zstd_are_unpacked_and_their_digests_compared() {
    let dir = tempfile::tempdir().unwrap();
    let images = dir.path().join("images");
    std::fs::create_dir(&images).unwrap();
    let text = "a line of the file\n".repeat(20_000);
    let layers = [layer(&[(FILE, "usr/text", &text), (FILE, "old", "1")]), layer(&[(FILE, ".wh.old", "")])];
    let folder = dir.path().join("layout");
    layout_by(&folder, &layers, zstd::tests::compressed);
    let image = unpacked(&ImageStore::default(), &folder, &images).unwrap();
    assert_eq!(std::fs::read_to_string(image.root().join("usr/text")).unwrap(), text);
    assert!(!image.root().join("old").exists());
    let other = dir.path().join("other");
    layout_by(&other, &[layer(&[(FILE, "a", "1")])], |_| {
        zstd::tests::compressed(&layer(&[(FILE, "a", "2")]))
    });
    let error = unpacked(&ImageStore::default(), &other, &images).unwrap_err().to_string();
    assert!(error.contains("its files have the digest"), "{error}");
}

#[test]
fn a_copy_has_the_same_files_and_is_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::create_dir_all(from.join("a/b")).unwrap();
    std::fs::write(from.join("a/b/c"), "text").unwrap();
    std::os::unix::fs::symlink("/nowhere", from.join("link")).unwrap();
    copy_tree(&from, &to, &|_, _, _| Ok(())).unwrap();
    std::fs::write(to.join("a/b/c"), "changed").unwrap();
    assert_eq!(std::fs::read(from.join("a/b/c")).unwrap(), b"text");
    assert_eq!(std::fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
}

#[test]
fn entries_that_lead_out_of_the_image_are_refused() {
    for name in ["../out", "/out", "a/../../out"] {
        assert!(refused(&[(FILE, name, "x")]).contains("it leads out of the image"), "{name}");
    }
    let link = |to: &str| refused(&[(EntryType::Link, "x", to)]);
    assert!(link("../../config.json").contains("it leads out of the image"));
    assert!(link("missing").contains("it is a link to no file"));
    assert!(
        refused(&[(EntryType::Symlink, "loop", "loop"), (FILE, "loop/x", "")]).contains("too many links")
    );
    assert!(refused(&[(FILE, "a/.wh...", "")]).contains("it removes no file"));
    // A file under a file is no folder.
    assert!(!refused(&[(FILE, "f", ""), (FILE, "f/x", "")]).is_empty());
}

#[test]
fn links_that_lead_out_are_followed_within_the_image() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let path = dir.path().join("image.tar");
    let to = outside.display().to_string();
    let entries = [
        (EntryType::Symlink, "absolute", to.as_str()),
        (EntryType::Symlink, "up", "../../../.."),
        (FILE, "absolute/x", "1"),
        (FILE, "up/y", "2"),
        (EntryType::Symlink, "file", "/etc/passwd"),
        (FILE, "file", "3"),
    ];
    saved(&path, &[layer(&entries)]);
    let images = dir.path().join("images");
    std::fs::create_dir(&images).unwrap();
    let image = unpacked(&ImageStore::default(), &path, &images).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let inside = image.root().join(to.trim_start_matches('/')).join("x");
    assert_eq!(std::fs::read(inside).unwrap(), b"1");
    assert_eq!(std::fs::read(image.root().join("y")).unwrap(), b"2");
    assert_eq!(std::fs::read(image.root().join("file")).unwrap(), b"3", "the link is replaced");
}

#[test]
fn damaged_images_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let images = dir.path().join("images");
    std::fs::create_dir(&images).unwrap();
    let error = |path: &Path| unpacked(&ImageStore::default(), path, &images).unwrap_err().to_string();
    let folder = dir.path().join("layout");
    layout(&folder, &[layer(&[(FILE, "a", "1")])]);
    let blobs: Vec<_> = std::fs::read_dir(folder.join("blobs/sha256")).unwrap().flatten().collect();
    for blob in blobs {
        let whole = std::fs::read(blob.path()).unwrap();
        std::fs::write(blob.path(), [whole.as_slice(), b" "].concat()).unwrap();
        let why = error(&folder);
        assert!(why.contains("digest") || why.contains(": layer blobs/"), "{why}");
        std::fs::write(blob.path(), whole).unwrap();
    }
    assert!(error(&dir.path().join("none")).contains("No such file"));
    let path = dir.path().join("image.tar");
    std::fs::write(&path, layer(&[(FILE, "a", "")])).unwrap();
    assert!(error(&path).contains("it is no image"));
    std::fs::write(&path, gzipped(b"x")).unwrap();
    assert_eq!(error(&path), "it is compressed: gunzip it");
    let manifest = |text: &str| {
        std::fs::write(&path, layer(&[(FILE, "manifest.json", text)])).unwrap();
        error(&path)
    };
    assert!(manifest("[]").contains("it has no image"));
    let two = r#"[{"RepoTags": ["a:1"]}, {"RepoTags": ["b:2"]}]"#;
    assert!(manifest(two).contains("it has several images (a:1, b:2)"));
    assert!(manifest(r#"[{"Config": "../c", "Layers": []}]"#).contains("it has no ../c"));
    assert!(manifest("{").starts_with("manifest.json: "));
    let index = dir.path().join("other");
    std::fs::create_dir(&index).unwrap();
    std::fs::write(index.join("index.json"), r#"{"manifests": [{"digest": "sha256:../../x"}]}"#).unwrap();
    assert!(error(&index).contains("is not a digest"));
}

#[test]
fn the_command_and_the_variables_of_a_pod_win_over_those_of_its_image() {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let image = ImageConfig {
        entrypoint: words("/op run"),
        command: words("--all"),
        env: vec![("PATH".to_owned(), "/own".to_owned()), ("A".to_owned(), "image".to_owned())],
        ..ImageConfig::default()
    };
    for (command, args, expected) in [
        ("", "", "/op run --all"),
        ("", "--one", "/op run --one"),
        ("/sh -c", "", "/sh -c"),
        ("/sh -c", "date", "/sh -c date"),
    ] {
        assert_eq!(image.command_line(&words(command), &words(args)), words(expected), "{command} {args}");
    }
    let env = [("PATH", "/default"), ("B", "pod")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let names = |own: &str| {
        let all = image.variables(&env, |name| name == own);
        all.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(""), "PATH=/own B=pod A=image");
    assert_eq!(names("PATH"), "PATH=/default B=pod A=image");
}
