//! Writing trees front to back: entries arrive in ascending order, pages are finished as they fill, and a branch is
//! written after the pages below it. So an image of any size needs one open page per level in memory.

use super::page::{Kind, Meta, PageBuilder, encode_meta};
use super::{BUCKET, BUCKET_HEADER, PAGE};

/// Finished pages, ascending by page number.
#[derive(Debug)]
pub(crate) struct Pages {
    next: u64,
    out: Vec<u8>,
}

/// Number of pages for the metas.
const METAS: u64 = 2;

impl Pages {
    /// Creates an image with space for the metas, which are written last.
    pub(crate) fn new() -> Self {
        Self { next: METAS, out: vec![0; METAS as usize * PAGE] }
    }

    /// Number of finished bytes that the caller has not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.out.len()
    }

    /// The finished bytes. The caller clears them after writing them to the file.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn seal(&mut self, draft: &mut PageBuilder, kind: Kind) -> u64 {
        let number = self.next;
        self.next += draft.seal(kind, number, &mut self.out);
        number
    }

    /// Completes the image with the tree of buckets. Returns the meta pages, which belong at the start of the file.
    pub(crate) fn finish(&mut self, buckets: &[(&str, u64)]) -> Vec<u8> {
        let mut tree = Tree::default();
        for (name, root) in buckets {
            let mut value = [0; BUCKET_HEADER];
            value[..8].copy_from_slice(&root.to_le_bytes());
            tree.push_flagged(self, name.as_bytes(), &value, BUCKET);
        }
        let root = tree.finish(self);
        // Both metas point to the same tree, so either can be current.
        let meta =
            |number| Meta { page_size: PAGE as u32, root, pages: self.next, transaction: METAS + number };
        [encode_meta(0, &meta(0)), encode_meta(1, &meta(1))].concat()
    }
}

/// A tree under construction.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    leaf: PageBuilder,
    /// The open branch of each level, lowest level first.
    branches: Vec<PageBuilder>,
}

impl Tree {
    /// Adds an entry, whose key must be above all previous keys.
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
        self.add_page(pages, 0, first, number);
    }

    /// Adds a finished page to the branch of a level. A full branch is finished and added to the next level.
    fn add_page(&mut self, pages: &mut Pages, level: usize, mut key: Vec<u8>, mut number: u64) {
        for level in level.. {
            if self.branches.len() == level {
                self.branches.push(PageBuilder::default());
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

    /// Completes the tree and returns its root page.
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
            self.add_page(pages, level + 1, first, number);
            level += 1;
        }
    }
}
