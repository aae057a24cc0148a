//! The `supplier` table.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use super::geography::{Place, Places, address, phone};
use super::random::{Rng, Stream};
use super::schema::SUPPLIER;
use crate::generate::{Source, Table, integers, texts};

pub(super) struct Supplier {
    rows: u32,
    places: Places,
}

struct Row {
    place: Place,
    address: String,
    phone: String,
}

impl Row {
    fn new(number: u64) -> Self {
        let mut rng = Rng::new(Stream::Supplier, number);
        let place = Place::draw(&mut rng);
        Self { place, address: address(&mut rng), phone: phone(&mut rng, place.nation) }
    }
}

impl Supplier {
    pub(super) fn new(rows: u32) -> Self {
        Self { rows, places: Places::new() }
    }
}

impl Source for Supplier {
    fn table(&self) -> Table {
        SUPPLIER
    }

    fn units(&self) -> u64 {
        u64::from(self.rows)
    }

    fn rows(&self) -> u64 {
        u64::from(self.rows)
    }

    fn batch(&self, units: Range<u64>) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<Row> = units.clone().map(Row::new).collect();
        let keys = units.map(|number| number as i32 + 1);
        RecordBatch::try_new(
            SUPPLIER.generated_schema(),
            vec![
                integers(keys.clone()),
                texts(keys.map(|key| format!("Supplier#{key:09}"))),
                texts(rows.iter().map(|row| &row.address)),
                self.places.cities.column(rows.iter().map(|row| row.place.city).collect())?,
                self.places.nations.column(rows.iter().map(|row| row.place.nation).collect())?,
                self.places.regions.column(rows.iter().map(|row| row.place.region).collect())?,
                texts(rows.iter().map(|row| &row.phone)),
            ],
        )
    }
}
