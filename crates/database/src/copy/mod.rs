//! Files of `COPY`, in PostgreSQL's formats.

mod file;
mod format;
mod reader;
mod writer;

pub use file::{Output, create, finish, of_file};
pub use format::CopyFormat;
pub use reader::RowReader;
pub use writer::RowWriter;
