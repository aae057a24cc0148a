//! Random reads and updates of one client.

use thermocline_transactions::random::Random;
use thermocline_transactions::types::Value;

use super::keys::{KeyChooser, Skew};
use super::load::text;
use super::mix::Mix;
use super::procedures::{READ, UPDATE};
use super::schema::FIELDS;
use crate::oltp::{Call, Calls, Language};

/// Number of texts that updates write; making one takes longer than the update.
const TEXTS: usize = 256;

/// Requests of one client of YCSB.
#[derive(Debug)]
pub struct YcsbCalls {
    keys: KeyChooser,
    mix: Mix,
    language: Language,
    random: Random,
    texts: String,
    field_bytes: usize,
}

impl YcsbCalls {
    /// A client over a table of this many rows, with columns of this many bytes; clients with different seeds are independent.
    pub fn new((rows, field_bytes): (u64, usize), skew: Skew, mix: Mix, language: Language, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let texts = (0..TEXTS).map(|_| text(&mut random, field_bytes)).collect();
        Self { keys: KeyChooser::new(rows, skew), mix, language, random, texts, field_bytes }
    }
}

impl Calls for YcsbCalls {
    fn next_call(&mut self) -> Call {
        let key = Value::Int(self.keys.draw(&mut self.random));
        if self.random.below(100) < u64::from(self.mix.reads_percent()) {
            return Call { procedure: READ, arguments: [key].into() };
        }
        let field = self.random.index(FIELDS);
        let from = self.random.index(self.texts.len() - self.field_bytes);
        let value = Value::from(self.texts.get(from..from + self.field_bytes).unwrap_or_default());
        match self.language {
            Language::Sql => Call { procedure: UPDATE + field, arguments: [key, value].into() },
            Language::Rust | Language::Lua => {
                Call { procedure: UPDATE, arguments: [key, value, Value::Int(field as i64)].into() }
            }
        }
    }
}
