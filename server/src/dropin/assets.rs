//! `kstore-server assets`: creates the directory in which test harnesses look for the programs that they start. It contains links to
//! this binary, named like those programs, and a link to kubectl if PATH has one.

use super::Program;
use crate::args::AssetsArgs;
use anyhow::{Context, bail};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Creates the directory and prints the shell command that points test harnesses to it (`export KUBEBUILDER_ASSETS=…`).
pub(crate) fn make(args: &AssetsArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.dir;
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create the directory {shown}"))?;
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
    // A closed standard output is no error: the directory is complete.
    let _ = writeln!(std::io::stdout(), "export KUBEBUILDER_ASSETS={}", quoted(&directory));
    Ok(ExitCode::SUCCESS)
}

/// Creates the link `path` to `target`. An existing link is replaced; an existing file is an error.
fn link(path: &Path, target: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot create the link {}", path.display());
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => std::fs::remove_file(path).with_context(failed)?,
        Ok(_) => bail!(
            "{} already exists and is not a link; remove it or choose another directory",
            path.display()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(failed),
    }
    symlink(target, path).with_context(failed)
}

/// The first kubectl in PATH, without `directory` itself.
fn kubectl(directory: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).filter(|folder| folder != directory);
    found
        .map(|folder| folder.join("kubectl"))
        .filter_map(|file| file.canonicalize().ok())
        .find(|file| file.is_file())
}

/// The path, quoted for a shell where necessary.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_directory_links_every_program_and_can_be_recreated() {
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
        assert!(refused.contains("is not a link"), "{refused}");
    }

    #[test]
    fn paths_are_quoted_for_shells() {
        assert_eq!(quoted(Path::new("/a/b-1.2")), "/a/b-1.2");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
