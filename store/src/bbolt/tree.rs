//! Making trees front to back: entries come in ascending order, pages leave as they fill, and a branch is written when the
//! pages below it are. So an image of any size is made with one open page per level in memory.

use super::page::{Draft, Kind, Meta, encode_meta};
use super::{BUCKET, BUCKET_HEADER, PAGE};

/// Finished pages, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct Pages {
    next: u64,
    out: Vec<u8>,
}

/// The pages that metas occupy.
const METAS: u64 = 2;

impl Pages {
    /// Room for the metas, which come last, and nothing else.
    pub(crate) fn new() -> Self {
        Self { next: METAS, out: vec![0; METAS as usize * PAGE] }
    }

    /// How many finished bytes wait to be taken.
    pub(crate) fn waiting(&self) -> usize {
        self.out.len()
    }

    /// The finished bytes; the caller empties them when they are where they belong.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn seal(&mut self, draft: &mut Draft, kind: Kind) -> u64 {
        let number = self.next;
        self.next += draft.seal(kind, number, &mut self.out);
        number
    }

    /// Ends the image with the tree of buckets. What is returned goes to the very beginning of the file.
    pub(crate) fn finish(&mut self, buckets: &[(&str, u64)]) -> Vec<u8> {
        let mut tree = Tree::default();
        for (name, root) in buckets {
            let mut value = [0; BUCKET_HEADER];
            value[..8].copy_from_slice(&root.to_le_bytes());
            tree.push_flagged(self, name.as_bytes(), &value, BUCKET);
        }
        let root = tree.finish(self);
        // Each of the two counts when it has the higher transaction; both say the same.
        let meta =
            |number| Meta { page_size: PAGE as u32, root, pages: self.next, transaction: METAS + number };
        [encode_meta(0, &meta(0)), encode_meta(1, &meta(1))].concat()
    }
}

/// A tree being made.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    leaf: Draft,
    /// From the lowest up.
    branches: Vec<Draft>,
}

impl Tree {
    /// Adds an entry behind the ones before.
    pub(crate) fn push(&mut self, pages: &mut Pages, key: &[u8], value: &[u8]) {
        self.push_flagged(pages, key, value, 0);
    }

    fn push_flagged(&mut self, pages: &mut Pages, key: &[u8], value: &[u8], flags: u32) {
        if !self.leaf.is_empty() && self.leaf.len_with(key.len(), value.len()) > PAGE {
            self.seal_leaf(pages);
        }
        self.leaf.push(key, value, flags.into());
    }

    fn seal_leaf(&mut self, pages: &mut Pages) {
        let first = self.leaf.first_key().to_vec();
        let number = pages.seal(&mut self.leaf, Kind::Leaf);
        self.adopt(pages, 0, first, number);
    }

    /// Enters a finished page into the branch of a level; a full branch goes into the next one up.
    fn adopt(&mut self, pages: &mut Pages, level: usize, mut key: Vec<u8>, mut number: u64) {
        for level in level.. {
            if self.branches.len() == level {
                self.branches.push(Draft::default());
            }
            let branch = &mut self.branches[level];
            if branch.is_empty() || branch.len_with(key.len(), 0) <= PAGE {
                branch.push(&key, &[], number);
                return;
            }
            let first = branch.first_key().to_vec();
            let full = pages.seal(branch, Kind::Branch);
            branch.push(&key, &[], number);
            (key, number) = (first, full);
        }
    }

    /// Ends the tree and says which page is its root.
    pub(crate) fn finish(mut self, pages: &mut Pages) -> u64 {
        if self.branches.is_empty() {
            return pages.seal(&mut self.leaf, Kind::Leaf);
        }
        self.seal_leaf(pages);
        let mut level = 0;
        loop {
            let first = self.branches[level].first_key().to_vec();
            let number = pages.seal(&mut self.branches[level], Kind::Branch);
            if level + 1 == self.branches.len() {
                return number;
            }
            self.adopt(pages, level + 1, first, number);
            level += 1;
        }
    }
}
