//! Components that panic: they are restarted and complete their work.

use kstore_tests::{Setup, manifests, simulate};

#[test]
fn a_deployment_is_rolled_out_despite_panics_of_controllers_scheduler_and_nodes() {
    let setup = Setup::seed(17).panics();
    let metrics = setup.kubelets.metrics.clone();
    simulate(setup, async |cluster| {
        cluster.create(manifests::deployment("web", 3)).await;
        cluster.wait_rolled_out("web").await;
        let mut page = String::new();
        metrics.render(&mut page);
        for (component, restarts) in [("kubelet-sim", 1), ("panicking-controllers", 1), ("scheduler", 1)] {
            let line = format!("kstore_component_restarts_total{{component=\"{component}\"}} {restarts}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
    });
}

#[test]
fn a_seed_determines_the_history_after_a_panic() {
    let run = || {
        simulate(Setup::seed(18).panics(), async |cluster| {
            cluster.create(manifests::deployment("web", 3)).await;
            cluster.wait_rolled_out("web").await;
            cluster.history()
        })
    };
    assert_eq!(run(), run());
}
