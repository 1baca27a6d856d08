//! Constraints of a claim during a search for devices.

use super::claim::{Constraint, Request};
use super::slice::Device;
use kstore_api::expression::device::AttributeValue;

/// A constraint with the values of the devices that are chosen so far.
#[derive(Debug)]
pub(super) struct OpenConstraint<'a> {
    constraint: &'a Constraint,
    values: Vec<&'a AttributeValue>,
}

impl<'a> OpenConstraint<'a> {
    pub(super) fn of(constraint: &'a Constraint) -> Self {
        Self { constraint, values: Vec::new() }
    }

    /// Whether the constraint applies to devices for a request, chosen under this label.
    pub(super) fn concerns(&self, request: &Request, label: &str) -> bool {
        let requests = &self.constraint.requests;
        requests.is_empty() || requests.iter().any(|name| *name == request.name || name == label)
    }

    /// Whether the device keeps the constraint together with the chosen ones.
    pub(super) fn admits(&self, device: &Device) -> bool {
        let Some(value) = device.attribute(&self.constraint.attribute) else { return false };
        match self.constraint.is_distinct {
            true => !self.values.contains(&value),
            false => self.values.last().is_none_or(|last| *last == value),
        }
    }

    /// Adds a device that the constraint admits.
    pub(super) fn push(&mut self, device: &'a Device) {
        self.values.extend(device.attribute(&self.constraint.attribute));
    }

    /// Removes the device that was added last.
    pub(super) fn pop(&mut self) {
        self.values.pop();
    }
}
