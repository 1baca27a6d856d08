//! Maps and their keys.

use super::{Shape, Text, Val, text_of};
use crate::error::EvalError;
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key of a map.
#[derive(Debug, Clone)]
pub enum Key<'a> {
    /// `true` or `false`.
    Bool(bool),
    /// An integer of any type that fits into 64 signed bits.
    Int(i64),
    /// An unsigned integer that does not fit into 64 signed bits.
    Uint(u64),
    /// A string.
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// The value as a key; none if keys cannot have its type.
    #[must_use]
    pub fn of(value: &Val<'a>) -> Option<Self> {
        match value {
            Val::Bool(value) => Some(Self::Bool(*value)),
            Val::Int(value) => Some(Self::Int(*value)),
            Val::Uint(value) => Some(i64::try_from(*value).map_or(Self::Uint(*value), Self::Int)),
            Val::Double(value) => Self::of_double(*value),
            Val::String(text) => Some(Self::String(text.clone())),
            _ => None,
        }
    }

    /// The key of a floating-point number without a fraction.
    fn of_double(value: f64) -> Option<Self> {
        const INTS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
        if value.fract() != 0.0 {
            return None;
        }
        if INTS.contains(&value) {
            return Some(Self::Int(value as i64));
        }
        (INTS.end..18_446_744_073_709_551_616.0).contains(&value).then_some(Self::Uint(value as u64))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) => 1,
            Self::Uint(_) => 2,
            Self::String(_) => 3,
        }
    }

    /// The key as a value.
    #[must_use]
    pub fn value(&self) -> Val<'a> {
        match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Uint(value) => Val::Uint(*value),
            Self::String(text) => Val::String(text.clone()),
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Uint(a), Self::Uint(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => (**a).cmp(&**b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

/// An entry of a map that the evaluation made: the key with its original type, and the value.
pub type MapValue<'a> = (Val<'a>, Val<'a>);

/// A map: entries that the evaluation made, or a JSON object whose values have one shape. Iteration is ascending by key.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Entries by key.
    Owned(Arc<BTreeMap<Key<'a>, MapValue<'a>>>),
    /// Entries by key, and the value that a selection such as `map["key"]` finds under every other key. Everything else, such as `in`
    /// and iteration, sees the entries alone.
    Defaulted(Arc<BTreeMap<Key<'a>, MapValue<'a>>>, Arc<Val<'a>>),
    /// A JSON object and the shape of its values.
    Json(&'a serde_json::Map<String, Json>, &'a Shape),
}

impl<'a> Map<'a> {
    /// A map of entries. A later entry replaces an earlier entry with the same key.
    ///
    /// # Errors
    /// If keys cannot have the type of a key.
    pub fn new(entries: impl IntoIterator<Item = MapValue<'a>>) -> Result<Self, EvalError> {
        let mut map = BTreeMap::new();
        for (key, value) in entries {
            map.insert(Key::of(&key).ok_or(EvalError::NoSuchOverload)?, (key, value));
        }
        Ok(Self::Owned(Arc::new(map)))
    }

    /// The map of the same entries in which a selection finds `default` under every other key. A map of a JSON document stays as it is.
    #[must_use]
    pub fn with_default(self, default: Val<'a>) -> Self {
        match self {
            Self::Owned(entries) | Self::Defaulted(entries, _) => Self::Defaulted(entries, Arc::new(default)),
            Self::Json(..) => self,
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(entries) | Self::Defaulted(entries, _) => entries.len(),
            Self::Json(map, _) => map.len(),
        }
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    ///
    /// # Errors
    /// If the value does not fit its shape.
    pub fn get(&self, key: &Val<'a>) -> Result<Option<Val<'a>>, EvalError> {
        let Some(key) = Key::of(key) else { return Ok(None) };
        match (self, &key) {
            (Self::Owned(entries) | Self::Defaulted(entries, _), key) => {
                Ok(entries.get(key).map(|(_, value)| value.clone()))
            }
            (Self::Json(map, shape), Key::String(name)) => {
                map.get(&**name).map(|value| shape.value(value)).transpose()
            }
            (Self::Json(..), _) => Ok(None),
        }
    }

    /// The value of a string key.
    pub(crate) fn get_str(&self, name: &'a str) -> Result<Option<Val<'a>>, EvalError> {
        match self {
            Self::Json(map, shape) => map.get(name).map(|value| shape.value(value)).transpose(),
            Self::Owned(entries) | Self::Defaulted(entries, _) => {
                let found = entries.get(&Key::String(Text::Borrowed(name)));
                Ok(found.map(|(_, value)| value.clone()))
            }
        }
    }

    /// The value that a selection finds under keys without an entry.
    pub(crate) fn default_value(&self) -> Option<Val<'a>> {
        if let Self::Defaulted(_, default) = self { Some(Val::clone(default)) } else { None }
    }

    /// The keys, ascending.
    #[must_use]
    pub fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Owned(entries) | Self::Defaulted(entries, _) => {
                entries.values().map(|(key, _)| key.clone()).collect()
            }
            Self::Json(map, _) => map.keys().map(|key| Val::str(key)).collect(),
        }
    }
}

/// Adds an entry to a map.
///
/// # Errors
/// If the value is of a type that keys cannot have, or if the map has the key.
pub(crate) fn insert_new<'a>(
    entries: &mut BTreeMap<Key<'a>, (Val<'a>, Val<'a>)>,
    key: Val<'a>,
    value: Val<'a>,
) -> Result<(), EvalError> {
    let map_key = Key::of(&key).ok_or(EvalError::NoSuchOverload)?;
    if entries.contains_key(&map_key) {
        let text = text_of(&key);
        return Err(EvalError::other(format!("insert failed: key {text} already exists")));
    }
    entries.insert(map_key, (key, value));
    Ok(())
}
