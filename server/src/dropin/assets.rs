//! `kstore-server assets`: a folder in which test harnesses find the programs that they start: links to this binary under the names of
//! the programs, and kubectl if there is one.

use super::Program;
use crate::args::AssetsArgs;
use anyhow::{Context, bail};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes the folder and prints the line with its path that test harnesses read.
pub(crate) fn make(args: &AssetsArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.dir;
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {shown}"))?;
    let directory = directory.canonicalize().with_context(|| format!("cannot use the directory {shown}"))?;
    let binary = std::env::current_exe().context("cannot find the path of this program")?;
    for program in Program::ALL {
        link(&directory.join(program.name()), &binary)?;
    }
    match kubectl(&directory) {
        Some(kubectl) => link(&directory.join("kubectl"), &kubectl)?,
        None => eprintln!(
            "kstore-server: no kubectl in PATH; suites that call it need one in {}",
            directory.display()
        ),
    }
    // A closed standard output is no error: the folder is made.
    let _ = writeln!(std::io::stdout(), "export KUBEBUILDER_ASSETS={}", quoted(&directory));
    Ok(ExitCode::SUCCESS)
}

/// Makes `path` a link to `target`. A link that is there is replaced, a file is not.
fn link(path: &Path, target: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot make the link {}", path.display());
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => std::fs::remove_file(path).with_context(failed)?,
        Ok(_) => bail!("{} is there and is no link; remove it or choose another directory", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(failed),
    }
    symlink(target, path).with_context(failed)
}

/// The first kubectl of PATH that is not in `directory` itself.
fn kubectl(directory: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).filter(|folder| folder != directory);
    found
        .map(|folder| folder.join("kubectl"))
        .filter_map(|file| file.canonicalize().ok())
        .find(|file| file.is_file())
}

/// The path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_the_programs_and_can_be_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("assets");
        for _ in 0..2 {
            make(&AssetsArgs { dir: dir.clone() }).unwrap();
            for name in ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"] {
                let target = std::fs::read_link(dir.join(name)).unwrap();
                assert_eq!(target, std::env::current_exe().unwrap(), "{name}");
            }
        }
        std::fs::remove_file(dir.join("etcd")).unwrap();
        std::fs::write(dir.join("etcd"), "another program").unwrap();
        let refused = make(&AssetsArgs { dir }).unwrap_err().to_string();
        assert!(refused.contains("is no link"), "{refused}");
    }

    #[test]
    fn paths_are_quoted_for_shells() {
        assert_eq!(quoted(Path::new("/a/b-1.2")), "/a/b-1.2");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
