//! Vectors whose positions come from themselves.

use std::ops::{Index, IndexMut};

use crate::trace::SegmentId;

/// Values by number. Every number in use is below the length: segments are numbered by the reader of their trace, and
/// other things by [`Numbered::push`].
#[derive(Debug, Clone)]
pub(crate) struct Numbered<T>(Vec<T>);

impl<T> Numbered<T> {
    /// `length` copies of `value`.
    pub(crate) fn of(value: T, length: usize) -> Self
    where
        T: Clone,
    {
        Self(vec![value; length])
    }

    /// Adds a value and returns its number.
    pub(crate) fn push(&mut self, value: T) -> usize {
        self.0.push(value);
        self.0.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(vec![])
    }
}

impl<T> FromIterator<T> for Numbered<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T> Index<usize> for Numbered<T> {
    type Output = T;

    #[expect(clippy::indexing_slicing, reason = "numbers come from this vector, which never shrinks")]
    fn index(&self, number: usize) -> &T {
        &self.0[number]
    }
}

impl<T> IndexMut<usize> for Numbered<T> {
    #[expect(clippy::indexing_slicing, reason = "numbers come from this vector, which never shrinks")]
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.0[number]
    }
}

impl<T> Index<SegmentId> for Numbered<T> {
    type Output = T;

    fn index(&self, id: SegmentId) -> &T {
        &self[id.position()]
    }
}

impl<T> IndexMut<SegmentId> for Numbered<T> {
    fn index_mut(&mut self, id: SegmentId) -> &mut T {
        &mut self[id.position()]
    }
}
