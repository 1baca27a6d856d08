//! Tests of generations: their end, their remains, and the next start.

use super::*;
use crate::testing::{FakeSource, FakeStore, Sample};
use crate::{
    Builder, Capabilities, Frames, Key, ListRequest, ListerWatcher, Page as ObjectPage, SourceError, Start,
};
use std::sync::atomic::AtomicUsize;
use tokio::time::timeout;

/// A supervised component that counts its generations.
struct SupervisedComponent {
    registry: Registry,
    stop: CancellationToken,
    generations: Arc<AtomicUsize>,
    /// Number of running tasks of all generations.
    alive: Arc<AtomicUsize>,
}

/// Guard of a running task.
struct RunningGuard(Arc<AtomicUsize>);

impl RunningGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SupervisedComponent {
    fn new() -> Self {
        Self {
            registry: Registry::new(),
            stop: CancellationToken::new(),
            generations: Arc::default(),
            alive: Arc::default(),
        }
    }

    /// Starts a component with two tasks that obey the stop; `also` is a third task.
    fn start<Fut: Future<Output = ()> + Send + 'static>(
        &self,
        also: impl Fn(usize, TaskGroup) -> Fut + Clone + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        let (generations, alive) = (self.generations.clone(), self.alive.clone());
        let supervisor = Supervisor::new("part", &self.registry);
        tokio::spawn(supervisor.run(self.stop.clone(), move |tasks: TaskGroup| {
            let generation = generations.fetch_add(1, Ordering::Relaxed);
            let (alive, also) = (alive.clone(), also.clone());
            async move {
                assert_eq!(alive.load(Ordering::Relaxed), 0, "a generation begins alone");
                let _main = RunningGuard::new(&alive);
                let (beside, stop) = (RunningGuard::new(&alive), tasks.stop().clone());
                tasks.spawn(async move {
                    stop.cancelled().await;
                    drop(beside);
                });
                tasks.spawn(also(generation, tasks.clone()));
                tasks.stop().cancelled().await;
            }
        }))
    }

    fn generations(&self) -> usize {
        self.generations.load(Ordering::Relaxed)
    }

    fn restarts(&self) -> String {
        let mut page = String::new();
        self.registry.render(&mut page);
        let line = page.lines().find(|line| line.starts_with("kstore_component_restarts_total"));
        line.expect("restarts are on the page").to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_panic_ends_the_generation_and_restarts_after_back_off() {
    let world = SupervisedComponent::new();
    let running = world.start(|generation, tasks| async move {
        sleep(Duration::from_secs(1)).await;
        assert!(generation > 0, "the first generation meets a bug");
        tasks.stop().cancelled().await;
    });
    sleep(Duration::from_millis(900)).await;
    assert_eq!((world.generations(), world.alive.load(Ordering::Relaxed)), (1, 2));
    assert_eq!(world.restarts(), r#"kstore_component_restarts_total{component="part"} 0"#);
    sleep(Duration::from_millis(200)).await;
    assert_eq!((world.generations(), world.alive.load(Ordering::Relaxed)), (1, 0), "it rests");
    sleep(RESTART_BACKOFF_BASE).await;
    assert_eq!((world.generations(), world.alive.load(Ordering::Relaxed)), (2, 2));
    assert_eq!(world.restarts(), r#"kstore_component_restarts_total{component="part"} 1"#);
    world.stop.cancel();
    running.await.unwrap();
    assert_eq!((world.generations(), world.alive.load(Ordering::Relaxed)), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn components_that_panic_at_start_or_return_early_are_restarted() {
    let registry = Registry::new();
    let (stop, calls) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let (counted, ended) = (calls.clone(), stop.clone());
    let run = Supervisor::new("part", &registry).run(stop, move |tasks| {
        let call = counted.fetch_add(1, Ordering::Relaxed);
        assert_ne!(call, 0, "the function panics before it gives a future");
        let ended = ended.clone();
        async move {
            assert_ne!(call, 1, "the future panics");
            if call == 3 {
                ended.cancel();
                tasks.stop().cancelled().await;
            }
        }
    });
    run.await;
    assert_eq!(calls.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_backing_off_is_immediate() {
    let world = SupervisedComponent::new();
    let running = world.start(|_, _| async { panic!("always") });
    // After several restarts, so that the waits are long.
    sleep(Duration::from_secs(600)).await;
    let before = Instant::now();
    world.stop.cancel();
    running.await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_do_not_end_after_a_panic_are_dropped() {
    let world = SupervisedComponent::new();
    let alive = world.alive.clone();
    let running = world.start(move |generation, tasks| {
        let alive = alive.clone();
        async move {
            if generation == 0 {
                let stubborn = RunningGuard::new(&alive);
                tasks.spawn(async move {
                    let _stubborn = stubborn;
                    std::future::pending::<()>().await;
                });
                panic!("a bug");
            }
            tasks.stop().cancelled().await;
        }
    });
    sleep(GENERATION_GRACE + RESTART_BACKOFF_BASE + Duration::from_millis(1)).await;
    assert_eq!(world.generations(), 2);
    world.stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_supervisor_leaves_no_task() {
    let world = SupervisedComponent::new();
    let running = world.start(|_, tasks| async move { tasks.stop().cancelled().await });
    sleep(Duration::from_secs(1)).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.alive.load(Ordering::Relaxed), 0);
}

#[test]
fn restart_back_off_doubles_to_its_bound_and_resets() {
    let mut backoff = RestartBackoff::new();
    let waits: Vec<_> = (0..9).map(|_| backoff.next(Duration::from_secs(1)).as_millis()).collect();
    assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!(backoff.next(RESTART_BACKOFF_RESET), RESTART_BACKOFF_BASE);
}

/// A source whose first watch panics.
struct PanicsOnce {
    inner: FakeSource<Sample>,
    panicked: Arc<AtomicUsize>,
}

impl ListerWatcher for PanicsOnce {
    type Obj = Sample;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<ObjectPage<Sample>, SourceError> {
        self.inner.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<Sample>, SourceError> {
        assert_ne!(self.panicked.fetch_add(1, Ordering::Relaxed), 0, "a bug in the source");
        self.inner.watch(start).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_recovers_after_its_source_panicked() {
    let kind = FakeStore::new().kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let (registry, stop, panicked) = (Registry::new(), CancellationToken::new(), Arc::default());
    let (seen, mut shown) = tokio::sync::mpsc::channel(1);
    let supervisor = Supervisor::new("reader", &registry);
    let running = tokio::spawn(supervisor.run(stop.clone(), move |tasks| {
        let source = PanicsOnce { inner: kind.source(), panicked: Arc::clone(&panicked) };
        let seen = seen.clone();
        async move {
            let (informer, driver) = Builder::new(source).build(tasks.stop());
            tasks.spawn(driver);
            if informer.synced().await.is_ok() {
                let _ = seen.send(informer.get(&Key::new("", "a")).is_some()).await;
            }
            tasks.stop().cancelled().await;
        }
    }));
    assert_eq!(timeout(Duration::from_secs(5), shown.recv()).await, Ok(Some(true)));
    stop.cancel();
    running.await.unwrap();
}
