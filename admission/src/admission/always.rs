//! AlwaysAdmit, which has no opinion, and AlwaysDeny, which refuses every write except those of the server
//! itself.

use super::{Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::status::Status;
use kstore_registry::user::SELF;
use serde_json::Value;

pub(super) struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {}

pub(super) struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn mutate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        _: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        deny(subject)
    }

    fn validate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        _: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        deny(subject)
    }
}

fn deny(subject: &Subject<'_>) -> Result<(), Status> {
    if subject.user.username == SELF {
        return Ok(());
    }
    Err(subject.forbidden("admission control is denying all modifications"))
}
