//! Tests of the metrics of a controller.

use super::*;

fn page(registry: &Registry) -> String {
    let mut page = String::new();
    registry.render(&mut page);
    page
}

#[tokio::test(start_paused = true)]
async fn runs_are_counted_by_result() {
    let (store, stop, registry) = (FakeStore::new(), CancellationToken::new(), Registry::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(kind.source()).spawn(&stop);
    let controller = Controller::new("web", nondet()).watch(&cache, |o| Some(o.key()));
    let controller = controller.workers(3).timeout(Duration::from_secs(5)).metrics(&registry);
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        let cache = cache.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            match cx.attempt {
                0 if cx.stale => Err(Failure::Terminal("never")),
                0 => Err(Failure::Retry("not yet")),
                1 => panic!("worse"),
                2 => std::future::pending().await,
                3 => {
                    cx.wrote(&cache, Revision(99));
                    Ok(Action::Again(Duration::from_secs(1)))
                }
                _ => Ok(Action::Done),
            }
        }
    }));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let text = page(&registry);
    for line in [
        r#"controller_runtime_active_workers{controller="web"} 1"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="web"} 3"#,
        r#"workqueue_depth{name="web"} 0"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let text = page(&registry);
    for line in [
        r#"controller_runtime_reconcile_total{controller="web",result="requeue_after"} 1"#,
        r#"controller_runtime_reconcile_total{controller="web",result="error"} 4"#,
        r#"controller_runtime_reconcile_total{controller="web",result="success"} 0"#,
        r#"controller_runtime_reconcile_errors_total{controller="web"} 4"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="web"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="web"} 1"#,
        r#"controller_runtime_reconcile_timeouts_total{controller="web"} 1"#,
        r#"controller_runtime_reconcile_time_seconds_bucket{controller="web",le="0.025"} 4"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="web"} 5"#,
        r#"controller_runtime_active_workers{controller="web"} 0"#,
        r#"informer_stale_runs_total{controller="web"} 1"#,
        r#"workqueue_retries_total{name="web"} 3"#,
        r#"workqueue_work_duration_seconds_bucket{name="web",le="0.1"} 4"#,
        r#"workqueue_work_duration_seconds_count{name="web"} 5"#,
        r#"workqueue_queue_duration_seconds_count{name="web"} 5"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// R14, for controllers and queues.
#[tokio::test(start_paused = true)]
async fn a_stopped_controller_leaves_no_metrics() {
    let (store, registry) = (FakeStore::new(), Registry::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let shared = Builder::new(kind.source()).spawn(&CancellationToken::new());
    for _ in 0..3 {
        // The informer continues, and the key waits for a write that never arrives.
        let (stop, cache) = (CancellationToken::new(), shared.clone());
        let controller = Controller::new("web", nondet()).watch(&cache, |o| Some(o.key())).metrics(&registry);
        let running = tokio::spawn(controller.run(stop.clone(), move |cx| {
            cx.wrote(&cache, Revision(99));
            async { Ok::<_, Infallible>(Action::Done) }
        }));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(page(&registry).contains("workqueue_depth") && registry.len() == 2);
        stop.cancel();
        running.await.unwrap().unwrap();
        tokio::task::yield_now().await;
        assert_eq!((page(&registry).as_str(), registry.len()), ("", 0));
    }
}
