//! What a body becomes in memory, estimated from its bytes before it is decoded. Pure.

use crate::request::{Action, Format};
use kstore_api::patch::PatchType;
use kstore_api::status::Status;
use kstore_storage::limits;

/// Bytes that a map takes in a body at least: an empty item in protobuf.
const MAP_BYTES: usize = 2;

/// Longest field in protobuf that counts as a map. No text has a byte that small, and a map of more bytes weighs as much as one in JSON.
const SHORT_FIELD: u8 = 8;

/// The body of an action and its format.
pub fn body(action: &Action) -> Option<(Format, &[u8])> {
    match action {
        Action::Create(body, _) | Action::Update(body, _) => Some((body.format, &body.bytes)),
        Action::Patch(PatchType::Apply, patch, _) => Some((Format::Yaml, patch)),
        Action::Patch(_, patch, _) => Some((Format::Json, patch)),
        Action::Get(_)
        | Action::List(_)
        | Action::Watch(_)
        | Action::Delete(..)
        | Action::DeleteCollection(..) => None,
    }
}

/// About the number of maps in a body. Decoded, one with a member takes some 700 bytes, however short it is, and an empty one as many as
/// the defaults that it gets: two KiB for a container. Strings with braces make the number larger.
pub fn maps(format: Format, bytes: &[u8]) -> usize {
    let count = |byte: u8| bytes.iter().filter(|each| **each == byte).count();
    match format {
        Format::Json => count(b'{'),
        // A line begins one map at most, in the block form.
        Format::Yaml => count(b'{') + count(b'\n'),
        Format::Protobuf => {
            bytes.windows(2).filter(|pair| pair[0] & 7 == 2 && pair[1] <= SHORT_FIELD).count()
        }
    }
}

/// Checks that bodies which are decoded together have no more than [`limits::BODY_MAPS`] maps. Those that are too short for so many are
/// not scanned.
///
/// # Errors
/// 413.
pub fn check<'b>(bodies: impl Iterator<Item = (Format, &'b [u8])> + Clone) -> Result<(), Status> {
    let bytes: usize = bodies.clone().map(|(_, bytes)| bytes.len()).sum();
    if bytes <= MAP_BYTES * limits::BODY_MAPS {
        return Ok(());
    }
    if bodies.map(|(format, bytes)| maps(format, bytes)).sum::<usize>() > limits::BODY_MAPS {
        return Err(Status::too_large(&format!("limit is {} maps", limits::BODY_MAPS)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_counted_in_each_format() {
        let json = br#"{"a":[{"b":1},{},{"c":{}}]}"#;
        assert_eq!(maps(Format::Json, json), 5);
        assert_eq!(maps(Format::Yaml, b"x:\n- a: 1\n- {b: 2}\n"), 4);
        assert_eq!(maps(Format::Protobuf, &[0x0a, 0, 0x12, 2, 0x0a, 0]), 3);
        assert_eq!(maps(Format::Protobuf, b"\x0a\x10a text of letters"), 0);
    }

    #[test]
    fn bodies_that_become_too_many_maps_are_refused_and_no_storable_object_is() {
        let json = |maps: usize| r#"{"a":1},"#.repeat(maps);
        let refused = |format, text: &[u8]| check([(format, text)].into_iter()).map_err(|status| status.code);
        assert_eq!(refused(Format::Json, json(limits::BODY_MAPS).as_bytes()), Ok(()));
        assert_eq!(refused(Format::Json, json(limits::BODY_MAPS + 1).as_bytes()), Err(413));
        assert_eq!(refused(Format::Json, &vec![b' '; limits::BODY_BYTES]), Ok(()));
        assert_eq!(refused(Format::Yaml, "- a: 1\n".repeat(limits::BODY_MAPS + 1).as_bytes()), Err(413));
        assert_eq!(refused(Format::Protobuf, &[0x0a, 0].repeat(limits::BODY_MAPS + 1)), Err(413));
        // Together, as in a transaction.
        let half = json(limits::BODY_MAPS / 2 + 1);
        let twice = [(Format::Json, half.as_bytes()); 2];
        assert_eq!(
            check(twice.into_iter()).unwrap_err().message,
            "Request entity too large: limit is 196608 maps"
        );
        assert!(json(limits::BODY_MAPS).len() >= 3 << 19, "what the store takes has fewer");
    }
}
