//! Compressed text.

use std::io::Write;

/// Packs text.
pub type Compress = fn(&[u8]) -> Vec<u8>;

/// Extensions with their compression.
pub const COMPRESSIONS: [(&str, Compress); 3] = [("gz", gzip), ("zst", zstd), ("bz2", bzip2)];

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(text: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(text.len()));
    zstd_safe::compress(&mut packed, text, 3).unwrap();
    packed
}

pub fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(vec![], bzip2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Several members or frames, one after the other, cut anywhere.
pub fn in_members(compress: Compress, text: &[u8]) -> Vec<u8> {
    text.chunks(text.len() / 3 + 1).flat_map(compress).collect()
}
