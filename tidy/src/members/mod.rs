//! The members of JSON objects that code names, held against the types of api's field table. The compiler does not see a wrong
//! letter in `spec["replicas"]`, which then reads null.
//!
//! A chain, a literal object or a struct of serde is right if one type has all its members. What is no API object is a document in
//! `tidy/documents.tbl`, with its reason and the files that may name it.

mod chains;
mod objects;
mod structs;
mod table;
mod tokens;

use crate::offence::Offence;
use crate::tree::{File, Tree};
use chains::Link;
use std::collections::BTreeSet;
use structs::Struct;
use table::{DOCUMENTS, Table};
use tokens::{Kind, Token};

/// Crates whose code works on no objects.
const OTHER_CRATES: [&str; 12] = [
    "benches",
    "cel",
    "checker",
    "container-sim",
    "derive",
    "etcd",
    "fuzz",
    "informer",
    "nondet",
    "store",
    "tests",
    "tidy",
];

/// What the check found.
pub(crate) struct Findings {
    /// How many literals it has compared.
    pub(crate) count: usize,
    pub(crate) offences: Vec<Offence>,
}

/// Compares the members that the tree's code names with the types.
pub(crate) fn check(tree: &Tree) -> Findings {
    let table = Table::of(tree);
    let mut findings = Findings { count: 0, offences: Vec::new() };
    let mut texts: Vec<(&str, BTreeSet<String>)> = Vec::new();
    let mut structs: Vec<(String, Vec<usize>, Struct)> = Vec::new();
    for file in tree.sources().filter(|file| works_on_objects(file)) {
        let tokens = tokens::tokens(file.code());
        let visible = table.visible(&file.path);
        findings.add_chains(&table, &visible, file, &tokens);
        findings.add_objects(&table, &visible, file, &tokens);
        findings.add_texts(&table, &visible, file, &tokens);
        let own = structs::structs(&tokens);
        let members = own.iter().flat_map(|own| own.members.iter().map(|member| member.name.clone()));
        let named = tokens.iter().filter(|token| token.kind == Kind::Text).map(|token| token.text.to_owned());
        texts.push((&file.path, members.chain(named).collect()));
        structs.extend(own.into_iter().map(|own| (file.path.clone(), visible.clone(), own)));
    }
    findings.add_structs(&table, &structs);
    findings.add_empty_rows(&table, &texts);
    findings.add_unused(&table, &texts);
    findings
}

fn works_on_objects(file: &File) -> bool {
    let (folder, below) = file.path.split_once('/').unwrap_or_default();
    below.starts_with("src/") && !file.is_test() && !OTHER_CRATES.contains(&folder)
}

impl Findings {
    fn add(&mut self, path: &str, line: usize, text: String) {
        self.offences.push(Offence::new(path, line, text));
    }

    fn add_chains(&mut self, table: &Table, visible: &[usize], file: &File, tokens: &[Token<'_>]) {
        let known = table.names(visible);
        for chain in chains::chains(tokens) {
            let count = chains::existing(table, visible, &chain);
            self.count += chain.links.len();
            if count < chain.links.len() {
                let names = chain.links[..=count].iter().map(|link| match link {
                    Link::Member(name) => name,
                    Link::Variable => "*",
                });
                let path = names.collect::<Vec<_>>().join(".");
                if !known.contains(path.as_str()) {
                    self.add(&file.path, chain.line, format!("no type has `{path}`"));
                }
            }
        }
    }

    fn add_objects(&mut self, table: &Table, visible: &[usize], file: &File, tokens: &[Token<'_>]) {
        for literal in objects::literals(tokens) {
            self.count += 1;
            if let Some(wrong) = objects::wrong_member(table, visible, &literal) {
                self.add(&file.path, wrong.line, format!("no type of this object has `{}`", wrong.text));
            }
        }
    }

    /// Texts that are written as only members are.
    fn add_texts(&mut self, table: &Table, visible: &[usize], file: &File, tokens: &[Token<'_>]) {
        let known = table.names(visible);
        let attributes = tokens::attributes(tokens);
        let is_name = |at: &usize| tokens[*at].kind == Kind::Text && chains::is_camel_case(tokens[*at].text);
        for at in (0..tokens.len()).filter(is_name).filter(|at| !attributes.contains(at)) {
            let token = &tokens[at];
            self.count += 1;
            if !known.contains(token.text) {
                self.add(&file.path, token.line, format!("`{}` is no member of a type", token.text));
            }
        }
    }

    fn add_structs(&mut self, table: &Table, structs: &[(String, Vec<usize>, Struct)]) {
        self.count += structs.len();
        let crates: BTreeSet<_> = structs.iter().filter_map(|(path, ..)| path.split('/').next()).collect();
        for folder in crates {
            let prefix = format!("{folder}/");
            let is_own = |(path, ..): &&(String, Vec<usize>, Struct)| path.starts_with(&prefix);
            let own: Vec<_> = structs.iter().filter(is_own).cloned().collect();
            for (path, own, member) in structs::misfits(table, &own) {
                let text = format!("no type has all members of `{}`: look at `{}`", own.name, member.name);
                self.add(path, member.line, text);
            }
        }
    }

    /// Rows about kinds without a file or with a name that is no type.
    fn add_empty_rows(&mut self, table: &Table, texts: &[(&str, BTreeSet<String>)]) {
        for row in table.kinds() {
            let has_file = |part: &&String| texts.iter().any(|(path, _)| path.contains(part.as_str()));
            let missing = row.paths.iter().filter(|part| !has_file(part));
            for name in missing.chain(&row.unknown) {
                self.add(DOCUMENTS, row.line, format!("`{name}` is no file or type"));
            }
        }
    }

    /// Members of documents that their files do not name.
    fn add_unused(&mut self, table: &Table, texts: &[(&str, BTreeSet<String>)]) {
        for document in table.types.iter().filter(|ty| !ty.paths.is_empty() && ty.parts.is_empty()) {
            let is_own = |path: &str| document.paths.iter().any(|part| path.contains(part));
            let has_all = |texts: &BTreeSet<String>, name: &String| {
                texts.contains(name) || name.split('.').all(|part| texts.contains(part))
            };
            let named =
                |name: &String| texts.iter().any(|(path, texts)| is_own(path) && has_all(texts, name));
            let unused: Vec<_> =
                document.fields.keys().filter(|name| !named(name)).map(String::as_str).collect();
            if !unused.is_empty() {
                let text = format!("no file of `{}` names {}", document.name, unused.join(", "));
                self.add(DOCUMENTS, document.line, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: &str = "@ core/v1 io.core - v1\nPod kind\n  metadata 1 Meta ?\n  spec 2 PodSpec ?\nMeta\n  name 1 str\n  labels 2 {}str\n\
                         PodSpec\n  nodeName 1 str\n  containers 2 []Container\n  raw 3 raw\nContainer\n  name 1 str\n  ports 2 []Port\nPort\n  \
                         containerPort 1 i32\nService kind\n  metadata 1 Meta ?\n  spec 2 ServiceSpec ?\nServiceSpec\n  clusterIP 1 str\n";

    /// What is wrong in a file of the API server with these lines.
    fn wrong(documents: &str, code: &str) -> Vec<String> {
        let tree = Tree::of([
            ("api/schema/core_v1.tbl", TYPES),
            (DOCUMENTS, documents),
            ("apiserver/src/pod.rs", code),
        ]);
        let offences: BTreeSet<_> = check(&tree).offences.into_iter().collect();
        offences
            .into_iter()
            .map(|offence| format!("{}:{}: {}", offence.path, offence.line, offence.text))
            .collect()
    }

    fn no_type(line: usize, path: &str) -> String {
        format!("apiserver/src/pod.rs:{line}: no type has `{path}`")
    }

    #[test]
    fn misspelt_members_of_chains_are_found() {
        let code = "let a = &pod[\"spec\"][\"nodename\"];\nlet b = pod.get(\"spce\")?;\nlet c = pod.pointer(\"/spec/containers/0/nam\");\n\
                    let d = pod[\"spec\"].get_mut(\"containers\")?.as_array_mut();\nlet e = pod[\"metadata\"][\"labels\"][\"anything\"];\n\
                    let f = spec[\"containers\"][at][\"ports\"][0][\"name\"];\nlet g = pod[\"metadata\"][\"nodeName\"];\n";
        let expected = [
            no_type(1, "spec.nodename"),
            no_type(2, "spce"),
            no_type(3, "spec.containers.*.nam"),
            no_type(6, "containers.*.ports.*.name"),
            no_type(7, "metadata.nodeName"),
        ];
        assert_eq!(wrong("", code), expected);
    }

    #[test]
    fn misspelt_field_paths_texts_and_arguments_are_found() {
        let code = "errors.add(&Path::new(\"spec\").child(\"containers\").index(0).child(\"port\"));\nlet a = \"spec.nodNames\";\n\
                    const PATH: [&str; 2] = [\"spec\", \"container\"];\nmatch key { \"containerPorts\" => 1 }\neach(path, spec, \"contaners\");\n\
                    const TOP: [&str; 3] = [\"spec\", \"metadata\", \"kind\"];\n";
        let mut found = wrong("", code);
        found.sort();
        let expected = [
            no_type(1, "spec.containers.*.port"),
            no_type(2, "spec.nodNames"),
            no_type(3, "spec.container"),
            "apiserver/src/pod.rs:4: `containerPorts` is no member of a type".to_owned(),
            no_type(5, "contaners"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn misspelt_members_of_literal_objects_are_found() {
        let code = "let a = json!({\"metadata\": {\"name\": name}, \"spec\": {\"containers\": [{\"name\": \"a\", \"port\": []}]}});\n\
                    let b = json!({\"spec\": {\"raw\": {\"any\": 1}, \"nodeName\": f(json!({\"clusterIP\": \"\"}))}});\n\
                    let c = json!({\"spec\": {\"nodeName\": 1, \"clusterIP\": 2}});\n";
        let found = wrong("", code);
        assert_eq!(
            found,
            [
                "apiserver/src/pod.rs:1: no type of this object has `port`",
                "apiserver/src/pod.rs:3: no type of this object has `clusterIP`"
            ]
        );
    }

    #[test]
    fn misspelt_fields_of_structs_are_found() {
        let derive = "#[derive(Default, Deserialize)]\n#[serde(default, rename_all = \"camelCase\")]\n";
        let code = format!(
            "{derive}pub struct Doc {{\n    metadata: Option<Meta>,\n    spec: Spec,\n}}\n{derive}struct Meta {{ name: String }}\n{derive}struct Spec {{\n    \
             #[serde(rename = \"containers\")]\n    all: Vec<Container>,\n    node_name: String,\n    #[serde(skip)]\n    key: Key,\n}}\n\
             {derive}struct Container {{ name: String, ports: Vec<Port> }}\n{derive}struct Port {{ container_port: i32 }}\n"
        );
        assert_eq!(wrong("", &code), Vec::<String>::new());
        let misspelt = code.replace("container_port", "container_prot");
        assert_eq!(
            wrong("", &misspelt),
            ["apiserver/src/pod.rs:24: no type has all members of `Port`: look at `containerProt`"]
        );
        let elsewhere = code.replace("spec: Spec", "spec: Container");
        assert_eq!(
            wrong("", &elsewhere),
            ["apiserver/src/pod.rs:5: no type has all members of `Doc`: look at `spec`"]
        );
    }

    #[test]
    fn files_that_know_their_kinds_name_members_of_these_alone() {
        let code = "let a = service[\"spec\"][\"clusterIP\"];\n";
        assert_eq!(wrong("> apiserver/src/pod.rs : core/v1.Service\n", code), Vec::<String>::new());
        assert_eq!(
            wrong("> apiserver/src/pod.rs : core/v1.Pod\n", code),
            [
                "apiserver/src/pod.rs:1: `clusterIP` is no member of a type".to_owned(),
                no_type(1, "spec.clusterIP")
            ]
        );
        assert_eq!(
            wrong("> apiserver/src/node.rs : core/v1.Nod\n", code),
            [
                "tidy/documents.tbl:1: `apiserver/src/node.rs` is no file or type",
                "tidy/documents.tbl:1: `core/v1.Nod` is no file or type"
            ]
        );
    }

    #[test]
    fn documents_may_be_named_in_their_files_and_are_named() {
        let code = "let a = claims[\"iss\"];\n";
        assert_eq!(wrong("", code), [no_type(1, "iss")]);
        assert_eq!(wrong("# JWT.\n@ /pod.rs\nClaims\n  iss\n", code), Vec::<String>::new());
        assert_eq!(
            wrong("# JWT.\n@ /pod.rs\nClaims\n  iss sub\n", code),
            ["tidy/documents.tbl:3: no file of `Claims` names sub"]
        );
        assert_eq!(wrong("# JWT.\n@ /node.rs\nClaims\n  iss\n", code).len(), 2);
    }
}
