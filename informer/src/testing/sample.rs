//! [`Sample`]: an object type for tests and examples.

use super::Stored;
use crate::{Key, Object, Revision};

/// An object with a number, tags and an optional owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    key: Key,
    uid: String,
    revision: Revision,
    owner: Option<(String, Key)>,
    generation: i64,
    /// The spec of the object; a change increments the generation.
    pub value: u64,
    /// The status of the object.
    pub tags: Vec<String>,
}

impl Sample {
    /// An object that is not stored yet.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            key: Key::new(namespace, name),
            uid: String::new(),
            revision: Revision(0),
            owner: None,
            generation: 0,
            value: 0,
            tags: Vec::new(),
        }
    }

    /// Sets the number.
    #[must_use]
    pub fn value(mut self, value: u64) -> Self {
        self.value = value;
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the controller owner.
    #[must_use]
    pub fn owned_by(mut self, owner: &impl Object) -> Self {
        self.owner = Some((owner.uid().to_owned(), owner.key()));
        self
    }
}

impl Object for Sample {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn controller(&self) -> Option<(String, Key)> {
        self.owner.clone()
    }

    fn generation(&self) -> Option<i64> {
        Some(self.generation)
    }
}

impl Stored for Sample {
    fn stamp(&mut self, uid: &str, revision: Revision) {
        uid.clone_into(&mut self.uid);
        self.revision = revision;
    }

    fn generate(&mut self, old: Option<&Self>) {
        self.generation = match old {
            Some(old) => old.generation + i64::from(old.value != self.value),
            None => 1,
        };
    }
}
