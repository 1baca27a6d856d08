//! Tests of slices, with tables and a union of all endpoints under random changes.

use super::legacy;
use super::plan::{Observed, plan};
use crate::action::Action;
use crate::view::Pod;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn service(more: Value) -> Service {
    let mut spec =
        json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    from_value(json!({"metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"l": "1"}}, "spec": spec})).unwrap()
}

fn pod(n: u32, ready: bool, deleting: bool) -> Arc<Pod> {
    let mut value = json!({
        "metadata": {"name": format!("p{n}"), "namespace": "default", "uid": format!("u{n}")},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": format!("10.0.{}.{}", n / 250, n % 250 + 1),
                   "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    });
    if deleting {
        value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(from_value(value).unwrap())
}

#[derive(Default)]
struct SimulatedCluster {
    slices: Vec<EndpointSlice>,
    made: u32,
}

impl SimulatedCluster {
    fn run(&mut self, service: &Service, pods: &[Arc<Pod>]) -> usize {
        let zones = BTreeMap::from([("n1".to_owned(), "z1".to_owned())]);
        let slices: Vec<&EndpointSlice> = self.slices.iter().collect();
        let actions = plan(Observed { service, pods, zones: &zones, slices: &slices });
        for action in &actions {
            match action {
                Action::Create(slice) => {
                    let mut slice: EndpointSlice = slice.typed().unwrap();
                    self.made += 1;
                    slice.metadata.name = Some(format!("web-{}", self.made));
                    slice.metadata.uid = slice.metadata.name.clone();
                    self.slices.push(slice);
                }
                Action::Update(slice) => {
                    let slice: EndpointSlice = slice.typed().unwrap();
                    let old = self.slices.iter_mut().find(|s| s.metadata.uid == slice.metadata.uid).unwrap();
                    old.clone_from(&slice);
                }
                Action::Delete { target, .. } => {
                    self.slices.retain(|s| s.metadata.uid.as_ref() != Some(&target.uid));
                }
                other => panic!("{other:?}"),
            }
        }
        actions.len()
    }

    fn sizes(&self) -> Vec<usize> {
        self.slices.iter().map(|s| s.endpoints.iter().flatten().count()).collect()
    }
}

#[test]
fn an_endpoint_has_the_fields_of_its_pod() {
    let mut w = SimulatedCluster::default();
    w.run(&service(json!({})), &[pod(0, true, false), pod(1, false, false), pod(2, true, true)]);
    let slice = &w.slices[0];
    let labels = slice.metadata.labels.as_ref().unwrap();
    assert_eq!((labels["kubernetes.io/service-name"].as_str(), labels["l"].as_str()), ("web", "1"));
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080), "a named port is the container's");
    let told: Vec<(Option<bool>, Option<bool>, Option<bool>)> = slice
        .endpoints
        .iter()
        .flatten()
        .map(|e| e.conditions.as_ref().map(|c| (c.ready, c.serving, c.terminating)).unwrap())
        .collect();
    let s = Some;
    assert_eq!(
        told,
        [(s(true), s(true), s(false)), (s(false), s(false), s(false)), (s(false), s(true), s(true))]
    );
    let first = &slice.endpoints.as_ref().unwrap()[0];
    assert_eq!((first.zone.as_deref(), first.node_name.as_deref()), (Some("z1"), Some("n1")));
}

#[test]
fn a_service_without_endpoints_keeps_one_reusable_empty_slice() {
    let mut w = SimulatedCluster::default();
    let service = service(json!({}));
    assert_eq!(w.run(&service, &[]), 1);
    assert_eq!((w.sizes(), w.run(&service, &[])), (vec![0], 0));
    w.run(&service, &[pod(0, true, false)]);
    assert_eq!((w.sizes(), w.made), (vec![1], 1));
    w.run(&service, &[]);
    assert_eq!((w.sizes(), w.made), (vec![0], 1));
}

#[test]
fn a_full_slice_overflows_into_new_ones() {
    let mut w = SimulatedCluster::default();
    let pods: Vec<_> = (0..250).map(|n| pod(n, true, false)).collect();
    w.run(&service(json!({})), &pods);
    assert_eq!(w.sizes(), [100, 100, 50]);
    assert_eq!(w.run(&service(json!({})), &pods[..249]), 1, "one pod less touches one slice");
}

#[test]
fn unmanaged_services_are_ignored() {
    for more in [json!({"selector": null}), json!({"type": "ExternalName"})] {
        assert_eq!(SimulatedCluster::default().run(&service(more), &[pod(0, true, false)]), 0);
    }
}

#[test]
fn legacy_endpoints_divide_ready_from_not_ready() {
    let service = service(json!({}));
    let pods = [pod(0, true, false), pod(1, false, false), pod(2, true, true)];
    let made: Endpoints = legacy::plan(&service, &pods, None).unwrap().created().unwrap();
    let subset = &made.subsets.as_ref().unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap().len(), 1);
    assert_eq!(subset.not_ready_addresses.as_ref().unwrap().len(), 1);
    assert_eq!(subset.ports.as_ref().unwrap()[0].port, 8080);
    assert_eq!(legacy::plan(&service, &pods, Some(&made)), None);
    assert!(legacy::orphaned(&made).is_some());
}

proptest! {
    #[test]
    fn slices_contain_all_endpoints_with_few_writes(
        rounds in prop::collection::vec(prop::collection::btree_set(0u32..400, 0..300), 1..6),
    ) {
        let service = service(json!({}));
        let mut w = SimulatedCluster::default();
        for set in rounds {
            let pods: Vec<_> = set.iter().map(|n| pod(*n, n % 3 > 0, false)).collect();
            w.run(&service, &pods);
            let listed: Vec<String> = w.slices.iter().flat_map(|s| s.endpoints.iter().flatten())
                .map(|e| e.target_ref.as_ref().unwrap().uid.clone().unwrap()).collect();
            let distinct: BTreeSet<String> = listed.iter().cloned().collect();
            prop_assert_eq!(listed.len(), distinct.len(), "no endpoint twice");
            let expected: BTreeSet<String> = set.iter().map(|n| format!("u{n}")).collect();
            prop_assert_eq!(distinct, expected);
            prop_assert!(w.sizes().iter().all(|s| *s <= 100));
            prop_assert_eq!(w.run(&service, &pods), 0, "the same again is nothing to do");
        }
    }
}
