//! The DeviceClasses of the drivers.

use super::spec::{DeviceSpec, Profile};
use k8s_openapi::api::resource::v1::{CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The classes for these devices.
pub(crate) fn classes(specs: &[DeviceSpec]) -> Vec<DeviceClass> {
    let mut all = Vec::new();
    for spec in specs.iter().filter(|spec| spec.has_classes && spec.has_slices()) {
        let driver = spec.profile.driver();
        // With both, the extended resource is the device plugin's: the scheduler must not make claims for it.
        let extended = spec.profile.extended_resource().filter(|_| spec.plugin_resource().is_none());
        match spec.profile {
            Profile::Nvidia { is_divided, .. } => {
                let of = |kind: &str| {
                    format!("device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'")
                };
                all.push(class(driver, of("gpu"), extended));
                if is_divided {
                    all.push(class("mig.nvidia.com", of("mig"), None));
                }
            }
            Profile::Example { .. } | Profile::Tpu { .. } | Profile::Cpu => {
                all.push(class(driver, format!("device.driver == '{driver}'"), extended));
            }
        }
    }
    all
}

fn class(name: &str, expression: String, extended: Option<&str>) -> DeviceClass {
    DeviceClass {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: DeviceClassSpec {
            selectors: Some(vec![DeviceSelector { cel: Some(CELDeviceSelector { expression }) }]),
            extended_resource_name: extended.map(str::to_owned),
            ..DeviceClassSpec::default()
        },
    }
}
