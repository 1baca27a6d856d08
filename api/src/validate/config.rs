//! Validation of config maps and secrets.
//!
//! Follows `ValidateConfigMap` and `ValidateSecret`.

use crate::check::{IMMUTABLE, grammar};
use crate::field::{ErrorList, Path};
use crate::limits::DATA_MAX;
use crate::object::{semantically_equal, text};
use crate::schema::scalar::json_kind;
use crate::{go_json, meta, name};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

const FROZEN: &str = "field is immutable when `immutable` is set";
const REDACTED: &str = "<secret contents redacted>";

fn keys(errors: &mut ErrorList, path: &Path<'_>, data: &Value) {
    for key in data.as_object().into_iter().flat_map(|data| data.keys()) {
        grammar(errors, &path.key(key), key, name::config_key(key));
    }
}

/// Length of base64 text after decoding, computed without decoding it.
fn decoded_length(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count().min(2)
}

fn values(data: &Value) -> impl Iterator<Item = &str> {
    data.as_object().into_iter().flatten().map(|(_, value)| text(value))
}

pub(crate) fn config_map(object: &Value, errors: &mut ErrorList) {
    let (data, binary) = (&object["data"], &object["binaryData"]);
    let path = Path::new("data");
    for key in data.as_object().into_iter().flat_map(|data| data.keys()) {
        grammar(errors, &path.key(key), key, name::config_key(key));
        if !binary[key].is_null() {
            errors.invalid(&path.key(key), key, "duplicate of key present in binaryData");
        }
    }
    keys(errors, &Path::new("binaryData"), binary);
    let total = values(data).map(str::len).sum::<usize>() + values(binary).map(decoded_length).sum::<usize>();
    if total > DATA_MAX {
        // The path of Kubernetes' error has no name, which it prints as an empty index.
        errors.too_long(&Path::ROOT.key(""), DATA_MAX);
    }
}

fn frozen(errors: &mut ErrorList, new: &Value, old: &Value, members: &[&str]) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        errors.forbidden(&Path::new("immutable"), FROZEN);
    }
    for member in members {
        if !semantically_equal(&new[*member], &old[*member]) {
            errors.forbidden(&Path::new(member), FROZEN);
        }
    }
}

pub(crate) fn config_map_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    frozen(errors, new, old, &["data", "binaryData"]);
}

pub(crate) fn secret_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if new["type"] != old["type"] {
        errors.invalid(&Path::new("type"), &new["type"], IMMUTABLE);
    }
    frozen(errors, new, old, &["data"]);
}

pub(crate) fn secret(object: &Value, errors: &mut ErrorList) {
    let data = &object["data"];
    keys(errors, &Path::new("data"), data);
    if values(data).map(decoded_length).sum::<usize>() > DATA_MAX {
        errors.too_long(&Path::new("data"), DATA_MAX);
    }
    let need = |errors: &mut ErrorList, keys: &[&str]| {
        for key in keys.iter().filter(|key| data[**key].is_null()) {
            errors.required(&Path::new("data").key(key), "");
        }
    };
    match text(&object["type"]) {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if meta::annotation(object, key).unwrap_or_default().is_empty() {
                errors.required(&Path::new("metadata.annotations").key(key), "");
            }
        }
        "kubernetes.io/dockercfg" => json_entry(errors, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json_entry(errors, data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if data["username"].is_null() && data["password"].is_null() => {
            need(errors, &["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if text(&data["ssh-privatekey"]).is_empty() => {
            errors.required(&Path::new("data").key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => need(errors, &["tls.crt", "tls.key"]),
        _ => {}
    }
}

/// Checks that an entry exists and holds JSON.
fn json_entry(errors: &mut ErrorList, data: &Value, key: &str) {
    let path = Path::new("data");
    let path = path.key(key);
    let Some(encoded) = data[key].as_str() else {
        errors.required(&path, "");
        return;
    };
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let fault = match go_json::parse(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_kind(&other)
            )
        }
        Err(fault) => fault,
    };
    errors.invalid(&path, REDACTED, fault);
}
