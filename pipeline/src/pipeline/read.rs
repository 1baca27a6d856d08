//! GET, LIST and WATCH, served by the registry and the cache.

use super::{Answer, ObjectAnswer, Pipeline};
use kstore_api::status::Status;
use kstore_registry::cache::{Watch, WatchEnd, WatchStart};
use kstore_registry::conversion::filter_by_version;
use kstore_registry::error;
use kstore_registry::request::{GetOptions, ListOptions, Request, Target, WatchOptions};

impl Pipeline {
    pub(super) async fn get(&self, request: &Request, options: &GetOptions) -> Result<Answer, Status> {
        if !request.target.resource.is_stored() {
            return self.component(&request.target);
        }
        let entry = self.registry.get(&request.target, options).await?;
        match request.target.subresource {
            "" | "status" | "approval" | "ephemeralcontainers" | "resize" => {
                Ok(Answer::Object(ObjectAnswer::of(entry)))
            }
            _ => self.get_subresource(request, &entry),
        }
    }

    pub(super) async fn list(
        &self,
        request: &Request,
        options: &ListOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        if !request.target.resource.is_stored() {
            return Ok(self.components(&options.filter, warnings));
        }
        self.list_selected(&request.target, options).await.map(Answer::List)
    }

    pub(super) async fn watch(&self, target: &Target, options: &WatchOptions) -> Result<Answer, Status> {
        let filters = vec![filter_by_version(&options.filter, target.custom.as_ref())];
        let watch = match self.begin_watch(filters.clone(), options.start).await? {
            Ok(watch) => watch,
            // As in Kubernetes, a watch that cannot begin is answered with an error event in its stream.
            Err(end) => Watch::ended(self.cache().clone(), filters, end),
        };
        Ok(Answer::Watch(Box::new(watch)))
    }

    /// Begins a watch over several kinds. The caller must have been authorized for each.
    pub async fn start_watch(
        &self,
        filters: Vec<kstore_registry::cache::Filter>,
        start: WatchStart,
    ) -> Result<Watch, Status> {
        self.begin_watch(filters, start).await?.map_err(|end| end.status())
    }

    async fn begin_watch(
        &self,
        filters: Vec<kstore_registry::cache::Filter>,
        start: WatchStart,
    ) -> Result<Result<Watch, WatchEnd>, Status> {
        let current = self.cache().fresh().await.map_err(error::of_read)?;
        let start = match start {
            WatchStart::After(0) => WatchStart::After(current),
            start => start,
        };
        Ok(Watch::start(self.cache().clone(), filters, start).await)
    }
}
