//! Mappings of images to programs of this machine, or to unpacked images: `PATTERN=PATH`. The first pattern that matches decides. Pure, but
//! for the look what the path is.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One mapping: the images that a pattern matches run a program of this machine, or have the files of an image here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageMapping {
    /// `*` stands for any characters but `/`, `**` for any.
    pattern: String,
    /// The absolute path of the program or the image.
    program: PathBuf,
}

/// Why a mapping cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MappingError {
    /// It has no `=`, or nothing on one side of it.
    #[error("expected PATTERN=PATH, such as 'ghcr.io/me/op:*=./target/release/op'")]
    Form,
    /// Its target is of a kind that is not supported.
    #[error(
        "{0:?} is not supported: name an executable file of this machine, the folder of an image layout, or a .tar of an image"
    )]
    Kind(String),
    /// Its target is neither a program nor an image.
    #[error("{0}")]
    NoProgram(#[from] NoProgram),
}

/// Why a path is not a program that can be run.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}: {why}", .path.display())]
pub struct NoProgram {
    path: PathBuf,
    why: String,
}

/// Kinds of targets that other container tools have, and that are not supported.
const OTHER_KINDS: [&str; 4] = ["oci:", "oci-archive:", "docker-archive:", "sim:"];

impl FromStr for ImageMapping {
    type Err = MappingError;

    /// Parses `PATTERN=PATH`. A relative path is one of the current directory.
    fn from_str(text: &str) -> Result<Self, MappingError> {
        let (pattern, target) = text.split_once('=').ok_or(MappingError::Form)?;
        if pattern.is_empty() || target.is_empty() {
            return Err(MappingError::Form);
        }
        if OTHER_KINDS.iter().any(|kind| target.starts_with(kind)) {
            return Err(MappingError::Kind(target.to_owned()));
        }
        let absolute = std::path::absolute(target);
        let program = absolute.map_err(|error| no_program(Path::new(target), &error.to_string()))?;
        check(&program)?;
        Ok(Self { pattern: pattern.to_owned(), program })
    }
}

/// The file of a folder by which it is an image layout.
const LAYOUT: &str = "index.json";

/// Whether a path is an image and not a program: a folder, or an archive by its name.
pub fn is_image(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tar") || path.is_dir()
}

/// Checks that a path is an executable file, or an image.
///
/// # Errors
/// What is wrong with it.
pub fn check(program: &Path) -> Result<(), NoProgram> {
    let metadata = match std::fs::metadata(program) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(no_program(program, "no such file"));
        }
        Err(error) => return Err(no_program(program, &error.to_string())),
    };
    if metadata.is_dir() {
        return match program.join(LAYOUT).is_file() {
            true => Ok(()),
            false => Err(no_program(program, "is a folder without an image layout: it has no index.json")),
        };
    }
    if is_image(program) {
        return Ok(());
    }
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(no_program(program, "is not executable: chmod +x it"));
    }
    Ok(())
}

fn no_program(path: &Path, why: &str) -> NoProgram {
    NoProgram { path: path.to_owned(), why: why.to_owned() }
}

/// Mappings in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageMap(Vec<ImageMapping>);

impl FromIterator<ImageMapping> for ImageMap {
    fn from_iter<I: IntoIterator<Item = ImageMapping>>(mappings: I) -> Self {
        Self(mappings.into_iter().collect())
    }
}

impl ImageMap {
    /// The program of an image: of the first mapping whose pattern matches one of the image's names, which are the name that a pod has and
    /// the complete one (`docker.io/library/nginx:latest` for `nginx`).
    pub fn find(&self, names: [&str; 2]) -> Option<&Path> {
        let is_of = |mapping: &&ImageMapping| {
            names.iter().any(|name| matches(mapping.pattern.as_bytes(), name.as_bytes()))
        };
        self.0.iter().find(is_of).map(|mapping| mapping.program.as_path())
    }
}

/// Whether `text` matches `pattern`, in which `*` is any text without `/` and `**` any text. Takes at most the product of the lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Whether the pattern up to here matches the text up to each place.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'*' {
            for at in (0..text.len()).rev() {
                reached[at + 1] = reached[at] && text[at] == *first;
            }
            reached[0] = false;
            continue;
        }
        let crosses = rest.first() == Some(&b'*');
        if crosses {
            rest = &rest[1..];
        }
        for at in 0..text.len() {
            reached[at + 1] |= reached[at] && (crosses || text[at] != b'/');
        }
    }
    reached[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_star_stays_within_a_part_of_the_name_and_two_do_not() {
        for (pattern, image, expected) in [
            ("ghcr.io/me/op:*", "ghcr.io/me/op:v1", true),
            ("ghcr.io/me/op:*", "ghcr.io/me/op", false),
            ("ghcr.io/*/op:*", "ghcr.io/me/op:v1", true),
            ("ghcr.io/*:*", "ghcr.io/me/op:v1", false),
            ("ghcr.io/**", "ghcr.io/me/op:v1", true),
            ("**", "", true),
            ("*", "a/b", false),
            ("a", "ab", false),
            ("", "", true),
            ("***b", "a/ab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), image.as_bytes()), expected, "{pattern} {image}");
        }
    }

    /// The rule of [`matches`], written down as it reads.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', b'*', rest @ ..] => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
            [b'*', rest @ ..] => {
                let part = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
                (0..=part).any(|taken| naive(rest, &text[taken..]))
            }
            [first, rest @ ..] => text.first() == Some(first) && naive(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_is_the_naive_rule(pattern in "[ab/*]{0,8}", text in "[ab/]{0,8}") {
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), naive(pattern.as_bytes(), text.as_bytes()));
        }
    }

    #[test]
    fn a_mapping_names_an_executable_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(at("text"), "").unwrap();
        std::fs::write(at("op"), "").unwrap();
        std::fs::set_permissions(at("op"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let refused = |text: &str| text.parse::<ImageMapping>().unwrap_err().to_string();
        for text in ["x", "x=", "=x"] {
            assert!(refused(text).starts_with("expected PATTERN=PATH"), "{text}");
        }
        assert!(refused(&format!("a={}", at("no"))).ends_with("no: no such file"));
        assert!(refused(&format!("a={}", at("text"))).ends_with("is not executable: chmod +x it"));
        assert!(refused(&format!("a={}", at("."))).ends_with("it has no index.json"));
        for target in ["oci:dir", "sim:busybox"] {
            assert!(refused(&format!("a={target}")).contains("name an executable file of this machine"));
        }
        std::fs::write(at("saved.tar"), "").unwrap();
        std::fs::write(at("index.json"), "").unwrap();
        for path in ["saved.tar", "."] {
            format!("a={}", at(path)).parse::<ImageMapping>().unwrap();
            assert!(is_image(Path::new(&at(path))) && !is_image(Path::new(&at("op"))));
        }
        let mapping = format!("me/op:*={}", at("op")).parse().unwrap();
        let map = ImageMap::from_iter([mapping]);
        assert_eq!(map.find(["me/op:1", "docker.io/me/op:1"]), Some(Path::new(&at("op"))));
        assert_eq!(map.find(["other", "docker.io/library/other:latest"]), None);
    }
}
