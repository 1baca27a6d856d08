//! Lenient deserialization: decodes API JSON into Rust structs by the rules of Go, where `null` and absence
//! mean the zero value. Structs generated from the OpenAPI schema demand members that the schema calls
//! required, but the API accepts objects without them. For example, a condition without `lastTransitionTime`
//! is valid, and its time is printed as `null`.
//!
//! Only absence is tolerated. A member of the wrong type is an error, since the API stores no such object,
//! and acting on half a spec is worse than acting on its last state. The server's own objects are values with
//! a field table (`schema`) and do not use this module.
//!
//! Everything is decoded by one deserializer (`reader`): for each kind of deserializer the compiler generates the decoders of all types
//! again, and they are a good part of the program.

mod error;
mod reader;
#[cfg(test)]
mod tests;
mod text;

use error::{Error, Member};
use reader::{Level, Reader};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// Decodes `json` into a `T`; `null` and absence are zero values.
///
/// # Errors
/// The text is not JSON, or a member has the wrong type.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    decode(json, Level::Inner)
}

/// Decodes an object like [`from_slice`], without `metadata.managedFields`: their text is skipped. Only programs that show field managers
/// need them, and they are a third of many objects.
///
/// # Errors
/// The text is not JSON, or a member has the wrong type.
pub fn without_managed_fields<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    decode(json, Level::Object)
}

/// Decodes `value` into a `T`, with zero values for `null` and absence.
///
/// # Errors
/// A member has the wrong type.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    from_slice(&serde_json::to_vec(value)?)
}

fn decode<T: DeserializeOwned>(json: &[u8], level: Level) -> Result<T, serde_json::Error> {
    let mut rounds = Rounds::new(json, level)?;
    loop {
        let mut reader = rounds.reader();
        let read = T::deserialize(&mut reader).and_then(|read| reader.end().map(|()| read));
        match read {
            Ok(read) => return Ok(read),
            Err(error) => {
                let position = reader.position();
                rounds.next(error, position)?;
            }
        }
    }
}

/// The rounds of decoding one text. That a required member is absent is known only when its decoder fails, so each round but the last adds
/// one to the members that have the zero value where absent.
struct Rounds<'de> {
    json: &'de str,
    level: Level,
    zeros: BTreeSet<Member>,
}

impl<'de> Rounds<'de> {
    fn new(json: &'de [u8], level: Level) -> Result<Self, serde_json::Error> {
        let text =
            std::str::from_utf8(json).map_err(|error| Error::new(error.to_string()).in_json(json, 0))?;
        Ok(Self { json: text, level, zeros: BTreeSet::new() })
    }

    fn reader(&self) -> Reader<'de, '_> {
        Reader::new(self.json, &self.zeros, self.level)
    }

    /// Prepares the next round after one that ended with `error` at `position`.
    ///
    /// # Errors
    /// Another round would end likewise.
    fn next(&mut self, error: Error, position: usize) -> Result<(), serde_json::Error> {
        match error.missing().is_some_and(|member| self.zeros.insert(member)) {
            true => Ok(()),
            false => Err(error.in_json(self.json.as_bytes(), position)),
        }
    }
}
