//! Reads `decisions.tsv`: the callers and objects of its cluster, and its lines as single questions.

use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expected {
    Allow,
    No,
    Deny,
}

/// One question of the table and its documented answer.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// The line of the table, counted from 1.
    pub(super) line: usize,
    pub(super) rule: String,
    pub(super) modes: String,
    pub(super) who: String,
    pub(super) verb: String,
    pub(super) target: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) fields: String,
    pub(super) labels: String,
    pub(super) expected: Expected,
}

impl Question {
    /// What is asked, without the place in the table and the answer.
    pub(super) fn identity(&self) -> [&str; 8] {
        let Self { modes, who, verb, target, namespace, name, fields, labels, .. } = self;
        [modes, who, verb, target, namespace, name, fields, labels]
    }
}

/// The cluster, the callers and the ABAC policies of the table.
#[derive(Default)]
pub(super) struct Fixture {
    pub(super) callers: BTreeMap<String, UserInfo>,
    pub(super) objects: Vec<Value>,
    pub(super) policies: String,
}

/// The questions of the table and the rules from which they follow.
#[derive(Default)]
pub(super) struct Table {
    pub(super) questions: Vec<Question>,
    pub(super) rules: Vec<String>,
}

#[derive(Default)]
struct Reader {
    words: BTreeMap<String, Vec<String>>,
    roles: BTreeMap<(String, String), Vec<Value>>,
    bindings: Vec<Value>,
    modes: String,
    /// Questions that earlier lines of the current rule answer.
    answered: BTreeSet<Vec<String>>,
    fixture: Fixture,
    table: Table,
}

/// Resource, group and subresource of `RESOURCE[.GROUP][/SUBRESOURCE]`.
pub(super) fn resource(target: &str) -> (&str, &str, &str) {
    let (kind, subresource) = target.split_once('/').unwrap_or((target, ""));
    let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
    (resource, group, subresource)
}

/// The fixture and the questions of a table.
///
/// # Panics
/// A line is malformed.
pub(super) fn parse(text: &str) -> (Fixture, Table) {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            let columns: Vec<&str> = line.split('\t').collect();
            reader.line(index + 1, columns[0], &columns[1..]);
        }
    }
    let Reader { roles, bindings, mut fixture, table, .. } = reader;
    let role = |((namespace, name), rules): ((String, String), Vec<Value>)| {
        let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"namespace": namespace, "name": name}, "rules": rules})
    };
    fixture.objects.extend(roles.into_iter().map(role));
    fixture.objects.extend(bindings);
    (fixture, table)
}

impl Reader {
    /// The words of a column, with `$NAME` replaced and `-` as the empty word.
    fn words(&self, column: &str) -> Vec<String> {
        let expand = |word: &str| match word.strip_prefix('$') {
            Some(name) => self.words.get(name).unwrap_or_else(|| panic!("${name} is not defined")).clone(),
            None if word == "-" => vec![String::new()],
            None => vec![word.to_owned()],
        };
        column.split(' ').flat_map(expand).collect()
    }

    fn line(&mut self, line: usize, kind: &str, columns: &[&str]) {
        match (kind, columns) {
            ("let", [name, words]) => {
                let words = self.words(words);
                assert!(
                    self.words.insert((*name).to_owned(), words).is_none(),
                    "line {line}: a name has one meaning"
                );
            }
            ("who", [name, user, groups]) => {
                let groups = self.words(groups).into_iter().filter(|group| !group.is_empty()).collect();
                let user = UserInfo { username: (*user).to_owned(), groups, ..UserInfo::default() };
                assert!(
                    self.fixture.callers.insert((*name).to_owned(), user).is_none(),
                    "line {line}: known"
                );
            }
            ("role", [name, namespace, verbs, targets, names @ ..]) => {
                self.role(name, &self.words(namespace)[0], verbs, targets, names.first().copied());
            }
            ("bind", [subject, role, namespace]) => self.bind(subject, role, &self.words(namespace)[0]),
            ("object", [text]) => self.fixture.objects.push(serde_json::from_str(text).unwrap()),
            ("policy", [text]) => self.fixture.policies += &format!("{text}\n"),
            ("modes", [modes]) => (*modes).clone_into(&mut self.modes),
            ("rule", [text]) => {
                self.table.rules.push((*text).to_owned());
                self.answered.clear();
            }
            ("allow", columns) => self.questions(line, Expected::Allow, columns),
            ("no", columns) => self.questions(line, Expected::No, columns),
            ("deny", columns) => self.questions(line, Expected::Deny, columns),
            _ => panic!("line {line} is malformed"),
        }
    }

    fn role(&mut self, name: &str, namespace: &str, verbs: &str, targets: &str, names: Option<&str>) {
        let rules = self.words(targets).into_iter().map(|target| {
            let mut rule = json!({"verbs": self.words(verbs)});
            if target.starts_with('/') {
                rule["nonResourceURLs"] = json!([target]);
                return rule;
            }
            let (resource, group, subresource) = resource(&target);
            let resource = if subresource.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            (rule["apiGroups"], rule["resources"]) = (json!([group]), json!([resource]));
            if let Some(names) = names {
                rule["resourceNames"] = json!(self.words(names));
            }
            rule
        });
        let rules: Vec<Value> = rules.collect();
        self.roles.entry((namespace.to_owned(), name.to_owned())).or_default().extend(rules);
    }

    fn bind(&mut self, subject: &str, role: &str, namespace: &str) {
        let (kind, name) = subject.split_once(':').unwrap();
        let subject = match name.split_once('/').filter(|_| kind == "ServiceAccount") {
            Some((namespace, name)) => json!({"kind": kind, "namespace": namespace, "name": name}),
            None => json!({"apiGroup": RBAC, "kind": kind, "name": name}),
        };
        let (role_kind, role) = role.split_once('/').unwrap();
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        self.bindings.push(json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": kind,
            "metadata": {"namespace": namespace, "name": format!("table-{}", self.bindings.len())},
            "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role}, "subjects": [subject],
        }));
    }

    fn questions(&mut self, line: usize, expected: Expected, columns: &[&str]) {
        let column = |at: usize| self.words(columns.get(at).copied().unwrap_or("-"));
        let columns: [Vec<String>; 7] = std::array::from_fn(column);
        let rule = self.table.rules.last().expect("a rule precedes its lines").clone();
        let combinations = columns.iter().fold(vec![Vec::new()], |prefixes: Vec<Vec<String>>, words| {
            let longer = |prefix: &Vec<String>| {
                let prefix = prefix.clone();
                words
                    .iter()
                    .map(move |word| [&prefix[..], std::slice::from_ref(word)].concat())
                    .collect::<Vec<_>>()
            };
            prefixes.iter().flat_map(longer).collect()
        });
        let before = self.table.questions.len();
        for combination in combinations {
            let modes = self.modes.clone();
            if !self.answered.insert([std::slice::from_ref(&modes), &combination[..]].concat()) {
                continue;
            }
            let [who, verb, target, namespace, name, fields, labels] =
                <[String; 7]>::try_from(combination).expect("one word of each column");
            assert!(self.fixture.callers.contains_key(&who), "line {line}: {who:?} is not a caller");
            let rule = rule.clone();
            self.table.questions.push(Question {
                line,
                rule,
                modes,
                who,
                verb,
                target,
                namespace,
                name,
                fields,
                labels,
                expected,
            });
        }
        assert!(self.table.questions.len() > before, "line {line} adds nothing to those before it");
    }
}
