//! [`EdgeActivity`]: whether a listener has work that no request shows yet, for embedders that wait until nothing is under way.

use http::Extensions;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// Counts what the connections of a listener do at this moment: those that are being polled, and requests that were read and have not
/// reached the embedder's service. What waits in a socket is not counted.
#[derive(Debug, Default)]
pub struct EdgeActivity(AtomicUsize);

impl EdgeActivity {
    /// Whether a connection is being polled, or a request is on its way to the service.
    pub fn is_busy(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    fn begin(self: &Arc<Self>) -> EdgeWork {
        self.0.fetch_add(1, Ordering::SeqCst);
        EdgeWork { _counted: Arc::new(CountedWork(self.clone())) }
    }

    /// Counts a request until its [`EdgeWork`] is removed from its extensions.
    pub(super) fn count(activity: Option<&Arc<Self>>, extensions: &mut Extensions) {
        if let Some(activity) = activity {
            extensions.insert(activity.begin());
        }
    }

    /// The future, counted while it is being polled.
    pub(super) fn observe<F: Future>(activity: Option<Arc<Self>>, future: F) -> ObservedPolls<F> {
        ObservedPolls { activity, future: Box::pin(future) }
    }
}

/// A request on its way to the service of [`ApiServer::behind`](super::ApiServer::behind), as an extension of it. The service removes it
/// once it counts the request itself.
#[derive(Clone, Debug)]
pub struct EdgeWork {
    _counted: Arc<CountedWork>,
}

#[derive(Debug)]
struct CountedWork(Arc<EdgeActivity>);

impl Drop for CountedWork {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// See [`EdgeActivity::observe`].
pub(super) struct ObservedPolls<F> {
    activity: Option<Arc<EdgeActivity>>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for ObservedPolls<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _polled = self.activity.as_ref().map(EdgeActivity::begin);
        self.future.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_counted_while_it_is_polled_and_a_request_until_the_service_has_it() {
        let activity = Arc::new(EdgeActivity::default());
        let (seen, mut request) = (activity.clone(), None);
        let polls = std::future::poll_fn(|_| {
            assert!(seen.is_busy());
            request = Some(seen.begin());
            Poll::Ready(())
        });
        let mut observed = EdgeActivity::observe(Some(activity.clone()), polls);
        assert!(!activity.is_busy());
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut observed).poll(&mut context).is_ready());
        drop(observed);
        assert!(activity.is_busy(), "the request is on its way");
        drop(request.clone());
        assert!(activity.is_busy());
        drop(request);
        assert!(!activity.is_busy());
    }
}
