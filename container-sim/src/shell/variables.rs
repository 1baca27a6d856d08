//! The variables of a shell: values, arrays, and which of them are exported or read-only.

use super::memory::{Bounds, Reservation};
use crate::limits::WORD_COST;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Declared, and without a value.
    Unset,
    Text(String),
    /// An array of bash.
    Array(BTreeMap<i64, String>),
    /// An associative array of bash.
    Map(BTreeMap<String, String>),
}

impl Value {
    fn cost(&self) -> usize {
        match self {
            Self::Unset => 0,
            Self::Text(text) => text.len(),
            Self::Array(all) => all.values().map(|text| text.len() + WORD_COST).sum(),
            Self::Map(all) => all.iter().map(|(key, text)| key.len() + text.len() + WORD_COST).sum(),
        }
    }
}

/// A variable of a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) value: Value,
    pub(super) exported: bool,
    pub(super) read_only: bool,
    /// `declare -i`: assignments evaluate their value.
    pub(super) integer: bool,
    /// Order of the first assignment, in which the environment is listed.
    pub(super) order: u32,
}

/// The variables of one shell. A subshell copies them when it changes one.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    all: Arc<BTreeMap<String, Variable>>,
    next: u32,
}

/// An assignment to a read-only variable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadOnly;

fn cost(name: &str, value: &Value) -> usize {
    name.len() + value.cost() + WORD_COST
}

impl Variables {
    /// The variables with which a container starts a program: all are exported, and the last of one name counts.
    pub(super) fn exported_from(given: &[(String, String)]) -> Self {
        let mut variables = Self::default();
        let all = Arc::make_mut(&mut variables.all);
        for (name, value) in given {
            variables.next += 1;
            let value = Value::Text(value.clone());
            let variable =
                Variable { value, exported: true, read_only: false, integer: false, order: variables.next };
            all.insert(name.clone(), variable);
        }
        variables
    }

    pub(super) fn get(&self, name: &str) -> Option<&Variable> {
        self.all.get(name)
    }

    /// The value as one text; of an array its first element.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match &self.all.get(name)?.value {
            Value::Unset => None,
            Value::Text(text) => Some(text),
            Value::Array(all) => all.get(&0).map(String::as_str),
            Value::Map(all) => all.get("0").map(String::as_str),
        }
    }

    /// Bytes of all variables.
    pub(super) fn cost(&self) -> usize {
        self.all.iter().map(|(name, variable)| cost(name, &variable.value)).sum()
    }

    /// All variables by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Variable)> {
        self.all.iter()
    }

    /// The exported variables with a value, in the order in which they were made.
    pub(super) fn environment(&self) -> Vec<(&str, &str)> {
        let mut found: Vec<(u32, &str, &str)> = self
            .all
            .iter()
            .filter(|(_, variable)| variable.exported)
            .filter_map(|(name, variable)| match &variable.value {
                Value::Text(text) => Some((variable.order, name.as_str(), text.as_str())),
                Value::Unset | Value::Array(_) | Value::Map(_) => None,
            })
            .collect();
        found.sort_unstable_by_key(|(order, ..)| *order);
        found.into_iter().map(|(_, name, text)| (name, text)).collect()
    }

    /// Changes one variable, which is made if there is none. Its memory is taken from `room`; the command is killed if there is not
    /// enough.
    ///
    /// # Errors
    /// When it is read-only.
    pub(super) fn change(
        &mut self,
        name: &str,
        (bounds, room): (&Bounds, &mut Reservation),
        change: impl FnOnce(&mut Variable),
    ) -> Result<(), ReadOnly> {
        let old = self.all.get(name);
        if old.is_some_and(|variable| variable.read_only) {
            return Err(ReadOnly);
        }
        let before = old.map_or(0, |variable| cost(name, &variable.value));
        let order = self.next + 1;
        let mut variable = old.cloned().unwrap_or(Variable {
            value: Value::Unset,
            exported: false,
            read_only: false,
            integer: false,
            order,
        });
        change(&mut variable);
        let after = cost(name, &variable.value);
        bounds.work.spend(after + 64);
        if after > before {
            if !bounds.grow(room, after - before) {
                return Ok(());
            }
        } else {
            room.shrink(before - after);
        }
        self.next = order;
        Arc::make_mut(&mut self.all).insert(name.to_owned(), variable);
        Ok(())
    }

    /// Removes a variable.
    ///
    /// # Errors
    /// When it is read-only.
    pub(super) fn remove(&mut self, name: &str, room: &mut Reservation) -> Result<(), ReadOnly> {
        match self.all.get(name) {
            None => return Ok(()),
            Some(variable) if variable.read_only => return Err(ReadOnly),
            Some(variable) => room.shrink(cost(name, &variable.value)),
        }
        Arc::make_mut(&mut self.all).remove(name);
        Ok(())
    }

    /// Puts back what a variable was before a function or a command changed it.
    pub(super) fn restore(
        &mut self,
        name: &str,
        old: Option<Variable>,
        (bounds, room): (&Bounds, &mut Reservation),
    ) {
        let now = self.all.get(name).map_or(0, |variable| cost(name, &variable.value));
        room.shrink(now);
        match old {
            Some(old) => {
                if bounds.grow(room, cost(name, &old.value)) {
                    Arc::make_mut(&mut self.all).insert(name.to_owned(), old);
                }
            }
            None => drop(Arc::make_mut(&mut self.all).remove(name)),
        }
    }

    /// Keeps only what a program gets: the exported variables.
    pub(super) fn keep_exported(&mut self) {
        Arc::make_mut(&mut self.all).retain(|_, variable| variable.exported);
    }
}
