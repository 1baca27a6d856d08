//! [`OptIn`]: the version of Kubernetes that a server has, and the built-in kinds and features that not each server of the version has:
//! kube-apiserver's flags `--runtime-config` and `--feature-gates` turn them on and off. The rows are in `table/opt_in.rs`. A server
//! without a choice serves [`super::RESOURCES`] and the stable kinds whose gate is on in its version; its documents do not show others.
//!
//! # Adding an optional kind
//!
//! 1. A row in `table/opt_in.rs`, with the feature gate that it needs, or an empty text: flags take the gate from there.
//! 2. Its fields, rules and so on, like those of a kind that is always served. The priorities of a new group or version
//!    are in the head of its table in `api/schema`.
//!
//! [`super::lookup`] and [`super::RESOURCES`] never have the row. Code that serves requests asks the [`super::Kinds`]
//! of its server; code that only needs the rules of an object that exists asks [`super::known`].

use super::{OPT_IN, version_rows};
use crate::gate::{self, GateSet};
use crate::resource::Resource;
use crate::strategy::Features;
use crate::version::Minor;
use std::collections::BTreeMap;

/// A built-in kind that not each server of a version serves.
#[derive(Clone, Copy, Debug)]
pub struct OptionalKind {
    /// Feature gate that must be on as well; empty if there is none.
    pub gate: &'static str,
    /// The row of the kind.
    pub row: Resource,
}

/// The version of one server, and its optional kinds and features. The default is that of a server without flags.
#[derive(Clone, Debug)]
pub struct OptIn {
    minor: Minor,
    gates: GateSet,
    has_newer_data: bool,
    rows: Vec<&'static Resource>,
    features: Features,
}

/// Error: a name of `--runtime-config` that stands for no API of this server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kstore does not have the API {name:?}")]
pub struct UnknownApi {
    /// The name.
    pub name: String,
}

/// Values of `--runtime-config` by API: `api/all`, `api/beta`, a `group/version`, or a `group/version/resource`.
/// The most specific value decides.
pub type ApiSwitches<'a> = BTreeMap<&'a str, bool>;

impl PartialEq for OptIn {
    fn eq(&self, other: &Self) -> bool {
        let ids = |opt_in: &Self| opt_in.rows.iter().map(|row| row.id()).collect::<Vec<_>>();
        let data = |opt_in: &Self| (opt_in.minor, opt_in.gates, opt_in.has_newer_data);
        data(self) == data(other) && ids(self) == ids(other) && self.features == other.features
    }
}

impl Eq for OptIn {}

impl Default for OptIn {
    fn default() -> Self {
        Self::version(Minor::DEFAULT)
    }
}

impl OptIn {
    /// A version with the optional kinds and features that it has without flags.
    #[must_use]
    pub fn version(minor: Minor) -> Self {
        Self::of(minor, &ApiSwitches::new(), |name| gate::find(minor, name).is_some_and(|gate| gate.is_on))
    }

    /// The optional kinds of a version that `switches` turn on and whose feature gate is on.
    #[must_use]
    pub fn of(minor: Minor, switches: &ApiSwitches<'_>, has_gate: impl Fn(&str) -> bool) -> Self {
        let optional = version_rows::of(minor).optional.iter();
        let is_served =
            |row: &Resource, gate: &str| is_on(row, switches) && (gate.is_empty() || has_gate(gate));
        let served = optional.filter(|(row, gate)| is_served(row, gate)).map(|(row, _)| *row);
        let features = Features {
            trust_bundle_projection: has_gate(TRUST_BUNDLE_PROJECTION),
            scheduling_groups: has_gate(SCHEDULING_GROUPS),
            static_manifests: has_gate(STATIC_MANIFESTS),
        };
        Self { minor, gates: GateSet::DEFAULT, has_newer_data: false, rows: served.collect(), features }
    }

    /// The optional kinds of these APIs (`group/version` or `group/version/resource`) of a version, with all optional features.
    ///
    /// # Errors
    /// The first name that stands for no API of the version.
    pub fn apis<'a>(minor: Minor, names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownApi> {
        let switches: ApiSwitches<'_> = names.into_iter().map(|name| (name, true)).collect();
        match switches.keys().find(|name| !names_api(minor, name)) {
            Some(name) => Err(UnknownApi { name: (*name).to_owned() }),
            None => Ok(Self::of(minor, &switches, |_| true)),
        }
    }

    /// All optional kinds and features of the default version.
    #[must_use]
    pub fn all() -> Self {
        Self::of(Minor::DEFAULT, &ApiSwitches::from([(ALL, true)]), |_| true)
    }

    /// The same for a server whose storage has data of newer versions: reads drop the members that this version lacks, which costs a second
    /// parsing of each object.
    #[must_use]
    pub fn with_newer_data(self) -> Self {
        Self { has_newer_data: true, ..self }.with_own_rows()
    }

    /// The same with other feature gates than those that the version has by default: they decide about members, rules, subresources and
    /// permissions. [`OptIn::of`] asks which kinds they turn on.
    #[must_use]
    pub fn with_gates(self, gates: GateSet) -> Self {
        Self { gates, ..self }.with_own_rows()
    }

    /// The same kinds, in rows that state gates and data.
    fn with_own_rows(self) -> Self {
        let optional = &version_rows::of_view(self.minor, self.gates, self.has_newer_data).optional;
        let rows = optional.iter().map(|(row, _)| *row);
        let rows = rows.filter(|row| self.rows.iter().any(|own| own.id() == row.id())).collect();
        Self { rows, ..self }
    }

    /// The feature gates.
    #[must_use]
    pub fn gates(&self) -> GateSet {
        self.gates
    }

    /// Whether a feature gate is on. A gate that the version does not know is off.
    #[must_use]
    pub fn has_gate(&self, name: &str) -> bool {
        self.gates.has(self.minor, name)
    }

    /// Whether the storage has data of newer versions.
    #[must_use]
    pub fn has_newer_data(&self) -> bool {
        self.has_newer_data
    }

    /// The version of the server.
    #[must_use]
    pub fn minor(&self) -> Minor {
        self.minor
    }

    /// Rows of the optional kinds, in the order of discovery.
    #[must_use]
    pub fn rows(&self) -> &[&'static Resource] {
        &self.rows
    }

    /// The optional features.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Whether the kind with this group and plural is among them, in any version.
    #[must_use]
    pub fn has(&self, group: &str, plural: &str) -> bool {
        self.rows.iter().any(|row| row.group == group && row.plural == plural)
    }
}

/// The optional kinds of a version that `switches` turn on and whose feature gate is off, each with its gate.
pub fn without_gate<'a>(
    minor: Minor,
    switches: &'a ApiSwitches<'_>,
    has_gate: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = (&'static Resource, &'static str)> + 'a {
    let optional = version_rows::of(minor).optional.iter().copied();
    optional.filter(move |(row, gate)| !gate.is_empty() && is_on(row, switches) && !has_gate(gate))
}

/// Feature gate of projected ClusterTrustBundles.
const TRUST_BUNDLE_PROJECTION: &str = "ClusterTrustBundleProjection";

/// The gate of the PodGroups that pods name.
const SCHEDULING_GROUPS: &str = "GenericWorkload";
/// The gate of webhooks and policies from files.
pub const STATIC_MANIFESTS: &str = "ManifestBasedAdmissionControlConfig";

/// Name that stands for every API.
const ALL: &str = "api/all";

/// Whether the switches turn an optional kind on. Its feature gate is another condition.
#[must_use]
pub fn is_on(row: &Resource, switches: &ApiSwitches<'_>) -> bool {
    let version = row.api_version();
    let resource = format!("{version}/{}", row.plural);
    let (stage, default) = match row.version {
        alpha if alpha.contains("alpha") => ("api/alpha", false),
        beta if beta.contains("beta") => ("api/beta", false),
        _ => ("api/ga", true),
    };
    let names = [&resource, &version, stage, ALL];
    names.into_iter().find_map(|name| switches.get(name).copied()).unwrap_or(default)
}

/// Whether a server has a kind or feature only with this feature gate.
#[must_use]
pub fn is_gate(name: &str) -> bool {
    name == TRUST_BUNDLE_PROJECTION
        || name == SCHEDULING_GROUPS
        || name == STATIC_MANIFESTS
        || OPT_IN.iter().any(|kind| !kind.gate.is_empty() && kind.gate == name)
}

/// Whether a `group/version`, a `version` of the core group, or a `group/version/resource` has kinds in a version, optional
/// or not.
#[must_use]
pub fn names_api(minor: Minor, name: &str) -> bool {
    let rows = version_rows::of(minor);
    serves_api(minor, name) || rows.optional.iter().any(|(row, _)| is_named(row, name))
}

/// Whether each server of a version serves a `group/version`, a `version` of the core group, or a `group/version/resource`.
#[must_use]
pub fn serves_api(minor: Minor, name: &str) -> bool {
    version_rows::of(minor).all.iter().any(|row| is_named(row, name))
}

/// Whether `name` is the group and version of the row, with or without its plural.
fn is_named(row: &Resource, name: &str) -> bool {
    let version = row.api_version();
    name.strip_prefix(&version)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/') == Some(row.plural))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUST_BUNDLES: &str = "certificates.k8s.io/v1beta1/clustertrustbundles";

    fn plurals(switches: &[(&str, bool)], gates: &[&str]) -> Vec<&'static str> {
        let opt_in = OptIn::of(Minor::V36, &switches.iter().copied().collect(), |gate| gates.contains(&gate));
        opt_in.rows().iter().map(|row| row.plural).collect()
    }

    #[test]
    fn an_optional_kind_needs_its_api_and_its_gate() {
        let gates = ["ClusterTrustBundle"];
        let api = "certificates.k8s.io/v1beta1";
        assert_eq!(plurals(&[(api, true)], &gates), ["clustertrustbundles"]);
        assert!(plurals(&[(api, true)], &[]).is_empty());
        assert!(plurals(&[], &gates).is_empty());
        assert!(OptIn::version(Minor::V36).rows().is_empty());
    }

    #[test]
    fn the_most_specific_switch_decides() {
        let gates = ["ClusterTrustBundle"];
        let with = |switches: &[(&str, bool)]| plurals(switches, &gates) == ["clustertrustbundles"];
        assert!(with(&[("api/all", true)]));
        assert!(with(&[("api/beta", true), ("api/all", false)]));
        assert!(!with(&[("api/alpha", true)]));
        assert!(!with(&[("api/all", true), ("certificates.k8s.io/v1beta1", false)]));
        assert!(with(&[("certificates.k8s.io/v1beta1", false), (TRUST_BUNDLES, true)]));
        assert!(!with(&[("certificates.k8s.io/v1beta1", true), (TRUST_BUNDLES, false)]));
    }

    #[test]
    fn a_version_has_the_optional_kinds_that_it_knows() {
        let rows = |minor| OptIn::of(minor, &ApiSwitches::from([(ALL, true)]), |_| true).rows().to_vec();
        let plurals = |minor| rows(minor).iter().map(|row| row.plural).collect::<Vec<_>>();
        assert_eq!(plurals(Minor::V34), ["clustertrustbundles"]);
        assert_eq!(plurals(Minor::V35), ["clustertrustbundles", "storageversionmigrations"]);
        assert!(rows(Minor::V34).iter().all(|row| row.minor == Minor::V34));
        assert!(OptIn::apis(Minor::V34, ["storagemigration.k8s.io/v1beta1"]).is_err());
    }

    #[test]
    fn a_stable_kind_is_served_where_its_gate_is_on_and_a_beta_version_only_if_asked_for() {
        let ids = |opt_in: &OptIn| -> Vec<String> {
            opt_in.rows().iter().map(|row| format!("{}/{}", row.plural, row.version)).collect()
        };
        for minor in [Minor::V33, Minor::V34, Minor::V35, Minor::V36] {
            assert_eq!(OptIn::version(minor).rows().len(), 0, "{minor}");
        }
        let own = OptIn::version(Minor::V37);
        let stable = [
            "clustertrustbundles/v1",
            "podcertificaterequests/v1",
            "devicetaintrules/v1",
            "storageversionmigrations/v1",
        ];
        assert_eq!(ids(&own), stable);
        assert!(
            own.features().trust_bundle_projection
                && !OptIn::version(Minor::V36).features().trust_bundle_projection
        );
        let of = |switches: &[(&str, bool)], off: &str| {
            let has_gate =
                |name: &str| name != off && gate::find(Minor::V37, name).is_some_and(|gate| gate.is_on);
            ids(&OptIn::of(Minor::V37, &switches.iter().copied().collect(), has_gate))
        };
        assert_eq!(of(&[], "ClusterTrustBundle"), stable[1..]);
        assert_eq!(of(&[("storagemigration.k8s.io/v1", false)], ""), stable[..3]);
        let both = [stable[0], stable[1], "clustertrustbundles/v1beta1", stable[2], stable[3]];
        assert_eq!(of(&[("certificates.k8s.io/v1beta1", true)], ""), both);
        let stored: Vec<_> = own.rows().iter().map(|row| row.storage_row().version).collect();
        assert_eq!(stored, ["v1beta1", "v1", "v1", "v1beta1"]);
    }

    #[test]
    fn features_follow_their_gates() {
        let projects = |gates: &'static [&str]| {
            OptIn::of(Minor::V36, &ApiSwitches::new(), |gate| gates.contains(&gate))
                .features()
                .trust_bundle_projection
        };
        assert!(projects(&["ClusterTrustBundleProjection"]) && !projects(&["ClusterTrustBundle"]));
    }

    #[test]
    fn apis_are_chosen_by_group_and_version_or_by_resource() {
        for name in ["certificates.k8s.io/v1beta1", TRUST_BUNDLES] {
            let opt_in = OptIn::apis(Minor::V36, [name]).unwrap();
            assert!(opt_in.has("certificates.k8s.io", "clustertrustbundles"), "{name}");
            assert_eq!(opt_in.rows().len(), 1, "{name}");
        }
        assert_eq!(OptIn::all().rows().len(), OPT_IN.iter().filter(|kind| kind.row.is_served()).count());
        for name in ["certificates.k8s.io/v9", "certificates.k8s.io/v1beta1/others", "", "v1beta1"] {
            assert_eq!(
                OptIn::apis(Minor::DEFAULT, [name]).unwrap_err(),
                UnknownApi { name: name.to_owned() }
            );
        }
        assert!(!names_api(Minor::DEFAULT, "apps") && !names_api(Minor::V33, "resource.k8s.io/v1"));
        assert!(names_api(Minor::V33, "v1") && names_api(Minor::DEFAULT, "apps/v1/deployments"));
    }
}
