//! [`Calls`]: the calls of one resource on JSON bytes. `typed` and `dynamic` add types.

use crate::client::bounded;
use crate::{ApiError, Client, DeleteParams, Gvr, ListParams, Patch};
use bytes::Bytes;
use futures::future::BoxFuture;
use kstore_api::json;
use kstore_informer::Revision;
use kstore_proto::kstore::v1 as pb;

/// An object as JSON bytes, with its revision.
#[derive(Debug)]
pub(crate) struct Json {
    pub json: Bytes,
    pub revision: Revision,
}

impl From<pb::Object> for Json {
    fn from(object: pb::Object) -> Self {
        Self { json: object.json, revision: revision(object.revision) }
    }
}

/// A list, or one page of it.
#[derive(Default)]
pub(crate) struct JsonPage {
    pub items: Vec<Bytes>,
    /// The revision, equal in all pages of a list.
    pub revision: Revision,
    /// The continue token of the next page; empty on the last page.
    pub next: String,
}

/// A revision from a message. The server sends no negative one.
pub(crate) fn revision(wire: i64) -> Revision {
    Revision(u64::try_from(wire).unwrap_or_default())
}

/// A revision for a message.
pub(crate) fn wire(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The calls of one resource through one client.
#[derive(Clone)]
pub(crate) struct Calls {
    pub client: Client,
    pub gvr: Gvr,
}

impl Calls {
    pub(crate) fn get<'a>(&'a self, ns: &'a str, name: &'a str) -> BoxFuture<'a, Result<Json, ApiError>> {
        Box::pin(async move {
            let message = pb::GetRequest { r#ref: Some(self.gvr.reference(ns, name, "")), revision: 0 };
            let mut grpc = self.client.grpc();
            Ok(bounded(grpc.get(self.client.request(message))).await?.into())
        })
    }

    pub(crate) fn list<'a>(
        &'a self,
        ns: &'a str,
        params: &'a ListParams,
    ) -> BoxFuture<'a, Result<(Vec<Bytes>, Revision), ApiError>> {
        Box::pin(async move {
            let page = self.page(ns, params, 0, "").await?;
            Ok((page.items, page.revision))
        })
    }

    /// One page of a list: at most `limit` objects (0: all), from the continue token `next`.
    pub(crate) fn page<'a>(
        &'a self,
        ns: &'a str,
        params: &'a ListParams,
        limit: u32,
        next: &'a str,
    ) -> BoxFuture<'a, Result<JsonPage, ApiError>> {
        Box::pin(async move {
            let message = pb::ListRequest {
                r#ref: Some(self.gvr.reference(ns, "", "")),
                label_selector: params.labels.clone(),
                field_selector: params.fields.clone(),
                limit: limit.into(),
                r#continue: next.to_owned(),
                revision: wire(params.at.unwrap_or_default()),
                include_uninitialized: params.uninitialized,
            };
            let mut grpc = self.client.grpc();
            let mut chunks = bounded(grpc.list(self.client.request(message))).await?;
            let mut page = JsonPage::default();
            while let Some(chunk) = chunks.message().await? {
                page.items.extend(chunk.items);
                page.revision = revision(chunk.revision);
                page.next = chunk.r#continue;
            }
            Ok(page)
        })
    }

    pub(crate) fn create<'a>(
        &'a self,
        ns: &'a str,
        name: &'a str,
        json: Vec<u8>,
    ) -> BoxFuture<'a, Result<Json, ApiError>> {
        Box::pin(async move { self.create_below(ns, name, "", json).await })
    }

    /// Posts to a subresource; an empty subresource creates the object.
    pub(crate) fn create_below<'a>(
        &'a self,
        ns: &'a str,
        name: &'a str,
        subresource: &'a str,
        json: Vec<u8>,
    ) -> BoxFuture<'a, Result<Json, ApiError>> {
        Box::pin(async move {
            let reference = self.gvr.reference(ns, name, subresource);
            let field_validation = self.client.fields.into();
            let message = pb::CreateRequest {
                r#ref: Some(reference),
                json: json.into(),
                field_validation,
                ..Default::default()
            };
            let mut grpc = self.client.grpc();
            Ok(bounded(grpc.create(self.client.request(message))).await?.into())
        })
    }

    pub(crate) fn update<'a>(
        &'a self,
        ns: &'a str,
        name: &'a str,
        subresource: &'a str,
        json: Vec<u8>,
    ) -> BoxFuture<'a, Result<Json, ApiError>> {
        Box::pin(async move {
            let reference = self.gvr.reference(ns, name, subresource);
            let field_validation = self.client.fields.into();
            let message = pb::UpdateRequest {
                r#ref: Some(reference),
                json: json.into(),
                field_validation,
                ..Default::default()
            };
            let (mut grpc, request) = (self.client.grpc(), self.client.request(message));
            let object = match subresource {
                "status" => bounded(grpc.update_status(request)).await?,
                _ => bounded(grpc.update(request)).await?,
            };
            Ok(object.into())
        })
    }

    pub(crate) fn patch<'a>(
        &'a self,
        ns: &'a str,
        name: &'a str,
        subresource: &'a str,
        patch: &'a Patch,
    ) -> BoxFuture<'a, Result<Json, ApiError>> {
        let (kind, document, force) = patch.parts();
        self.patch_json(ns, (name, subresource), (kind, force), json::value_to_vec(document))
    }

    /// Patches an object, or a subresource of it, by encoded JSON of this type; the flag forces an apply.
    pub(crate) fn patch_json<'a>(
        &'a self,
        ns: &'a str,
        (name, subresource): (&'a str, &'a str),
        (kind, force): (pb::patch_request::Type, bool),
        json: Vec<u8>,
    ) -> BoxFuture<'a, Result<Json, ApiError>> {
        Box::pin(async move {
            let message = pb::PatchRequest {
                r#ref: Some(self.gvr.reference(ns, name, subresource)),
                r#type: kind.into(),
                patch: json.into(),
                force,
                field_validation: self.client.fields.into(),
                ..Default::default()
            };
            let mut grpc = self.client.grpc();
            Ok(bounded(grpc.patch(self.client.request(message))).await?.into())
        })
    }

    pub(crate) fn delete<'a>(
        &'a self,
        ns: &'a str,
        name: &'a str,
        params: &'a DeleteParams,
    ) -> BoxFuture<'a, Result<Json, ApiError>> {
        Box::pin(async move {
            let message = pb::DeleteRequest {
                r#ref: Some(self.gvr.reference(ns, name, "")),
                options_json: serde_json::to_vec(&params.options()).map_err(ApiError::json)?.into(),
            };
            let mut grpc = self.client.grpc();
            Ok(bounded(grpc.delete(self.client.request(message))).await?.into())
        })
    }

    /// Deletes at most `limit` of the matching objects, from the continue token `next`. Returns the token behind
    /// them; empty if no more matched.
    pub(crate) fn delete_page<'a>(
        &'a self,
        ns: &'a str,
        which: &'a ListParams,
        params: &'a DeleteParams,
        limit: u32,
        next: &'a str,
    ) -> BoxFuture<'a, Result<String, ApiError>> {
        Box::pin(async move {
            let message = pb::DeleteCollectionRequest {
                r#ref: Some(self.gvr.reference(ns, "", "")),
                label_selector: which.labels.clone(),
                field_selector: which.fields.clone(),
                options_json: serde_json::to_vec(&params.options()).map_err(ApiError::json)?.into(),
                limit: limit.into(),
                r#continue: next.to_owned(),
            };
            let mut grpc = self.client.grpc();
            let mut chunks = bounded(grpc.delete_collection(self.client.request(message))).await?;
            let mut behind = String::new();
            while let Some(chunk) = chunks.message().await? {
                behind = chunk.r#continue;
            }
            Ok(behind)
        })
    }
}
