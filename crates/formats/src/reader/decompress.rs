//! Decompression of text objects, a bounded piece at a time.

use std::io;

use thermocline_pushdown::TextCompression;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Largest window of a ZSTD frame, as a power of two: 128 MiB, the default limit of `zstd` itself. A frame that needs
/// more is refused.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Memory of a gzip decoder: its window and tables.
const GZIP_BYTES: usize = 64 << 10;
/// Memory of a bzip2 decoder: a block of 900 000 bytes takes four times that.
const BZIP2_BYTES: usize = 4 << 20;

/// Length up to which any text is accepted, however small the object.
const TEXT_BYTES_FREE: u64 = 1 << 30;
/// Maximum ratio of a longer text to its object: twice what deflate can reach. It bounds the work that a decompression
/// bomb can cause.
const TEXT_RATIO_MAX: u64 = 2048;

/// Longest text that is read from a compressed object of `stored_bytes`.
pub fn text_bytes_max(stored_bytes: u64) -> u64 {
    stored_bytes.saturating_mul(TEXT_RATIO_MAX).max(TEXT_BYTES_FREE)
}

/// Decodes one object's bytes, given in order. Members that follow one another (of gzip, bzip2), or
/// frames (of ZSTD), are one text.
pub(super) struct Decompressor {
    compression: TextCompression,
    decoder: Decoder,
    /// Whether all bytes so far are whole members.
    at_end: bool,
}

enum Decoder {
    /// Between two members, or in front of the first one.
    None,
    Gzip(flate2::Decompress),
    /// Goes on with the next frame by itself.
    Zstd(DCtx<'static>),
    Bzip2(bzip2::Decompress),
}

/// Bytes that a step consumed and produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes of the input that are done with.
    pub(super) consumed: usize,
    /// Bytes of the output that are filled.
    pub(super) produced: usize,
}

impl Decompressor {
    /// A decoder in front of an object's first byte.
    pub(super) fn new(compression: TextCompression) -> Self {
        Self { compression, decoder: Decoder::None, at_end: false }
    }

    /// Decompresses from the start of `input` to the start of `output`. No progress means that more
    /// input is needed, or room in `output`.
    ///
    /// # Errors
    /// If the input is not compressed in this format, or is damaged.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Progress> {
        if matches!(self.decoder, Decoder::None) {
            if input.is_empty() {
                return Ok(Progress { consumed: 0, produced: 0 });
            }
            self.decoder = Decoder::of(self.compression)?;
            self.at_end = false;
        }
        let corrupt = |why: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, why.to_string());
        let (progress, member_ended) = match &mut self.decoder {
            Decoder::None => (Progress { consumed: 0, produced: 0 }, false),
            Decoder::Gzip(gzip) => {
                let before = (gzip.total_in(), gzip.total_out());
                let status =
                    gzip.decompress(input, output, flate2::FlushDecompress::None).map_err(|error| corrupt(&error))?;
                (since(before, (gzip.total_in(), gzip.total_out())), status == flate2::Status::StreamEnd)
            }
            Decoder::Bzip2(bzip2) => {
                let before = (bzip2.total_in(), bzip2.total_out());
                let status = bzip2.decompress(input, output).map_err(|error| corrupt(&error))?;
                if status == bzip2::Status::MemNeeded {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                (since(before, (bzip2.total_in(), bzip2.total_out())), status == bzip2::Status::StreamEnd)
            }
            Decoder::Zstd(_) if self.at_end && input.is_empty() => {
                return Ok(Progress { consumed: 0, produced: 0 });
            }
            Decoder::Zstd(zstd) => {
                let mut input = InBuffer::around(input);
                let mut output = OutBuffer::around(output);
                let left = zstd
                    .decompress_stream(&mut output, &mut input)
                    .map_err(|code| corrupt(&zstd_safe::get_error_name(code)))?;
                self.at_end = left == 0;
                (Progress { consumed: input.pos(), produced: output.pos() }, false)
            }
        };
        if member_ended {
            (self.decoder, self.at_end) = (Decoder::None, true);
        }
        Ok(progress)
    }

    /// Whether an object may end here.
    pub(super) fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Memory that the decoder keeps now.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.decoder {
            Decoder::None => 0,
            Decoder::Gzip(_) => GZIP_BYTES,
            Decoder::Zstd(zstd) => zstd.sizeof(),
            Decoder::Bzip2(_) => BZIP2_BYTES,
        }
    }
}

impl Decoder {
    fn of(compression: TextCompression) -> io::Result<Self> {
        Ok(match compression {
            TextCompression::None => Decoder::None,
            TextCompression::Gzip => {
                /// 32 KiB, the only window that gzip has.
                const WINDOW_BITS: u8 = 15;
                Decoder::Gzip(flate2::Decompress::new_gzip(WINDOW_BITS))
            }
            TextCompression::Bzip2 => Decoder::Bzip2(bzip2::Decompress::new(false)),
            TextCompression::Zstd => {
                let mut zstd = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
                zstd.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
                    .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
                Decoder::Zstd(zstd)
            }
        })
    }
}

fn since(before: (u64, u64), now: (u64, u64)) -> Progress {
    Progress { consumed: (now.0 - before.0) as usize, produced: (now.1 - before.1) as usize }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ALL: [TextCompression; 3] = [TextCompression::Gzip, TextCompression::Zstd, TextCompression::Bzip2];

    fn compressed(compression: TextCompression, text: &[u8]) -> Vec<u8> {
        match compression {
            TextCompression::None => text.to_vec(),
            TextCompression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            TextCompression::Zstd => {
                let mut packed = Vec::with_capacity(zstd_safe::compress_bound(text.len()));
                zstd_safe::compress(&mut packed, text, 3).unwrap();
                packed
            }
            TextCompression::Bzip2 => {
                let mut encoder = bzip2::write::BzEncoder::new(vec![], bzip2::Compression::default());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    /// The text, decoded from pieces of `input_bytes` into pieces of `output_bytes`.
    fn decoded(
        compression: TextCompression,
        packed: &[u8],
        input_bytes: usize,
        output_bytes: usize,
    ) -> io::Result<(Vec<u8>, bool)> {
        let mut decompressor = Decompressor::new(compression);
        let mut text = vec![];
        let mut output = vec![0; output_bytes];
        let mut take = |decompressor: &mut Decompressor, mut input: &[u8]| {
            loop {
                let progress = decompressor.step(input, &mut output)?;
                text.extend_from_slice(&output[..progress.produced]);
                input = &input[progress.consumed..];
                if (progress.consumed, progress.produced) == (0, 0) {
                    return if input.is_empty() { Ok(()) } else { Err(io::Error::other("stuck")) };
                }
            }
        };
        for input in packed.chunks(input_bytes) {
            take(&mut decompressor, input)?;
        }
        Ok((text, decompressor.is_at_end()))
    }

    fn text() -> Vec<u8> {
        (0..40_000).flat_map(|i| format!("{i},{}\n", i % 7).into_bytes()).collect()
    }

    #[test]
    fn pieces_of_any_size() {
        let text = text();
        for compression in ALL {
            let packed = compressed(compression, &text);
            for (input, output) in [(1, 1000), (7, 64), (1000, 1 << 20), (usize::MAX, 100)] {
                let found = decoded(compression, &packed, input, output).unwrap();
                assert!(found == (text.clone(), true), "{compression:?} {input} {output}");
            }
        }
    }

    #[test]
    fn members_follow_one_another() {
        for compression in ALL {
            let mut packed = compressed(compression, b"a,b\n1,");
            packed.extend(compressed(compression, b""));
            packed.extend(compressed(compression, b"2\n"));
            for input in [1, 5, 1000] {
                let found = decoded(compression, &packed, input, 3).unwrap();
                assert_eq!(found, (b"a,b\n1,2\n".to_vec(), true), "{compression:?}");
            }
        }
    }

    #[test]
    fn truncated_anywhere() {
        let text = text();
        for compression in ALL {
            let packed = compressed(compression, &text);
            for cut in (1..packed.len()).step_by(packed.len() / 40 + 1).chain([packed.len() - 1]) {
                let found = decoded(compression, &packed[..cut], 1000, 4096);
                assert!(found.is_err() || found.is_ok_and(|(_, at_end)| !at_end), "{compression:?} {cut}");
            }
        }
    }

    #[test]
    fn damage_and_garbage() {
        let text = text();
        for compression in ALL {
            let mut packed = compressed(compression, &text);
            packed.extend_from_slice(b"garbage that is no member");
            assert!(decoded(compression, &packed, 1000, 4096).is_err(), "{compression:?}");
            assert!(decoded(compression, b"a,b\n1,2\n", 1000, 4096).is_err(), "{compression:?}");
        }
        // Checksums are compared: gzip's and bzip2's always, ZSTD's where the frame has one.
        for compression in [TextCompression::Gzip, TextCompression::Bzip2] {
            let packed = compressed(compression, &text);
            for position in (20..packed.len()).step_by(packed.len() / 40 + 1) {
                let mut damaged = packed.clone();
                damaged[position] ^= 0x10;
                let found = decoded(compression, &damaged, 1000, 4096);
                assert!(
                    found.is_err() || found.is_ok_and(|(found, at_end)| !at_end || found == text),
                    "{compression:?} {position}"
                );
            }
        }
    }

    #[test]
    fn a_window_too_large_is_refused() {
        // Magic, no single segment, a window of 2^31 bytes.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00];
        let error = decoded(TextCompression::Zstd, &frame, 100, 100).unwrap_err().to_string();
        assert!(error.contains("too much memory"), "{error}");
    }
}
