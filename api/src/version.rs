//! The Kubernetes versions whose API this crate has ([`Minor`]), the default among them, and the release with which kstore was compared,
//! which all other crates take from here. The README of this crate lists what else changes with a version.

use std::fmt;
use std::str::FromStr;

/// The release with which kstore was compared, major and minor, as a literal for `concat!`.
#[macro_export]
macro_rules! kubernetes_release {
    () => {
        "1.36"
    };
}

/// The version that a server has unless its operator chooses another, as a literal for `concat!`.
#[macro_export]
macro_rules! kubernetes_default {
    () => {
        "1.37"
    };
}

/// The release with which kstore was compared, major and minor: recorded answers, flags of programs, default roles and client types are
/// those of it. A server may serve another version, [`Minor::DEFAULT`] unless its operator chooses.
pub const RELEASE: &str = kubernetes_release!();

/// Major version of the release.
pub const MAJOR: u64 = 1;

/// Minor version of the release.
pub const MINOR: u64 = 36;

/// Semantic version of the programs whose flags and recorded answers kstore follows.
pub const PROGRAMS: &str = concat!("v", kubernetes_release!(), ".2");

/// A minor version of Kubernetes that the tables of this crate describe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Minor {
    /// 1.33.
    V33,
    /// 1.34.
    V34,
    /// 1.35.
    V35,
    /// 1.36.
    V36,
    /// 1.37.
    #[default]
    V37,
}

impl Minor {
    /// The version that a server has unless its operator chooses another.
    pub const DEFAULT: Self = Self::V37;

    /// All versions that the tables describe, oldest first.
    pub const ALL: [Self; 5] = [Self::V33, Self::V34, Self::V35, Self::V36, Self::V37];

    /// The versions that a server can serve, oldest first.
    pub const SERVED: [Self; 5] = Self::ALL;

    /// The number after the dot.
    #[must_use]
    pub const fn number(self) -> u64 {
        33 + self as u64
    }

    /// Semantic version of the release that this version is compared with: `/version`, the nodes' kubelets and documents state it.
    #[must_use]
    pub const fn programs(self) -> &'static str {
        match self {
            Self::V33 => "v1.33.12",
            Self::V34 => "v1.34.9",
            Self::V35 => "v1.35.6",
            Self::V36 => PROGRAMS,
            Self::V37 => "v1.37.0",
        }
    }

    /// The oldest minor version whose clients and components this version supports.
    #[must_use]
    pub const fn compatible(self) -> u64 {
        self.number() - 1
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MAJOR}.{}", self.number())
    }
}

/// Error: a text that names no version of [`Minor::SERVED`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMinor {
    text: String,
}

impl fmt::Display for UnknownMinor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (oldest, newest) = (Minor::SERVED[0], Minor::SERVED[Minor::SERVED.len() - 1]);
        write!(f, "Kubernetes {} is not served: this program has {oldest} to {newest}", self.text)
    }
}

impl std::error::Error for UnknownMinor {}

impl FromStr for Minor {
    type Err = UnknownMinor;

    /// Parses `1.34`, `v1.34` and `1.34.9`; the patch release does not matter.
    fn from_str(text: &str) -> Result<Self, UnknownMinor> {
        let unknown = || UnknownMinor { text: text.to_owned() };
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut part = || parts.next().map(str::parse::<u64>);
        let (major, minor, patch) = (part(), part(), part());
        let is_well_formed = !matches!(patch, Some(Err(_))) && parts.next().is_none();
        let (Some(Ok(MAJOR)), Some(Ok(minor)), true) = (major, minor, is_well_formed) else {
            return Err(unknown());
        };
        Self::SERVED.into_iter().find(|served| served.number() == minor).ok_or_else(unknown)
    }
}

/// A set of minor versions: those that have a row of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Versions(u8);

impl Versions {
    /// All versions of [`Minor::ALL`].
    pub const ALL: Self = Self::between(Minor::V33, Minor::V37);

    /// The versions from `first` on.
    #[must_use]
    pub const fn since(first: Minor) -> Self {
        Self::between(first, Minor::V37)
    }

    /// The versions up to `last`.
    #[must_use]
    pub const fn until(last: Minor) -> Self {
        Self::between(Minor::V33, last)
    }

    /// The versions from `first` to `last`.
    #[must_use]
    pub const fn between(first: Minor, last: Minor) -> Self {
        let below = (1_u8 << first as u8) - 1;
        let upto = (1_u8 << (last as u8 + 1)) - 1;
        Self(upto & !below)
    }

    /// The versions that the marks `since=` and `until=` among the words of a table's line state; all without them. `None` if a mark
    /// names a version that no table has, or if no version is left.
    #[must_use]
    pub(crate) fn marked<'w>(words: impl Iterator<Item = &'w str>) -> Option<Self> {
        let (mut first, mut last) = (Minor::V33, Minor::V37);
        for (mark, text) in words.filter_map(|word| word.split_once('=')) {
            let minor = || Minor::ALL.into_iter().find(|minor| minor.to_string() == text);
            match mark {
                "since" => first = minor()?,
                "until" => last = minor()?,
                _ => {}
            }
        }
        (first <= last).then(|| Self::between(first, last))
    }

    /// Whether the version is one of them.
    #[must_use]
    pub const fn has(self, minor: Minor) -> bool {
        self.0 & (1 << minor as u8) != 0
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Minor::ALL.into_iter().filter(|minor| self.has(*minor));
        f.debug_set().entries(all).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn numbers_are_those_of_the_release() {
        assert_eq!(format!("{MAJOR}.{MINOR}"), RELEASE);
        let compared: Minor = PROGRAMS.parse().unwrap();
        assert_eq!((compared.number(), compared.programs()), (MINOR, PROGRAMS));
        assert_eq!(Minor::default(), Minor::DEFAULT);
        assert_eq!(kubernetes_default!(), Minor::DEFAULT.to_string());
        assert!(Minor::SERVED.contains(&Minor::DEFAULT));
        for minor in Minor::ALL {
            assert!(minor.programs().starts_with(&format!("v{minor}.")), "{minor}");
        }
    }

    #[test]
    fn texts_name_a_served_version_with_or_without_a_patch_release() {
        for text in ["1.34", "v1.34", "1.34.9", "v1.34.0"] {
            assert_eq!(text.parse(), Ok(Minor::V34), "{text}");
        }
        for text in ["", "1", "34", "1.32", "1.34.x", "1.34.1.1", "2.34", "1.-34", "v", "1.34+"] {
            assert!(text.parse::<Minor>().is_err(), "{text}");
        }
        let refused = "1.32".parse::<Minor>().unwrap_err().to_string();
        assert!(refused.starts_with("Kubernetes 1.32 is not served: this program has 1.33 to "), "{refused}");
        for minor in Minor::ALL {
            assert_eq!(minor.to_string().parse::<Minor>().is_ok(), Minor::SERVED.contains(&minor), "{minor}");
        }
    }

    #[test]
    fn sets_have_their_first_and_last_version_and_those_between() {
        for (versions, has) in [
            (Versions::ALL, "1.33 1.34 1.35 1.36 1.37"),
            (Versions::since(Minor::V36), "1.36 1.37"),
            (Versions::until(Minor::V33), "1.33"),
            (Versions::between(Minor::V34, Minor::V35), "1.34 1.35"),
        ] {
            let found: Vec<String> =
                Minor::ALL.iter().filter(|minor| versions.has(**minor)).map(Minor::to_string).collect();
            assert_eq!(found.join(" "), has);
        }
    }

    #[test]
    fn tables_of_fields_and_facts_are_those_of_the_versions() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
        let words = format!(" the public Kubernetes API {} to {} ", Minor::ALL[0], Minor::ALL[4]);
        let mut count = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.lines().next().unwrap().contains(&words), "{}", path.display());
            count += 1;
        }
        assert!(count > 20, "{count} tables");
    }
}
