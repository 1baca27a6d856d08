//! Server-side apply and the bookkeeping of field ownership.

use super::{Answer, Pipeline};
use crate::request::{Request, WriteOptions};
use bytes::Bytes;
use kstore_api::kind::Resource;
use kstore_api::patch::PatchType;
use kstore_api::status::Status;
use serde_json::Value;

impl Pipeline {
    pub(super) async fn apply(&self, _: &Request, _: &Bytes, _: &WriteOptions, _: &mut Vec<String>) -> Result<Answer, Status> {
        let served = [PatchType::Json, PatchType::Merge, PatchType::Strategic].map(PatchType::media_type);
        Err(Status::unsupported_media_type(&served))
    }

    pub(super) fn track(&self, _: &'static Resource, _: Option<(&Value, &str)>, _: &mut Value, _: &WriteOptions) {}
}
