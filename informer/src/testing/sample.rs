//! [`Sample`], an object for tests and examples.

use super::Stored;
use crate::{Key, Object, Revision};

/// An object with a number, some tags and perhaps an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    key: Key,
    uid: String,
    revision: Revision,
    owner: Option<(String, Key)>,
    generation: i64,
    /// Any number: what the owner of the object wants. Another number is another generation.
    pub value: u64,
    /// Any texts: its status.
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

    /// With this number.
    #[must_use]
    pub fn value(mut self, value: u64) -> Self {
        self.value = value;
        self
    }

    /// With one tag more.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Controlled by another object.
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
