//! Errors, by how the caller reacts.

use std::fmt::{self, Write};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with a SQLSTATE ([`Error::sqlstate`]) and a message that names the problem and its place.
///
/// The variants follow what the caller does: retry, report to the user, run the statement elsewhere,
/// or stop. Small, because every value that is read comes wrapped in a [`Result`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The transaction lost a race or met a full queue; the same transaction may work later.
    #[error("{0}; retry the transaction")]
    Retry(Box<str>),
    /// The transaction needs rows of these further partitions, or of all if none is named: it is rolled back and run
    /// again over them too. Never seen by a user.
    #[error("the transaction needs rows of other partitions than its own")]
    OtherPartition(Box<[u32]>),
    /// The transaction needs rows that are in blocks on disk, which their tables have noted: it is rolled back, and run
    /// again when they are in memory. Never seen by a user.
    #[error("the transaction needs rows that are not in memory")]
    Evicted,
    /// The statement is right, but beyond the row engine's planner: the caller may run it in the analytic engine over a
    /// snapshot.
    #[error("not supported for row tables: {0}")]
    Unsupported(Box<str>),
    /// More memory was asked for than a limit allows: the database's, one holder's share, or a procedure's.
    #[error("out of memory: {0}")]
    OutOfMemory(Box<str>),
    /// Stopped by a limit on instructions or time, by the user, or because the database is closed.
    #[error("cancelled: {0}")]
    Cancelled(Box<str>),
    /// Two rows have one key of a unique index.
    #[error("duplicate key {} in unique index \"{}\" of table \"{}\"", .0.key, .0.index, .0.table)]
    UniqueViolation(Box<UniqueViolation>),
    /// The statement or its data are wrong; the class says in which way.
    #[error("{1}")]
    User(Class, Box<str>),
    /// A procedure ended its transaction, with a SQLSTATE of its own.
    #[error("{}", .0.message)]
    Raised(Box<Raised>),
    /// The error of a statement inside a procedure, and where it happened.
    #[error("{} (procedure \"{}\", line {})", .0.error, .0.procedure, .0.line)]
    InProcedure(Box<InProcedure>),
    /// Reading or writing a file failed.
    #[error("{0}")]
    Io(Box<str>),
    /// No space is left for a file.
    #[error("{0}")]
    DiskFull(Box<str>),
    /// A file does not hold what was written to it.
    #[error("{0}")]
    Corrupt(Box<str>),
    /// The database cannot be opened: in use, of a newer version, not writable.
    #[error("{0}")]
    CannotOpen(Box<str>),
    /// A bug, found by an internal check.
    #[error("internal error: {0}")]
    Internal(Box<str>),
}

/// A key that is in a unique index already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueViolation {
    /// The table.
    pub table: Box<str>,
    /// Its index.
    pub index: Box<str>,
    /// The key as SQL would print it.
    pub key: Box<str>,
}

/// Error that a procedure raised to end its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// Five characters.
    pub sqlstate: Box<str>,
    /// Message for the caller.
    pub message: Box<str>,
}

/// Where in a procedure an error arose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InProcedure {
    /// The procedure's name.
    pub procedure: Box<str>,
    /// The line of its body, from 1; 0 where the error is of the procedure as a whole.
    pub line: u32,
    /// The error there.
    pub error: Error,
}

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident $state:literal,)*) => {
        /// The ways in which a statement or its data can be wrong; each is a SQLSTATE of PostgreSQL.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Class {
            $($(#[$doc])* $name,)*
        }

        impl Class {
            /// The five characters.
            pub const fn sqlstate(self) -> &'static str {
                match self {
                    $(Self::$name => $state,)*
                }
            }
        }
    };
}

classes! {
    /// Not SQL.
    Syntax "42601",
    /// SQL, but nothing here or in the analytic engine does it.
    Unsupported "0A000",
    /// No such table.
    UndefinedTable "42P01",
    /// A table or an index with this name exists.
    DuplicateTable "42P07",
    /// No such column.
    UndefinedColumn "42703",
    /// Two columns with one name.
    DuplicateColumn "42701",
    /// A column name that several tables have.
    AmbiguousColumn "42702",
    /// No such index or another object.
    UndefinedObject "42704",
    /// An object with this name exists.
    DuplicateObject "42710",
    /// Two tables of one statement with one name.
    DuplicateAlias "42712",
    /// A window that cannot be made of the one that it names.
    Windowing "42P20",
    /// No such function, operator or procedure, or not with these arguments.
    UndefinedFunction "42883",
    /// Several operators or functions take these arguments.
    AmbiguousFunction "42725",
    /// A procedure with this name exists.
    DuplicateFunction "42723",
    /// A prepared statement with this name exists.
    DuplicateStatement "42P05",
    /// No such prepared statement.
    UndefinedStatement "26000",
    /// No such file.
    UndefinedFile "58P01",
    /// Not what COPY reads.
    BadCopyFormat "22P04",
    /// No such parameter.
    UndefinedParameter "42P02",
    /// Values of these types do not go together.
    TypeMismatch "42804",
    /// There is no cast between the types.
    CannotCoerce "42846",
    /// A column neither grouped nor aggregated.
    Grouping "42803",
    /// A table definition that cannot be.
    InvalidTableDefinition "42P16",
    /// A function definition that cannot be, such as one that is not deterministic.
    InvalidFunctionDefinition "42P13",
    /// A column is named twice, or the columns of `ON CONFLICT` have no unique index.
    InvalidColumnReference "42P10",
    /// Others depend on the object.
    DependentObjects "2BP01",
    /// Rows are being loaded into the table.
    ObjectInUse "55006",
    /// NULL in a column that is NOT NULL.
    NotNullViolation "23502",
    /// A CHECK is false.
    CheckViolation "23514",
    /// Too large or too small for its type.
    OutOfRange "22003",
    /// Division by zero.
    DivisionByZero "22012",
    /// Text longer than its column.
    TooLong "22001",
    /// Text that is not a value of the type.
    InvalidText "22P02",
    /// A character that text cannot have.
    UntranslatableCharacter "22P05",
    /// Not a date, a timestamp or an interval.
    InvalidDatetime "22007",
    /// A date or a timestamp outside the years 1 to 9999, or an interval of which a part is out of range.
    DatetimeOverflow "22008",
    /// An offset of a time zone that is out of range.
    InvalidOffset "22009",
    /// A power that is no real number.
    InvalidPower "2201F",
    /// A part of a text of negative length.
    InvalidSubstring "22011",
    /// An escape that is no character.
    InvalidEscape "22025",
    /// A logarithm of zero or a negative number.
    InvalidLogarithm "2201E",
    /// A parameter of a function or a clause outside its domain.
    InvalidParameter "22023",
    /// More than one row from what must give one.
    Cardinality "21000",
    /// A row that is larger than a row may be, or more columns, arguments or rows than allowed.
    LimitExceeded "54000",
    /// A failed transaction takes nothing but ROLLBACK, also to a savepoint.
    FailedTransaction "25P02",
    /// No such savepoint.
    InvalidSavepoint "3B001",
    /// Not while a transaction is open.
    ActiveTransaction "25001",
    /// Not outside of a transaction.
    NoActiveTransaction "25P01",
    /// Not what may be written here.
    ReadOnly "25006",
    /// Not what the operator allows.
    InsufficientPrivilege "42501",
    /// A setting that cannot be changed here, or no longer.
    CannotChangeSetting "55P02",
    /// Not in the state in which that can be done.
    NotInState "55000",
    /// An object of another kind, such as an external table where a row table is needed.
    WrongObject "42809",
    /// The session waited too long with an open transaction.
    IdleTimeout "25P03",
    /// Sessions' transactions that wait for each other.
    Deadlock "40P01",
    /// Raised by a procedure on purpose.
    Raised "P0001",
    /// An error of a procedure's own code.
    Procedure "38000",
    /// A procedure did what procedures may not do.
    ProcedureForbidden "38002",
    /// A procedure calls itself, or calls, JSON or a statement are nested too deeply.
    TooDeep "54001",
}

impl Class {
    /// An error of this class.
    pub fn error(self, message: impl fmt::Display) -> Error {
        Error::User(self, bounded(message))
    }
}

impl Error {
    /// The five characters of its SQLSTATE.
    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Raised(raised) => &raised.sqlstate,
            Self::Retry(_) | Self::OtherPartition(_) | Self::Evicted => "40001",
            Self::Unsupported(_) => "0A000",
            Self::OutOfMemory(_) => "53200",
            Self::Cancelled(_) => "57014",
            Self::UniqueViolation(_) => "23505",
            Self::User(class, _) => class.sqlstate(),
            Self::InProcedure(inner) => inner.error.sqlstate(),
            Self::Io(_) => "58030",
            Self::DiskFull(_) => "53100",
            Self::Corrupt(_) => "XX001",
            Self::CannotOpen(_) => "55006",
            Self::Internal(_) => "XX000",
        }
    }

    /// The error without the procedures that it passed through.
    pub fn root(&self) -> &Self {
        match self {
            Self::InProcedure(inner) => inner.error.root(),
            other => other,
        }
    }

    /// Adds the place in a procedure where the error arose, unless it has one, or the engine handles it by its variant:
    /// [`Error::OtherPartition`], [`Error::Evicted`].
    #[must_use]
    pub fn in_procedure(self, procedure: &str, line: u32) -> Self {
        match self {
            Self::InProcedure(_) | Self::OtherPartition(_) | Self::Evicted => self,
            error => Self::InProcedure(Box::new(InProcedure { procedure: procedure.into(), line, error })),
        }
    }

    /// [`Error::Unsupported`] with this message.
    pub fn unsupported(message: impl fmt::Display) -> Self {
        Self::Unsupported(bounded(message))
    }

    /// [`Error::Corrupt`] with this message.
    pub fn corrupt(message: impl fmt::Display) -> Self {
        Self::Corrupt(message.to_string().into_boxed_str())
    }

    /// [`Error::CannotOpen`] with this message.
    pub fn cannot_open(message: impl fmt::Display) -> Self {
        Self::CannotOpen(message.to_string().into_boxed_str())
    }

    /// [`Error::Internal`] with this message.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::Internal(message.to_string().into_boxed_str())
    }

    /// Error of every statement in a transaction that has failed.
    pub fn failed_transaction() -> Self {
        Class::FailedTransaction.error("the transaction has failed; nothing but ROLLBACK is possible until it ends")
    }

    /// [`Error::UniqueViolation`] of a key that is printed as SQL would.
    pub fn duplicate_key(table: &str, index: &str, key: impl fmt::Display) -> Self {
        Self::UniqueViolation(Box::new(UniqueViolation { table: table.into(), index: index.into(), key: bounded(key) }))
    }
}

/// Maximum bytes of a message, which may quote a value of megabytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A message under construction, truncated at the limit.
struct Message(String);

impl fmt::Write for Message {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = MESSAGE_BYTES_MAX.saturating_sub(self.0.len());
        if part.len() <= room {
            self.0.push_str(part);
            return Ok(());
        }
        self.0.push_str(part.get(..part.floor_char_boundary(room)).unwrap_or_default());
        self.0.push('…');
        Err(fmt::Error)
    }
}

fn bounded(message: impl fmt::Display) -> Box<str> {
    let mut text = Message(String::new());
    // Writing fails where the message was truncated.
    let _ = write!(text, "{message}");
    text.0.into()
}

/// No larger than a `String`, so that the results of evaluating an expression stay small.
const _: () = assert!(size_of::<Error>() <= 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_messages() {
        let error = Error::duplicate_key("t", "t_pkey", "(1, 'a')");
        assert_eq!(error.sqlstate(), "23505");
        assert_eq!(error.to_string(), "duplicate key (1, 'a') in unique index \"t_pkey\" of table \"t\"");

        let error = Class::DivisionByZero.error("division by zero").in_procedure("pay", 7).in_procedure("outer", 1);
        assert_eq!(error.sqlstate(), "22012");
        assert_eq!(error.to_string(), "division by zero (procedure \"pay\", line 7)");
        assert_eq!(error.root(), &Class::DivisionByZero.error("division by zero"));
    }

    #[test]
    fn a_message_quotes_no_megabytes() {
        let long = "ä".repeat(1 << 20);
        for error in [Class::InvalidText.error(format_args!("\"{long}\" is no number")), Error::unsupported(&long)] {
            let said = error.to_string();
            assert!(said.len() < 5000 && said.ends_with('…'), "{} bytes", said.len());
        }
        assert!(Error::duplicate_key("t", "t_pkey", &long).to_string().len() < 5000);
    }
}
