//! Reading an untrusted database image: every number is checked before use, and the image's length bounds the work
//! for any contents.

use super::page::{Header, Kind, Meta, decode_header, decode_meta, u64_at};
use super::{BUCKET, BUCKET_HEADER};
use crate::disk::{File, read_full};
use std::collections::BTreeMap;
use std::io;

/// Why a database image cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The image does not start like a bbolt file.
    #[error("it is not a bbolt database ({0})")]
    Foreign(&'static str),
    /// A page is invalid.
    #[error("page {number} {detail}")]
    Page {
        /// The page.
        number: u64,
        /// The defect, as a predicate after "page 7".
        detail: &'static str,
    },
    /// The caller's visitor refused an entry.
    #[error("{0}")]
    Refused(String),
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn wrong(number: u64, detail: &'static str) -> ReadError {
    ReadError::Page { number, detail }
}

/// An opened database image.
pub(crate) struct Image<'a> {
    file: &'a dyn File,
    meta: Meta,
    buckets: BTreeMap<Vec<u8>, Bucket>,
}

/// Location of a bucket's entries.
#[derive(Clone, Debug)]
enum Bucket {
    /// In the tree with this root page.
    Tree(u64),
    /// In this inline leaf page.
    Inline(Vec<u8>),
}

/// Maximum depth of a tree. A deeper tree would have more entries than any file can hold.
const DEPTH: usize = 32;

/// Page sizes that bbolt uses on any machine.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 16;

/// Visitor of an entry's key and value.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), String> + 'a;

impl<'a> Image<'a> {
    /// Opens the image in the first `len` bytes of a file.
    pub(crate) fn open(file: &'a dyn File, len: u64) -> Result<Self, ReadError> {
        let meta = newest_meta(file)?;
        let (size, root) = (u64::from(meta.page_size), meta.root);
        if meta.pages.checked_mul(size).is_none_or(|needed| needed > len) {
            return Err(ReadError::Foreign("it is cut off"));
        }
        let mut image = Self { file, meta, buckets: BTreeMap::new() };
        let mut buckets = BTreeMap::new();
        image.walk(root, &mut |key, value, flags| {
            if flags != BUCKET {
                return Err("there is an entry outside of all buckets".to_owned());
            }
            let bucket = parse_bucket(value).ok_or("a bucket's entry is malformed")?;
            buckets.insert(key.to_owned(), bucket);
            Ok(())
        })?;
        image.buckets = buckets;
        Ok(image)
    }

    /// Size of the image in bytes, as its meta says.
    pub(crate) fn bytes(&self) -> u64 {
        self.meta.pages * u64::from(self.meta.page_size)
    }

    /// Names of the buckets, ascending.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = &[u8]> {
        self.buckets.keys().map(Vec::as_slice)
    }

    /// Visits all entries of a bucket, ascending by key; visits nothing if there is no such bucket.
    pub(crate) fn visit(&self, bucket: &[u8], visit: &mut Visit<'_>) -> Result<(), ReadError> {
        match self.buckets.get(bucket) {
            Some(bucket) => self.visit_bucket(bucket, visit),
            None => Ok(()),
        }
    }

    fn visit_bucket(&self, bucket: &Bucket, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let mut plain = |key: &[u8], value: &[u8], flags| match flags {
            0 => visit(key, value),
            _ => Err("there is a bucket inside a bucket".to_owned()),
        };
        match bucket {
            Bucket::Tree(root) => self.walk(*root, &mut plain),
            Bucket::Inline(page) => {
                let header = decode_header(page).filter(|header| header.kind == Kind::Leaf);
                let header = header.ok_or(wrong(0, "inside a bucket is not a leaf"))?;
                Traversal::new(self, &mut plain).leaf(&header, page, 0)
            }
        }
    }

    fn walk(&self, root: u64, visit: &mut VisitFlagged<'_>) -> Result<(), ReadError> {
        Traversal::new(self, visit).page(root, DEPTH)
    }
}

/// Visitor of an entry's key, value and flags.
type VisitFlagged<'a> = dyn FnMut(&[u8], &[u8], u32) -> Result<(), String> + 'a;

/// A traversal of one tree.
struct Traversal<'a, 'v> {
    image: &'a Image<'a>,
    visit: &'v mut VisitFlagged<'v>,
    /// The last visited key. Keys must ascend, so a page that is reached twice is an error.
    last: Option<Vec<u8>>,
    /// Bytes that may still be read: a tree has at most as many as the file.
    budget: u64,
}

impl<'a, 'v> Traversal<'a, 'v> {
    fn new(image: &'a Image<'a>, visit: &'v mut VisitFlagged<'v>) -> Self {
        Self { image, visit, last: None, budget: image.bytes() }
    }

    fn page(&mut self, number: u64, depth: usize) -> Result<(), ReadError> {
        let (header, page) = self.read(number)?;
        // Only a root page may be empty. Otherwise a hostile tree of empty pages would be endless.
        if header.count() == 0 && (depth < DEPTH || header.kind == Kind::Branch) {
            return Err(wrong(number, "is empty"));
        }
        match header.kind {
            Kind::Leaf => self.leaf(&header, &page, number),
            Kind::Branch if depth == 0 => Err(wrong(number, "lies deeper than any tree")),
            Kind::Branch => {
                for at in 0..header.count() {
                    let element = header.element(&page, at);
                    let below = element.ok_or(wrong(number, "has an entry outside of itself"))?.tag;
                    self.page(below, depth - 1)?;
                }
                Ok(())
            }
        }
    }

    fn leaf(&mut self, header: &Header, page: &[u8], number: u64) -> Result<(), ReadError> {
        for at in 0..header.count() {
            let element = header.element(page, at).ok_or(wrong(number, "has an entry outside of itself"))?;
            if self.last.as_deref().is_some_and(|last| last >= element.key) {
                return Err(wrong(number, "has a key that is not above the one before"));
            }
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(element.key);
            (self.visit)(element.key, element.value, element.tag as u32).map_err(ReadError::Refused)?;
        }
        Ok(())
    }

    /// Reads a page with its overflow.
    fn read(&mut self, number: u64) -> Result<(Header, Vec<u8>), ReadError> {
        let meta = &self.image.meta;
        if number < 2 || number >= meta.pages {
            return Err(wrong(number, "is outside of the file"));
        }
        let size = u64::from(meta.page_size);
        let mut page = self.read_bytes(number, size)?;
        let header = decode_header(&page).ok_or(wrong(number, "is neither branch nor leaf"))?;
        if header.number != number {
            return Err(wrong(number, "says that it is another one"));
        }
        let pages = u64::from(header.overflow) + 1;
        if pages > meta.pages - number {
            return Err(wrong(number, "reaches beyond the file"));
        }
        if pages > 1 {
            page.extend(self.read_bytes(number + 1, (pages - 1) * size)?);
        }
        Ok((header, page))
    }

    fn read_bytes(&mut self, from: u64, len: u64) -> Result<Vec<u8>, ReadError> {
        self.budget = self.budget.checked_sub(len).ok_or(wrong(from, "belongs to more than one other"))?;
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        let offset = from * u64::from(self.image.meta.page_size);
        if read_full(self.image.file, offset, &mut bytes)? < bytes.len() {
            return Err(wrong(from, "is cut off"));
        }
        Ok(bytes)
    }
}

/// Reads the current meta: the valid one with the higher transaction id.
fn newest_meta(file: &dyn File) -> Result<Meta, ReadError> {
    let at = |offset: u64| -> io::Result<Option<Meta>> {
        let mut bytes = vec![0; 128];
        let read = read_full(file, offset, &mut bytes)?;
        Ok(decode_meta(&bytes[..read]).filter(|meta| is_page_size(meta.page_size)))
    };
    let first = at(0)?;
    let second = match &first {
        Some(first) => at(first.page_size.into())?,
        // The offset of the second meta depends on the page size that it contains.
        None => {
            let mut sizes = PAGE_SIZES.filter(|size| size.is_power_of_two());
            sizes.find_map(|size| at(size.into()).transpose().filter(|found| found.is_ok())).transpose()?
        }
    };
    let newest = [first, second].into_iter().flatten().max_by_key(|meta| meta.transaction);
    newest.ok_or(ReadError::Foreign("neither of its first two pages checks"))
}

fn is_page_size(size: u32) -> bool {
    PAGE_SIZES.contains(&size) && size.is_power_of_two()
}

fn parse_bucket(value: &[u8]) -> Option<Bucket> {
    let (header, inline) = value.split_at_checked(BUCKET_HEADER)?;
    Some(match u64_at(header, 0)? {
        0 => Bucket::Inline(inline.to_vec()),
        root => Bucket::Tree(root),
    })
}
