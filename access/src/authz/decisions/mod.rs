//! The table of decisions in `decisions.tsv`: over a thousand questions to the authorizers, with the answers that Kubernetes'
//! documented rules give. The head of the table says how to read it.

mod table;

use super::abac::Abac;
use super::webhook::{AuthorizationWebhook, AuthorizationWebhookOptions, FailurePolicy};
use super::{Attributes, Authorizer, Decision, Mode, Modes, More, Selects, Target, bootstrap};
use kstore_api::selector::{field, label};
use kstore_nondet::Rng;
use kstore_registry::outbound::{Remote, RemoteConfig};
use kstore_registry::testing::MapLookup;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::{Expected, Fixture, Question, Table};

const TEXT: &str = include_str!("decisions.tsv");
/// Least number of distinct decisions of the table.
const LEAST: usize = 1000;

/// Conditions of the webhook: false except for the verb `delete` on a resource, for which the last one fails.
const CONDITIONS: [&str; 3] =
    ["has(request.resourceAttributes)", "request.resourceAttributes.verb == 'delete'", "request.absent == 1"];

/// Conditions of the webhook `LabelWebhook`: the last one fails for requests that select by the label `env=prod`, the others
/// exclude the rest.
const LABEL_CONDITIONS: [&str; 3] = [
    "has(request.resourceAttributes) && has(request.resourceAttributes.labelSelector)",
    "request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'env' && r.operator == 'In' && r.values == ['prod'])",
    "request.absent == 1",
];
/// The same for requests that select by the field `spec.nodeName=a`.
const FIELD_CONDITIONS: [&str; 3] = [
    "has(request.resourceAttributes) && has(request.resourceAttributes.fieldSelector)",
    "request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName' && r.operator == 'In' && r.values == ['a'])",
    "request.absent == 1",
];

/// A webhook at a port without a listener.
fn webhook(conditions: [&str; 3]) -> Mode {
    let config = RemoteConfig { server: "https://127.0.0.1:1/".to_owned(), ..RemoteConfig::default() };
    let options = AuthorizationWebhookOptions {
        failure_policy: FailurePolicy::Deny,
        ..AuthorizationWebhookOptions::default()
    };
    let conditions = conditions.map(str::to_owned);
    let remote = Remote::new(&config).unwrap();
    Mode::Webhook(Arc::new(AuthorizationWebhook::new(remote, options, &conditions, Rng::seeded(1)).unwrap()))
}

fn mode(name: &str, policies: &Abac) -> Mode {
    match name {
        "Node" => Mode::Node,
        "RBAC" => Mode::Rbac,
        "ABAC" => Mode::Abac(Arc::new(policies.clone())),
        "AlwaysAllow" => Mode::AlwaysAllow,
        "AlwaysDeny" => Mode::AlwaysDeny,
        "Webhook" => webhook(CONDITIONS),
        "LabelWebhook" => webhook(LABEL_CONDITIONS),
        "FieldWebhook" => webhook(FIELD_CONDITIONS),
        other => panic!("the mode {other:?} is unknown"),
    }
}

/// An authorizer for each list of modes of the table, all over the same cluster.
fn authorizers(fixture: &Fixture, table: &Table) -> BTreeMap<String, Authorizer> {
    let cluster = MapLookup::of(bootstrap::objects().into_iter().chain(fixture.objects.iter().cloned()));
    let policies = Abac::parse(&fixture.policies).unwrap();
    let of_modes = |names: &String| {
        let modes = Modes::new(names.split(' ').map(|name| mode(name, &policies)));
        (names.clone(), Authorizer::of_modes(cluster.clone(), modes))
    };
    table
        .questions
        .iter()
        .map(|question| &question.modes)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(of_modes)
        .collect()
}

fn decide(authorizer: &Authorizer, fixture: &Fixture, question: &Question) -> Decision {
    let fields = field::Selector::parse(&question.fields).unwrap();
    let labels = label::Selector::parse(&question.labels).unwrap();
    let more = More { version: "v1", selects: Some(Selects { fields: &fields, labels: &labels }) };
    let target = match question.target.strip_prefix('/') {
        Some(_) => Target::Path(&question.target),
        None => {
            let (resource, group, subresource) = table::resource(&question.target);
            let (namespace, name) = (&question.namespace, &question.name);
            Target::Resource { group, resource, subresource, namespace, name }
        }
    };
    let user = &fixture.callers[&question.who];
    authorizer.decide_now(&Attributes { user, verb: &question.verb, target, more })
}

fn kind(decision: &Decision) -> Expected {
    match decision {
        Decision::Allow(_) => Expected::Allow,
        Decision::NoOpinion(_) => Expected::No,
        Decision::Deny(_) => Expected::Deny,
    }
}

#[test]
fn every_decision_of_the_table_is_the_documented_one() {
    let (fixture, table) = table::parse(TEXT);
    let authorizers = authorizers(&fixture, &table);
    let mut wrong = Vec::new();
    for question in &table.questions {
        let found = decide(&authorizers[&question.modes], &fixture, question);
        if kind(&found) != question.expected {
            wrong.push(format!("line {}: {question:?}\n    answered {found:?}", question.line));
        }
    }
    let shown = wrong.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {} decisions are wrong:\n{shown}", wrong.len(), table.questions.len());
}

#[test]
fn the_table_has_over_a_thousand_distinct_decisions_of_each_kind_and_rule() {
    let (_, table) = table::parse(TEXT);
    let distinct: BTreeSet<_> = table.questions.iter().map(Question::identity).collect();
    let count = |expected| table.questions.iter().filter(|question| question.expected == expected).count();
    let counts = [Expected::Allow, Expected::No, Expected::Deny].map(count);
    println!("{} distinct decisions, {counts:?}, {} rules", distinct.len(), table.rules.len());
    assert!(distinct.len() >= LEAST, "{} decisions", distinct.len());
    assert!(counts[0] >= LEAST / 4 && counts[1] >= LEAST / 4 && counts[2] > 20, "{counts:?}");
    for rule in &table.rules {
        assert!(
            table.questions.iter().any(|question| question.rule == *rule),
            "nothing follows from {rule:?}"
        );
    }
}

/// A question that occurs twice has one answer: the table does not contradict itself.
#[test]
fn the_table_does_not_contradict_itself() {
    let (_, table) = table::parse(TEXT);
    let mut answers = BTreeMap::new();
    for question in &table.questions {
        let known = answers.entry(question.identity()).or_insert(question);
        assert_eq!(known.expected, question.expected, "lines {} and {}", known.line, question.line);
    }
}
