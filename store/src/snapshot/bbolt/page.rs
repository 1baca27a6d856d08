//! Encoding and decoding of single pages: header, meta, leaf, branch. Decoding checks every offset and length of a page
//! against its bytes.

use super::{ELEMENT, NO_FREELIST, PAGE, PAGE_HEADER};

const BRANCH_PAGE: u16 = 0x01;
const LEAF_PAGE: u16 = 0x02;
const META_PAGE: u16 = 0x04;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

/// Size of a meta after the page header, without and with its checksum.
const META_BODY: usize = 56;
const META: usize = META_BODY + 8;

/// The fields of a meta that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: u32,
    /// The root page of the tree of buckets.
    pub(crate) root: u64,
    /// Number of pages.
    pub(crate) pages: u64,
    pub(crate) transaction: u64,
}

/// FNV-1a with 64 bits: the checksum of a meta.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn header(number: u64, flags: u16, count: u16, overflow: u32) -> [u8; PAGE_HEADER] {
    let mut out = [0; PAGE_HEADER];
    out[..8].copy_from_slice(&number.to_le_bytes());
    out[8..10].copy_from_slice(&flags.to_le_bytes());
    out[10..12].copy_from_slice(&count.to_le_bytes());
    out[12..].copy_from_slice(&overflow.to_le_bytes());
    out
}

/// Encodes the meta page `number` (0 or 1).
pub(crate) fn encode_meta(number: u64, meta: &Meta) -> Vec<u8> {
    let mut out = header(number, META_PAGE, 0, 0).to_vec();
    for field in [MAGIC, VERSION, meta.page_size, 0] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    // Root page and counter of the root bucket, free pages, number of pages, transaction.
    for field in [meta.root, 0, NO_FREELIST, meta.pages, meta.transaction] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    let sum = checksum(&out[PAGE_HEADER..]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.resize(PAGE, 0);
    out
}

/// Decodes a meta page; none if its checksum or format is wrong.
pub(crate) fn decode_meta(page: &[u8]) -> Option<Meta> {
    let meta = page.get(PAGE_HEADER..PAGE_HEADER + META)?;
    let (body, sum) = meta.split_at(META_BODY);
    let known = u32_at(body, 0)? == MAGIC && u32_at(body, 4)? == VERSION;
    if !known || u64_at(sum, 0)? != checksum(body) {
        return None;
    }
    Some(Meta {
        page_size: u32_at(body, 8)?,
        root: u64_at(body, 16)?,
        pages: u64_at(body, 40)?,
        transaction: u64_at(body, 48)?,
    })
}

/// A leaf or branch under construction: entries are added until the page is full.
#[derive(Debug, Default)]
pub(crate) struct PageBuilder {
    /// Flags and sizes of key and value; in a branch, the child page and the key's size.
    entries: Vec<DraftEntry>,
    /// Keys and values, concatenated.
    data: Vec<u8>,
}

#[derive(Debug)]
struct DraftEntry {
    offset: usize,
    key: usize,
    value: usize,
    /// Flags in a leaf, child page in a branch.
    tag: u64,
}

/// The type of a tree page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Leaf,
    Branch,
}

impl PageBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size of the page in bytes after another entry of this size.
    pub(crate) fn len_with(&self, key: usize, value: usize) -> usize {
        PAGE_HEADER + (self.entries.len() + 1) * ELEMENT + self.data.len() + key + value
    }

    /// Adds an entry. `tag` has the flags in a leaf, or the child page in a branch (whose value is empty).
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8], tag: u64) {
        self.entries.push(DraftEntry { offset: self.data.len(), key: key.len(), value: value.len(), tag });
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
    }

    /// The key of the first entry.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.entries.first().map_or(&[], |first| &self.data[first.offset..][..first.key])
    }

    /// Encodes the page and appends it to `out`; the draft is empty afterwards. Returns the number of pages it
    /// occupies.
    pub(crate) fn seal(&mut self, kind: Kind, number: u64, out: &mut Vec<u8>) -> u64 {
        let len = PAGE_HEADER + self.entries.len() * ELEMENT + self.data.len();
        let pages = len.div_ceil(PAGE);
        let count = u16::try_from(self.entries.len()).expect("a page holds fewer than 256 entries");
        let overflow = u32::try_from(pages - 1).expect("an entry is bounded far below 16 TiB");
        let end = out.len() + pages * PAGE;
        let flags = match kind {
            Kind::Leaf => LEAF_PAGE,
            Kind::Branch => BRANCH_PAGE,
        };
        out.extend_from_slice(&header(number, flags, count, overflow));
        for (at, entry) in self.entries.iter().enumerate() {
            // Offset from the entry's header to its key.
            let position = (self.entries.len() - at) * ELEMENT + entry.offset;
            out.extend_from_slice(&element(kind, position, entry));
        }
        out.extend_from_slice(&self.data);
        out.resize(end, 0);
        self.entries.clear();
        self.data.clear();
        pages as u64
    }
}

fn element(kind: Kind, position: usize, entry: &DraftEntry) -> [u8; ELEMENT] {
    let small = |n: usize| u32::try_from(n).expect("an entry is bounded far below 4 GiB").to_le_bytes();
    let mut out = [0; ELEMENT];
    match kind {
        Kind::Leaf => {
            out[..4].copy_from_slice(&(entry.tag as u32).to_le_bytes());
            out[4..8].copy_from_slice(&small(position));
            out[8..12].copy_from_slice(&small(entry.key));
            out[12..].copy_from_slice(&small(entry.value));
        }
        Kind::Branch => {
            out[..4].copy_from_slice(&small(position));
            out[4..8].copy_from_slice(&small(entry.key));
            out[8..].copy_from_slice(&entry.tag.to_le_bytes());
        }
    }
    out
}

/// The decoded header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    count: u16,
    pub(crate) overflow: u32,
}

/// Decodes the header of a leaf or branch; none if the page is neither.
pub(crate) fn decode_header(page: &[u8]) -> Option<Header> {
    let header = page.get(..PAGE_HEADER)?;
    let kind = match u16_at(header, 8)? {
        LEAF_PAGE => Kind::Leaf,
        BRANCH_PAGE => Kind::Branch,
        _ => return None,
    };
    Some(Header {
        number: u64_at(header, 0)?,
        kind,
        count: u16_at(header, 10)?,
        overflow: u32_at(header, 12)?,
    })
}

/// A decoded entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) key: &'a [u8],
    /// Empty in a branch.
    pub(crate) value: &'a [u8],
    /// Flags in a leaf, child page in a branch.
    pub(crate) tag: u64,
}

impl Header {
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Decodes the entry at index `at` of a page with its overflow; none if it exceeds the page.
    pub(crate) fn element<'a>(&self, page: &'a [u8], at: usize) -> Option<Element<'a>> {
        let from = PAGE_HEADER + at * ELEMENT;
        let fields = page.get(from..from + ELEMENT)?;
        let (position, key, value, tag) = match self.kind {
            Kind::Leaf => {
                (u32_at(fields, 4)?, u32_at(fields, 8)?, u32_at(fields, 12)?, u64::from(u32_at(fields, 0)?))
            }
            Kind::Branch => (u32_at(fields, 0)?, u32_at(fields, 4)?, 0, u64_at(fields, 8)?),
        };
        let data = page.get(from.checked_add(position as usize)?..)?;
        let (key, rest) = data.split_at_checked(key as usize)?;
        Some(Element { key, value: rest.get(..value as usize)?, tag })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
