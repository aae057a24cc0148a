//! Whole tables as of one moment, read while transactions go on (Anti-Caching 2013, section 6.1).
//!
//! ```text
//!  begin: at one place in the      step                step
//!  order of all transactions
//! --------------------------> reading ---> ... ---------------> done
//!                               |  a row that was not read yet changes: what it was is read
//!                               +-- its table is dropped --> failed
//! ```
//!
//! Analytic queries read rows in this way. A step runs in the partition's thread, between two of its transactions, and
//! hands rows to a [`RowSink`]; its size determines how long transactions wait. A slow reader pays for the images of
//! rows that change meanwhile: transactions neither wait for it nor fail because of it.

mod table_read;

pub use table_read::{BlocksRead, BlocksToRead, ChosenRows, ReadRequest, ReadStep, RowSink, Stepped};

pub use table_read::{SharedRead, read_all};
