//! bbolt's file format, in which etcd stores its data: writes a whole database front to back, and reads an untrusted
//! one. Pure: pages are bytes, and the caller does the I/O. It cannot change a database in place.
//!
//! A file is a sequence of pages. Pages 0 and 1 are metas; the valid one with the higher transaction id is current. It
//! points to the root of a tree of buckets. A tree's inner pages are branches (first key, child page), its outer pages
//! leaves (key, value). A bucket is an entry of the root tree with a flag. Its value points to the root of the bucket's
//! own tree, or contains that as an inline page. An entry larger than a page makes its leaf overflow into the following
//! pages. All integers are little-endian.

pub(crate) mod page;
pub(crate) mod read;
pub(crate) mod tree;

#[cfg(test)]
mod tests;

/// Size of the pages that are written, and of etcd's pages on common machines.
pub(crate) const PAGE: usize = 4096;

/// Size of a page's header.
pub(crate) const PAGE_HEADER: usize = 16;

/// Size of an entry header in a branch or leaf; key and value follow elsewhere in the page.
pub(crate) const ELEMENT: usize = 16;

/// Marks that the file has no free list: a program that opens the file computes the free pages from the reachable ones.
const NO_FREELIST: u64 = u64::MAX;

/// Flag of a leaf entry that is a bucket.
pub(crate) const BUCKET: u32 = 1;

/// Size of a bucket's value: the root page (zero if the page follows inline) and a counter.
pub(crate) const BUCKET_HEADER: usize = 16;
