//! bbolt's file format, in which etcd keeps its data: what is needed to write a whole database front to back, and to read
//! one that nobody vouches for. Pure: pages are bytes, who moves them is not here. Not a database: nothing is changed in
//! place.
//!
//! A file is a row of pages. Pages 0 and 1 are metas, of which the valid one with the higher transaction counts; it names
//! the root of a tree of buckets. A tree's inner pages are branches (first key below, page), its outer ones leaves (key,
//! value). A bucket is an entry of the root tree with a flag; its value names the root of the bucket's own tree, or holds
//! that as a page inside. Entries larger than a page make their leaf overflow into the pages behind it. Little-endian.

pub(crate) mod page;
pub(crate) mod read;
pub(crate) mod tree;

#[cfg(test)]
mod tests;

/// The size of the pages that are written, and of etcd's on every common machine.
pub(crate) const PAGE: usize = 4096;

/// A page's header.
pub(crate) const PAGE_HEADER: usize = 16;

/// A branch's or a leaf's entry, without key and value.
pub(crate) const ELEMENT: usize = 16;

/// Says that the free pages are not listed: whoever opens the file finds them by what is reachable.
const NO_FREELIST: u64 = u64::MAX;

/// A leaf's entry that is a bucket.
pub(crate) const BUCKET: u32 = 1;

/// A bucket's value: the root page (zero if the page follows inside) and a counter.
pub(crate) const BUCKET_HEADER: usize = 16;
