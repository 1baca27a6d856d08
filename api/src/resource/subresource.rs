//! Rules of writes through a subresource: which members it writes, and what is validated.

use super::UpdateCheck;
use serde_json::Value;

/// Filter for the fields whose ownership a write can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// All fields except these dotted paths and the fields below them.
    Fields(&'static [&'static str]),
    /// Only fields at or below these paths; `*` stands for any list element.
    AllBut(&'static [&'static [&'static str]]),
}

/// Rules of writes through one subresource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubresourceRules {
    /// The URL segment; empty for the object's own path.
    pub(crate) name: &'static str,
    /// Restores, from the stored object, the members that the subresource does not write. `None`: it writes all but
    /// the status.
    pub(crate) prepare: Option<fn(&mut Value, &Value)>,
    /// Sets missing times; the text is the present time.
    pub(crate) date: Option<fn(&mut Value, &Value, &str)>,
    /// Validates all but the metadata. `None`: the object is validated like one that is written as a whole.
    pub(crate) validate: Option<UpdateCheck>,
    /// Fields whose ownership the subresource does not change.
    pub(crate) reset: Reset,
}

impl SubresourceRules {
    /// Writes of the object itself, and subresources without own rules, such as `scale`.
    pub(crate) const OBJECT: Self =
        Self { name: "", prepare: None, date: None, validate: None, reset: Reset::Fields(&[]) };

    /// Writes of the status, without a check of its content.
    pub(crate) const STATUS: Self = Self {
        name: "status",
        prepare: Some(status_only),
        validate: Some(|_, _, _| {}),
        reset: Reset::Fields(&["spec"]),
        ..Self::OBJECT
    };

    /// Writes of the status that own no metadata.
    pub(crate) const STATUS_WITHOUT_METADATA: Self =
        Self { reset: Reset::Fields(&["metadata", "spec"]), ..Self::STATUS };

    /// The same rules with a check of the content.
    pub(crate) const fn checked(mut self, validate: UpdateCheck) -> Self {
        self.validate = Some(validate);
        self
    }
}

/// Restricts a write through `/status` to the status, and to the metadata that controllers maintain.
pub(crate) fn status_only(new: &mut Value, old: &Value) {
    let mut members: Vec<String> =
        new.as_object().into_iter().chain(old.as_object()).flat_map(|o| o.keys().cloned()).collect();
    members.retain(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    for member in members {
        copy(new, old, &member);
    }
}

/// Copies a member from `old`; removes it if `old` lacks it.
pub(crate) fn copy(new: &mut Value, old: &Value, member: &str) {
    match old.get(member) {
        Some(value) => new[member] = value.clone(),
        None => {
            if let Some(members) = new.as_object_mut() {
                members.remove(member);
            }
        }
    }
}
