//! GET, LIST and WATCH, served by the registry and the cache.

use super::{Answer, ObjectAnswer, Pipeline};
use kstore_api::status::Status;
use kstore_registry::cache::{Filter, ReadBound, Watch, WatchEnd, WatchStart};
use kstore_registry::conversion::filter_by_version;
use kstore_registry::error;
use kstore_registry::request::{GetOptions, ListAt, ListOptions, Request, WatchOptions};
use std::sync::Arc;

impl Pipeline {
    pub(super) async fn get(&self, request: &Request, options: &GetOptions) -> Result<Answer, Status> {
        if !request.target.resource.is_stored() {
            return self.component(&request.target);
        }
        let bound = request.bound.as_ref().and_then(|bound| bound.state());
        let bounded = bound.map(|exact| GetOptions { exact, not_older_than: 0 });
        let entry = self.registry.get(&request.target, bounded.as_ref().unwrap_or(options)).await?;
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
        let bound = request.bound.as_ref().and_then(|bound| bound.state());
        let at = |revision| Box::new(ListOptions { at: ListAt::Exact(revision), ..options.clone() });
        let bounded = bound.map(at);
        let listed = self.list_selected(&request.target, bounded.as_deref().unwrap_or(options)).await;
        listed.map(Answer::List)
    }

    pub(super) async fn watch(&self, request: &Request, options: &WatchOptions) -> Result<Answer, Status> {
        let filters = vec![filter_by_version(&options.filter, request.target.custom.as_ref())];
        let watch = match self.begin_watch(filters.clone(), options.start, request.bound.clone()).await? {
            Ok(watch) => watch,
            // As in Kubernetes, a watch that cannot begin is answered with an error event in its stream.
            Err(end) => Watch::ended(self.cache().clone(), filters, end),
        };
        Ok(Answer::Watch(Box::new(watch)))
    }

    /// Begins a watch over several kinds, within a bound if the request has one. The caller must have been authorized for each.
    pub async fn start_watch(
        &self,
        filters: Vec<Filter>,
        start: WatchStart,
        bound: Option<Arc<dyn ReadBound>>,
    ) -> Result<Watch, Status> {
        self.begin_watch(filters, start, bound).await?.map_err(|end| end.status())
    }

    async fn begin_watch(
        &self,
        filters: Vec<Filter>,
        start: WatchStart,
        bound: Option<Arc<dyn ReadBound>>,
    ) -> Result<Result<Watch, WatchEnd>, Status> {
        let current = self.cache().fresh().await.map_err(error::of_read)?;
        let start = match start {
            WatchStart::After(0) => WatchStart::After(current),
            start => start,
        };
        match bound {
            None => Ok(Watch::start(self.cache().clone(), filters, start).await),
            Some(bound) => Box::pin(self.begin_watch_within(filters, start, bound)).await,
        }
    }

    /// Begins a watch whose bound decides about its initial state and its deliveries.
    async fn begin_watch_within(
        &self,
        filters: Vec<Filter>,
        start: WatchStart,
        bound: Arc<dyn ReadBound>,
    ) -> Result<Result<Watch, WatchEnd>, Status> {
        if let Some(end) = bound.refusal() {
            return Ok(Err(end));
        }
        let (start, state) = match (start, bound.state()) {
            (WatchStart::State, Some(revision)) => {
                let mut state = Vec::new();
                for (selector, filter) in (0u32..).zip(&filters) {
                    let (filter, at) = (filter.clone(), ListAt::Exact(revision));
                    let options = ListOptions { filter, limit: 0, continue_token: String::new(), at };
                    let listed = self.registry.list(&options).await?;
                    state.extend(listed.items.into_iter().map(|entry| (selector, entry)));
                }
                (WatchStart::After(revision), Some(state))
            }
            (start, _) => (start, None),
        };
        let begun = match start {
            WatchStart::After(revision) | WatchStart::Resume(revision)
                if bound.is_final() && bound.limit() <= revision =>
            {
                Ok(Watch::silent(self.cache().clone(), filters, revision))
            }
            start => Watch::start(self.cache().clone(), filters, start).await,
        };
        Ok(begun.map(|watch| watch.within(bound, state)))
    }
}
