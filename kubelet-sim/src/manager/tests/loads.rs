//! ServiceLoads that the simulation cannot follow: an event and a condition say so.

use super::World;
use crate::config::Config;
use crate::load::record::LoadRecord;
use crate::manager::write::Failure;
use kstore_informer::Delta;
use serde_json::{Value, json};
use std::sync::Arc;

fn show(world: &mut World, spec: &Value, status: &Value) {
    let load = world.api.put(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web"}, "spec": spec, "status": status,
    }));
    let record = Arc::new(LoadRecord::decode(&serde_json::to_vec(&load).unwrap()).unwrap());
    world.manager.observe_loads(vec![Delta::Added(record)]);
    world.settle();
}

#[test]
fn a_load_that_cannot_be_followed_has_a_condition_until_it_is_mended() {
    let mut world = World::new(Config { nodes: 0, has_sim_api: true, ..Config::default() });
    let good = json!({"service": "web", "curve": {"constant": 5}});
    let bad = json!({"service": "web", "curve": {"constant": 5, "hours": [1]}});
    show(&mut world, &good, &json!({}));
    assert!(
        world.api.log.is_empty(),
        "nothing is written about a load that was never wrong: {:?}",
        world.api.log
    );
    world.api.failures.push(Failure::Passing("busy".to_owned()));
    show(&mut world, &bad, &json!({}));
    let written =
        |world: &World| -> Vec<String> { world.api.log.iter().map(|(_, word)| word.clone()).collect() };
    assert_eq!(written(&world), ["load shop/web Invalid=True failed"]);
    world.run(60);
    assert_eq!(written(&world)[1..], ["load shop/web Invalid=True"], "it is tried again");
    let events: Vec<_> = world.notices.iter().filter(|notice| notice.reason == "InvalidSimulation").collect();
    assert!(events.len() == 1 && events[0].message.contains("give one of"), "{events:?}");
    let message = events[0].message.clone();

    let shown = json!({"conditions": [{"type": "Invalid", "status": "True", "message": message}]});
    show(&mut world, &bad, &shown);
    assert_eq!(written(&world).len(), 2, "what is shown is not written again");
    show(&mut world, &good, &shown);
    assert_eq!(written(&world)[2..], ["load shop/web Invalid=False"]);
    show(&mut world, &good, &json!({"conditions": [{"type": "Invalid", "status": "False", "message": ""}]}));
    assert_eq!(written(&world).len(), 3);
}
