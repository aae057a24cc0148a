//! Files of `COPY`, in PostgreSQL's formats.

mod format;
mod reader;
mod writer;

pub use format::CopyFormat;
pub use reader::RowReader;
pub use writer::RowWriter;
