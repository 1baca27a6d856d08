//! Writes the snapshot of an etcd as a kube-apiserver fills it, to try `kstore-server import` on a large one: `kube_snapshot FILE PODS`.

use kstore_tests::write_kube_snapshot;
use std::path::Path;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, pods] = &arguments[..] else {
        return Err("say where to, and how many pods: kube_snapshot FILE PODS".to_owned());
    };
    let pods = pods.parse().map_err(|_| format!("{pods:?} is no number of pods"))?;
    let file = Path::new(file);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let made = write_kube_snapshot(file, scratch.path(), pods).map_err(|error| error.to_string())?;
    println!("{}: {made:?}", file.display());
    Ok(())
}
