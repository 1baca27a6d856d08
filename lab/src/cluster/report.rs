//! Clusters and clocks in answers of the lab.

use jiff::Timestamp;
use serde::Serialize;

/// A cluster in answers of the lab.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Identifier in paths.
    pub id: String,
    /// Name.
    pub name: String,
    /// What it was started from.
    pub from: String,
    /// `https://127.0.0.1:PORT`.
    pub url: String,
    /// Kubeconfig (YAML) of its administrator.
    pub kubeconfig: String,
    /// Seed of its random values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Clock.
    pub clock: ClockReport,
    /// Revision of the store.
    pub revision: i64,
    /// Objects.
    pub objects: u64,
    /// Bytes of the store's history.
    pub bytes: u64,
    /// Components.
    pub components: Vec<&'static str>,
    /// Image that it was started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// A clock in answers of the lab.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockReport {
    /// Mode.
    pub mode: &'static str,
    /// Factor of `scaled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// `upTo` of `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to: Option<String>,
    /// Time of the cluster.
    pub time: Timestamp,
    /// The earliest deadline that the lab knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextDeadline>,
    /// Time of the cluster minus real time.
    pub skew: String,
    /// Times to which the clock moved.
    pub stops: u64,
}

/// A deadline at which the clock stops.
#[derive(Clone, Debug, Serialize)]
pub struct NextDeadline {
    /// When.
    pub time: Timestamp,
    /// Whose.
    pub owner: &'static str,
}
