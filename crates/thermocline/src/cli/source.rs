//! Text of a script, read in pieces.

use std::fs::File;
use std::io::{ErrorKind, Read, Result, stdin};
use std::path::{Path, PathBuf};

use super::Failure;
use super::interrupt::Interrupt;
use super::termination;

/// Maximum bytes read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Reads a script piece by piece, as much as is available, so that a statement does not wait for later text.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// `None` before the first piece.
    file: Option<File>,
    decoder: Decoder,
    /// How the text ends after the pieces handed out; `None` if there may be more.
    end: Option<End>,
}

#[derive(Debug, Clone)]
enum End {
    Whole,
    /// The rest is not text.
    Wrong(String),
}

impl Source {
    /// A source not opened yet; `-` is standard input.
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, decoder: Decoder::default(), end: None }
    }

    /// Path of the script.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it reads standard input.
    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// The next piece, which may never come, unless Ctrl-C is pressed first. `None` at the end.
    ///
    /// # Errors
    /// An error of opening or reading; invalid UTF-8, after all valid text; [`Failure::Interrupted`]; after SIGTERM
    /// [`Failure::Terminated`].
    pub async fn next_piece(&mut self, interrupt: &mut Interrupt) -> std::result::Result<Option<String>, Failure> {
        match &self.end {
            Some(End::Whole) => return Ok(None),
            Some(End::Wrong(why)) => return Err(self.failed(why)),
            None => {}
        }
        let (path, file, is_stdin) = (self.path.clone(), self.file.take(), self.is_stdin());
        let read = tokio::task::spawn_blocking(move || read_piece(&path, file, is_stdin));
        let read = match interrupt.or(read).await {
            // All that has come has run.
            Err(Failure::Interrupted) if termination::has_come() => return Err(Failure::Terminated),
            read => read?.map_err(|error| self.failed(error))?,
        };
        let (file, bytes) = read.map_err(|error| self.failed(error))?;
        self.file = file;
        let is_end = bytes.is_empty();
        let (text, wrong) = self.decoder.decode(bytes, is_end);
        self.end = wrong.map(End::Wrong).or(is_end.then_some(End::Whole));
        match &self.end {
            Some(End::Wrong(why)) if text.is_empty() => Err(self.failed(why)),
            Some(End::Whole) => Ok(None),
            _ => Ok(Some(text)),
        }
    }

    /// Failure with the name of the script.
    fn failed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Failed(if self.is_stdin() { format!("standard input: {why}") } else { why.to_string() })
    }
}

fn read_piece(path: &Path, file: Option<File>, is_stdin: bool) -> Result<(Option<File>, Vec<u8>)> {
    let mut bytes = vec![0; PIECE_BYTES];
    let mut file = match (is_stdin, file) {
        (true, _) => None,
        (false, Some(file)) => Some(file),
        (false, None) => Some(File::open(path)?),
    };
    loop {
        let read = match &mut file {
            Some(file) => file.read(&mut bytes),
            None => stdin().lock().read(&mut bytes),
        };
        match read {
            Ok(count) => {
                bytes.truncate(count);
                return Ok((file, bytes));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Decodes text from bytes that come in pieces.
#[derive(Debug, Default)]
struct Decoder {
    /// First bytes of an incomplete character.
    begun: Vec<u8>,
    /// Line ends so far.
    lines: usize,
    /// Whether any bytes have come.
    is_begun: bool,
}

impl Decoder {
    /// Text of the next bytes, without a byte order mark at the start of all, and an error if invalid bytes follow;
    /// `last` marks the last piece.
    fn decode(&mut self, bytes: Vec<u8>, last: bool) -> (String, Option<String>) {
        let mut all = std::mem::take(&mut self.begun);
        all.extend(bytes);
        let (mut text, wrong) = match String::from_utf8(all) {
            Ok(text) => (text, None),
            Err(error) => {
                let (valid, is_cut) = (error.utf8_error().valid_up_to(), error.utf8_error().error_len().is_none());
                let mut all = error.into_bytes();
                let rest = all.split_off(valid);
                // All of it is valid.
                let text = String::from_utf8(all).unwrap_or_default();
                let found = rest.first().copied().unwrap_or_default();
                if is_cut && !last {
                    self.begun = rest;
                    (text, None)
                } else {
                    let line = 1 + self.lines + newlines(&text);
                    (text, Some(format!("line {line} is not UTF-8 text: byte 0x{found:02x}")))
                }
            }
        };
        self.lines += newlines(&text);
        if !self.is_begun && !text.is_empty() {
            self.is_begun = true;
            if text.starts_with('\u{feff}') {
                text.remove(0);
            }
        }
        (text, wrong)
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text decoded from pieces.
    fn decoded(pieces: &[&[u8]]) -> (String, Option<String>) {
        let (mut decoder, mut all) = (Decoder::default(), String::new());
        for (number, piece) in (1..).zip(pieces) {
            let (text, wrong) = decoder.decode(piece.to_vec(), number == pieces.len());
            all += &text;
            if wrong.is_some() {
                return (all, wrong);
            }
        }
        (all, None)
    }

    #[test]
    fn scripts_are_utf8_in_whatever_pieces_they_come() {
        let text = "\u{feff}größe\n\u{feff}€😀".as_bytes();
        for size in 1..text.len() {
            let mut pieces: Vec<_> = text.chunks(size).collect();
            pieces.push(b"");
            assert_eq!(decoded(&pieces), ("größe\n\u{feff}€😀".to_owned(), None), "{size}");
        }
        let wrong = |byte: &str| Some(format!("line 3 is not UTF-8 text: byte 0x{byte}"));
        assert_eq!(decoded(&[b"a\nb\n\xe4;"]), ("a\nb\n".to_owned(), wrong("e4")));
        assert_eq!(decoded(&[b"a\nb", b"\nc\xc3", b";", b""]), ("a\nb\nc".to_owned(), wrong("c3")));
        assert_eq!(decoded(&[b"a\nb\n\xe2", b"\x82", b""]), ("a\nb\n".to_owned(), wrong("e2")));
    }
}
