//! The Kubernetes release with which kstore was compared and the version that it serves by default, read out of the file that states
//! them for all code.

use crate::offence::Offence;
use crate::tree::Tree;

/// The file that states the release.
pub(crate) const PATH: &str = "api/src/version.rs";

/// The constants `RELEASE`, `MINOR` and `PROGRAMS` of [`PATH`], and the version of its macro `kubernetes_default`.
#[derive(Debug, PartialEq)]
pub(crate) struct Release {
    /// Major and minor version: `1.2`.
    pub(crate) release: String,
    /// Minor version.
    pub(crate) minor: String,
    /// Semantic version of the programs, with its patch release and without `v`.
    pub(crate) programs: String,
    /// Major and minor version of the API that is served by default.
    pub(crate) default: String,
}

/// The release of this tree, or the offence that its file does not state it in the known form.
pub(crate) fn of(tree: &Tree) -> Result<Release, Offence> {
    let file = tree.expect(PATH)?;
    parse(&file.text).map_err(|missing| Offence::new(PATH, 1, format!("cannot find {missing}")))
}

fn parse(text: &str) -> Result<Release, &'static str> {
    let after = |start: &str| text.split_once(start).map(|(_, rest)| rest);
    let literal = |start: &str| after(start).and_then(|rest| rest.split('"').nth(1));
    let release = literal("macro_rules! kubernetes_release {").ok_or("the macro `kubernetes_release`")?;
    let default = literal("macro_rules! kubernetes_default {").ok_or("the macro `kubernetes_default`")?;
    let minor = after("pub const MINOR: u64 = ").and_then(|rest| rest.split(';').next());
    let minor = minor.ok_or("the constant `MINOR`")?;
    let patch = after("pub const PROGRAMS: &str = concat!(\"v\", kubernetes_release!(), \"");
    let patch = patch.and_then(|rest| rest.split('"').next()).ok_or("the constant `PROGRAMS`")?;
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if !is_number(minor) || !release.ends_with(&format!(".{minor}")) {
        return Err("a release that ends with `MINOR`");
    }
    Ok(Release {
        release: release.to_owned(),
        minor: minor.to_owned(),
        programs: format!("{release}{patch}"),
        default: default.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
macro_rules! kubernetes_release {
    () => {
        "1.7"
    };
}
macro_rules! kubernetes_default {
    () => {
        "1.8"
    };
}
pub const MINOR: u64 = 7;
pub const MINOR_COMPATIBLE: u64 = MINOR - 1;
pub const PROGRAMS: &str = concat!("v", kubernetes_release!(), ".2");
"#;

    #[test]
    fn the_release_is_read_from_the_constants() {
        let [release, minor, programs, default] = ["1.7", "7", "1.7.2", "1.8"].map(str::to_owned);
        assert_eq!(parse(TEXT), Ok(Release { release, minor, programs, default }));
    }

    #[test]
    fn a_file_in_another_form_is_refused() {
        let without = |text: &str| parse(&TEXT.replace(text, ""));
        assert_eq!(without("macro_rules! kubernetes_release {"), Err("the macro `kubernetes_release`"));
        assert_eq!(without("macro_rules! kubernetes_default {"), Err("the macro `kubernetes_default`"));
        assert_eq!(without("const MINOR:"), Err("the constant `MINOR`"));
        assert_eq!(without("concat!"), Err("the constant `PROGRAMS`"));
        assert_eq!(parse(&TEXT.replace("= 7;", "= 8;")), Err("a release that ends with `MINOR`"));
    }

    #[test]
    fn a_missing_file_is_an_offence() {
        assert_eq!(of(&Tree::of([])), Err(Offence::new(PATH, 1, "the file is missing")));
        assert!(of(&Tree::of([(PATH, TEXT)])).is_ok());
    }
}
