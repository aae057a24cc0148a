//! The UTF-8 byte order mark at the start of an object.

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Removes a byte order mark that may arrive in pieces.
#[derive(Debug)]
pub(super) struct BomFilter {
    /// Bytes of the mark seen so far; `None` once its presence is decided.
    matched: Option<usize>,
}

impl BomFilter {
    /// A filter at the start of an object, or one that lets all bytes pass.
    pub(super) fn new(at_object_start: bool) -> Self {
        Self { matched: at_object_start.then_some(0) }
    }

    /// Length of the mark.
    pub(super) const LEN: u64 = BOM.len() as u64;

    /// Splits what `chunk` reveals into bytes held back until now, and bytes of
    /// `chunk`. The flag tells that the mark was found and removed.
    pub(super) fn push<'a>(&mut self, chunk: &'a [u8]) -> (&'static [u8], &'a [u8], bool) {
        let Some(matched) = self.matched else {
            return (&[], chunk, false);
        };
        let (seen, missing) = BOM.split_at(matched);
        if let Some(rest) = chunk.strip_prefix(missing) {
            self.matched = None;
            return (&[], rest, true);
        }
        if missing.starts_with(chunk) {
            self.matched = Some(matched + chunk.len());
            return (&[], &[], false);
        }
        self.matched = None;
        (seen, chunk, false)
    }

    /// Bytes still held back when the object ends.
    pub(super) fn finish(&mut self) -> &'static [u8] {
        BOM.split_at(self.matched.take().unwrap_or(0)).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(chunks: &[&[u8]]) -> Vec<u8> {
        let mut filter = BomFilter::new(true);
        let mut bytes = Vec::new();
        for chunk in chunks {
            let (held, rest, _) = filter.push(chunk);
            bytes.extend_from_slice(held);
            bytes.extend_from_slice(rest);
        }
        bytes.extend_from_slice(filter.finish());
        bytes
    }

    #[test]
    fn mark_is_removed_once_however_it_arrives() {
        assert_eq!(filtered(&[b"\xEF\xBB\xBF\xEF\xBB\xBFa"]), b"\xEF\xBB\xBFa");
        assert_eq!(filtered(&[b"", b"\xEF", b"\xBB", b"\xBF", b"a"]), b"a");
    }

    #[test]
    fn other_bytes_pass() {
        assert_eq!(filtered(&[b"\xEF", b"\xBBa"]), b"\xEF\xBBa");
        assert_eq!(filtered(&[b"\xEF", b"\xBB"]), b"\xEF\xBB");
        assert_eq!(filtered(&[b"a\xEF\xBB\xBF"]), b"a\xEF\xBB\xBF");
        assert_eq!(filtered(&[]), b"");
    }
}
