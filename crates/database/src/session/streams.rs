//! Input and output of statements that read or write the caller's streams.

use std::fmt;
use std::io::{Read, Write};

/// Streams from the caller of a statement, for `COPY ... FROM STDIN` and `COPY ... TO STDOUT`.
#[derive(Default)]
pub struct Streams {
    /// Input of COPY FROM STDIN, if any.
    pub input: Option<Box<dyn Read + Send>>,
    /// Output of COPY TO STDOUT, if any.
    pub output: Option<Box<dyn Write + Send>>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, output) = (self.input.is_some(), self.output.is_some());
        f.debug_struct("Streams").field("input", &input).field("output", &output).finish()
    }
}
