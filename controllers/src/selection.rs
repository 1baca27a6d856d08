//! The words of a [`Selection`], the controllers to run, as in kube-controller-manager's flag `--controllers`. `runner`
//! lists the names and aliases.

use crate::config::Selection;
use crate::runner::CONTROLLERS;
use std::collections::BTreeSet;

/// Controllers of kube-controller-manager 1.36 that kstore lacks, with their older names.
const NOT_HERE: &[(&str, &str)] = &[
    ("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
    ("endpoints-controller", "endpoint"),
    ("node-route-controller", "route"),
    ("persistentvolume-attach-detach-controller", "attachdetach"),
    ("persistentvolume-expander-controller", "persistentvolume-expander"),
    ("selinux-warning-controller", ""),
    ("storageversion-garbage-collector-controller", "storage-version-gc"),
];

/// A word that names no controller of kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not in the list of known controllers; kstore has {}", known())]
pub struct UnknownController {
    /// The word, without a leading `-`.
    pub name: String,
}

fn known() -> String {
    CONTROLLERS.iter().map(|controller| controller.name).collect::<Vec<_>>().join(", ")
}

impl Selection {
    /// Parses the words of the flag: `NAME` enables a controller, `-NAME` disables it, and `*` enables all
    /// that are not named. Names are those of Kubernetes 1.36, or their older forms (`garbagecollector`).
    /// Also returns the explicitly enabled controllers that kstore lacks.
    ///
    /// # Errors
    /// The first word that names no controller.
    pub fn parse<'w>(
        words: impl IntoIterator<Item = &'w str>,
    ) -> Result<(Self, Vec<&'static str>), UnknownController> {
        let (mut named, mut excluded, mut missing, mut is_all) =
            (BTreeSet::new(), BTreeSet::new(), Vec::new(), false);
        for word in words {
            if word == "*" {
                is_all = true;
                continue;
            }
            let (name, is_excluded) = match word.strip_prefix('-') {
                Some(name) => (name, true),
                None => (word, false),
            };
            let here = CONTROLLERS.iter().find(|own| own.name == name || own.aliases.contains(&name));
            let absent =
                NOT_HERE.iter().find(|(own, alias)| *own == name || (*alias == name && !name.is_empty()));
            match (here, absent) {
                (Some(own), _) if is_excluded => drop(excluded.insert(own.name)),
                (Some(own), _) => drop(named.insert(own.name)),
                (None, Some((own, _))) if !is_excluded => missing.push(*own),
                (None, Some(_)) => {}
                (None, None) => return Err(UnknownController { name: name.to_owned() }),
            }
        }
        let all: BTreeSet<_> = Self::default().names().collect();
        let runs = |name: &&str| named.contains(name) || (is_all && !excluded.contains(name));
        let selected: BTreeSet<_> = all.iter().copied().filter(runs).collect();
        Ok((if selected == all { Self::All } else { Self::Only(selected) }, missing))
    }

    /// Names of the selected controllers, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all: BTreeSet<_> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        let selected: Vec<_> = all.into_iter().filter(|name| self.runs(name)).collect();
        selected.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(flag: &str) -> Vec<&'static str> {
        Selection::parse(flag.split(',')).unwrap().0.names().collect()
    }

    #[test]
    fn words_select_controllers_as_in_kube_controller_manager() {
        let all = names("*");
        assert_eq!(all.len(), CONTROLLERS.len());
        assert_eq!(
            names("namespace,garbagecollector"),
            ["garbage-collector-controller", "namespace-controller"]
        );
        assert_eq!(names("namespace-controller,-deployment"), ["namespace-controller"]);
        let without = names("*,-garbage-collector-controller");
        assert_eq!(without.len(), all.len() - 1);
        assert!(!without.contains(&"garbage-collector-controller"));
        assert_eq!(names("-namespace,namespace"), ["namespace-controller"], "a name that is given wins");
        assert!(names("-namespace").is_empty(), "what is not named does not run");
    }

    #[test]
    fn missing_controllers_are_reported_and_unknown_ones_refused() {
        let (selection, missing) = Selection::parse(["attachdetach", "-route", "podgc"]).unwrap();
        assert_eq!(selection.names().collect::<Vec<_>>(), ["pod-garbage-collector-controller"]);
        assert_eq!(missing, ["persistentvolume-attach-detach-controller"]);
        for word in ["", "deployments", "-nothing"] {
            let error = Selection::parse([word]).unwrap_err();
            assert_eq!(error.name, word.trim_start_matches('-'));
        }
    }

    #[test]
    fn each_name_and_alias_stands_for_one_controller() {
        let here = CONTROLLERS.iter().flat_map(|own| std::iter::once(&own.name).chain(own.aliases));
        let absent = NOT_HERE.iter().flat_map(|(own, alias)| [own, alias]).filter(|name| !name.is_empty());
        let all: Vec<_> = here.chain(absent).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), distinct.len());
    }
}
