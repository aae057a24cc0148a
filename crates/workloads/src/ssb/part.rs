//! The `part` table.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use super::random::{Rng, Stream};
use super::schema::PART;
use crate::generate::{Source, Table, Words, integers};

/// The 92 colour words of TPC-H.
const COLORS: &str = "almond antique aquamarine azure beige bisque black blanched blue blush \
    brown burlywood burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan \
    dark deep dim dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green \
    grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen magenta \
    maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale \
    papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy \
    seashell sienna sky slate smoke snow spring steel tan thistle tomato turquoise violet wheat \
    white yellow";

const TYPE_SIZES: [&str; 6] = ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"];
const TYPE_FINISHES: [&str; 5] = ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"];
const TYPE_METALS: [&str; 5] = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"];
const CONTAINER_SIZES: [&str; 5] = ["SM", "LG", "MED", "JUMBO", "WRAP"];
const CONTAINERS: [&str; 8] = ["CASE", "BOX", "BAG", "JAR", "PACK", "PKG", "CAN", "DRUM"];

pub(super) const MANUFACTURERS: u16 = 5;
pub(super) const CATEGORIES_PER_MANUFACTURER: u16 = 5;
pub(super) const CATEGORIES: u16 = MANUFACTURERS * CATEGORIES_PER_MANUFACTURER;
pub(super) const BRANDS_PER_CATEGORY: u16 = 40;

/// Manufacturer number 0 to 4 as `MFGR#1` to `MFGR#5`.
pub(super) fn manufacturer_name(number: u16) -> String {
    format!("MFGR#{}", number + 1)
}

/// Category number 0 to 24 as `MFGR#11` to `MFGR#55`.
pub(super) fn category_name(number: u16) -> String {
    let manufacturer = manufacturer_name(number / CATEGORIES_PER_MANUFACTURER);
    format!("{manufacturer}{}", number % CATEGORIES_PER_MANUFACTURER + 1)
}

/// Brand number 0 to 999 as `MFGR#1101` to `MFGR#5540`.
pub(super) fn brand_name(number: u16) -> String {
    let category = category_name(number / BRANDS_PER_CATEGORY);
    format!("{category}{:02}", number % BRANDS_PER_CATEGORY + 1)
}

/// The retail price of a part in cents: 900.00 to about 2,100.00, after TPC-H.
pub(super) fn price(partkey: i32) -> i32 {
    90_000 + (partkey / 10) % 20_001 + (partkey % 1000) * 100
}

pub(super) struct Part {
    rows: u32,
    names: Words,
    manufacturers: Words,
    categories: Words,
    brands: Words,
    colors: Words,
    types: Words,
    containers: Words,
}

/// One part; all but the size are keys of the word lists of [`Part`].
struct Row {
    name: u16,
    brand: u16,
    color: u16,
    type_: u16,
    size: i32,
    container: u16,
}

impl Part {
    pub(super) fn new(rows: u32) -> Self {
        let colors: Vec<&str> = COLORS.split(' ').collect();
        let names = colors.iter().flat_map(|first| colors.iter().map(move |second| format!("{first} {second}")));
        let types = TYPE_SIZES.iter().flat_map(|size| {
            TYPE_FINISHES
                .iter()
                .flat_map(move |finish| TYPE_METALS.iter().map(move |metal| format!("{size} {finish} {metal}")))
        });
        let containers = CONTAINER_SIZES
            .iter()
            .flat_map(|size| CONTAINERS.iter().map(move |container| format!("{size} {container}")));
        Self {
            rows,
            names: Words::new(names),
            manufacturers: Words::new((0..MANUFACTURERS).map(manufacturer_name)),
            categories: Words::new((0..CATEGORIES).map(category_name)),
            brands: Words::new((0..CATEGORIES * BRANDS_PER_CATEGORY).map(brand_name)),
            types: Words::new(types),
            containers: Words::new(containers),
            colors: Words::new(colors),
        }
    }

    fn row(&self, number: u64) -> Row {
        let mut rng = Rng::new(Stream::Part, number);
        let colors = self.colors.len();
        let (first, second) = rng.pair(colors);
        Row {
            name: first * colors + second,
            brand: rng.key(self.brands.len()),
            color: rng.key(colors),
            type_: rng.key(self.types.len()),
            size: rng.between(1, 50),
            container: rng.key(self.containers.len()),
        }
    }
}

impl Source for Part {
    fn table(&self) -> Table {
        PART
    }

    fn units(&self) -> u64 {
        u64::from(self.rows)
    }

    fn rows(&self) -> u64 {
        u64::from(self.rows)
    }

    fn batch(&self, units: Range<u64>) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<Row> = units.clone().map(|number| self.row(number)).collect();
        let categories: Vec<u16> = rows.iter().map(|row| row.brand / BRANDS_PER_CATEGORY).collect();
        let manufacturers = categories.iter().map(|number| number / CATEGORIES_PER_MANUFACTURER);
        RecordBatch::try_new(
            PART.generated_schema(),
            vec![
                integers(units.map(|number| number as i32 + 1)),
                self.names.column(rows.iter().map(|row| row.name).collect())?,
                self.manufacturers.column(manufacturers.collect())?,
                self.categories.column(categories)?,
                self.brands.column(rows.iter().map(|row| row.brand).collect())?,
                self.colors.column(rows.iter().map(|row| row.color).collect())?,
                self.types.column(rows.iter().map(|row| row.type_).collect())?,
                integers(rows.iter().map(|row| row.size)),
                self.containers.column(rows.iter().map(|row| row.container).collect())?,
            ],
        )
    }
}
