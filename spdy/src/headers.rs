//! SPDY header blocks: pairs of names and values in one zlib stream per direction, with a dictionary that the
//! specification fixes. Pure.

use crate::frame::SpdyError;
use crate::limits::HEADER_BYTES;
use flate2::{Decompress, FlushDecompress, Status};
use std::collections::BTreeMap;

/// The words of the dictionary, each preceded by its length, and the text that follows them. Fixed by SPDY/3.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age \
    allow authorization cache-control connection content-base content-encoding content-language content-length \
    content-location content-md5 content-range content-type date etag expect expires from host if-match if-modified-since \
    if-none-match if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning \
    www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin";
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not \
    Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec \
    00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,\
    application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,\
    utf-,*,enq=0.";

/// Builds the dictionary.
pub(crate) fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in WORDS.split(' ').filter(|word| !word.is_empty()) {
        let word = word.replace('_', " ");
        bytes.extend(u32::try_from(word.len()).expect("a word is short").to_be_bytes());
        bytes.extend(word.into_bytes());
    }
    bytes.extend(TEXT.as_bytes());
    bytes
}

/// Decompresses the header blocks of one direction, in order.
pub(crate) struct Inflate {
    raw: Decompress,
    /// Whether the zlib header has been read.
    begun: bool,
}

impl Inflate {
    pub(crate) fn new() -> Self {
        Self { raw: Decompress::new(false), begun: false }
    }

    /// Decodes one block.
    pub(crate) fn read(&mut self, mut block: &[u8]) -> Result<BTreeMap<String, String>, SpdyError> {
        if !self.begun && !block.is_empty() {
            let (head, rest) = block.split_at_checked(2).ok_or(SpdyError::Headers)?;
            block = rest;
            // A flag in the zlib header announces a dictionary; there is only one.
            if head[1] & 0x20 != 0 {
                block = block.get(4..).ok_or(SpdyError::Headers)?;
                self.learn()?;
            }
            self.begun = true;
        }
        pairs(&self.inflate(block)?)
    }

    /// Puts the dictionary into the decompressor's window, as a block of stored bytes.
    fn learn(&mut self) -> Result<(), SpdyError> {
        let dictionary = dictionary();
        let length = u16::try_from(dictionary.len()).expect("the dictionary fits into a stored block");
        let mut block = vec![0];
        block.extend(length.to_le_bytes());
        block.extend((!length).to_le_bytes());
        block.extend(dictionary);
        self.inflate(&block).map(drop)
    }

    fn inflate(&mut self, mut input: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let (read, written) = (self.raw.total_in(), self.raw.total_out());
            let status = self.raw.decompress(input, &mut buffer, FlushDecompress::Sync);
            let status = status.map_err(|_| SpdyError::Headers)?;
            let read = usize::try_from(self.raw.total_in() - read).expect("no more is read than there is");
            let written = usize::try_from(self.raw.total_out() - written).expect("a buffer is small");
            input = &input[read..];
            all.extend_from_slice(&buffer[..written]);
            if all.len() > HEADER_BYTES {
                return Err(SpdyError::TooLarge);
            }
            let stuck = read == 0 && written == 0;
            if status == Status::StreamEnd || stuck || (input.is_empty() && written < buffer.len()) {
                return Ok(all);
            }
        }
    }
}

/// The pairs of a decompressed block.
fn pairs(block: &[u8]) -> Result<BTreeMap<String, String>, SpdyError> {
    let mut rest = block;
    let count = number(&mut rest)?;
    let mut pairs = BTreeMap::new();
    for _ in 0..count {
        let name = text(&mut rest)?.to_ascii_lowercase();
        let value = text(&mut rest)?;
        pairs.insert(name, value);
    }
    Ok(pairs)
}

fn number(rest: &mut &[u8]) -> Result<u32, SpdyError> {
    let (head, tail) = rest.split_first_chunk::<4>().ok_or(SpdyError::Headers)?;
    *rest = tail;
    Ok(u32::from_be_bytes(*head))
}

fn text(rest: &mut &[u8]) -> Result<String, SpdyError> {
    let length = number(rest)? as usize;
    let (head, tail) = rest.split_at_checked(length).ok_or(SpdyError::Headers)?;
    *rest = tail;
    Ok(String::from_utf8_lossy(head).into_owned())
}

/// An empty header block: servers send no others.
pub(crate) fn empty_block(is_first: bool) -> Vec<u8> {
    stored_block(&[], is_first)
}

/// A header block of these pairs. The first block of a connection begins the zlib stream. Its data is stored without compression, which
/// every decompressor accepts.
pub(crate) fn stored_block(headers: &[(&str, &str)], is_first: bool) -> Vec<u8> {
    let count = |length: usize| u32::try_from(length).expect("headers are few and short").to_be_bytes();
    let mut pairs = count(headers.len()).to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        pairs.extend(count(text.len()));
        pairs.extend(text.as_bytes());
    }
    let mut block = Vec::new();
    if is_first {
        block.extend([0x78, 0x01]);
    }
    // A stored block, then an empty one, which makes decompressors flush.
    let length = u16::try_from(pairs.len()).expect("headers are few and short");
    block.push(0);
    block.extend(length.to_le_bytes());
    block.extend((!length).to_le_bytes());
    block.extend(pairs);
    block.extend([0, 0, 0, 0xff, 0xff]);
    block
}
