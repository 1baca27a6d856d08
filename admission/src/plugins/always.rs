//! AlwaysAdmit, which has no opinion, and AlwaysDeny, which refuses every write except those of the server
//! itself.

use crate::plugin::{Plugin, Review, Row};
use kstore_api::admission::Operation::{Create, Delete, Update};
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of AlwaysAdmit.
pub(super) static ALWAYS_ADMIT: Row = Row::new("AlwaysAdmit", || Arc::new(AlwaysAdmit));

/// The row of AlwaysDeny.
pub(super) static ALWAYS_DENY: Row = Row {
    subresources: &[],
    mutates: &[Create, Update],
    validates: &[Create, Update, Delete],
    ..Row::new("AlwaysDeny", || Arc::new(AlwaysDeny))
};

struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {}

struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn mutate(&self, review: &Review<'_>, _: &mut Value) -> Result<(), Undecided> {
        deny(review)
    }

    fn validate(&self, review: &Review<'_>, _: Option<&Value>) -> Result<(), Undecided> {
        deny(review)
    }
}

fn deny(review: &Review<'_>) -> Result<(), Undecided> {
    if review.is_own() {
        return Ok(());
    }
    review.subject.refuse("admission control is denying all modifications")
}
