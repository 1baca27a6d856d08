//! Finds members that a JSON text states twice. Parsed values keep only the last, so this reads the text.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::decode::FieldProblem;
use super::limits::MAX_FIELD_PROBLEMS;
use super::path::{Path, Step};

/// Problems reported for one body at most.
pub const MAX_PROBLEMS: usize = MAX_FIELD_PROBLEMS;

/// Members which occur more than once in their object, in order of occurrence. Text that is not JSON has none: the
/// parser that follows refuses it.
#[must_use]
pub fn duplicate_fields(json: &[u8]) -> Vec<FieldProblem> {
    let mut walk = Walk { path: Path::default(), found: Vec::new() };
    let mut reader = serde_json::Deserializer::from_slice(json);
    // An error ends the walk; what was found before it stands.
    let _ = Seed(&mut walk).deserialize(&mut reader);
    walk.found
}

struct Walk {
    path: Path,
    found: Vec<FieldProblem>,
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
            if seen.contains(&name) && self.0.found.len() < MAX_FIELD_PROBLEMS {
                self.0.found.push(FieldProblem::Duplicate(self.0.path.strict(&name)));
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
