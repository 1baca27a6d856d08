//! `kstore-server kubeconfig --merge`: adds the entries of a kubeconfig to another file, as `kind export kubeconfig` does. Entries of
//! the same names are replaced, everything else in the file stays.

use super::kubeconfig_path;
use crate::args::{DEFAULT_DATA_DIR, KubeconfigArgs};
use crate::files;
use anyhow::{Context, bail};
use kstore_client::Kubeconfig;
use kstore_client::limits::MAX_KUBECONFIG;
use serde_yaml_ng::{Mapping, Value};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The lists of named entries in a kubeconfig, with the members that hold the entries.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];
/// Members that name files.
const FILES: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];

/// Merges the kubeconfig of an administrator: the flag's, else that of ./kstore-data, else that of KUBECONFIG.
pub(super) fn merge_admin(args: &KubeconfigArgs) -> anyhow::Result<ExitCode> {
    let local = Path::new(DEFAULT_DATA_DIR).join("admin.kubeconfig");
    let path = match &args.kubeconfig {
        None if local.exists() => local,
        flag => kubeconfig_path(flag.clone(), std::env::var_os("KUBECONFIG"))?,
    };
    let target = target(args.file.as_deref())?;
    if path.canonicalize().is_ok_and(|path| path == target) {
        bail!("{} is the file to merge into; name the server's with --kubeconfig FILE", target.display());
    }
    Kubeconfig::read(&path).with_context(|| format!("cannot use {}", path.display()))?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = std::path::absolute(&path)?.parent().map(Path::to_owned).unwrap_or_default();
    merge_into(args.file.as_deref(), &text, &folder)?;
    Ok(ExitCode::SUCCESS)
}

/// Merges a kubeconfig, whose relative paths start at `folder`, into a file, by default ~/.kube/config, and says what changed.
pub(super) fn merge_into(file: Option<&Path>, text: &str, folder: &Path) -> anyhow::Result<()> {
    let path = target(file)?;
    let shown = path.display();
    let _lock = FileLock::take(&path)?;
    let existing = match std::fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Ok(file) if file.len() > MAX_KUBECONFIG => bail!("{shown} is too large for a kubeconfig"),
        _ => std::fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?,
    };
    let merged = merge(&existing, text, folder).with_context(|| format!("cannot merge into {shown}"))?;
    files::rewrite(&path, merged.text.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
    println!("{shown}: {}", merged.summary());
    Ok(())
}

/// The file to merge into. A link is followed, so that it stays.
fn target(file: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match file {
        Some(file) => file.to_owned(),
        None => {
            let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
            let home = home.context("HOME is not set; say which file with --file FILE")?;
            Path::new(&home).join(".kube/config")
        }
    };
    Ok(path.canonicalize().unwrap_or(path))
}

/// The lock by which kubectl, kind and others change a kubeconfig: a file beside it.
struct FileLock(PathBuf);

impl FileLock {
    fn take(path: &Path) -> anyhow::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        match std::fs::File::create_new(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!(
                    "another program is changing {}; remove {} if none does",
                    path.display(),
                    lock.display()
                )
            }
            // The folder is made when the file is written; nobody changes a file in a folder that is not there.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self(PathBuf::new())),
            Err(error) => Err(error).with_context(|| format!("cannot create {}", lock.display())),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// The result of a merge.
#[derive(Debug)]
struct Merged {
    text: String,
    /// The context that was added or replaced.
    context: String,
    /// Whether there was a context of that name.
    replaced: bool,
    /// The current context before; empty if there was none.
    before: String,
}

impl Merged {
    /// What changed, as a sentence.
    fn summary(&self) -> String {
        let Self { context, before, .. } = self;
        let done = if self.replaced { "replaced" } else { "added" };
        match before.as_str() {
            "" => format!("{done} context {context:?} and made it the current one"),
            before if before == context => format!("{done} context {context:?}, the current one"),
            before => format!("{done} context {context:?} and made it the current one; it was {before:?}"),
        }
    }
}

/// Adds the current context of `source`, with its cluster and user, to `existing`, and makes it the current one.
fn merge(existing: &str, source: &str, folder: &Path) -> anyhow::Result<Merged> {
    let mut target = match existing.trim() {
        "" => Mapping::from_iter([("apiVersion".into(), "v1".into()), ("kind".into(), "Config".into())]),
        _ => serde_yaml_ng::from_str(existing).context("it is no kubeconfig")?,
    };
    let source: Value = serde_yaml_ng::from_str(source).context("the server's kubeconfig is no YAML")?;
    let context =
        source["current-context"].as_str().context("the server's kubeconfig has no current context")?;
    let refers = named(&source["contexts"], context).context("the server's kubeconfig lacks its context")?;
    let name = |kind: &str| refers["context"][kind].as_str().map(str::to_owned);
    let names = [name("cluster"), name("user"), Some(context.to_owned())];
    let mut replaced = false;
    for ((list, member), name) in LISTS.into_iter().zip(names) {
        let Some(entry) = name.as_deref().and_then(|name| named(&source[list], name)) else { continue };
        replaced = put(&mut target, list, with_absolute_files(entry.clone(), member, folder))?;
    }
    let before = target.insert("current-context".into(), context.into());
    let before = before.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let text = serde_yaml_ng::to_string(&target)?;
    Ok(Merged { text, context: context.to_owned(), replaced, before })
}

fn named<'v>(list: &'v Value, name: &str) -> Option<&'v Value> {
    list.as_sequence()?.iter().find(|entry| entry["name"] == name)
}

/// Replaces the entry of that name in a list, or appends it. Returns whether there was one.
fn put(target: &mut Mapping, list: &str, entry: Value) -> anyhow::Result<bool> {
    let entries = target.entry(list.into()).or_insert(Value::Null);
    if entries.is_null() {
        *entries = Value::Sequence(Vec::new());
    }
    let entries = entries.as_sequence_mut().with_context(|| format!("{list} is no list"))?;
    match entries.iter_mut().find(|old| old["name"] == entry["name"]) {
        Some(old) => {
            *old = entry;
            Ok(true)
        }
        None => {
            entries.push(entry);
            Ok(false)
        }
    }
}

/// An entry that names its files wherever its kubeconfig is.
fn with_absolute_files(mut entry: Value, member: &str, folder: &Path) -> Value {
    let Some(content) = entry.get_mut(member).and_then(Value::as_mapping_mut) else { return entry };
    for file in FILES {
        if let Some(Value::String(path)) = content.get_mut(file) {
            // An absolute path replaces the folder.
            *path = folder.join(&*path).to_string_lossy().into_owned();
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "\
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: kind-kind
clusters:
- {name: kind-kind, cluster: {server: 'https://127.0.0.1:1', extensions: [{name: x}]}}
users:
- {name: kind-kind, user: {exec: {command: aws}}}
contexts:
- {name: kind-kind, context: {cluster: kind-kind, user: kind-kind}}
";

    fn ours(port: u16) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: kstore-a, clusters: [{{name: kstore-a, cluster: \
             {{server: 'https://127.0.0.1:{port}', certificate-authority: ca.crt}}}}], users: [{{name: kstore-a, user: \
             {{token: t}}}}], contexts: [{{name: kstore-a, context: {{cluster: kstore-a, user: kstore-a}}}}]}}"
        )
    }

    #[test]
    fn entries_are_added_or_replaced_and_those_of_others_stay() {
        let folder = Path::new("/data");
        let first = merge(OTHERS, &ours(1), folder).unwrap();
        assert_eq!(
            first.summary(),
            r#"added context "kstore-a" and made it the current one; it was "kind-kind""#
        );
        let second = merge(&first.text, &ours(2), folder).unwrap();
        assert_eq!(second.summary(), r#"replaced context "kstore-a", the current one"#);
        let value: Value = serde_yaml_ng::from_str(&second.text).unwrap();
        let others: Value = serde_yaml_ng::from_str(OTHERS).unwrap();
        for (list, _) in LISTS {
            assert_eq!(value[list].as_sequence().unwrap().len(), 2, "{list}");
            assert_eq!(value[list][0], others[list][0], "{list}");
        }
        assert_eq!(value["preferences"], others["preferences"]);
        assert_eq!(value["clusters"][1]["cluster"]["server"], "https://127.0.0.1:2");
        assert_eq!(value["clusters"][1]["cluster"]["certificate-authority"], "/data/ca.crt");
        let alone = merge("", &ours(1), folder).unwrap();
        assert_eq!(alone.summary(), r#"added context "kstore-a" and made it the current one"#);
        Kubeconfig::parse(&alone.text.replace("certificate-authority: /data/ca.crt", ""), folder).unwrap();
        assert!(merge("clusters: {}", &ours(1), folder).is_err());
        assert!(merge("- 1", &ours(1), folder).is_err());
        assert!(merge(OTHERS, "{}", folder).is_err());
    }

    #[test]
    fn a_merged_file_keeps_its_mode_and_its_links_and_waits_for_no_other_program() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let [path, link, fresh] = ["config", "link", "new/config"].map(|name| dir.path().join(name));
        std::fs::write(&path, OTHERS).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("config", &link).unwrap();
        for file in [&link, &fresh] {
            merge_into(Some(file), &ours(1), dir.path()).unwrap();
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&fresh)), (0o640, 0o600));
        assert!(link.is_symlink());
        assert!(std::fs::read_to_string(&path).unwrap().contains("kstore-a"));
        let lock = dir.path().join("config.lock");
        assert!(!lock.exists(), "the lock is released");
        std::fs::write(&lock, "").unwrap();
        let refused = merge_into(Some(&path), &ours(1), dir.path()).unwrap_err().to_string();
        assert!(refused.starts_with("another program is changing "), "{refused}");
        assert!(lock.exists(), "the lock of another program stays");
    }
}
