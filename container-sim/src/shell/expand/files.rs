//! File names that match a pattern.

use crate::shell::machine::State;
use crate::shell::pattern::Pattern;

/// The paths that match, sorted; empty if none does.
pub(super) fn expand(state: &State, pattern: &str) -> Vec<String> {
    let env = &state.env;
    let is_absolute = pattern.starts_with('/');
    let mut found = vec![if is_absolute { "/".to_owned() } else { String::new() }];
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    for (at, part) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        let mut next = Vec::new();
        for base in &found {
            if !env.work.spend(200) {
                return Vec::new();
            }
            if state.options.globstar && *part == "**" {
                let root = env.path(if base.is_empty() { "." } else { base });
                for (path, entry) in env.walk(&root) {
                    let below = path[root.len().min(path.len())..].trim_start_matches('/');
                    let is_folder = entry.content == crate::shell::disk::Content::Folder;
                    let is_hidden = below.split('/').any(|name| name.starts_with('.'));
                    if !is_hidden && (is_folder && !is_last || is_last && !below.is_empty()) {
                        next.push(joined(base, below));
                    }
                }
                continue;
            }
            if !part.contains(['*', '?', '[', '(']) {
                let name = unescaped(part);
                let path = joined(base, &name);
                if name == "." || name == ".." || env.entry(&env.path(&path)).is_some() {
                    next.push(path);
                }
                continue;
            }
            let folder = env.resolved(&env.path(if base.is_empty() { "." } else { base }));
            if !env.is_folder(&folder) {
                continue;
            }
            let matcher = Pattern::parse(part, state.options.extglob);
            let hidden = part.starts_with('.') || part.starts_with("\\.");
            let names = env.children(&folder);
            let dots = [".", ".."].map(str::to_owned).into_iter().filter(|_| hidden);
            for name in dots.chain(names) {
                let chars: Vec<char> = name.chars().collect();
                if (hidden || !name.starts_with('.')) && matcher.matches(&chars, &env.work) {
                    let path = joined(base, &name);
                    if is_last || env.is_folder(&env.path(&path)) {
                        next.push(path);
                    }
                }
            }
        }
        found = next;
    }
    if pattern.ends_with('/') {
        found.retain(|path| env.is_folder(&env.path(path)));
        found.iter_mut().for_each(|path| path.push('/'));
    }
    found.retain(|path| !path.is_empty());
    found.sort();
    found
}

fn joined(base: &str, name: &str) -> String {
    match base {
        "" => name.to_owned(),
        base if base.ends_with('/') || name.is_empty() => format!("{base}{name}"),
        base => format!("{base}/{name}"),
    }
}

fn unescaped(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}
