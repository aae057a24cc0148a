//! String columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, GenericStringBuilder, OffsetSizeTrait, StringViewBuilder};

use super::convert::{Column, ColumnStatistics, Fields};
use super::field::{BadField, FieldRules, unquote};

/// Where strings go.
trait Sink {
    fn push(&mut self, value: Option<&str>);
}

/// Appends every field to `sink`.
#[inline(always)]
fn append(
    sink: &mut impl Sink,
    rules: &FieldRules,
    scratch: &mut Vec<u8>,
    fields: &Fields<'_>,
) -> Result<(), (usize, BadField)> {
    for (row, start, end) in fields.iter() {
        let raw = fields.raw(start, end);
        let fail = |bad| (row, bad);
        let is_quoted = raw.first().copied() == rules.dialect.quote && !raw.is_empty();
        if is_quoted {
            let content = unquote(raw, rules.dialect, scratch).unwrap_or(raw);
            let value = std::str::from_utf8(content).map_err(|_| fail(BadField::Utf8))?;
            sink.push(Some(value));
        } else if raw == &*rules.null_text {
            if !rules.nullable {
                return Err(fail(BadField::Null));
            }
            sink.push(None);
        } else {
            // Field ends are ASCII, so a slice of valid text is valid.
            let value = match fields.text {
                Some(text) => text.get(start..end),
                None => std::str::from_utf8(raw).ok(),
            };
            sink.push(Some(value.ok_or(fail(BadField::Utf8))?));
        }
    }
    Ok(())
}

/// A column of `Utf8View`: short strings in the views, long ones in shared
/// blocks.
#[derive(Debug)]
pub(super) struct StringViewColumn {
    builder: StringViewBuilder,
    rules: FieldRules,
    scratch: Vec<u8>,
    null_count: u64,
}

impl StringViewColumn {
    pub(super) fn new(rules: FieldRules) -> Self {
        Self { builder: StringViewBuilder::new(), rules, scratch: Vec::new(), null_count: 0 }
    }
}

impl Sink for StringViewBuilder {
    #[inline(always)]
    fn push(&mut self, value: Option<&str>) {
        // Cannot panic: a record, and so a string, is far below 4 GiB.
        self.append_option(value);
    }
}

impl Column for StringViewColumn {
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)> {
        append(&mut self.builder, &self.rules, &mut self.scratch, fields)
    }

    fn finish(&mut self, with_statistics: bool) -> ArrayRef {
        let array = self.builder.finish();
        if with_statistics {
            self.null_count += array.null_count() as u64;
        }
        Arc::new(array)
    }

    fn statistics(&self) -> ColumnStatistics {
        ColumnStatistics { null_count: self.null_count, ..ColumnStatistics::default() }
    }
}

/// A column of `Utf8` (`i32`) or `LargeUtf8` (`i64`).
#[derive(Debug)]
pub(super) struct StringColumn<O: OffsetSizeTrait> {
    builder: GenericStringBuilder<O>,
    rules: FieldRules,
    scratch: Vec<u8>,
    null_count: u64,
}

impl<O: OffsetSizeTrait> StringColumn<O> {
    pub(super) fn new(rules: FieldRules) -> Self {
        Self { builder: GenericStringBuilder::new(), rules, scratch: Vec::new(), null_count: 0 }
    }
}

impl<O: OffsetSizeTrait> Sink for GenericStringBuilder<O> {
    #[inline(always)]
    fn push(&mut self, value: Option<&str>) {
        self.append_option(value);
    }
}

impl<O: OffsetSizeTrait> Column for StringColumn<O> {
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)> {
        // The builder panics when offsets are exhausted; no field is longer
        // than the data it is in.
        let total = self.builder.values_slice().len() + fields.records.data().len();
        if O::from_usize(total).is_none() {
            return Err((fields.rows.start, BadField::TooLarge));
        }
        append(&mut self.builder, &self.rules, &mut self.scratch, fields)
    }

    fn finish(&mut self, with_statistics: bool) -> ArrayRef {
        let array = self.builder.finish();
        if with_statistics {
            self.null_count += array.null_count() as u64;
        }
        Arc::new(array)
    }

    fn statistics(&self) -> ColumnStatistics {
        ColumnStatistics { null_count: self.null_count, ..ColumnStatistics::default() }
    }
}
