//! Paths within an image, whose links are followed as if its folder were the root of all files.

use crate::limits::IMAGE_LINKS;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::{Component, Path, PathBuf};

/// The path on this machine of `path` in the image at `root`. Links on the way, the last part's among them, are followed within the image,
/// so the result is below `root` and has no links. Parts that do not exist are appended as they are.
///
/// # Errors
/// The path has too many links.
pub(crate) fn resolve(root: &Path, path: &Path) -> Result<PathBuf> {
    let mut pending: VecDeque<OsString> = parts(path).collect();
    let (mut at, mut depth, mut links) = (root.to_owned(), 0_usize, 0);
    while let Some(part) = pending.pop_front() {
        if part == ".." {
            // The root's parent is the root.
            if depth > 0 {
                at.pop();
                depth -= 1;
            }
            continue;
        }
        let next = at.join(&part);
        let is_link = std::fs::symlink_metadata(&next).is_ok_and(|metadata| metadata.is_symlink());
        if !is_link {
            at = next;
            depth += 1;
            continue;
        }
        links += 1;
        if links > IMAGE_LINKS {
            return Err(Error::other(format!("{}: too many links", path.display())));
        }
        let to = std::fs::read_link(&next)?;
        if to.is_absolute() {
            at = root.to_owned();
            depth = 0;
        }
        for part in parts(&to).collect::<Vec<_>>().into_iter().rev() {
            pending.push_front(part);
        }
    }
    Ok(at)
}

/// The names and `..` of a path.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_within_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("usr/lib")).unwrap();
        for (to, at) in [
            ("usr/lib", "lib"),
            ("/usr", "absolute"),
            ("../../../../..", "usr/out"),
            ("/etc/passwd", "secret"),
            ("loop", "loop"),
        ] {
            symlink(to, root.join(at)).unwrap();
        }
        for (path, expected) in [
            ("lib/x/y", "usr/lib/x/y"),
            ("/absolute/lib/../z", "usr/z"),
            ("usr/out/etc", "etc"),
            ("secret", "etc/passwd"),
            ("../../x", "x"),
            ("", ""),
        ] {
            assert_eq!(resolve(&root, Path::new(path)).unwrap(), root.join(expected), "{path}");
        }
        assert!(resolve(&root, Path::new("loop/x")).unwrap_err().to_string().contains("too many links"));
    }
}
