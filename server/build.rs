//! Build script: puts the git commit into the version of release builds, and strips them.
//! Debug builds carry no commit, so that a new commit does not recompile them. Without git, or outside a
//! clone of this repository, the version has no commit either.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if is_release { commit() } else { None };
    let suffix = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    println!("cargo::rustc-env=KSTORE_COMMIT_SUFFIX={suffix}");
    // Cargo forgets `strip` of the profile for a package with a level of optimisation of its own. Builds for profilers ask for debug
    // information, and keep their symbols.
    let asked = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is_release && asked("DEBUG", "false") && asked("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
        if links_with_lld() {
            println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        }
    }
}

/// Whether rustc links with the linker that it brings, LLVM's, and nobody chose another one: it keeps functions with equal code once; GNU's
/// has no such option.
fn links_with_lld() -> bool {
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_chosen = std::env::var_os("RUSTC_LINKER").is_some() || flags.contains("link");
    let Some(rustc) = std::env::var_os("RUSTC").filter(|_| !is_chosen) else { return false };
    let Some(target) = std::env::var_os("TARGET") else { return false };
    let printed = Command::new(rustc).args(["--print", "target-libdir", "--target"]).arg(target).output();
    let folder = printed.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    folder.is_some_and(|folder| Path::new(folder.trim()).with_file_name("bin/gcc-ld/ld.lld").exists())
}

/// The checked-out commit, abbreviated to 12 digits. Makes cargo run this script again when HEAD moves.
fn commit() -> Option<String> {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).parent()?.canonicalize().ok()?;
    // An archive unpacked inside another repository must not report that repository's commit.
    if PathBuf::from(git(&root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // Git appends to this file whenever HEAD moves.
    let log = git(&root, &["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={}", root.join(log).display());
    git(&root, &["rev-parse", "--short=12", "HEAD"])
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
