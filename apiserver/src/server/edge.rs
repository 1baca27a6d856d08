//! [`EdgeActivity`]: whether a listener has work that no request shows yet, for embedders that wait until nothing is under way.

use http::Extensions;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Counts what the connections of a listener do at this moment: those that are being polled or were woken to be, and requests that were
/// read and have not reached the embedder's service. What waits in a socket is not counted.
#[derive(Debug, Default)]
pub struct EdgeActivity(AtomicUsize);

impl EdgeActivity {
    /// Whether a connection is being polled or about to be, or a request is on its way to the service.
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

    /// The future, counted while it is being polled, and from the moment at which something wakes it: the thread that polls it may begin
    /// much later. It must be a task of its own, which is polled after each wake.
    pub(super) fn observe<F: Future>(activity: Option<Arc<Self>>, future: F) -> ObservedPolls<F> {
        let activity = activity.map(|activity| Arc::new(ObservedWakes { activity, state: Mutex::default() }));
        ObservedPolls { activity, future: Box::pin(future) }
    }
}

/// The wakes of one future.
#[derive(Debug)]
struct ObservedWakes {
    activity: Arc<EdgeActivity>,
    state: Mutex<WakeState>,
}

#[derive(Debug, Default)]
struct WakeState {
    /// Wakes the task.
    task: Option<Waker>,
    /// Counted from the first wake since the last poll.
    woken: Option<EdgeWork>,
    /// Whether the future is gone, and no poll will come.
    is_over: bool,
}

impl Wake for ObservedWakes {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock();
        if !state.is_over && state.woken.is_none() {
            state.woken = Some(self.activity.begin());
        }
        let task = state.task.clone();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
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
    activity: Option<Arc<ObservedWakes>>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for ObservedPolls<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(wakes) = self.activity.clone() else { return self.future.as_mut().poll(context) };
        let _polled = wakes.activity.begin();
        let mut state = wakes.state.lock();
        state.task = Some(context.waker().clone());
        state.woken = None;
        drop(state);
        self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(wakes)))
    }
}

impl<F> Drop for ObservedPolls<F> {
    fn drop(&mut self) {
        if let Some(wakes) = &self.activity {
            let mut state = wakes.state.lock();
            (state.is_over, state.woken) = (true, None);
        }
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

    /// Regression: an event had left the cluster, and the thread of its connection had not begun to send it; the program that it was for
    /// counted as quiet.
    #[test]
    fn a_connection_is_counted_from_its_wake_until_its_poll_or_its_end() {
        let activity = Arc::new(EdgeActivity::default());
        let kept = Arc::new(Mutex::new(None));
        let waits = || {
            let kept = kept.clone();
            std::future::poll_fn(move |context| {
                *kept.lock() = Some(context.waker().clone());
                Poll::<()>::Pending
            })
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut observed = EdgeActivity::observe(Some(activity.clone()), waits());
        let wake = || kept.lock().as_ref().unwrap().wake_by_ref();
        assert!(Pin::new(&mut observed).poll(&mut context).is_pending() && !activity.is_busy());
        (0..2).for_each(|_| wake());
        assert!(activity.is_busy(), "it was woken");
        assert!(Pin::new(&mut observed).poll(&mut context).is_pending());
        assert!(!activity.is_busy());
        wake();
        drop(observed);
        assert!(!activity.is_busy(), "it is gone");
        wake();
        assert!(!activity.is_busy(), "nothing polls it any more");
    }
}
