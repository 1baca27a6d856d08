//! House rules that the compiler does not check, applied to the source tree.

use crate::workspace_root;
use kstore_api::version::{MINOR, PROGRAMS, RELEASE};
use std::fs;
use std::path::{Path, PathBuf};

/// Largest number of lines of a source file, without its tests.
const LINES: usize = 600;

/// A source file: its path relative to the root, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        let path = self.path.as_str();
        path.starts_with("tests/")
            || path.ends_with("/tests.rs")
            || path.ends_with("_tests.rs")
            || path.contains("/tests/")
    }

    /// The file's text without a test module at its end.
    fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// Whether the architecture requires this file to be free of waiting, clocks and clients.
    fn is_pure(&self) -> bool {
        let path = Path::new(&self.path);
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let in_folder = |name: &str| {
            path.parent().is_some_and(|parent| parent.components().any(|part| part.as_os_str() == name))
        };
        matches!(file, "plan.rs" | "decide.rs") || ["filter", "score", "codec"].into_iter().any(in_folder)
    }

    /// The lines of code that are not comments, with their numbers.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = (1..).zip(self.code().lines());
        numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// Every file of the tree except build outputs: its path relative to the root, and its full path.
fn files() -> Vec<(String, PathBuf)> {
    let root = workspace_root();
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else {
                let below = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                files.push((below, path));
            }
        }
    }
    files.sort();
    files
}

fn sources() -> Vec<Source> {
    let rust = files().into_iter().filter(|(below, _)| below.ends_with(".rs"));
    let read =
        |(below, path): (String, PathBuf)| Source { path: below, text: fs::read_to_string(path).unwrap() };
    let sources: Vec<_> = rust.map(read).collect();
    assert!(sources.len() > 100, "the tree was found: {}", sources.len());
    sources
}

/// Fails with all offences at once.
fn check(rule: &str, offences: impl Iterator<Item = String>) {
    let offences: Vec<_> = offences.collect();
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

#[test]
fn every_file_begins_with_a_module_comment() {
    let silent = sources().into_iter().filter(|source| !source.text.starts_with("//! "));
    check("a file opens with `//! `", silent.map(|source| source.path));
}

#[test]
fn no_file_exceeds_the_line_limit() {
    let long =
        sources().into_iter().filter(|source| !source.is_test() && source.code().lines().count() > LINES);
    check(
        "no more than 600 lines: look for the noun that wants its own file",
        long.map(|source| source.path),
    );
}

#[test]
fn no_test_is_ignored_and_no_fixme_is_left() {
    let words = [concat!("#[", "ignore"), concat!("FIX", "ME"), concat!("XX", "X")];
    let marked = sources().into_iter().filter(|source| words.iter().any(|word| source.text.contains(word)));
    check("no ignored tests, no notes to self", marked.map(|source| source.path));
}

#[test]
fn every_select_takes_its_branches_in_order() {
    let random = |source: &Source| {
        let mut selects =
            source.text.match_indices("select! {").map(|(at, found)| &source.text[at + found.len()..]);
        selects.any(|body| !body.trim_start().starts_with("biased;"))
    };
    // This file names the macro without calling it.
    let others = sources().into_iter().filter(|source| source.path != "tests/it/tidy.rs");
    check(
        "`select!` is `biased;`: its order must not be random",
        others.filter(random).map(|source| source.path),
    );
}

#[test]
fn decision_modules_neither_await_nor_use_a_runtime() {
    let sources = sources();
    let pure: Vec<_> = sources.iter().filter(|source| source.is_pure() && !source.is_test()).collect();
    assert!(pure.len() > 20, "the pure files were found: {}", pure.len());
    let impure = |line: &str| ["async ", ".await", "tokio"].into_iter().any(|word| line.contains(word));
    let offences = pure.iter().flat_map(|source| {
        let lines = source.lines().filter(|(_, line)| impure(line));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
    });
    check("plan, decide, filter, score and codec are pure", offences);
}

/// A table of kinds beside their `KindRules` would be one more place that a new kind has to touch.
#[test]
fn rules_of_kinds_are_found_by_row_and_not_by_name() {
    let sources = sources();
    let rules = sources.iter().filter(|source| !source.is_test() && source.path.starts_with("api/src/"));
    let by_name =
        ["(resource.group, resource.kind", "(resource.group, resource.plural", "match resource.kind"];
    let offences = rules.flat_map(|source| {
        let lines = source.lines().filter(|(_, line)| by_name.iter().any(|names| line.contains(names)));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
    });
    check("`resource.rules` has what depends on the kind", offences);
}

/// The crate `api` names the release; a literal elsewhere would be left behind by an upgrade.
#[test]
fn code_names_the_kubernetes_release_in_one_place() {
    let sources = sources();
    let others = sources.iter().filter(|source| !source.is_test() && source.path != "api/src/version.rs");
    let offences = others.flat_map(|source| {
        let lines = source.lines().filter(|(_, line)| line.contains(RELEASE));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim()))
    });
    check("code takes the Kubernetes release from `kstore_api::version`", offences);
}

/// Files that cannot read a constant of Rust.
#[test]
fn manifests_and_documents_name_the_kubernetes_release_of_the_api() {
    let named = [
        ("Cargo.toml", format!("\"v1_{MINOR}\"")),
        ("informer/Cargo.toml", format!("K8S_OPENAPI_ENABLED_VERSION={RELEASE}.")),
        ("informer/README.md", format!("`v1_{MINOR}`")),
        ("python/src/kstore/_cluster.py", format!("(1, {MINOR})")),
        ("api/README.md", format!("Kubernetes {RELEASE} ")),
        ("api/CONFORMANCE.md", format!("Kubernetes {RELEASE} ")),
        ("apiserver/CONFORMANCE.md", format!("Kubernetes {RELEASE},")),
        ("docs/kubernetes-api.md", format!("the API of Kubernetes {RELEASE}.")),
        ("docs/security.md", format!("kube-apiserver {}.", PROGRAMS.trim_start_matches('v'))),
        ("docs/testing/envtest.md", format!("those of Kubernetes {RELEASE}:")),
    ];
    let stale = named
        .iter()
        .filter(|(file, text)| !fs::read_to_string(workspace_root().join(file)).unwrap().contains(text));
    check("a file states the release in these words", stale.map(|(file, text)| format!("{file}: {text}")));
}

/// The words in backquotes that look like test names: function names of several words.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let last = quoted.map(|name| name.rsplit("::").next().unwrap_or_default());
    last.filter(|name| {
        name.matches('_').count() > 2 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Documents that promise a property and name the tests of it.
const PROMISES: [&str; 4] =
    ["store/PROPERTIES.md", "informer/PROPERTIES.md", "apiserver/CONFORMANCE.md", "api/CONFORMANCE.md"];

#[test]
fn every_property_names_tests_that_exist() {
    let sources = sources();
    let exists = |name: &str| {
        let function = format!("fn {name}(");
        sources.iter().any(|source| source.text.contains(&function))
    };
    let missing = PROMISES.into_iter().flat_map(|path| {
        let text = fs::read_to_string(workspace_root().join(path)).unwrap_or_default();
        assert!(text.is_empty() || named(&text).count() > 20, "{path} names tests");
        let missing: Vec<_> =
            named(&text).filter(|name| !exists(name)).map(|name| format!("{path}: {name}")).collect();
        missing
    });
    check("a property names a test that is there", missing);
}

/// Named cases of tables in a text, with their file: `….yaml:` and then each case in quotes, up to the next
/// `;` or cell.
fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let places = text.split(['|', ';']).filter_map(|part| part.trim().split_once(".yaml:"));
    places.flat_map(|(file, cases)| cases.split('"').skip(1).step_by(2).map(move |case| (file, case)))
}

#[test]
fn every_property_names_cases_that_exist() {
    let root = workspace_root();
    let mut count = 0;
    let missing: Vec<String> = PROMISES
        .into_iter()
        .flat_map(|path| {
            let text = fs::read_to_string(root.join(path)).unwrap_or_default();
            let named: Vec<_> =
                cases(&text).map(|(file, case)| (format!("{file}.yaml"), case.to_owned())).collect();
            count += named.len();
            let exists = |file: &str, case: &str| {
                let table = fs::read_to_string(root.join(file)).unwrap_or_default();
                table.lines().any(|line| line.trim_start_matches([' ', '-']) == format!("name: {case}"))
            };
            let missing = named.into_iter().filter(|(file, case)| !exists(file, case));
            missing.map(|(file, case)| format!("{path}: {file}: {case}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(count > 100, "cases are named: {count}");
    check("a property names a case that is there", missing.into_iter());
}

/// The test names in a text, each with the file that precedes it as `….rs:`, if any.
fn tests_by_file(text: &str) -> Vec<(&str, &str)> {
    let mut place = "";
    let mut found = Vec::new();
    for word in text.split_whitespace() {
        if let Some(path) = word.strip_suffix(':').filter(|path| path.ends_with(".rs")) {
            place = path;
        } else if word == "|" {
            place = "";
        } else if !place.is_empty() {
            found.extend(named(word).map(|name| (place, name)));
        }
    }
    found
}

#[test]
fn every_property_names_the_files_of_its_tests() {
    let sources = sources();
    let holds = |(place, name): &(&str, &str)| {
        let function = format!("fn {name}(");
        sources.iter().any(|source| source.path == *place && source.text.contains(&function))
    };
    let missing = PROMISES.into_iter().flat_map(|path| {
        let text = fs::read_to_string(workspace_root().join(path)).unwrap_or_default();
        let wrong = tests_by_file(&text).into_iter().filter(|pair| !holds(pair));
        wrong.map(|(place, name)| format!("{path}: {place}: {name}")).collect::<Vec<_>>()
    });
    check("a property names the file of its test", missing);
}

/// The words of a text that name a file of this tree: in backquotes, with a folder, or a document.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    let extension =
        |word: &str| Path::new(word).extension().map(|found| found.to_string_lossy().into_owned());
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let quoted = text.split('`').skip(1).step_by(2).filter(move |word| word.chars().all(is_path));
    let words = text.split(move |c: char| !is_path(c)).map(|word| word.trim_end_matches('.'));
    let plain = words.filter(move |word| word.contains('/') || word.ends_with(".md"));
    quoted.chain(plain).filter(move |word| {
        let kinds = ["json", "md", "proto", "py", "rs", "sh", "tbl", "toml", "txt", "yaml"];
        extension(word).is_some_and(|extension| kinds.contains(&extension.as_str()))
    })
}

/// The parts of a file that people read: all of a document, the comments of other files.
fn prose(below: &str, text: &str) -> Option<String> {
    let comment = match below.rsplit_once('.')?.1 {
        "md" => return Some(text.to_owned()),
        "rs" | "proto" => "//",
        "toml" | "tbl" => "#",
        _ => return None,
    };
    let lines = text.lines().filter(|line| line.trim_start().starts_with(comment));
    Some(lines.map(|line| format!("{line}\n")).collect())
}

#[test]
fn every_file_that_is_cited_exists() {
    let files = files();
    let exists = |word: &str| {
        let end =
            format!("/{}", word.trim_start_matches("../").trim_start_matches("./").trim_start_matches('/'));
        files.iter().any(|(below, _)| format!("/{below}").ends_with(&end))
    };
    let mut count = 0;
    let mut missing = Vec::new();
    for (below, path) in &files {
        // Past changes in the changelog name files of their time.
        let text = fs::read_to_string(path).unwrap_or_default();
        let Some(prose) = prose(below, &text).filter(|_| below != "CHANGELOG.md") else { continue };
        for word in cited(&prose) {
            count += 1;
            if !exists(word) {
                missing.push(format!("{below}: {word}"));
            }
        }
    }
    assert!(count > 100, "files are cited: {count}");
    check("a file that is cited is there", missing.into_iter());
}

/// Whether a smoke step pipes into a command that exits before its input ends: the writer then sometimes dies
/// of SIGPIPE, and the step fails.
fn leaves_early(line: &str) -> bool {
    let readers = line.split('|').skip(1).map(str::trim_start);
    readers
        .into_iter()
        .any(|reader| ["head", "grep -q", "grep -m"].iter().any(|early| reader.starts_with(early)))
}

#[test]
fn no_smoke_step_stops_reading_early() {
    let mut steps = 0;
    let mut offences = Vec::new();
    for entry in fs::read_dir(workspace_root().join(".ci/smoke.d")).unwrap().map(Result::unwrap) {
        let text = fs::read_to_string(entry.path()).unwrap();
        for line in text.lines().filter(|line| line.trim_start().starts_with("step ")) {
            steps += 1;
            if leaves_early(line) {
                offences.push(format!("{}: {line}", entry.file_name().to_string_lossy()));
            }
        }
    }
    assert!(steps > 100, "steps were found: {steps}");
    check("a step reads all that its command writes: `sed -n 1p`, not `head`", offences.into_iter());
}
