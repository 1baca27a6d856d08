//! Bodies and parameters of calls as values. Unknown members are refused with the nearest known name. Pure.

use crate::error::bad_request;
use bytes::Bytes;
use kstore_api::status::Status;
use serde::de::DeserializeOwned;
use std::str::FromStr;

/// Reads the body of a call; an empty one is an empty object.
///
/// # Errors
/// 400: it is no JSON of this form.
pub(super) fn body<T: DeserializeOwned>(body: &Bytes) -> Result<T, Status> {
    let text: &[u8] = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { body };
    serde_json::from_slice(text).map_err(|error| {
        let message = error.to_string();
        match unknown(&message) {
            Some((name, nearest)) => bad_request(&format!("/{name}"), nearest),
            None => Status::bad_request(format!("the body: {message}")),
        }
    })
}

/// Reads a part of a body that was read as JSON; `pointer` is where it was.
///
/// # Errors
/// 400: it has another form.
pub(super) fn part<T: DeserializeOwned>(value: serde_json::Value, pointer: &str) -> Result<T, Status> {
    serde_json::from_value(value).map_err(|error| {
        let message = error.to_string();
        match unknown(&message) {
            Some((name, nearest)) => bad_request(&format!("{pointer}/{name}"), nearest),
            None => bad_request(pointer, message),
        }
    })
}

/// The unknown member in an error of serde, and what to use instead.
fn unknown(message: &str) -> Option<(String, String)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let distance = |known: &&&str| strsim::osa_distance(name, known);
    let nearest = known.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= 3);
    let advice = match nearest {
        Some(nearest) => format!("is no member; did you mean {nearest:?}?"),
        None if known.is_empty() => "is no member: the call takes none".to_owned(),
        None => format!("is no member; known are {}", known.join(", ")),
    };
    Some((name.to_owned(), advice))
}

/// The value of a parameter.
///
/// # Errors
/// 400: it has another form.
pub(super) fn parameter<T: FromStr>(query: &[(String, String)], name: &str) -> Result<Option<T>, Status> {
    let Some(text) = text(query, name) else { return Ok(None) };
    match text.parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(bad_request(name, format!("{text:?} is no value of this parameter"))),
    }
}

/// The text of a parameter.
pub(super) fn text<'q>(query: &'q [(String, String)], name: &str) -> Option<&'q str> {
    query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Refuses parameters that a call does not know.
///
/// # Errors
/// 400: with the nearest known name.
pub(super) fn only(query: &[(String, String)], known: &[&str]) -> Result<(), Status> {
    let Some((name, _)) = query.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let nearest = known.iter().min_by_key(|known| strsim::osa_distance(name, known));
    Err(match nearest {
        Some(nearest) => bad_request(name, format!("is no parameter; did you mean {nearest:?}?")),
        None => bad_request(name, "is no parameter: the call takes none"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Advance {
        by: String,
        patience: String,
    }

    fn refused(text: &'static str) -> String {
        body::<Advance>(&Bytes::from_static(text.as_bytes())).unwrap_err().message
    }

    #[test]
    fn unknown_members_are_refused_with_the_nearest_name() {
        assert_eq!(body::<Advance>(&Bytes::new()).unwrap(), Advance::default());
        assert_eq!(refused(r#"{"patiance":"1s"}"#), "/patiance: is no member; did you mean \"patience\"?");
        assert_eq!(refused(r#"{"something":1}"#), "/something: is no member; known are by, patience");
        assert!(refused("[1]").starts_with("the body: "));
        let query = [("limt".to_owned(), "5".to_owned())];
        assert_eq!(
            only(&query, &["limit", "since"]).unwrap_err().message,
            "limt: is no parameter; did you mean \"limit\"?"
        );
    }

    #[test]
    fn parameters_are_read_as_values() {
        let query = [("limit".to_owned(), "5".to_owned()), ("since".to_owned(), "x".to_owned())];
        assert_eq!(parameter::<usize>(&query, "limit").unwrap(), Some(5));
        assert_eq!(parameter::<usize>(&query, "none").unwrap(), None);
        assert_eq!(parameter::<usize>(&query, "since").unwrap_err().code, 400);
    }
}
