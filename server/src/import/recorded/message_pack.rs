//! Decodes MessagePack into JSON values. Pure. Lengths in the input are believed only as far as there are bytes, and nesting is bounded.

use serde_json::{Map, Value};
use std::fmt;

/// Deepest nesting: that of objects that an API server accepts, and the members around them.
const DEPTH: usize = 192;

/// Why bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {reason}")]
pub(super) struct MessagePackError {
    /// The position of the byte.
    at: usize,
    reason: String,
}

/// Decodes one value, which is all of the input. Keys of maps that are no texts are numbers or booleans, and become texts; bytes become
/// texts if they are UTF-8.
///
/// # Errors
/// The input ends within a value, goes on after it, is nested too deeply, or has a value that JSON does not have.
pub(super) fn decode(bytes: &[u8]) -> Result<Value, MessagePackError> {
    let mut decoder = Decoder { bytes, at: 0 };
    let value = decoder.value(0)?;
    match decoder.at == bytes.len() {
        true => Ok(value),
        false => Err(decoder.error("there are bytes after the value")),
    }
}

struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    fn error(&self, reason: impl fmt::Display) -> MessagePackError {
        MessagePackError { at: self.at, reason: reason.to_string() }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], MessagePackError> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.error("the input ends within a value"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessagePackError> {
        Ok(self.take(N)?.try_into().expect("as many bytes were taken"))
    }

    /// A length of one, two or four bytes.
    fn length(&mut self, bytes: u8) -> Result<usize, MessagePackError> {
        let length = match bytes {
            0 => u32::from(u8::from_be_bytes(self.array()?)),
            1 => u32::from(u16::from_be_bytes(self.array()?)),
            _ => u32::from_be_bytes(self.array()?),
        };
        usize::try_from(length).map_err(|_| self.error("a length is too large"))
    }

    fn value(&mut self, depth: usize) -> Result<Value, MessagePackError> {
        if depth > DEPTH {
            return Err(self.error(format!("it is nested deeper than {DEPTH} levels")));
        }
        let [marker] = self.array()?;
        Ok(match marker {
            0x00..=0x7f => marker.into(),
            0x80..=0x8f => self.map(usize::from(marker & 0x0f), depth)?,
            0x90..=0x9f => self.list(usize::from(marker & 0x0f), depth)?,
            0xa0..=0xbf => self.text(usize::from(marker & 0x1f))?,
            0xc0 => Value::Null,
            0xc2 | 0xc3 => (marker == 0xc3).into(),
            0xc4..=0xc6 => {
                let length = self.length(marker - 0xc4)?;
                self.text(length)?
            }
            0xca => f64::from(f32::from_be_bytes(self.array()?)).into(),
            0xcb => f64::from_be_bytes(self.array()?).into(),
            0xcc => u8::from_be_bytes(self.array()?).into(),
            0xcd => u16::from_be_bytes(self.array()?).into(),
            0xce => u32::from_be_bytes(self.array()?).into(),
            0xcf => u64::from_be_bytes(self.array()?).into(),
            0xd0 => i8::from_be_bytes(self.array()?).into(),
            0xd1 => i16::from_be_bytes(self.array()?).into(),
            0xd2 => i32::from_be_bytes(self.array()?).into(),
            0xd3 => i64::from_be_bytes(self.array()?).into(),
            0xd9..=0xdb => {
                let length = self.length(marker - 0xd9)?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(marker - 0xdc + 1)?;
                self.list(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(marker - 0xde + 1)?;
                self.map(length, depth)?
            }
            0xe0..=0xff => i8::from_be_bytes([marker]).into(),
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => {
                self.at -= 1;
                return Err(self.error(format!("JSON has no value like that of marker {marker:#04x}")));
            }
        })
    }

    fn text(&mut self, length: usize) -> Result<Value, MessagePackError> {
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.error("a text is not UTF-8"))?;
        Ok(text.into())
    }

    fn list(&mut self, length: usize, depth: usize) -> Result<Value, MessagePackError> {
        // Grows with what is there: the length alone reserves nothing.
        let mut values = Vec::new();
        for _ in 0..length {
            values.push(self.value(depth + 1)?);
        }
        Ok(Value::Array(values))
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, MessagePackError> {
        let mut members = Map::new();
        for _ in 0..length {
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                key @ (Value::Number(_) | Value::Bool(_)) => key.to_string(),
                _ => return Err(self.error("the key of a map is no text")),
            };
            let value = self.value(depth + 1)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use kstore_nondet::Rng;
    use serde_json::json;

    /// Encodes a value, with the longest form of each length if `long` is set.
    pub(in crate::import::recorded) fn encode(value: &Value, long: bool) -> Vec<u8> {
        let head = |short: u8, most: usize, long_marker: u8, length: usize| match length <= most && !long {
            true => vec![short | u8::try_from(length).unwrap()],
            false => [vec![long_marker], u32::try_from(length).unwrap().to_be_bytes().to_vec()].concat(),
        };
        match value {
            Value::Null => vec![0xc0],
            Value::Bool(is) => vec![if *is { 0xc3 } else { 0xc2 }],
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number @ 0..=127), _) if !long => vec![u8::try_from(number).unwrap()],
                (Some(number @ -32..=-1), _) if !long => i8::try_from(number).unwrap().to_be_bytes().to_vec(),
                (Some(number), _) => [vec![0xd3], number.to_be_bytes().to_vec()].concat(),
                (None, Some(number)) => [vec![0xcf], number.to_be_bytes().to_vec()].concat(),
                (None, None) => [vec![0xcb], number.as_f64().unwrap().to_be_bytes().to_vec()].concat(),
            },
            Value::String(text) => [head(0xa0, 31, 0xdb, text.len()), text.clone().into_bytes()].concat(),
            Value::Array(values) => {
                let each = values.iter().flat_map(|value| encode(value, long));
                head(0x90, 15, 0xdd, values.len()).into_iter().chain(each).collect()
            }
            Value::Object(members) => {
                let each = members.iter().flat_map(|(key, value)| {
                    [encode(&key.as_str().into(), long), encode(value, long)].concat()
                });
                head(0x80, 15, 0xdf, members.len()).into_iter().chain(each).collect()
            }
        }
    }

    fn sample() -> Value {
        json!({"null": null, "yes": true, "no": false, "small": 5, "negative": -7, "large": u64::MAX, "least": i64::MIN,
            "half": 0.5, "text": "ü".repeat(40), "list": [1, [2, {"a": "b"}]], "empty": {}, "none": []})
    }

    #[test]
    fn values_of_all_forms_are_decoded() {
        for long in [false, true] {
            assert_eq!(decode(&encode(&sample(), long)), Ok(sample()));
        }
        for (bytes, expected) in [
            (&[0xcc, 200][..], json!(200)),
            (&[0xcd, 1, 0], json!(256)),
            (&[0xce, 0, 1, 0, 0], json!(65_536)),
            (&[0xd0, 0x80], json!(-128)),
            (&[0xd1, 0xff, 0], json!(-256)),
            (&[0xd2, 0xff, 0xff, 0, 0], json!(-65_536)),
            (&[0xca, 0x3f, 0, 0, 0], json!(0.5)),
            (&[0xd9, 1, b'a'], json!("a")),
            (&[0xda, 0, 1, b'a'], json!("a")),
            (&[0xc4, 1, b'a'], json!("a")),
            (&[0xdc, 0, 1, 0xc0], json!([null])),
            (&[0xde, 0, 1, 5, 6], json!({"5": 6})),
        ] {
            assert_eq!(decode(bytes), Ok(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn malformed_input_is_refused_with_the_place_and_reserves_nothing() {
        let refused = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        assert_eq!(refused(&[]), "byte 0: the input ends within a value");
        assert_eq!(refused(&[0xdd, 0xff, 0xff, 0xff, 0xff]), "byte 5: the input ends within a value");
        assert_eq!(refused(&[0xdb, 0xff, 0xff, 0xff, 0xff, b'a']), "byte 5: the input ends within a value");
        assert_eq!(refused(&[1, 2]), "byte 1: there are bytes after the value");
        assert_eq!(refused(&[0xd4, 1, 2]), "byte 0: JSON has no value like that of marker 0xd4");
        assert!(refused(&[0xa1, 0xff]).contains("not UTF-8"));
        assert!(refused(&[0x81, 0xc0, 0xc0]).contains("no text"));
        assert!(refused(&[0x91; 4096]).contains("nested deeper"));
        let (whole, rng) = (encode(&sample(), false), Rng::seeded(7));
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err(), "{length}");
        }
        for _ in 0..2_000 {
            let mut flipped = whole.clone();
            let at = usize::try_from(rng.below(whole.len() as u64)).unwrap();
            flipped[at] ^= 1 << rng.below(8);
            // Whatever it is, it is no panic.
            let _ = decode(&flipped);
        }
    }
}
