//! [`CallRuntime`]: where the calls of a thread are made whose runtime has no real time. A server in a cluster with a virtual clock calls
//! webhooks, aggregated API servers and identity providers in real time: their timeouts would otherwise be those of the virtual clock. For
//! the thread that writes the audit log it waits while its clock stands.

use futures::future::BoxFuture;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Runs calls to other servers for a thread, on a runtime in real time.
pub trait CallRuntime: Send + Sync {
    /// Runs a call to its end. It ends early if nothing waits for its answer any more.
    fn spawn(&self, call: BoxFuture<'static, ()>);
}

thread_local! {
    /// The runtime for the calls of this thread; `None`: they run where they are made.
    static RUNTIME: RefCell<Option<Arc<dyn CallRuntime>>> = const { RefCell::new(None) };
}

/// Makes all further calls of this thread on `runtime`: for a thread whose only runtime has a virtual clock.
pub fn make_calls_of_this_thread_on(runtime: Arc<dyn CallRuntime>) {
    RUNTIME.set(Some(runtime));
}

/// Makes a call in real time.
pub(super) async fn in_real_time<T: Send + 'static>(call: BoxFuture<'static, T>) -> T {
    let Some(runtime) = RUNTIME.with_borrow(Clone::clone) else { return call.await };
    let (mut send, answer) = oneshot::channel();
    runtime.spawn(Box::pin(async move {
        tokio::select! {
            biased;
            () = send.closed() => {}
            // The caller may have left at this moment.
            answer = call => drop(send.send(answer)),
        }
    }));
    match answer.await {
        Ok(answer) => answer,
        // The runtime ends with the process, and so does the caller.
        Err(_) => std::future::pending().await,
    }
}

/// Waits for another thread of this process, while the virtual clock of this thread stands. To a thread without a virtual clock this is
/// `wait.await`. Unlike a call to another server, the wait is no reason for a virtual clock to stop when it has ended.
///
/// `wait` must need no timer. It goes on to its end if the caller drops this.
pub async fn while_clock_stands<T: Send + 'static>(wait: BoxFuture<'static, T>) -> T {
    if RUNTIME.with_borrow(Option::is_none) {
        return wait.await;
    }
    let runtime = Handle::current();
    // tokio moves a paused clock only while no blocking task runs.
    match tokio::task::spawn_blocking(move || runtime.block_on(wait)).await {
        Ok(waited) => waited,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and so does the caller.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::Instant;

    struct ProcessRuntime(Handle);

    impl CallRuntime for ProcessRuntime {
        fn spawn(&self, call: BoxFuture<'static, ()>) {
            drop(self.0.spawn(call));
        }
    }

    /// A call of 30 ms of real time: on a paused runtime alone it would take virtual time.
    async fn call() -> Duration {
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_millis(30)).await;
        begin.elapsed()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn calls_of_a_thread_with_a_virtual_clock_take_real_time() {
        let process = Handle::current();
        let thread = std::thread::spawn(move || {
            make_calls_of_this_thread_on(Arc::new(ProcessRuntime(process)));
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.unwrap().block_on(async {
                let begin = Instant::now();
                // Something that keeps the virtual clock from moving, as the lab's gate does.
                let (end, ended) = std::sync::mpsc::channel::<()>();
                let gate = tokio::task::spawn_blocking(move || ended.recv());
                let took = in_real_time(Box::pin(call())).await;
                drop(end);
                assert!(gate.await.unwrap().is_err());
                (took, begin.elapsed())
            })
        });
        let (took, virtual_time) = tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
        assert!(took >= Duration::from_millis(30), "{took:?}");
        assert_eq!(virtual_time, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn other_threads_make_their_calls_themselves() {
        assert_eq!(in_real_time(Box::pin(call())).await, Duration::from_millis(30));
    }
}
