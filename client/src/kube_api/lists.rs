//! The calls List and DeleteCollection over the REST API.

use super::requests::{self, Selection};
use super::{Caller, KubeApi, Streamed, answers};
use crate::limits::KUBE_PAGE;
use futures::stream;
use kstore_proto::kstore::v1 as pb;
use tonic::{Response, Status as GrpcStatus};

/// Lists objects. The first chunk arrives before this returns, so that a refusal is one of the call.
pub(super) async fn serve(
    api: &KubeApi,
    caller: Caller,
    message: pb::ListRequest,
) -> Result<Response<Streamed<pb::ListChunk>>, GrpcStatus> {
    let selection = Selection {
        labels: message.label_selector,
        fields: message.field_selector,
        limit: message.limit,
        next: message.r#continue,
        at: message.revision,
    };
    let pages = Pages::new(api.clone(), caller, requests::present(message.r#ref)?, selection);
    Ok(Response::new(pages.stream().await?))
}

/// Deletes a collection, or one page of it.
pub(super) async fn delete_collection(
    api: &KubeApi,
    caller: &Caller,
    message: pb::DeleteCollectionRequest,
) -> Result<Response<Streamed<pb::ListChunk>>, GrpcStatus> {
    let response = api.send(caller, requests::delete_collection(message)?).await?;
    let chunk = answers::list(&response.body)?;
    Ok(Response::new(Box::pin(stream::iter([Ok(chunk)]))))
}

/// The pages of a list: one page if the caller limits the list, else all.
pub(super) struct Pages {
    api: KubeApi,
    caller: Caller,
    reference: pb::Ref,
    selection: Selection,
    /// Whether the list ends after the next page, of which the caller gets the continue token.
    is_one_page: bool,
    /// The revision of the first page.
    revision: Option<i64>,
    is_done: bool,
}

impl Pages {
    pub(super) fn new(api: KubeApi, caller: Caller, reference: pb::Ref, mut selection: Selection) -> Self {
        let is_one_page = selection.limit > 0;
        if !is_one_page {
            selection.limit = KUBE_PAGE;
        }
        Self { api, caller, reference, selection, is_one_page, revision: None, is_done: false }
    }

    /// The next page; `None` after the last.
    ///
    /// # Errors
    ///
    /// The refusal of the server, for example 410 if the rest of the list is no longer there.
    pub(super) async fn next(&mut self) -> Result<Option<pb::ListChunk>, GrpcStatus> {
        if self.is_done {
            return Ok(None);
        }
        let request = requests::list(&self.reference, &self.selection)?;
        let response = self.api.send(&self.caller, request).await?;
        let mut chunk = answers::list(&response.body)?;
        chunk.revision = *self.revision.get_or_insert(chunk.revision);
        self.is_done = self.is_one_page || chunk.r#continue.is_empty();
        if !self.is_one_page {
            self.selection.next = std::mem::take(&mut chunk.r#continue);
        }
        Ok(Some(chunk))
    }

    /// The pages as a stream, of which the first is here.
    async fn stream(mut self) -> Result<Streamed<pb::ListChunk>, GrpcStatus> {
        let first = self.next().await?;
        let pages = stream::unfold((first, Some(self)), |(first, pages)| async move {
            let mut pages = pages?;
            match first {
                Some(chunk) => Some((Ok(chunk), (None, Some(pages)))),
                None => match pages.next().await {
                    Ok(chunk) => Some((Ok(chunk?), (None, Some(pages)))),
                    Err(error) => Some((Err(error), (None, None))),
                },
            }
        });
        Ok(Box::pin(pages))
    }
}
