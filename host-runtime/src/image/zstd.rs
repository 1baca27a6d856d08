//! [`ZstdReader`]: reads what zstd has compressed. A file has several frames one after the other where it was written in parts, and some to
//! be skipped, in which tools keep their own lists.

use crate::limits::ZSTD_WINDOW;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

/// The first bytes of a frame.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of a frame to be skipped, but for the first one's lower half.
const SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Whether a file that begins so was compressed by zstd.
pub(super) fn is_compressed(first: [u8; 4]) -> bool {
    first == MAGIC || (first[0] & 0xf0 == 0x50 && first[1..] == SKIPPED)
}

/// Reads what zstd has compressed. It holds at most a window and a block, whatever the frames say.
pub(super) struct ZstdReader<R> {
    from: BufReader<R>,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: Read> ZstdReader<R> {
    pub(super) fn new(from: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW);
        Self { from: BufReader::new(from), decoder, is_in_frame: false }
    }

    /// Goes to the next frame with content; returns whether there is one.
    fn next_frame(&mut self) -> Result<bool> {
        while !self.from.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.from) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if std::io::copy(&mut self.from.by_ref().take(length), &mut std::io::sink())? < length {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(Error::other(format!("it is no frame of zstd: {error}"))),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.is_in_frame {
                if self.decoder.can_collect() > 0 {
                    return self.decoder.read(buffer);
                }
                self.is_in_frame = !self.decoder.is_finished();
            }
            if self.is_in_frame {
                let block = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.from, block);
                decoded.map_err(|error| Error::other(format!("zstd: {error}")))?;
            } else {
                self.is_in_frame = self.next_frame()?;
                if !self.is_in_frame {
                    return Ok(0);
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    pub(in crate::image) fn compressed(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        // More than any of these tests has: what is read is bounded.
        ZstdReader::new(bytes).take(1 << 20).read_to_end(&mut all)?;
        Ok(all)
    }

    /// A frame to be skipped, with this content.
    fn skipped(content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap();
        [&[0x5a][..], &SKIPPED, &length.to_le_bytes(), content].concat()
    }

    #[test]
    fn frames_follow_each_other_and_others_are_skipped() {
        let (one, two) = (compressed(b"one"), compressed(&[b'2'; 300_000]));
        let file = [skipped(b"own"), one.clone(), skipped(b""), two, skipped(b"list")].concat();
        assert!(is_compressed(file[..4].try_into().unwrap()) && is_compressed(one[..4].try_into().unwrap()));
        let all = read(&file).unwrap();
        assert_eq!((&all[..4], all.len()), (&b"one2"[..], 300_003));
        assert_eq!(read(b"").unwrap(), b"");
        for cut in [1, 5, file.len() - 1] {
            assert!(read(&file[..cut]).is_err(), "{cut}");
        }
        assert!(read(&[one.as_slice(), b"rest"].concat()).is_err());
    }

    #[test]
    fn a_file_of_the_command_zstd_with_a_checksum_is_read() {
        let file = [
            0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0xed, 0x00, 0x00, 0xb8, 0x61, 0x20, 0x6c, 0x61, 0x79, 0x65,
            0x72, 0x20, 0x6f, 0x66, 0x20, 0x61, 0x6e, 0x20, 0x69, 0x6d, 0x61, 0x67, 0x65, 0x2c, 0x20, 0x2e,
            0x0a, 0x01, 0x00, 0x63, 0x39, 0x99, 0xc2, 0xde, 0x4b, 0x16,
        ];
        let text = "a layer of an image, a layer of an image, a layer of an image.\n";
        assert_eq!(read(&file).unwrap(), text.as_bytes());
    }

    #[test]
    fn a_window_beyond_the_bound_is_refused_before_it_is_made() {
        // One block that is the last, raw and empty, after a window of 2^(10 + 30) bytes, and of 2^(10 + 17).
        let frame = |exponent: u8| [&MAGIC[..], &[0, exponent << 3], &[1, 0, 0]].concat();
        assert!(read(&frame(30)).unwrap_err().to_string().contains("window"));
        assert!(read(&frame(18)).is_err());
        assert_eq!(read(&frame(17)).unwrap(), b"");
    }

    proptest! {
        #[test]
        fn what_was_compressed_is_read_back(parts in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..3000), 0..4)) {
            let file: Vec<u8> = parts.iter().flat_map(|part| compressed(part)).collect();
            prop_assert_eq!(read(&file).unwrap(), parts.concat());
        }

        #[test]
        fn damaged_files_are_read_or_refused_without_panic(
            text in proptest::collection::vec(0u8..4, 0..3000),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let mut file = compressed(&text);
            for (at, byte) in changes {
                let at = at.index(file.len());
                file[at] = byte;
            }
            let _ = read(&file);
        }

        #[test]
        fn any_bytes_are_read_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[&MAGIC[..], &bytes].concat());
        }
    }
}
