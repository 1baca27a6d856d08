//! The documents of a source of manifests: a file, or all manifest files below a folder. They may be compressed by gzip.

use super::UnusableSource;
use super::recorded::simkube;
use flate2::read::MultiGzDecoder;
use kstore_client::manifest::{self, ManifestError};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Largest file that is read: it is in memory several times while it is parsed.
const MAX_BYTES: u64 = 1 << 30;
/// Extensions of the files that are read from a folder.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];
/// Deepest folders below the source: a link to a folder above must not be followed for ever.
const DEPTH: usize = 16;

/// Reads all objects of a file, or of the files below a folder in the order of their paths.
///
/// # Errors
/// [`UnusableSource`] names the file that cannot be read or parsed; or there is no object.
pub(super) fn read(source: &Path) -> Result<Vec<Value>, UnusableSource> {
    let mut files = Vec::new();
    match source.is_dir() {
        true => collect(source, DEPTH, &mut files).map_err(|error| unreadable(source, &error))?,
        false => files.push(source.to_owned()),
    }
    files.sort();
    let mut objects = Vec::new();
    for file in &files {
        objects.append(&mut parse(file)?);
    }
    match objects.is_empty() {
        true => Err(UnusableSource(format!(
            "{} has no Kubernetes objects: an import reads a snapshot of an etcd, a file of manifests, or a folder with files that end in \
             .json, .yaml or .yml, also with .gz",
            source.display()
        ))),
        false => Ok(objects),
    }
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let plain = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let plain = Path::new(plain.strip_suffix(".gz").unwrap_or(plain));
        let ending = plain.extension().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, files)?;
            }
        } else if ENDINGS.contains(&ending) {
            files.push(path);
        }
    }
    Ok(())
}

fn parse(file: &Path) -> Result<Vec<Value>, UnusableSource> {
    let bytes = fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
    if bytes > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(UnusableSource(format!("{} is larger than {most} MiB: split it", file.display())));
    }
    let text = unpacked(fs::read(file).map_err(|error| unreadable(file, &error))?, MAX_BYTES, file)?;
    let shown = file.display();
    if simkube::is_message_pack(&text) {
        let trace = simkube::read(&text).map_err(|error| UnusableSource(format!("{shown}: {error}")))?;
        return Ok(vec![trace]);
    }
    let text = String::from_utf8(text).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        UnusableSource(format!("{shown} is neither a snapshot of an etcd nor text: byte {at} is not UTF-8"))
    })?;
    let objects = manifest::objects(&text)
        .map_err(|error: ManifestError| UnusableSource(format!("{shown}: {error}")))?;
    Ok(objects.into_iter().map(|object| object.value).collect())
}

/// The bytes of a file, or those that it has compressed by gzip: at most `most`.
fn unpacked(bytes: Vec<u8>, most: u64, file: &Path) -> Result<Vec<u8>, UnusableSource> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let (mut text, shown) = (Vec::new(), file.display());
    let read = MultiGzDecoder::new(&bytes[..]).take(most + 1).read_to_end(&mut text);
    read.map_err(|error| {
        let at = text.len();
        UnusableSource(format!("{shown} cannot be decompressed after {at} bytes of its content: {error}"))
    })?;
    if text.len() as u64 > most {
        return Err(UnusableSource(format!(
            "{shown} is larger than {} MiB when decompressed: split it",
            most >> 20
        )));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> UnusableSource {
    UnusableSource(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    #[test]
    fn files_below_a_folder_are_read_in_their_order_and_lists_are_their_items() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let pod = |name: &str| {
            format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"{name}\"}}}}")
        };
        write(
            "b/c.json",
            &format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{},{}]}}", pod("1"), pod("2")),
        );
        write("a.yaml", &format!("{}\n---\n{}", pod("3"), pod("4")));
        write("b/log.txt", "no manifest");
        let names = |found: Vec<Value>| {
            found
                .iter()
                .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(read(dir.path()).unwrap()), ["3", "4", "1", "2"]);
        assert_eq!(names(read(&dir.path().join("b/c.json")).unwrap()), ["1", "2"]);
        let refused = |name: &str| read(&dir.path().join(name)).unwrap_err().to_string();
        let packed = |text: &str| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap()
        };
        fs::write(dir.path().join("b/d.yaml.gz"), packed(&pod("5"))).unwrap();
        fs::write(dir.path().join("b/log.gz"), packed("no manifest")).unwrap();
        assert_eq!(names(read(dir.path()).unwrap()), ["3", "4", "1", "2", "5"]);
        fs::write(dir.path().join("cut.yaml.gz"), &packed(&pod("5"))[..30]).unwrap();
        assert!(refused("cut.yaml.gz").contains("cannot be decompressed after "));
        let bomb = packed(&"a".repeat(3 << 20));
        let refusal = unpacked(bomb, 2 << 20, Path::new("bomb.gz")).unwrap_err().to_string();
        assert_eq!(refusal, "bomb.gz is larger than 2 MiB when decompressed: split it");
        assert!(refused("none.yaml").contains("No such file"));
        write("bytes.json", "x");
        fs::write(dir.path().join("bytes.json"), [b'{', 0xff]).unwrap();
        assert!(refused("bytes.json").contains("byte 1 is not UTF-8"));
        write("bad.yaml", "a: b: c");
        assert!(refused("bad.yaml").contains("document 1"));
        write("empty/readme.md", "");
        assert!(refused("empty").contains("has no Kubernetes objects"));
    }
}
