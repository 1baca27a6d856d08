//! Escalation checks: whether the rules that a caller holds together grant everything that another rule
//! grants.
//!
//! A rule grants the product of its verbs, groups, resources and names: 250 of each are four billion grants
//! in a few kilobytes. The product is not enumerated. Instead, each value of a rule is mapped to the set of
//! owner rules that match it; values with the same set form one class. The search over classes stops where one
//! owner rule matches everything that is left. The work is counted and bounded. Maps are ordered, so that no
//! choice of names makes them slow.

use super::rule::{Rule, url_matches};
use kstore_storage::limits::ESCALATION_STEPS;
use std::collections::{BTreeMap, BTreeSet};

/// The comparison needs more than [`ESCALATION_STEPS`] steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rules are too large to be compared with those currently held: split them, or get permission for the verb \"escalate\""
)]
pub struct TooLarge;

/// The rules that a caller holds (`ownerRules` of `Covers`), with the remaining steps for comparisons with them.
pub struct Coverage<'r> {
    owner_rules: Vec<&'r Rule>,
    steps: usize,
}

/// A set of owner rules as a bit set, by position.
type RuleSet = Vec<u64>;

impl<'r> Coverage<'r> {
    /// Starts comparisons with `owner_rules`, which share one bound.
    pub fn of(owner_rules: impl Iterator<Item = &'r Rule>) -> Self {
        Self { owner_rules: owner_rules.collect(), steps: ESCALATION_STEPS }
    }

    /// Whether the owner rules grant everything that `wanted` grants.
    ///
    /// # Errors
    /// If this comparison and those before it take too many steps.
    pub fn covers(&mut self, wanted: &Rule) -> Result<bool, TooLarge> {
        Ok(self.covers_paths(wanted)? && self.covers_resources(wanted)?)
    }

    fn covers_paths(&mut self, wanted: &Rule) -> Result<bool, TooLarge> {
        let owner_rules: Vec<&Rule> =
            self.owner_rules.iter().filter(|rule| !rule.urls.is_empty()).copied().collect();
        let verbs = self.matches(&wanted.verbs, &owner_rules, |rule| &rule.verbs, Wildcards::All)?;
        let urls = self.path_matches(&wanted.urls, &owner_rules)?;
        self.covers_product(&[verbs, urls], owner_rules.len())
    }

    fn covers_resources(&mut self, wanted: &Rule) -> Result<bool, TooLarge> {
        let owner_rules: Vec<&Rule> =
            self.owner_rules.iter().filter(|rule| !rule.resources.is_empty()).copied().collect();
        let verbs = self.matches(&wanted.verbs, &owner_rules, |rule| &rule.verbs, Wildcards::All)?;
        let groups = self.matches(&wanted.groups, &owner_rules, |rule| &rule.groups, Wildcards::All)?;
        let resources =
            self.matches(&wanted.resources, &owner_rules, |rule| &rule.resources, Wildcards::Resource)?;
        // A rule without names grants all names, and only a rule without names covers it.
        let every = [String::new()];
        let names = if wanted.names.is_empty() { &every[..] } else { &wanted.names };
        let names = self.matches(names, &owner_rules, |rule| &rule.names, Wildcards::Empty)?;
        self.covers_product(&[verbs, groups, resources, names], owner_rules.len())
    }

    fn spend(&mut self, steps: usize) -> Result<(), TooLarge> {
        self.steps = self.steps.checked_sub(steps).ok_or(TooLarge)?;
        Ok(())
    }

    /// The distinct sets of owner rules that match one of the values of a dimension.
    fn matches<'v>(
        &mut self,
        values: &'v [String],
        owner_rules: &[&Rule],
        of: impl Fn(&Rule) -> &Vec<String>,
        wildcards: Wildcards,
    ) -> Result<BTreeSet<RuleSet>, TooLarge> {
        let distinct: BTreeSet<&str> = values.iter().map(String::as_str).collect();
        self.spend(values.len() + distinct.len() * words(owner_rules.len()))?;
        let mut always = vec![0; words(owner_rules.len())];
        let mut sets: BTreeMap<&str, RuleSet> =
            distinct.into_iter().map(|value| (value, vec![0; words(owner_rules.len())])).collect();
        let mut by_subresource: BTreeMap<&'v str, Vec<&'v str>> = BTreeMap::new();
        if wildcards == Wildcards::Resource {
            for value in sets.keys().copied() {
                if let Some((_, subresource)) = value.split_once('/') {
                    by_subresource.entry(subresource).or_default().push(value);
                }
            }
        }
        for (at, rule) in owner_rules.iter().enumerate() {
            let items = of(rule);
            self.spend(items.len() + 1)?;
            if wildcards.all(items) {
                insert(&mut always, at);
                continue;
            }
            for item in items {
                if let Some(set) = sets.get_mut(item.as_str()) {
                    insert(set, at);
                }
                let same = item.strip_prefix("*/").and_then(|subresource| by_subresource.get(subresource));
                self.spend(same.map_or(0, Vec::len))?;
                for value in same.into_iter().flatten() {
                    insert(sets.get_mut(value).expect("every value has a set"), at);
                }
            }
        }
        Ok(sets.into_values().map(|set| union(set, &always)).collect())
    }

    /// Like [`Self::matches`] for URL paths: a path that ends with `*` matches every path with that prefix.
    fn path_matches(
        &mut self,
        values: &[String],
        owner_rules: &[&Rule],
    ) -> Result<BTreeSet<RuleSet>, TooLarge> {
        let distinct: BTreeSet<&str> = values.iter().map(String::as_str).collect();
        let urls: usize = owner_rules.iter().map(|rule| rule.urls.len()).sum();
        self.spend(values.len() + distinct.len().saturating_mul(urls + words(owner_rules.len())))?;
        let set = |value: &str| {
            let mut set = vec![0; words(owner_rules.len())];
            for (at, rule) in owner_rules.iter().enumerate() {
                if rule.urls.iter().any(|url| url_matches(url, value)) {
                    insert(&mut set, at);
                }
            }
            set
        };
        Ok(distinct.into_iter().map(set).collect())
    }

    /// Whether for each combination of one value per dimension some owner rule matches all of them.
    fn covers_product(&mut self, dimensions: &[BTreeSet<RuleSet>], rules: usize) -> Result<bool, TooLarge> {
        if dimensions.iter().any(BTreeSet::is_empty) {
            return Ok(true);
        }
        let every = vec![u64::MAX; words(rules)];
        // Held rules that match every value of a dimension and of all later dimensions.
        let mut rest = vec![every.clone()];
        for dimension in dimensions.iter().rev() {
            self.spend(dimension.len() * words(rules))?;
            let after = rest.last().expect("begins with one").clone();
            rest.push(dimension.iter().fold(after, |set, other| intersection(&set, other)));
        }
        rest.reverse();
        self.covers_rest(dimensions, &rest, &every)
    }

    /// The search of [`Self::covers_product`] in the remaining dimensions. `matched` are the owner rules that
    /// match the values chosen so far.
    fn covers_rest(
        &mut self,
        dimensions: &[BTreeSet<RuleSet>],
        rest: &[RuleSet],
        matched: &RuleSet,
    ) -> Result<bool, TooLarge> {
        self.spend(matched.len() + 1)?;
        if !is_empty(&intersection(matched, &rest[0])) {
            return Ok(true);
        }
        let Some((dimension, others)) = dimensions.split_first() else { return Ok(false) };
        for class in dimension {
            let both = intersection(matched, class);
            if is_empty(&both) || !self.covers_rest(others, &rest[1..], &both)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The wildcards of a dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcards {
    /// `*` matches all values.
    All,
    /// `*` matches all values, and `*/sub` that subresource of every resource.
    Resource,
    /// An empty list matches all values.
    Empty,
}

impl Wildcards {
    fn all(self, items: &[String]) -> bool {
        match self {
            Self::All | Self::Resource => items.iter().any(|item| item == "*"),
            Self::Empty => items.is_empty(),
        }
    }
}

fn words(rules: usize) -> usize {
    rules.div_ceil(64)
}

fn insert(set: &mut RuleSet, at: usize) {
    set[at / 64] |= 1 << (at % 64);
}

fn union(mut set: RuleSet, other: &RuleSet) -> RuleSet {
    set.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
    set
}

fn intersection(set: &RuleSet, other: &RuleSet) -> RuleSet {
    set.iter().zip(other).map(|(word, other)| word & other).collect()
}

fn is_empty(set: &RuleSet) -> bool {
    set.iter().all(|word| *word == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop, proptest};

    fn values(prefix: &str, count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{prefix}{n}")).collect()
    }

    fn covers(owner_rules: &[Rule], wanted: &Rule) -> Result<bool, TooLarge> {
        Coverage::of(owner_rules.iter()).covers(wanted)
    }

    #[test]
    fn rules_with_huge_products_are_compared_without_enumeration() {
        let part = |verbs| Rule {
            verbs,
            groups: values("g", 1000),
            resources: values("r", 1000),
            names: values("n", 1000),
            urls: vec![],
        };
        let owner_rules = [part(values("v", 500)), part((500..1000).map(|n| format!("v{n}")).collect())];
        assert_eq!(covers(&owner_rules, &part(values("v", 1000))), Ok(true));
        assert_eq!(covers(&owner_rules, &part(values("v", 1001))), Ok(false));
        assert_eq!(covers(&[], &part(values("v", 1000))), Ok(false));
    }

    #[test]
    fn comparisons_beyond_the_bound_are_refused() {
        // No owner rule matches more than one verb and all but one group: there are as many classes as values.
        let owner_rules: Vec<Rule> = (0..300)
            .flat_map(|n| {
                let but = |prefix: &str| {
                    values(prefix, 300).into_iter().filter(|v| *v != format!("{prefix}{n}")).collect()
                };
                let base = Rule { verbs: but("v"), groups: but("g"), resources: but("r"), ..Rule::default() };
                [base]
            })
            .collect();
        let wanted = Rule {
            verbs: values("v", 300),
            groups: values("g", 300),
            resources: values("r", 300),
            ..Rule::default()
        };
        assert_eq!(covers(&owner_rules, &wanted), Err(TooLarge));
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let some = |from: &'static [&'static str], least: usize| {
            prop::collection::vec(prop::sample::select(from).prop_map(str::to_owned), least..3)
        };
        let resource = (
            some(&["*", "get", "list"], 1),
            some(&["*", "", "apps"], 1),
            some(&["*", "pods", "pods/log", "*/log", "jobs/log"], 1),
            some(&["a", "b"], 0),
        );
        let path = (some(&["*", "get", "post"], 1), some(&["*", "/a", "/a/*", "/a/b", "/b*"], 1));
        let resource = resource.prop_map(|(verbs, groups, resources, names)| Rule {
            verbs,
            groups,
            resources,
            names,
            urls: vec![],
        });
        let path = path.prop_map(|(verbs, urls)| Rule { verbs, urls, ..Rule::default() });
        prop::strategy::Union::new_weighted(vec![(3, resource.boxed()), (1, path.boxed())])
    }

    proptest! {
        #[test]
        fn coverage_equals_the_coverage_of_every_single_grant(
            owner_rules in prop::collection::vec(any_rule(), 0..6), wanted in any_rule(),
        ) {
            let each = wanted.atoms().all(|atom| owner_rules.iter().any(|rule| rule.covers(&atom)));
            assert_eq!(covers(&owner_rules, &wanted), Ok(each));
        }
    }
}
