//! Random volumes and devices with their claims.

use crate::script::Dice;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
/// The driver of volumes and the driver of devices.
pub(crate) const DRIVERS: (&str, &str) = ("csi.example.com", "gpu.example.com");

/// The classes of storage: volumes that exist, volumes that are provisioned for a node, and volumes without a wait for the pod.
pub(crate) fn storage_classes() -> Vec<Value> {
    [
        ("waits", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        ("made", DRIVERS.0, "WaitForFirstConsumer"),
        ("soon", DRIVERS.0, "Immediate"),
    ]
    .map(|(name, provisioner, mode)| json!({ "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode }))
    .into()
}

/// How many volumes a node takes.
pub(crate) fn csi_node(dice: &Dice, name: &str) -> Value {
    let driver = json!({ "name": DRIVERS.0, "nodeID": name, "allocatable": { "count": 1 + dice.below(3) } });
    json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } })
}

/// A volume.
pub(crate) fn volume(dice: &Dice, name: &str, class: &str) -> Value {
    let mut spec = json!({
        "capacity": { "storage": dice.pick(&["1Gi", "2Gi", "5Gi"]) }, "accessModes": ["ReadWriteOnce"],
        "storageClassName": class, "csi": { "driver": DRIVERS.0, "volumeHandle": name },
    });
    let mut meta = json!({ "name": name });
    match dice.below(4) {
        0 => {}
        1 => meta["labels"] = json!({ ZONE: dice.pick(&["z0", "z1", "z0__z2"]) }),
        _ => {
            let zone = json!({ "key": ZONE, "operator": "In", "values": [dice.pick(&["z0", "z1", "z2"])] });
            spec["nodeAffinity"] =
                json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [zone] }] } });
        }
    }
    json!({ "metadata": meta, "spec": spec })
}

/// A claim of a volume.
pub(crate) fn volume_claim(dice: &Dice, (namespace, name): (&str, &str), class: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "storageClassName": class, "accessModes": [dice.pick(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"])],
            "resources": { "requests": { "storage": dice.pick(&["1Gi", "2Gi"]) } },
        },
    })
}

/// The classes of devices.
pub(crate) fn device_classes() -> Vec<Value> {
    let class = |name: &str, expression: String| json!({ "metadata": { "name": name }, "spec": { "selectors": [{ "cel": { "expression": expression } }] } });
    let driver = DRIVERS.1;
    vec![
        class("any", format!("device.driver == '{driver}'")),
        class("big", format!("device.driver == '{driver}' && device.attributes['{driver}'].model == 'big'")),
    ]
}

/// The devices of a node.
pub(crate) fn slice(dice: &Dice, node: &str) -> Value {
    let device = |at: u64| {
        let attributes = json!({
            "model": { "string": dice.pick(&["big", "small"]) }, "index": { "int": at },
            "numa": { "int": dice.below(2) },
        });
        let mut device = json!({
            "name": format!("d{at}"), "attributes": attributes, "capacity": { "memory": { "value": dice.pick(&["8Gi", "16Gi"]) } },
        });
        if dice.percent(10) {
            device["taints"] = json!([{ "key": "broken", "effect": "NoSchedule" }]);
        }
        device
    };
    let devices: Vec<_> = (0..1 + dice.below(4)).map(device).collect();
    json!({
        "metadata": { "name": format!("slice-{node}") },
        "spec": {
            "driver": DRIVERS.1, "nodeName": node, "devices": devices,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    })
}

fn request(dice: &Dice) -> Value {
    let mut request = json!({ "deviceClassName": dice.pick(&["any", "any", "big", "absent"]) });
    match dice.below(6) {
        0 => request["allocationMode"] = "All".into(),
        1 | 2 => request["count"] = 2.into(),
        _ => {}
    }
    let driver = DRIVERS.1;
    let expression = match dice.below(6) {
        0 => format!("device.attributes['{driver}'].model == 'small'"),
        1 => format!("device.capacity['{driver}'].memory.compareTo(quantity('10Gi')) > 0"),
        2 => format!("device.attributes['{driver}'].index >= 1"),
        _ => return request,
    };
    request["selectors"] = json!([{ "cel": { "expression": expression } }]);
    request
}

/// A claim of devices.
pub(crate) fn device_claim(dice: &Dice, (namespace, name): (&str, &str)) -> Value {
    let one = |at: u64| match dice.percent(20) {
        true => {
            let alternative = |name: &str| {
                let mut found = request(dice);
                found["name"] = name.into();
                found
            };
            json!({ "name": format!("r{at}"), "firstAvailable": [alternative("s0"), alternative("s1")] })
        }
        false => {
            let mut exactly = request(dice);
            if dice.percent(20) {
                exactly["tolerations"] = json!([{ "key": "broken", "operator": "Exists" }]);
            }
            json!({ "name": format!("r{at}"), "exactly": exactly })
        }
    };
    let requests: Vec<_> = (0..1 + dice.below(2)).map(one).collect();
    let mut devices = json!({ "requests": requests });
    if dice.percent(30) {
        devices["constraints"] =
            json!([{ "matchAttribute": format!("{}/{}", DRIVERS.1, dice.pick(&["numa", "model"])) }]);
    }
    json!({ "metadata": { "name": name, "namespace": namespace }, "spec": { "devices": devices } })
}
