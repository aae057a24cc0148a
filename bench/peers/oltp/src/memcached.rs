//! memcached in front of a database, as the application of Anti-Caching 2013, section 1, has it.
//!
//! A read asks memcached first; on a miss it reads the database and puts the row into memcached. An update
//! goes to the database and then invalidates the row's entry. Between a miss's two steps, an update may come
//! in between, and leave memcached with the former row: this cache is not consistent, and is measured as it is.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use thermocline_transactions::types::Value;

use crate::mariadb::MariaDb;
use crate::peer::{Address, Connection, Engine, Failure, Loader, Origin, Peer};
use crate::ycsb::{FIELD_BYTES, FIELDS, row};

/// Bytes of a row's entry: its fields.
const ENTRY_BYTES: usize = FIELDS * FIELD_BYTES;

/// Draws of a preload for each entry that memcached has room for. A high skew would take forever to draw as many keys.
const DRAWS_OF_ENTRY: u64 = 4;

/// MariaDB behind memcached.
#[derive(Debug)]
pub struct Cached {
    database: MariaDb,
    address: Address,
}

impl Cached {
    /// This database behind the memcached at this address.
    pub const fn new(database: MariaDb, address: Address) -> Self {
        Self { database, address }
    }
}

impl Engine for Cached {
    fn engine(&self) -> Result<String, Failure> {
        let version = Memcached::open(&self.address)?.version()?;
        Ok(format!("{} memcached {version}", self.database.engine()?))
    }
}

impl Peer for Cached {
    fn define(&self) -> Result<(), Failure> {
        self.database.define()
    }

    fn loader(&self) -> Result<Box<dyn Loader>, Failure> {
        self.database.loader()
    }

    fn settle(&self) -> Result<(), Failure> {
        self.database.settle()
    }

    fn preload(&self, rows: u64, draw: &mut dyn FnMut() -> i64) -> Result<(), Failure> {
        let mut cache = Memcached::open(&self.address)?;
        let entries = rows.min(cache.bytes_max()? / ENTRY_BYTES as u64);
        let mut seen = HashSet::new();
        let mut keys = Vec::new();
        for _ in 0..entries * DRAWS_OF_ENTRY {
            let key = draw();
            if seen.insert(key) {
                keys.push(key);
            }
            if keys.len() as u64 == entries {
                break;
            }
        }
        let mut fields = Vec::with_capacity(ENTRY_BYTES);
        // The hottest, which were drawn first, last: memcached evicts the oldest if there are too many.
        for key in keys.into_iter().rev() {
            fields.clear();
            for value in row(key.cast_unsigned(), FIELD_BYTES) {
                if let Value::Text(text) = value {
                    fields.extend_from_slice(text.as_bytes());
                }
            }
            cache.set_unanswered(key, &fields)?;
        }
        // Its answer comes after the entries.
        cache.version()?;
        Ok(())
    }

    fn data_bytes(&self) -> Result<u64, Failure> {
        self.database.data_bytes()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let (database, cache) = (self.database.connect()?, Memcached::open(&self.address)?);
        Ok(Box::new(CachedConnection { database, cache }))
    }
}

struct CachedConnection {
    database: Box<dyn Connection>,
    cache: Memcached<Box<dyn Stream>>,
}

impl Connection for CachedConnection {
    fn read(&mut self, key: i64, fields: &mut Vec<u8>) -> Result<Origin, Failure> {
        if self.cache.get(key, fields)? {
            return Ok(Origin::Cache);
        }
        self.database.read(key, fields)?;
        self.cache.set(key, fields)?;
        Ok(Origin::Database)
    }

    fn update(&mut self, key: i64, field: usize, value: &str) -> Result<(), Failure> {
        self.database.update(key, field, value)?;
        Ok(self.cache.delete(key)?)
    }
}

/// A connection's two directions.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection in memcached's text protocol, one command at a time.
struct Memcached<S: Read> {
    stream: BufReader<S>,
    /// The command that is sent, and then the line of the answer.
    line: Vec<u8>,
}

impl Memcached<Box<dyn Stream>> {
    fn open(address: &Address) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match address {
            Address::Socket(path) => Box::new(UnixStream::connect(path)?),
            Address::Port(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        Ok(Self::new(stream))
    }
}

impl<S: Read + Write> Memcached<S> {
    fn new(stream: S) -> Self {
        Self { stream: BufReader::new(stream), line: Vec::new() }
    }

    /// The server's version.
    fn version(&mut self) -> io::Result<String> {
        self.ask(format_args!("version\r\n"), &[])?;
        let text = String::from_utf8_lossy(&self.line).into_owned();
        text.strip_prefix("VERSION ").map(str::to_owned).ok_or_else(|| self.wrong())
    }

    /// Appends the entry of a key; false if there is none.
    fn get(&mut self, key: i64, value: &mut Vec<u8>) -> io::Result<bool> {
        self.ask(format_args!("get {key}\r\n"), &[])?;
        if self.line == b"END" {
            return Ok(false);
        }
        // VALUE key flags bytes
        let is_row = self.line.starts_with(b"VALUE ");
        let bytes = self.line.rsplit(|byte| *byte == b' ').next().and_then(|text| str::from_utf8(text).ok());
        if !is_row || bytes.and_then(|text| text.parse().ok()) != Some(ENTRY_BYTES) {
            return Err(self.wrong());
        }
        let from = value.len();
        value.resize(from + ENTRY_BYTES, 0);
        self.stream.read_exact(value.get_mut(from..).unwrap_or_default())?;
        for expected in [b"".as_slice(), b"END"] {
            self.answer()?;
            if self.line != expected {
                return Err(self.wrong());
            }
        }
        Ok(true)
    }

    /// Makes an entry, or replaces it.
    fn set(&mut self, key: i64, value: &[u8]) -> io::Result<()> {
        self.ask(format_args!("set {key} 0 0 {}\r\n", value.len()), value)?;
        // A full slab class may have nothing to evict yet; the row is not cached then.
        let is_full = self.line.starts_with(b"SERVER_ERROR out of memory");
        if self.line == b"STORED" || is_full { Ok(()) } else { Err(self.wrong()) }
    }

    /// [`Self::set`] without an answer.
    fn set_unanswered(&mut self, key: i64, value: &[u8]) -> io::Result<()> {
        self.send(format_args!("set {key} 0 0 {} noreply\r\n", value.len()), value)
    }

    /// Bytes of all entries, at most.
    fn bytes_max(&mut self) -> io::Result<u64> {
        self.ask(format_args!("stats\r\n"), &[])?;
        let mut found = None;
        while self.line != b"END" {
            let text = String::from_utf8_lossy(&self.line);
            let Some(statistic) = text.strip_prefix("STAT ") else { return Err(self.wrong()) };
            found = found.or(statistic.strip_prefix("limit_maxbytes ").and_then(|bytes| bytes.parse().ok()));
            self.answer()?;
        }
        found.ok_or_else(|| io::Error::other("memcached does not tell its limit"))
    }

    /// Removes the entry of a key if there is one.
    fn delete(&mut self, key: i64) -> io::Result<()> {
        self.ask(format_args!("delete {key}\r\n"), &[])?;
        if self.line == b"DELETED" || self.line == b"NOT_FOUND" { Ok(()) } else { Err(self.wrong()) }
    }

    /// Sends a command, with a block of data unless it is empty, and reads the first line of the answer.
    fn ask(&mut self, command: std::fmt::Arguments<'_>, data: &[u8]) -> io::Result<()> {
        self.send(command, data)?;
        self.answer()
    }

    fn send(&mut self, command: std::fmt::Arguments<'_>, data: &[u8]) -> io::Result<()> {
        self.line.clear();
        self.line.write_fmt(command)?;
        if !data.is_empty() {
            self.line.extend_from_slice(data);
            self.line.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&self.line)
    }

    /// Reads a line of the answer, without its end.
    fn answer(&mut self) -> io::Result<()> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        if !self.line.ends_with(b"\r\n") {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "memcached has closed the connection"));
        }
        self.line.truncate(self.line.len() - 2);
        Ok(())
    }

    fn wrong(&self) -> io::Error {
        io::Error::other(format!("memcached answers {:?}", String::from_utf8_lossy(&self.line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has its answers ready.
    struct Script {
        answers: io::Cursor<Vec<u8>>,
        asked: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.answers.read(buffer)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.asked.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn server(answers: impl Into<Vec<u8>>) -> Memcached<Script> {
        Memcached::new(Script { answers: io::Cursor::new(answers.into()), asked: Vec::new() })
    }

    #[test]
    fn an_entry_is_appended() {
        // Lines within the data end nothing.
        let entry = "ab\r\n".repeat(ENTRY_BYTES / 4);
        let mut cache = server(format!("VALUE 7 0 {ENTRY_BYTES}\r\n{entry}\r\nEND\r\nEND\r\n"));
        let mut value = b"before".to_vec();
        assert!(cache.get(7, &mut value).unwrap());
        assert_eq!(value, format!("before{entry}").into_bytes());
        assert!(!cache.get(8, &mut value).unwrap());
        assert_eq!(cache.stream.get_ref().asked, b"get 7\r\nget 8\r\n");
    }

    #[test]
    fn entries_are_made_and_removed() {
        let mut cache = server("STORED\r\nDELETED\r\nNOT_FOUND\r\nSERVER_ERROR out of memory storing object\r\n");
        cache.set(7, b"row").unwrap();
        cache.delete(7).unwrap();
        cache.delete(7).unwrap();
        cache.set(8, b"row").unwrap();
        let asked: &[u8] = b"set 7 0 0 3\r\nrow\r\ndelete 7\r\ndelete 7\r\nset 8 0 0 3\r\nrow\r\n";
        assert_eq!(cache.stream.get_ref().asked, asked);
    }

    #[test]
    fn the_limit_is_one_of_the_statistics() {
        let mut cache =
            server("STAT pid 1\r\nSTAT limit_maxbytes 8388608\r\nSTAT bytes 3\r\nEND\r\nVERSION 1.6.18\r\n");
        assert_eq!(cache.bytes_max().unwrap(), 8 << 20);
        cache.set_unanswered(7, b"row").unwrap();
        assert_eq!(cache.version().unwrap(), "1.6.18");
        assert_eq!(cache.stream.get_ref().asked, b"stats\r\nset 7 0 0 3 noreply\r\nrow\r\nversion\r\n");
        for answers in ["ERROR\r\n", "STAT pid 1\r\nEND\r\n", "STAT pid 1\r\n"] {
            assert!(server(answers).bytes_max().is_err(), "{answers}");
        }
    }

    #[test]
    fn other_answers_are_errors() {
        for answer in ["", "ERROR\r\n", "VALUE 7 0 3\r\nrow\r\nEND\r\n", "END"] {
            assert!(server(answer).get(7, &mut Vec::new()).is_err(), "{answer}");
        }
        assert!(server("ERROR\r\n").set(7, b"row").unwrap_err().to_string().contains("ERROR"));
        assert!(server("ERROR\r\n").delete(7).is_err());
    }
}
