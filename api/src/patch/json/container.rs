//! Container of a JSON pointer's last key: get, set, add and remove for maps and lists.

use serde_json::{Map, Value};

/// Map or list that a JSON pointer addresses.
pub(super) enum Container<'v> {
    Map(&'v mut Map<String, Value>),
    List(&'v mut Vec<Value>),
}

/// Error for a key that does not fit its container; the texts are those of Kubernetes' library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("Unable to remove nonexistent key: {0}: missing value")]
    NoKey(String),
    #[error("Unable to access invalid index: {0}: invalid index referenced")]
    NoIndex(i64),
    #[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotAnIndex(String),
    #[error("value was not a proper array index: '{0}': strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotAnIndexToAdd(String),
}

/// Finds the container of the last key of `path`, and that key. `None` if the path crosses a value that is
/// absent or not a container, and for the whole document.
pub(super) fn locate<'v>(document: &'v mut Value, path: &str) -> Option<(Container<'v>, String)> {
    let mut keys = path.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
    let mut key = keys.next()?;
    let mut container = Container::of(document)?;
    for next in keys {
        container = Container::of(container.into_child(&key)?)?;
        key = next;
    }
    Some((container, key))
}

impl<'v> Container<'v> {
    fn of(value: &'v mut Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self::Map(map)),
            Value::Array(list) => Some(Self::List(list)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    fn into_child(self, key: &str) -> Option<&'v mut Value> {
        match self {
            Self::Map(map) => map.get_mut(key),
            Self::List(list) => {
                let at = existing(key, list.len()).ok()?;
                list.get_mut(at)
            }
        }
    }

    /// The value at a key. An absent key of a map has none; an index beyond the end of a list is an error.
    pub(super) fn get(&mut self, key: &str) -> Result<Option<&Value>, KeyError> {
        match self {
            Self::Map(map) => Ok(map.get(key)),
            Self::List(list) => existing(key, list.len()).map(|at| list.get(at)),
        }
    }

    /// Replaces the value at a key.
    pub(super) fn set(&mut self, key: &str, value: Value) -> Result<(), KeyError> {
        match self {
            Self::Map(map) => drop(map.insert(key.to_owned(), value)),
            Self::List(list) => {
                let at = existing(key, list.len())?;
                list[at] = value;
            }
        }
        Ok(())
    }

    /// Sets a key of a map, or inserts into a list.
    pub(super) fn add(self, key: &str, value: Value) -> Result<(), KeyError> {
        match self {
            Self::Map(map) => drop(map.insert(key.to_owned(), value)),
            Self::List(list) if key == "-" => list.push(value),
            Self::List(list) => {
                let index = number(key).ok_or_else(|| KeyError::NotAnIndexToAdd(key.to_owned()))?;
                list.insert(within(index, list.len() + 1)?, value);
            }
        }
        Ok(())
    }

    /// Number of list elements that adding at this key shifts.
    pub(super) fn moved_by_add(&self, key: &str) -> usize {
        match self {
            Self::List(list) if key != "-" => {
                let at = number(key).and_then(|index| within(index, list.len() + 1).ok());
                at.map_or(0, |at| list.len() - at)
            }
            Self::Map(_) | Self::List(_) => 0,
        }
    }

    /// Number of list elements that removing this key shifts.
    pub(super) fn moved_by_remove(&self, key: &str) -> usize {
        match self {
            Self::List(list) => existing(key, list.len()).map_or(0, |at| list.len() - at - 1),
            Self::Map(_) => 0,
        }
    }

    /// Removes the value at a key and returns it.
    pub(super) fn remove(self, key: &str) -> Result<Value, KeyError> {
        match self {
            Self::Map(map) => map.remove(key).ok_or_else(|| KeyError::NoKey(key.to_owned())),
            Self::List(list) => existing(key, list.len()).map(|at| list.remove(at)),
        }
    }
}

/// Index of an existing element in a list of this length.
fn existing(key: &str, length: usize) -> Result<usize, KeyError> {
    within(number(key).ok_or_else(|| KeyError::NotAnIndex(key.to_owned()))?, length)
}

/// Checks an index against `length`; negative indexes count from the end.
fn within(index: i64, length: usize) -> Result<usize, KeyError> {
    let at = if index < 0 { i64::try_from(length).unwrap_or(i64::MAX) + index } else { index };
    usize::try_from(at).ok().filter(|at| *at < length).ok_or(KeyError::NoIndex(index))
}

fn number(key: &str) -> Option<i64> {
    key.parse().ok()
}
