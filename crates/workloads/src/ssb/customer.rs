//! The `customer` table.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use super::geography::{Place, Places, address, phone};
use super::random::{Rng, Stream};
use super::schema::CUSTOMER;
use crate::generate::{Source, Table, Words, integers, texts};

const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"];

pub(super) struct Customer {
    rows: u32,
    places: Places,
    segments: Words,
}

struct Row {
    place: Place,
    segment: u16,
    address: String,
    phone: String,
}

impl Customer {
    pub(super) fn new(rows: u32) -> Self {
        Self { rows, places: Places::new(), segments: Words::new(SEGMENTS) }
    }

    fn row(&self, number: u64) -> Row {
        let mut rng = Rng::new(Stream::Customer, number);
        let place = Place::draw(&mut rng);
        Row {
            place,
            segment: rng.key(self.segments.len()),
            address: address(&mut rng),
            phone: phone(&mut rng, place.nation),
        }
    }
}

impl Source for Customer {
    fn table(&self) -> Table {
        CUSTOMER
    }

    fn units(&self) -> u64 {
        u64::from(self.rows)
    }

    fn rows(&self) -> u64 {
        u64::from(self.rows)
    }

    fn batch(&self, units: Range<u64>) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<Row> = units.clone().map(|number| self.row(number)).collect();
        let keys = units.map(|number| number as i32 + 1);
        RecordBatch::try_new(
            CUSTOMER.generated_schema(),
            vec![
                integers(keys.clone()),
                texts(keys.map(|key| format!("Customer#{key:09}"))),
                texts(rows.iter().map(|row| &row.address)),
                self.places.cities.column(rows.iter().map(|row| row.place.city).collect())?,
                self.places.nations.column(rows.iter().map(|row| row.place.nation).collect())?,
                self.places.regions.column(rows.iter().map(|row| row.place.region).collect())?,
                texts(rows.iter().map(|row| &row.phone)),
                self.segments.column(rows.iter().map(|row| row.segment).collect())?,
            ],
        )
    }
}
