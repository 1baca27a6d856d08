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
    let is_set_to = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is_release && is_set_to("DEBUG", "false") && is_set_to("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
        layout().iter().for_each(|argument| println!("cargo::rustc-link-arg-bins={argument}"));
    }
}

/// Arguments that make the program smaller, for the linker that rustc brings, LLVM's, unless RUSTFLAGS or a configuration choose another
/// one: rustc takes it for x86-64 with glibc. Functions with equal code are kept once. The table of relocations, by which the loader
/// corrects pointers at each start, is packed into a bitmap; the loader of glibc knows that form since 2.36.
fn layout() -> Vec<&'static str> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_chosen =
        std::env::var_os("RUSTC_LINKER").is_some() || variable("CARGO_ENCODED_RUSTFLAGS").contains("link");
    let target = variable("TARGET");
    if is_chosen || target != "x86_64-unknown-linux-gnu" || !has_lld(&target) {
        return Vec::new();
    }
    let is_known = glibc().is_some_and(|version| version >= (2, 36));
    ["-Wl,--icf=all"].into_iter().chain(is_known.then_some("-Wl,-z,pack-relative-relocs")).collect()
}

/// Whether rustc has its own linker for the target; distributions may leave it out.
fn has_lld(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let folder = printed(Command::new(rustc).args(["--print", "target-libdir", "--target", target]));
    folder.is_some_and(|folder| Path::new(folder.trim()).with_file_name("bin/gcc-ld/ld.lld").exists())
}

/// The version of this machine's C library: the program is for machines like it.
fn glibc() -> Option<(u32, u32)> {
    let text = printed(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let (major, rest) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What a program prints.
fn printed(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    String::from_utf8(output.stdout).ok()
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
