//! String columns.

use std::mem;
use std::sync::Arc;

use arrow::array::{Array, ArrayBuilder, ArrayRef, GenericStringBuilder, OffsetSizeTrait, StringViewBuilder};

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
        // Field ends are ASCII, so a slice of valid text is valid.
        let checked = |bytes, range| match fields.text {
            Some(text) => text.get(range).ok_or(fail(BadField::Utf8)),
            None => std::str::from_utf8(bytes).map_err(|_| fail(BadField::Utf8)),
        };
        match unquote(raw, rules.dialect, scratch) {
            // Nothing but the quotes was dropped.
            Some(content) if content.len() + 2 == raw.len() => {
                sink.push(Some(checked(content, start + 1..end - 1)?));
            }
            Some(content) => {
                let value = std::str::from_utf8(content).map_err(|_| fail(BadField::Utf8))?;
                sink.push(Some(value));
            }
            None if raw == &*rules.null_text => {
                if !rules.nullable {
                    return Err(fail(BadField::Null));
                }
                sink.push(None);
            }
            None => sink.push(Some(checked(raw, start..end)?)),
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
        match value {
            Some(value) => self.append_value(value),
            None => self.append_null(),
        }
    }
}

impl Column for StringViewColumn {
    fn append(&mut self, fields: &Fields<'_>) -> Result<(), (usize, BadField)> {
        append(&mut self.builder, &self.rules, &mut self.scratch, fields)
    }

    fn finish(&mut self, with_statistics: bool) -> ArrayRef {
        // The next batch will have as many rows.
        let next = StringViewBuilder::with_capacity(self.builder.len());
        let array = mem::replace(&mut self.builder, next).finish();
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
        // The next batch will be as large.
        let next = GenericStringBuilder::with_capacity(self.builder.len(), self.builder.values_slice().len());
        let array = mem::replace(&mut self.builder, next).finish();
        if with_statistics {
            self.null_count += array.null_count() as u64;
        }
        Arc::new(array)
    }

    fn statistics(&self) -> ColumnStatistics {
        ColumnStatistics { null_count: self.null_count, ..ColumnStatistics::default() }
    }
}
