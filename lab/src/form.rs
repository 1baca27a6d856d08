//! Forms of JSON bodies that serde's derives do not cover: objects whose members depend on one of them, and durations as text. Pure.

use serde::Deserializer;
use serde::de::{Deserialize as _, DeserializeOwned, Error};
use serde_json::{Map, Value};

/// Members of an object: those that every form has, and those that depend on the value of one of them.
pub(crate) struct Members {
    /// The members that every form has.
    pub(crate) common: Map<String, Value>,
    /// All others.
    pub(crate) special: Map<String, Value>,
}

/// Splits an object by the names of the members that every form has. `special` gives the other members that the value of `tag` allows, or
/// the known values.
///
/// # Errors
/// The object has a member that is none of these, or a value of `tag` that is not known.
pub(crate) fn split<'de, D: Deserializer<'de>>(
    deserializer: D,
    tag: &str,
    common: &[&str],
    special: impl FnOnce(&str) -> Result<&'static [&'static str], Vec<&'static str>>,
) -> Result<Members, D::Error> {
    let all = Map::<String, Value>::deserialize(deserializer)?;
    let value = all.get(tag).and_then(Value::as_str).unwrap_or_default();
    if value.is_empty() {
        return Err(D::Error::custom(format!("missing field `{tag}`")));
    }
    let allowed = special(value).map_err(|known| {
        let nearest = nearest(value, &known);
        let advice = nearest.map_or_else(
            || format!("known are {}", known.join(", ")),
            |name| format!("did you mean {name:?}?"),
        );
        D::Error::custom(format!("{tag} {value:?} is not known; {advice}"))
    })?;
    for name in all.keys() {
        if name != tag && !common.contains(&name.as_str()) && !allowed.contains(&name.as_str()) {
            // The form of serde's own refusals, from which the front end finds the nearest name.
            let known: Vec<String> = allowed.iter().chain(common).map(|known| format!("`{known}`")).collect();
            return Err(D::Error::custom(format!(
                "unknown field `{name}`, expected one of {}",
                known.join(", ")
            )));
        }
    }
    let (common, special) = all.into_iter().partition(|(name, _)| common.contains(&name.as_str()));
    Ok(Members { common, special })
}

/// The known name that is at most three edits away.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let distance = |known: &&&str| strsim::osa_distance(name, known);
    known.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= 3).copied()
}

/// Reads a value from members.
///
/// # Errors
/// They have another form.
pub(crate) fn read<T: DeserializeOwned, E: Error>(members: Map<String, Value>) -> Result<T, E> {
    serde_json::from_value(Value::Object(members)).map_err(E::custom)
}

/// Whether a member has its default value and is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A duration as Go writes it, or in days.
pub(crate) mod duration {
    use serde::de::{Deserialize as _, Error};
    use serde::{Deserializer, Serializer};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::values::shown(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::values::duration(&text, &text).map_err(|status| D::Error::custom(status.message))
    }
}

/// A duration that may be left out.
pub(crate) mod optional_duration {
    use serde::{Deserializer, Serializer};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => crate::form::duration::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        crate::form::duration::deserialize(deserializer).map(Some)
    }
}

/// A duration that may be negative, as Go writes it, or in days.
pub(crate) mod signed_duration {
    use jiff::SignedDuration;
    use serde::de::{Deserialize as _, Error};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(by: &SignedDuration, serializer: S) -> Result<S::Ok, S::Error> {
        let nanoseconds = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        serializer.serialize_str(&kstore_go_duration::format(nanoseconds))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SignedDuration, D::Error> {
        let text = String::deserialize(deserializer)?;
        let nanoseconds = crate::values::signed_duration(&text, &text);
        nanoseconds.map(SignedDuration::from_nanos).map_err(|status| D::Error::custom(status.message))
    }
}
