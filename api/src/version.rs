//! The Kubernetes release whose API this crate has. All crates take the release from here; the README of this
//! crate lists what else changes with it.

/// The release, major and minor, as a literal for `concat!`.
#[macro_export]
macro_rules! kubernetes_release {
    () => {
        "1.36"
    };
}

/// The release, major and minor.
pub const RELEASE: &str = kubernetes_release!();

/// Major version of the release.
pub const MAJOR: u64 = 1;

/// Minor version of the release.
pub const MINOR: u64 = 36;

/// Oldest minor version whose clients and components the release supports.
pub const MINOR_COMPATIBLE: u64 = MINOR - 1;

/// Semantic version of Kubernetes: that of the programs whose flags and recorded answers kstore follows. The server, simulated
/// nodes, documents and the drop-in programs all report it, so that clients see one version.
pub const PROGRAMS: &str = concat!("v", kubernetes_release!(), ".2");

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn numbers_are_those_of_the_release() {
        assert_eq!(format!("{MAJOR}.{MINOR}"), RELEASE);
    }

    #[test]
    fn tables_of_fields_and_facts_are_those_of_the_release() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
        let words = format!(" the public Kubernetes API {RELEASE} ");
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
