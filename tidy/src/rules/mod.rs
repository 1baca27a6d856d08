//! The rules, one a file. A rule is a function from the tree to its offences.

mod biased_select;
mod bounded_output;
mod cited_files;
mod cited_functions;
mod comment_width;
mod crate_edges;
mod crate_levels;
mod file_length;
mod front_end_limits;
mod fuzz_corpora;
mod gate_checks;
mod informer_dependencies;
mod informer_features;
mod kind_rules;
mod module_comment;
mod module_files;
mod module_floors;
mod object_members;
mod one_assembly;
mod one_metadata;
mod plural_alone;
mod private_links;
mod program_in_library;
mod property_cases;
mod property_files;
mod property_tests;
mod published_crates;
mod pure_decisions;
mod readme_examples;
mod recursion_depth;
mod release_in_code;
mod release_in_documents;
mod server_dependencies;
mod smoke_steps;
mod test_modules;
mod tidy_dependencies;
mod unfinished_work;
mod upstream_names;
mod yielding_loops;

use crate::offence::Offence;
use crate::tree::Tree;

/// A house rule.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// The name on the command line and before offences.
    pub(crate) name: &'static str,
    /// What the rule demands, in a line.
    pub(crate) summary: &'static str,
    /// Lists the offences; an empty list means that the tree keeps the rule.
    pub(crate) check: fn(&Tree) -> Vec<Offence>,
}

/// All rules, in the order in which they run.
pub(crate) const ALL: [Rule; 39] = [
    module_comment::RULE,
    module_files::RULE,
    file_length::RULE,
    comment_width::RULE,
    unfinished_work::RULE,
    biased_select::RULE,
    pure_decisions::RULE,
    kind_rules::RULE,
    plural_alone::RULE,
    object_members::RULE,
    one_metadata::RULE,
    program_in_library::RULE,
    recursion_depth::RULE,
    bounded_output::RULE,
    yielding_loops::RULE,
    front_end_limits::RULE,
    release_in_code::RULE,
    release_in_documents::RULE,
    property_tests::RULE,
    property_files::RULE,
    property_cases::RULE,
    cited_files::RULE,
    cited_functions::RULE,
    upstream_names::RULE,
    smoke_steps::RULE,
    fuzz_corpora::RULE,
    gate_checks::RULE,
    test_modules::RULE,
    private_links::RULE,
    readme_examples::RULE,
    crate_edges::RULE,
    crate_levels::RULE,
    published_crates::RULE,
    module_floors::RULE,
    one_assembly::RULE,
    tidy_dependencies::RULE,
    server_dependencies::RULE,
    informer_dependencies::RULE,
    informer_features::RULE,
];

/// The offences of a rule in a small tree, for tests. Leaves out that the rule found too little to judge.
#[cfg(test)]
fn offences_of<const N: usize>(rule: Rule, files: [(&str, &str); N]) -> Vec<String> {
    let found = (rule.check)(&Tree::of(files)).into_iter();
    let found = found.filter(|offence| !offence.text.ends_with("the rule does not recognize them"));
    found.map(|Offence { path, line, text }| format!("{path}:{line}: {text}")).collect()
}
