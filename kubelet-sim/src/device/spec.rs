//! The devices of a group's nodes: as `template.devices` of a NodeGroup has them ([`DeviceDoc`]), and checked ([`DeviceSpec`]).

use super::model::{GPUS, GpuModel, TPUS, TpuModel};
use crate::limits::{DEVICES_OF_A_KIND, PARTITIONED_DEVICES, PARTITIONS};
use serde::Deserialize;

/// An entry of `template.devices`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeviceDoc {
    pub(crate) profile: String,
    pub(crate) model: String,
    pub(crate) count: Option<u32>,
    pub(crate) publish: String,
    pub(crate) mig: String,
    pub(crate) partitions: u32,
    pub(crate) device_class: Option<bool>,
}

/// What devices of one kind a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceSpec {
    pub(crate) profile: Profile,
    pub(crate) count: u32,
    pub(crate) publication: Publication,
    /// Whether the classes of the driver are created.
    pub(crate) has_classes: bool,
}

/// The driver of devices, with what differs among its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// The example driver of Kubernetes; each device has so many partitions, or zero.
    Example { partitions: u32 },
    /// NVIDIA's GPUs; with `is_divided` each is published with its MIG devices.
    Nvidia { model: &'static GpuModel, is_divided: bool },
    /// Google's TPUs.
    Tpu { model: &'static TpuModel },
    /// Processors, each a device.
    Cpu,
}

/// How a node offers its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publication {
    /// As ResourceSlices.
    Slices,
    /// As an extended resource in the capacity, like a device plugin.
    Plugin,
    /// Both.
    Both,
}

impl Profile {
    /// The name of the driver.
    pub(crate) fn driver(self) -> &'static str {
        match self {
            Self::Example { .. } => "gpu.example.com",
            Self::Nvidia { .. } => "gpu.nvidia.com",
            Self::Tpu { .. } => "tpu.google.com",
            Self::Cpu => "dra.cpu",
        }
    }

    /// The extended resource of the devices; `None` if they have none.
    pub(crate) fn extended_resource(self) -> Option<&'static str> {
        match self {
            Self::Example { .. } => Some("example.com/gpu"),
            Self::Nvidia { .. } => Some("nvidia.com/gpu"),
            Self::Tpu { .. } => Some("google.com/tpu"),
            Self::Cpu => None,
        }
    }
}

impl DeviceSpec {
    /// Checks the entry with this number.
    ///
    /// # Errors
    /// The first member that is wrong, with its path.
    pub(crate) fn check(index: usize, doc: &DeviceDoc) -> Result<Self, String> {
        let wrong = |member: &str, what: String| format!("spec.template.devices[{index}].{member}: {what}");
        let profile = profile(doc).map_err(|(member, what)| wrong(member, what))?;
        let is_cut = matches!(
            profile,
            Profile::Nvidia { is_divided: true, .. } | Profile::Example { partitions: 1.. }
        );
        let most = if is_cut { PARTITIONED_DEVICES } else { DEVICES_OF_A_KIND };
        let count = doc.count.unwrap_or(1);
        if count == 0 || count > most {
            let why = if is_cut { " that are divided" } else { "" };
            return Err(wrong("count", format!("{count} devices{why}; must be between 1 and {most}")));
        }
        let publication = match doc.publish.as_str() {
            "" | "dra" => Publication::Slices,
            "plugin" => Publication::Plugin,
            "both" => Publication::Both,
            other => return Err(wrong("publish", format!("{other:?} is not dra, plugin or both"))),
        };
        if publication != Publication::Slices && profile.extended_resource().is_none() {
            let what = format!("profile {:?} has no device plugin; leave publish out", doc.profile);
            return Err(wrong("publish", what));
        }
        Ok(Self { profile, count, publication, has_classes: doc.device_class.unwrap_or(true) })
    }

    /// Checks all entries.
    ///
    /// # Errors
    /// The first entry that is wrong, or has the driver of another: a driver has one pool on a node.
    pub(crate) fn check_all(docs: &[DeviceDoc]) -> Result<Vec<Self>, String> {
        let all: Vec<Self> =
            docs.iter().enumerate().map(|(index, doc)| Self::check(index, doc)).collect::<Result<_, _>>()?;
        for (index, spec) in all.iter().enumerate() {
            let driver = spec.profile.driver();
            if all[..index].iter().any(|other| other.profile.driver() == driver) {
                return Err(format!(
                    "spec.template.devices[{index}]: driver {driver} is there already; use groups of their own for other models"
                ));
            }
        }
        Ok(all)
    }

    /// Whether the devices are in ResourceSlices.
    pub(crate) fn has_slices(&self) -> bool {
        matches!(self.publication, Publication::Slices | Publication::Both)
    }

    /// The extended resource in the node's capacity, if there is one.
    pub(crate) fn plugin_resource(&self) -> Option<&'static str> {
        match self.publication {
            Publication::Slices => None,
            Publication::Plugin | Publication::Both => self.profile.extended_resource(),
        }
    }
}

/// The driver of an entry, or the member that is wrong and why.
fn profile(doc: &DeviceDoc) -> Result<Profile, (&'static str, String)> {
    let of_other = |member, profile: &str| {
        (member, format!("profile {:?} has no such member: it is {profile}'s", doc.profile))
    };
    if !doc.mig.is_empty() && doc.profile != "nvidia" {
        return Err(of_other("mig", "nvidia"));
    }
    if doc.partitions > 0 && doc.profile != "example" {
        return Err(of_other("partitions", "example"));
    }
    match doc.profile.as_str() {
        "example" if doc.partitions > PARTITIONS => {
            Err(("partitions", format!("{}; at most {PARTITIONS}", doc.partitions)))
        }
        "example" => match doc.model.as_str() {
            "" => Ok(Profile::Example { partitions: doc.partitions }),
            _ => Err(("model", "profile \"example\" has one model only; leave model out".to_owned())),
        },
        "nvidia" => {
            let model = named(GPUS, |model| model.name, &doc.model, "H100-80GB")?;
            let is_divided = match doc.mig.as_str() {
                "" => false,
                "dynamic" if model.mig.is_none() => {
                    return Err(("mig", format!("model {:?} cannot be divided", model.name)));
                }
                "dynamic" => true,
                other => {
                    return Err((
                        "mig",
                        format!("{other:?} is not dynamic, the only mode that is simulated"),
                    ));
                }
            };
            Ok(Profile::Nvidia { model, is_divided })
        }
        "tpu" => Ok(Profile::Tpu { model: named(TPUS, |model| model.name, &doc.model, "v5e")? }),
        "cpu" => match doc.model.as_str() {
            "" => Ok(Profile::Cpu),
            _ => Err(("model", "profile \"cpu\" has no models; leave model out".to_owned())),
        },
        other => {
            Err(("profile", format!("unknown device profile {other:?}; known: cpu, example, nvidia, tpu")))
        }
    }
}

/// The model of a name, or the default one.
fn named<T>(
    all: &'static [T],
    name: fn(&T) -> &'static str,
    wanted: &str,
    usual: &str,
) -> Result<&'static T, (&'static str, String)> {
    let wanted = if wanted.is_empty() { usual } else { wanted };
    all.iter().find(|one| name(one) == wanted).ok_or_else(|| {
        let known = all.iter().map(name).collect::<Vec<_>>().join(", ");
        ("model", format!("unknown model {wanted:?}; known: {known}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::lenient;
    use serde_json::{Value, json};

    fn check(docs: Value) -> Result<Vec<DeviceSpec>, String> {
        let docs: Vec<DeviceDoc> = lenient::from_value(&docs).unwrap();
        DeviceSpec::check_all(&docs)
    }

    #[test]
    fn wrong_entries_are_named_with_what_is_known() {
        for (doc, expected) in [
            (
                json!([{"profile": "nvida"}]),
                "devices[0].profile: unknown device profile \"nvida\"; known: cpu, example, nvidia, tpu",
            ),
            (
                json!([{"profile": "nvidia", "model": "H101"}]),
                "devices[0].model: unknown model \"H101\"; known: A100-40GB, ",
            ),
            (
                json!([{"profile": "nvidia", "model": "T4", "mig": "dynamic"}]),
                "devices[0].mig: model \"T4\" cannot be divided",
            ),
            (
                json!([{"profile": "tpu", "mig": "dynamic"}]),
                "devices[0].mig: profile \"tpu\" has no such member: it is nvidia's",
            ),
            (
                json!([{"profile": "cpu", "publish": "plugin"}]),
                "devices[0].publish: profile \"cpu\" has no device plugin",
            ),
            (
                json!([{"profile": "nvidia", "mig": "dynamic", "count": 9}]),
                "count: 9 devices that are divided; must be between 1 and 8",
            ),
            (
                json!([{"profile": "tpu"}, {"profile": "tpu"}]),
                "devices[1]: driver tpu.google.com is there already",
            ),
        ] {
            let problem = check(doc).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
        let good = check(
            json!([{"profile": "nvidia", "count": 8, "publish": "both"}, {"profile": "cpu", "count": 96}]),
        )
        .unwrap();
        assert_eq!((good[0].plugin_resource(), good[0].has_slices()), (Some("nvidia.com/gpu"), true));
        assert_eq!((good[1].plugin_resource(), good[1].count), (None, 96));
    }
}
