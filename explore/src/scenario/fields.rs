//! Reading of YAML nodes as fields: each function notes what is wrong with its position and goes on, so that one reading finds all
//! mistakes.

use crate::limits;
use crate::yaml::{Content, Key, Mistake, Node, Position};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Distance up to which a known name is suggested for an unknown one.
const NEAR: usize = 3;

/// The mistakes found so far, and the folder to which paths are relative.
pub(super) struct Reading<'a> {
    pub(super) mistakes: Vec<Mistake>,
    pub(super) folder: &'a Path,
}

/// The fields of a mapping.
pub(super) struct Fields<'n> {
    /// Where the mapping begins.
    pub(super) position: Position,
    entries: &'n [(Key, Node)],
}

impl<'n> Fields<'n> {
    /// The value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }

    /// The fields that are there among `names`.
    pub(super) fn given(&self, names: &[&str]) -> Vec<(&'n Key, &'n Node)> {
        let is_wanted = |(key, _): &&(Key, Node)| names.contains(&key.text.as_str());
        self.entries.iter().filter(is_wanted).map(|(key, node)| (key, node)).collect()
    }
}

/// The known name that is nearest to an unknown one.
pub(super) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|known| (strsim::osa_distance(name, known), *known));
    distances.min().filter(|(distance, known)| *distance <= NEAR.min(known.len() / 2)).map(|(_, known)| known)
}

impl Reading<'_> {
    pub(super) fn wrong(&mut self, position: Position, problem: impl Into<String>) {
        if self.mistakes.len() < limits::MISTAKES {
            self.mistakes.push(Mistake { position, problem: problem.into() });
        }
    }

    fn wrong_kind(&mut self, node: &Node, what: &str, wanted: &str) {
        self.wrong(node.position, format!("{what} must be {wanted}, and is {}", node.kind()));
    }

    /// The fields of a mapping; unknown ones are mistakes.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Fields<'n>> {
        let Content::Map(entries) = &node.content else {
            self.wrong_kind(node, what, "a mapping");
            return None;
        };
        for (key, _) in entries.iter().filter(|(key, _)| !known.contains(&&*key.text)) {
            let hint = match nearest(&key.text, known) {
                Some(near) => format!(": did you mean {near:?}?"),
                None => format!("; it has {}", known.join(", ")),
            };
            self.wrong(key.position, format!("{what} has no field {:?}{hint}", key.text));
        }
        Some(Fields { position: node.position, entries })
    }

    /// The value of a required field.
    pub(super) fn required<'n>(&mut self, fields: &Fields<'n>, what: &str, name: &str) -> Option<&'n Node> {
        let found = fields.get(name);
        if found.is_none() {
            self.wrong(fields.position, format!("{what} needs the field {name:?}"));
        }
        found
    }

    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.content {
            Content::Scalar { text, .. } if node.kind() == "a text" => Some(text.clone()),
            // A name such as `1` needs no quotes.
            Content::Scalar { text, .. } if node.kind() == "a number" => Some(text.clone()),
            _ => {
                self.wrong_kind(node, what, "a text");
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        let value = node.json().as_bool();
        if value.is_none() {
            self.wrong_kind(node, what, "true or false");
        }
        value
    }

    pub(super) fn number(&mut self, node: &Node, what: &str, most: usize) -> Option<usize> {
        let value = node.json().as_u64().and_then(|value| usize::try_from(value).ok());
        match value {
            Some(value) if value <= most => Some(value),
            Some(value) => {
                self.wrong(node.position, format!("{what} is at most {most}, and not {value}"));
                None
            }
            None => {
                self.wrong_kind(node, what, "a whole number");
                None
            }
        }
    }

    /// A Go duration, or days.
    pub(super) fn duration(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let text = self.text(node, what)?;
        let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
        let parsed = match days.and_then(|days| days.checked_mul(86_400)) {
            Some(seconds) => Some(Duration::from_secs(seconds)),
            None => kstore_go_duration::parse(&text)
                .ok()
                .and_then(|nanoseconds| u64::try_from(nanoseconds).ok())
                .map(Duration::from_nanos),
        };
        let parsed = parsed.filter(|duration| *duration <= limits::DURATION);
        if parsed.is_none() {
            self.wrong(
                node.position,
                format!("{what} must be a duration such as 90s, 1h30m or 3d, and not {text:?}"),
            );
        }
        parsed
    }

    /// The items of a list.
    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.content {
            Content::List(items) if items.len() <= limits::ITEMS => items,
            Content::List(items) => {
                let (most, count) = (limits::ITEMS, items.len());
                self.wrong(node.position, format!("{what} has at most {most} items, and not {count}"));
                &[]
            }
            Content::Scalar { .. } | Content::Map(_) => {
                self.wrong_kind(node, what, "a list");
                &[]
            }
        }
    }

    pub(super) fn texts(&mut self, node: &Node, what: &str) -> Vec<String> {
        let items = self.list(node, what);
        items.iter().filter_map(|item| self.text(item, &format!("an item of {what}"))).collect()
    }

    /// A mapping of texts.
    pub(super) fn text_map(&mut self, node: &Node, what: &str) -> BTreeMap<String, String> {
        let Content::Map(entries) = &node.content else {
            self.wrong_kind(node, what, "a mapping");
            return BTreeMap::new();
        };
        let texts = entries.iter().filter_map(|(key, value)| {
            Some((key.text.clone(), self.text(value, &format!("{what}.{}", key.text))?))
        });
        texts.collect()
    }

    /// A path relative to the scenario's folder. The file must be there.
    pub(super) fn path(&mut self, node: &Node, what: &str) -> Option<PathBuf> {
        let text = self.text(node, what)?;
        let path = self.folder.join(&text);
        if !path.exists() {
            self.wrong(node.position, format!("{what}: there is no file or folder {}", path.display()));
            return None;
        }
        Some(path)
    }

    pub(super) fn paths(&mut self, node: &Node, what: &str) -> Vec<PathBuf> {
        let items = self.list(node, what);
        items.iter().filter_map(|item| self.path(item, &format!("an item of {what}"))).collect()
    }
}
