//! Finds members that a JSON text states twice, and the order in which its problems occur. Parsed values keep only the last of a
//! member and no order, so this reads the text.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::decode::FieldProblem;
use super::limits::{MAX_FIELD_PROBLEMS, MAX_SPELLED_BYTES};
use super::path::{Path, Step};

/// Problems reported for one body at most.
pub const MAX_PROBLEMS: usize = MAX_FIELD_PROBLEMS;

/// Members which occur more than once in their object, in order of occurrence. Text that is not JSON has none: the
/// parser that follows refuses it.
#[must_use]
pub fn duplicate_fields(json: &[u8]) -> Vec<FieldProblem> {
    in_document_order(json, Vec::new())
}

/// These unknown fields of a JSON text, and its duplicate ones, each once and in order of occurrence. What is within an unknown field
/// is no problem of its own, and an unknown field that is stated twice is unknown.
#[must_use]
pub fn in_document_order(json: &[u8], unknown: Vec<FieldProblem>) -> Vec<FieldProblem> {
    let unknown: BTreeSet<FieldProblem> = unknown.into_iter().collect();
    let mut walk = Walk { path: Path::default(), unknown, found: Vec::new(), spelled: 0 };
    let mut reader = serde_json::Deserializer::from_slice(json);
    // An error ends the walk; what was found before it stands.
    let _ = Seed(&mut walk).deserialize(&mut reader);
    // What was not met for want of time or because of the error is a problem all the same.
    for problem in std::mem::take(&mut walk.unknown) {
        walk.report(problem);
    }
    walk.found
}

struct Walk {
    path: Path,
    unknown: BTreeSet<FieldProblem>,
    found: Vec<FieldProblem>,
    /// Bytes of paths that were spelled out.
    spelled: usize,
}

impl Walk {
    /// Whether the path and one more member name an unknown field, which is then reported.
    fn is_unknown(&mut self, name: &str) -> bool {
        if self.unknown.is_empty() || self.spelled > MAX_SPELLED_BYTES {
            return false;
        }
        let path = self.path.strict(name);
        self.spelled += path.len();
        let problem = FieldProblem::Unknown(path);
        let is_unknown = self.unknown.contains(&problem);
        if is_unknown {
            self.report(problem);
        }
        is_unknown
    }

    fn report(&mut self, problem: FieldProblem) {
        if self.found.len() < MAX_FIELD_PROBLEMS && !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }
}

struct Seed<'a>(&'a mut Walk);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.0.is_unknown(&name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if seen.contains(&name) && self.0.found.len() < MAX_FIELD_PROBLEMS {
                let problem = FieldProblem::Duplicate(self.0.path.strict(&name));
                self.0.report(problem);
            }
            self.0.path.push(Step::Key(name.clone()));
            map.next_value_seed(Seed(self.0))?;
            self.0.path.pop();
            seen.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for at in 0.. {
            self.0.path.push(Step::Index(at));
            let more = seq.next_element_seed(Seed(self.0))?;
            self.0.path.pop();
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
