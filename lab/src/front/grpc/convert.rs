//! Messages of `kstore.lab.v1` as the JSON of the HTTP calls, and back, by their descriptors: durations as Go writes them, times in
//! RFC 3339, `bytes` as the JSON that they hold. Pure.

use crate::error::bad_request;
use bytes::Bytes;
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_proto::kstore::lab::v1::FILE_DESCRIPTOR_SET;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage as _};
use prost_reflect::{FieldDescriptor, Value as Field};
use serde_json::{Map, Number, Value};
use std::sync::OnceLock;

/// Most levels of messages within one another: more than any of the protocol has.
const DEPTH: usize = 8;
const DURATION: &str = "google.protobuf.Duration";
const TIMESTAMP: &str = "google.protobuf.Timestamp";
const SECOND: i64 = 1_000_000_000;

/// The descriptors of the protocol, which the first call reads.
pub(crate) fn descriptors() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    let read = || DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("compiled with this program");
    POOL.get_or_init(read)
}

/// The JSON of a message. It has no members that are not set.
///
/// # Errors
/// 400: a field is unknown, or its value has no JSON form.
pub(crate) fn to_json(message: &DynamicMessage) -> Result<Value, Status> {
    json_of_message(message, "", 0)
}

fn json_of_message(message: &DynamicMessage, pointer: &str, depth: usize) -> Result<Value, Status> {
    match message.descriptor().full_name() {
        DURATION => return json_of_duration(message, pointer),
        TIMESTAMP => return json_of_time(message, pointer),
        _ if depth > DEPTH => return Err(bad_request(pointer, "is nested too deeply")),
        _ => {}
    }
    if let Some(unknown) = message.unknown_fields().next() {
        let (number, pointer) = (unknown.number(), if pointer.is_empty() { "/" } else { pointer });
        return Err(bad_request(pointer, format!("field {number} is not known to this server")));
    }
    let mut members = Map::new();
    for (field, value) in message.fields() {
        let pointer = format!("{pointer}/{}", field.json_name());
        members.insert(field.json_name().to_owned(), json_of_field(value, &pointer, depth)?);
    }
    Ok(Value::Object(members))
}

fn json_of_field(value: &Field, pointer: &str, depth: usize) -> Result<Value, Status> {
    let float = |number: f64| {
        let number = Number::from_f64(number);
        number.map(Value::Number).ok_or_else(|| bad_request(pointer, "must be a number"))
    };
    Ok(match value {
        Field::Bool(value) => Value::Bool(*value),
        Field::I32(number) | Field::EnumNumber(number) => (*number).into(),
        Field::I64(number) => (*number).into(),
        Field::U32(number) => (*number).into(),
        Field::U64(number) => (*number).into(),
        Field::F32(number) => float(f64::from(*number))?,
        Field::F64(number) => float(*number)?,
        Field::String(text) => Value::String(text.clone()),
        Field::Bytes(json) => serde_json::from_slice(json).map_err(|error| bad_request(pointer, error))?,
        Field::Message(message) => json_of_message(message, pointer, depth + 1)?,
        Field::List(items) => {
            let items = items.iter().enumerate();
            let items = items.map(|(at, item)| json_of_field(item, &format!("{pointer}/{at}"), depth));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Field::Map(entries) => {
            let mut members = Map::new();
            for (key, value) in entries {
                let MapKey::String(key) = key else { return Err(bad_request(pointer, "has no such keys")) };
                members.insert(key.clone(), json_of_field(value, &format!("{pointer}/{key}"), depth)?);
            }
            Value::Object(members)
        }
    })
}

/// Seconds and nanoseconds of a duration or a time.
fn parts(message: &DynamicMessage) -> (i64, i32) {
    let seconds = message.get_field_by_name("seconds").and_then(|value| value.as_i64());
    let nanos = message.get_field_by_name("nanos").and_then(|value| value.as_i32());
    (seconds.unwrap_or(0), nanos.unwrap_or(0))
}

fn json_of_duration(message: &DynamicMessage, pointer: &str) -> Result<Value, Status> {
    let (seconds, nanos) = parts(message);
    let total = seconds.checked_mul(SECOND).and_then(|total| total.checked_add(nanos.into()));
    let total = total.ok_or_else(|| bad_request(pointer, "is too long"))?;
    Ok(Value::String(kstore_go_duration::format(total)))
}

fn json_of_time(message: &DynamicMessage, pointer: &str) -> Result<Value, Status> {
    let (seconds, nanos) = parts(message);
    let time = Timestamp::new(seconds, nanos).map_err(|error| bad_request(pointer, error))?;
    Ok(Value::String(time.to_string()))
}

/// The message of this type with this JSON. Members that the type does not have are left out.
///
/// # Errors
/// 500: a member has another type.
pub(crate) fn of_json(kind: &MessageDescriptor, json: &Value) -> Result<DynamicMessage, Status> {
    message_of_json(kind, json, 0)
}

fn mismatch(kind: &str, json: &Value) -> Status {
    Status::internal(format!("{json} is no {kind} of kstore.lab.v1"))
}

fn message_of_json(kind: &MessageDescriptor, json: &Value, depth: usize) -> Result<DynamicMessage, Status> {
    let name = kind.full_name();
    match name {
        DURATION => return duration_of_json(kind, json),
        TIMESTAMP => return time_of_json(kind, json),
        _ => {}
    }
    let members = json.as_object().filter(|_| depth <= DEPTH).ok_or_else(|| mismatch(name, json))?;
    let mut message = DynamicMessage::new(kind.clone());
    for (name, value) in members {
        let Some(field) = kind.get_field_by_json_name(name) else { continue };
        if !value.is_null() || matches!(field.kind(), Kind::Bytes) {
            message.set_field(&field, field_of_json(&field, value, depth)?);
        }
    }
    Ok(message)
}

fn field_of_json(field: &FieldDescriptor, json: &Value, depth: usize) -> Result<Field, Status> {
    let kind = field.kind();
    if field.is_list() {
        let items = json.as_array().ok_or_else(|| mismatch("list", json))?;
        let items = items.iter().map(|item| value_of_json(&kind, item, depth));
        return Ok(Field::List(items.collect::<Result<_, _>>()?));
    }
    match &kind {
        Kind::Message(entry) if field.is_map() => {
            let kind = entry.map_entry_value_field().kind();
            let members = json.as_object().ok_or_else(|| mismatch("map", json))?;
            let members = members
                .iter()
                .map(|(key, value)| Ok((MapKey::String(key.clone()), value_of_json(&kind, value, depth)?)));
            Ok(Field::Map(members.collect::<Result<_, Status>>()?))
        }
        kind => value_of_json(kind, json, depth),
    }
}

fn value_of_json(kind: &Kind, json: &Value, depth: usize) -> Result<Field, Status> {
    let value = match kind {
        Kind::Bool => json.as_bool().map(Field::Bool),
        Kind::Int32 => json.as_i64().and_then(|number| i32::try_from(number).ok()).map(Field::I32),
        Kind::Int64 => json.as_i64().map(Field::I64),
        Kind::Uint32 => json.as_u64().and_then(|number| u32::try_from(number).ok()).map(Field::U32),
        Kind::Uint64 => json.as_u64().map(Field::U64),
        Kind::Double => json.as_f64().map(Field::F64),
        Kind::String => json.as_str().map(|text| Field::String(text.to_owned())),
        Kind::Bytes => Some(Field::Bytes(Bytes::from(json.to_string()))),
        Kind::Message(kind) => Some(Field::Message(message_of_json(kind, json, depth + 1)?)),
        // The protocol has no others.
        _ => None,
    };
    value.ok_or_else(|| mismatch("value", json))
}

/// A message of seconds and nanoseconds.
fn of_parts(kind: &MessageDescriptor, seconds: i64, nanos: i32) -> DynamicMessage {
    let mut message = DynamicMessage::new(kind.clone());
    message.set_field_by_name("seconds", Field::I64(seconds));
    message.set_field_by_name("nanos", Field::I32(nanos));
    message
}

fn duration_of_json(kind: &MessageDescriptor, json: &Value) -> Result<DynamicMessage, Status> {
    let total = json.as_str().and_then(|text| kstore_go_duration::parse(text).ok());
    let total = total.ok_or_else(|| mismatch("duration", json))?;
    Ok(of_parts(kind, total / SECOND, i32::try_from(total % SECOND).unwrap_or_default()))
}

fn time_of_json(kind: &MessageDescriptor, json: &Value) -> Result<DynamicMessage, Status> {
    let time = json.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let time = time.ok_or_else(|| mismatch("time", json))?;
    // The nanoseconds of a protobuf timestamp are never negative.
    let (seconds, nanos) = match (time.as_second(), time.subsec_nanosecond()) {
        (seconds, nanos @ ..0) => (seconds - 1, nanos + 1_000_000_000),
        parts => parts,
    };
    Ok(of_parts(kind, seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;
    use serde_json::json;

    fn kind(name: &str) -> MessageDescriptor {
        descriptors().get_message_by_name(&format!("kstore.lab.v1.{name}")).unwrap()
    }

    /// JSON by way of a message's bytes.
    fn there_and_back(name: &str, json: &Value) -> Result<Value, Status> {
        let bytes = of_json(&kind(name), json)?.encode_to_vec();
        to_json(&DynamicMessage::decode(kind(name), bytes.as_slice()).unwrap())
    }

    #[test]
    fn messages_have_the_json_of_the_http_calls() {
        let rows = [
            (
                "Clock",
                json!({"mode": "auto", "upTo": "10m0s", "time": "2026-03-01T00:00:00.001Z", "skew": "-1.5s"}),
            ),
            (
                "Clock",
                json!({"mode": "scaled", "factor": 0.5, "next": {"time": "1969-12-31T23:59:59.5Z", "owner": "a"}}),
            ),
            (
                "AdvanceRequest",
                json!({"by": "24h0m0s", "condition": {"object": "pods/a/b", "matches": {"a": [null, 1]}}}),
            ),
            ("Object", json!({"json": {"metadata": {"name": "a"}}})),
            ("Object", json!({"json": null})),
            ("View", json!({"kinds": {"pods": {"delivered": 7, "watches": 1}, "jobs.batch": {"gets": 2}}})),
            (
                "StartProgramRequest",
                json!({"name": "a", "command": ["./a", ""], "env": {"A": "b"}, "counted": false}),
            ),
            ("StartClustersRequest", json!({"from": {"image": "a"}, "seed": u64::MAX, "nodes": 0})),
            ("Program", json!({"code": -1, "outputCut": true})),
        ];
        for (name, json) in rows {
            assert_eq!(there_and_back(name, &json), Ok(json), "{name}");
        }
        let more = json!({"mode": "real", "new": {"member": 1}});
        assert_eq!(there_and_back("Clock", &more), Ok(json!({"mode": "real"})), "what is new is left out");
    }

    #[test]
    fn wrong_messages_are_refused_by_name() {
        let refused = |name: &str, bytes: &[u8]| {
            to_json(&DynamicMessage::decode(kind(name), bytes).unwrap()).unwrap_err().message
        };
        // Field 99 of LeapRequest; and a duration of i64::MAX seconds.
        assert_eq!(refused("LeapRequest", &[0x98, 6, 1]), "/: field 99 is not known to this server");
        let long = [&[0x12, 10, 8][..], &[0xff; 8], &[0x7f]].concat();
        assert_eq!(refused("LeapRequest", &long), "/by: is too long");
        let json = [0x1a, 1, b'{'];
        assert!(refused("WaitForObjectRequest", &json).starts_with("/matches: "));
        for (name, json) in
            [("Clock", json!({"mode": 1})), ("Clock", json!({"skew": "1"})), ("Clock", json!([]))]
        {
            assert_eq!(there_and_back(name, &json).unwrap_err().code, 500, "{json}");
        }
    }
}
