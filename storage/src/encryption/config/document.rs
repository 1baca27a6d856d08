//! `EncryptionConfiguration` as users write it: decoding, and the search for unknown fields. Values are not
//! validated here.

use kstore_api::yaml;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Bytes of the largest configuration, after its YAML aliases are expanded.
const MAX_BYTES: usize = 3 << 20;

/// Group version and kind of a configuration. The second pair is a form that Kubernetes accepts since early
/// versions of its documentation had it.
const TYPES: [(&str, &str); 2] =
    [("apiserver.config.k8s.io/v1", "EncryptionConfiguration"), ("v1", "EncryptionConfig")];

#[derive(Deserialize)]
struct WrittenConfiguration {
    #[serde(default, deserialize_with = "null_as_default")]
    resources: Vec<WrittenRule>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WrittenRule {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resources: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) providers: Vec<WrittenProvider>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WrittenProvider {
    pub(super) aesgcm: Option<WrittenKeys>,
    pub(super) aescbc: Option<WrittenKeys>,
    pub(super) secretbox: Option<WrittenKeys>,
    pub(super) identity: Option<Map<String, Value>>,
    pub(super) kms: Option<WrittenKms>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WrittenKeys {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) keys: Vec<WrittenKey>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WrittenKey {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) secret: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WrittenKms {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) api_version: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) name: String,
    pub(super) cachesize: Option<i32>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) endpoint: String,
    pub(super) timeout: Option<String>,
}

/// The fields of an object: the fields of a member that is an object or a list of objects, or none.
type Fields = &'static [(&'static str, Option<&'static Known>)];

struct Known(Fields);

const KEYS: Known = Known(&[("keys", Some(&Known(&[("name", None), ("secret", None)])))]);
const KMS: Known = Known(&[
    ("apiVersion", None),
    ("name", None),
    ("cachesize", None),
    ("endpoint", None),
    ("timeout", None),
]);
const PROVIDER: Known = Known(&[
    ("aesgcm", Some(&KEYS)),
    ("aescbc", Some(&KEYS)),
    ("secretbox", Some(&KEYS)),
    ("identity", Some(&Known(&[]))),
    ("kms", Some(&KMS)),
]);
const ROOT: Known = Known(&[
    ("apiVersion", None),
    ("kind", None),
    ("resources", Some(&Known(&[("resources", None), ("providers", Some(&PROVIDER))]))),
]);

/// Decodes the rules of a configuration.
///
/// # Errors
/// The reason, without the name of the file. It has no value of a field, since values are keys.
pub(super) fn read(text: &[u8]) -> Result<Vec<WrittenRule>, String> {
    let yaml::Document { value, repeated } = yaml::parse(text, MAX_BYTES)?;
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() {
        return Err("Object 'Kind' is missing".to_owned());
    }
    if api_version.is_empty() {
        return Err("Object 'apiVersion' is missing".to_owned());
    }
    if !TYPES.contains(&(api_version, kind)) {
        return Err(format!("no kind {kind:?} is registered for version {api_version:?}"));
    }
    let mut problems: Vec<String> =
        repeated.iter().map(|key| format!("yaml: unmarshal errors:\n  {key}")).collect();
    unknown_fields(&value, &ROOT, "", &mut problems);
    let written: WrittenConfiguration =
        serde_json::from_value(value).map_err(|error| error_without_value(&error))?;
    if problems.is_empty() {
        Ok(written.resources)
    } else {
        Err(format!("strict decoding error: {}", problems.join(", ")))
    }
}

/// Describes a value of a wrong type without the value, which may be a key.
fn error_without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match (text.find("invalid type: "), text.find(", expected ")) {
        (Some(_), Some(at)) => format!("invalid type{}", &text[at..]),
        _ => "a field has a wrong type".to_owned(),
    }
}

fn unknown_fields(value: &Value, known: &Known, path: &str, problems: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                unknown_fields(item, known, &format!("{path}[{index}]"), problems);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match known.0.iter().find(|(field, _)| field == name) {
                    None => problems.push(format!("unknown field {path:?}")),
                    Some((_, None)) => {}
                    Some((_, Some(known))) => unknown_fields(value, known, &path, problems),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reads null as the default value, as Go does.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
