//! Decodes the volumes of a pod that limit the choice of the node: claims, and disks in the pod's own spec.

use super::{PodClaim, PodVolumes};
use crate::disk::{Disk, DiskKind};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A volume in a pod's JSON. The decoder skips sources that do not matter to scheduling.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VolumeDoc {
    name: String,
    persistent_volume_claim: Option<ClaimDoc>,
    ephemeral: Option<IgnoredAny>,
    gce_persistent_disk: Option<GceDoc>,
    aws_elastic_block_store: Option<AwsDoc>,
    iscsi: Option<IscsiDoc>,
    rbd: Option<RbdDoc>,
    image: Option<ImageDoc>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ImageDoc {
    reference: Option<String>,
}

impl VolumeDoc {
    /// The image that is mounted as this volume.
    pub(super) fn image(&self) -> Option<&str> {
        self.image.as_ref()?.reference.as_deref()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimDoc {
    claim_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GceDoc {
    pd_name: String,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AwsDoc {
    #[serde(rename = "volumeID")]
    volume_id: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IscsiDoc {
    iqn: String,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RbdDoc {
    monitors: Vec<String>,
    image: String,
    pool: String,
    read_only: bool,
}

/// The volumes of the pod of this name; `None` if no volume matters.
pub(super) fn read(volumes: Option<Vec<VolumeDoc>>, pod: &str) -> Option<Box<PodVolumes>> {
    let mut read = PodVolumes::default();
    for volume in volumes.unwrap_or_default() {
        if let Some(claim) = volume.claim(pod)
            && !read.claims.iter().any(|known| known.name == claim.name)
        {
            read.claims.push(claim);
        }
        read.disks.extend(volume.disk());
    }
    (!read.claims.is_empty() || !read.disks.is_empty()).then(|| Box::new(read))
}

impl VolumeDoc {
    fn claim(&self, pod: &str) -> Option<PodClaim> {
        match (&self.persistent_volume_claim, &self.ephemeral) {
            (Some(claim), _) => Some(PodClaim { name: claim.claim_name.clone(), is_ephemeral: false }),
            (None, Some(_)) => Some(PodClaim { name: format!("{pod}-{}", self.name), is_ephemeral: true }),
            (None, None) => None,
        }
    }

    fn disk(self) -> Option<Disk> {
        let gce = self
            .gce_persistent_disk
            .map(|disk| Disk { kind: DiskKind::Gce(disk.pd_name), is_read_only: disk.read_only });
        let aws = || {
            let disk = self.aws_elastic_block_store?;
            Some(Disk { kind: DiskKind::Aws(disk.volume_id), is_read_only: false })
        };
        let iscsi = || {
            let disk = self.iscsi?;
            Some(Disk { kind: DiskKind::Iscsi(disk.iqn), is_read_only: disk.read_only })
        };
        let rbd = || {
            let RbdDoc { monitors, image, pool, read_only } = self.rbd?;
            // The API's default.
            let pool = if pool.is_empty() { "rbd".to_owned() } else { pool };
            Some(Disk { kind: DiskKind::Rbd { monitors, pool, image }, is_read_only: read_only })
        };
        gce.or_else(aws).or_else(iscsi).or_else(rbd)
    }
}
