//! Models of GPUs and TPUs, as data.

use super::mig::{AMPERE, HOPPER, MigFamily};

/// A model of NVIDIA's GPUs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GpuModel {
    /// The name in NodeGroups.
    pub(crate) name: &'static str,
    pub(crate) product: &'static str,
    pub(crate) architecture: &'static str,
    /// CUDA compute capability.
    pub(crate) capability: &'static str,
    /// Memory in MiB.
    pub(crate) memory: u64,
    /// How it is divided, and the gigabytes in the names of its MIG profiles, in the family's order.
    pub(crate) mig: Option<(&'static MigFamily, [u32; 6])>,
}

/// A model of Google's TPUs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TpuModel {
    /// The name in NodeGroups, and the generation.
    pub(crate) name: &'static str,
    /// The accelerator's name in Google's cloud.
    pub(crate) accelerator: &'static str,
}

/// All models of GPUs.
pub(crate) const GPUS: &[GpuModel] = &[
    GpuModel {
        name: "A100-40GB",
        product: "NVIDIA A100-SXM4-40GB",
        architecture: "Ampere",
        capability: "8.0.0",
        memory: 40_960,
        mig: Some((&AMPERE, [5, 10, 10, 20, 20, 40])),
    },
    GpuModel {
        name: "A100-80GB",
        product: "NVIDIA A100-SXM4-80GB",
        architecture: "Ampere",
        capability: "8.0.0",
        memory: 81_920,
        mig: Some((&AMPERE, [10, 20, 20, 40, 40, 80])),
    },
    GpuModel {
        name: "H100-80GB",
        product: "NVIDIA H100 80GB HBM3",
        architecture: "Hopper",
        capability: "9.0.0",
        memory: 81_559,
        mig: Some((&HOPPER, [10, 20, 20, 40, 40, 80])),
    },
    GpuModel {
        name: "H200-141GB",
        product: "NVIDIA H200",
        architecture: "Hopper",
        capability: "9.0.0",
        memory: 143_771,
        mig: Some((&HOPPER, [18, 35, 35, 71, 71, 141])),
    },
    GpuModel {
        name: "B200",
        product: "NVIDIA B200",
        architecture: "Blackwell",
        capability: "10.0.0",
        memory: 183_359,
        mig: None,
    },
    GpuModel {
        name: "L4",
        product: "NVIDIA L4",
        architecture: "Ada Lovelace",
        capability: "8.9.0",
        memory: 23_034,
        mig: None,
    },
    GpuModel {
        name: "T4",
        product: "Tesla T4",
        architecture: "Turing",
        capability: "7.5.0",
        memory: 15_360,
        mig: None,
    },
];

/// All models of TPUs.
pub(crate) const TPUS: &[TpuModel] = &[
    TpuModel { name: "v5e", accelerator: "tpu-v5-lite-podslice" },
    TpuModel { name: "v5p", accelerator: "tpu-v5p-slice" },
    TpuModel { name: "v6e", accelerator: "tpu-v6e-slice" },
];
