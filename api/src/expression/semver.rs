//! The CEL library `kubernetes.Semver`: versions as <https://semver.org> 2.0.0 defines them.

use super::row::{self, Named, Row};
use kstore_cel::{EvalError, Overload, Type, Val};
use std::cmp::Ordering;

/// Semantic version. Equality and order ignore the build metadata after `+`.
#[derive(Clone, Debug)]
struct Version {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

/// One identifier of a pre-release. Numbers precede texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Named for Version {
    const TYPE: &'static str = "kubernetes.Semver";
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

impl Version {
    fn parse(text: &str) -> Result<Self, EvalError> {
        if text.is_empty() {
            return Err(EvalError::other("Version string empty"));
        }
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let mut parts = rest.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(EvalError::other("No Major.Minor.Patch elements found"));
        };
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [
            number(major, "major", "Major")?,
            number(minor, "minor", "Minor")?,
            number(patch, "patch", "Patch")?,
        ];
        let pre_release = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(identifier).collect())?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err(EvalError::other("Build meta data is empty"));
            }
            if !part.bytes().all(is_letter) {
                return Err(EvalError::other(format!(
                    "Invalid character(s) found in build meta data {part:?}"
                )));
            }
        }
        Ok(Self { numbers, pre_release })
    }

    /// Parses a version that may begin with `v`, lack minor and patch numbers, and have leading zeros.
    fn parse_normalized(text: &str) -> Result<Self, EvalError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        let is_short = parts.len() < 3;
        if is_short && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(EvalError::other("short version cannot contain PreRelease/Build meta data"));
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        // A version follows its pre-releases.
        let has_none = self.pre_release.is_empty().cmp(&other.pre_release.is_empty());
        numbers.then(has_none).then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, EvalError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(EvalError::other(format!("Invalid character(s) found in {name} number {text:?}")));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(EvalError::other(format!("{title} number must not contain leading zeroes {text:?}")));
    }
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        EvalError::other(format!("strconv.ParseUint: parsing {text:?}: {why}"))
    })
}

fn identifier(text: &str) -> Result<Identifier, EvalError> {
    if text.is_empty() {
        return Err(EvalError::other("Prerelease is empty"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let why = format!("Numeric PreRelease version must not contain leading zeroes {text:?}");
            return Err(EvalError::other(why));
        }
        let number = text.parse().map(Identifier::Number);
        return number.map_err(|_| {
            EvalError::other(format!("strconv.ParseUint: parsing {text:?}: value out of range"))
        });
    }
    if text.bytes().all(is_letter) {
        return Ok(Identifier::Text(text.to_owned()));
    }
    Err(EvalError::other(format!("Invalid character(s) found in prerelease {text:?}")))
}

/// The CEL value of a version; none for an invalid one.
pub(super) fn value(text: &str) -> Option<Val<'static>> {
    Version::parse(text).ok().map(row::value)
}

/// Functions of the library.
pub(super) fn overloads() -> Vec<Row> {
    let ty = || Type::opaque(Version::TYPE);
    let read = |overload: Overload| overload.cost(row::traversal());
    let parse = |args: &[Val<'_>]| match args.get(1) {
        Some(Val::Bool(true)) => Version::parse_normalized(row::text(args, 0)?),
        Some(Val::Bool(false)) | None => Version::parse(row::text(args, 0)?),
        Some(_) => Err(EvalError::NoSuchOverload),
    };
    let make = |id: &str, args: Vec<Type>| {
        read(Overload::function(id, args, ty(), move |args| parse(args).map(row::value)))
    };
    let is = |id: &str, args: Vec<Type>| {
        read(Overload::function(id, args, Type::Bool, move |args| match parse(args) {
            Err(EvalError::NoSuchOverload) => Err(EvalError::NoSuchOverload),
            parsed => Ok(Val::Bool(parsed.is_ok())),
        }))
    };
    let compare = |id: &str, result: Type, read: fn(Ordering) -> Val<'static>| {
        Overload::method(id, [ty(), ty()], result, move |args| {
            let (a, b) = (row::opaque::<Version>(args, 0)?, row::opaque::<Version>(args, 1)?);
            Ok(read(a.compare(b)))
        })
    };
    let part = |id: &str, at: usize| {
        Overload::method(id, [ty()], Type::Int, move |args| {
            let number = row::opaque::<Version>(args, 0)?.numbers[at];
            Ok(Val::Int(i64::try_from(number).unwrap_or(i64::MAX)))
        })
    };
    let (one, two) = (|| vec![Type::String], || vec![Type::String, Type::Bool]);
    vec![
        ("semver", make("string_to_semver", one())),
        ("semver", make("string_bool_to_semver", two())),
        ("isSemver", is("is_semver_string", one())),
        ("isSemver", is("is_semver_string_bool", two())),
        ("isGreaterThan", compare("semver_is_greater_than", Type::Bool, |order| Val::Bool(order.is_gt()))),
        ("isLessThan", compare("semver_is_less_than", Type::Bool, |order| Val::Bool(order.is_lt()))),
        ("compareTo", compare("semver_compare_to", Type::Int, |order| Val::Int(order as i64))),
        ("major", part("semver_major", 0)),
        ("minor", part("semver_minor", 1)),
        ("patch", part("semver_patch", 2)),
    ]
}

#[cfg(test)]
mod tests {
    use crate::expression::tests::check;

    #[test]
    fn semantic_versions_are_parsed_and_compared() {
        check(&[
            ("isSemver('1.2.3-alpha.1+build')", "true"),
            ("isSemver('1.2')", "false"),
            ("isSemver('v01.02', true)", "true"),
            ("isSemver('1.2-x', true)", "false"),
            ("semver('1.2')", "No Major.Minor.Patch elements found"),
            ("semver('1.02.3')", "Minor number must not contain leading zeroes \"02\""),
            ("semver('v1.2', true) == semver('1.2.0')", "true"),
            ("semver('1.2.3+a') == semver('1.2.3+b')", "true"),
            ("semver('1.2.3').isGreaterThan(semver('1.2.3-rc.1'))", "true"),
            ("semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))", "true"),
            ("semver('1.0.0-1').compareTo(semver('1.0.0-a'))", "-1"),
            ("[semver('1.2.3').major(), semver('1.2.3').minor(), semver('1.2.3').patch()]", "[1,2,3]"),
        ]);
    }
}
