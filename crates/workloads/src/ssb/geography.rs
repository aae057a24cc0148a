//! Where customers and suppliers live: 5 regions of 5 nations of 10 cities, addresses, phones.

use super::random::Rng;
use crate::generate::Words;

pub(super) const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// The nations, five of each region in the order of [`REGIONS`].
pub(super) const NATIONS: [&str; 25] = [
    "ALGERIA",
    "ETHIOPIA",
    "KENYA",
    "MOROCCO",
    "MOZAMBIQUE",
    "ARGENTINA",
    "BRAZIL",
    "CANADA",
    "PERU",
    "UNITED STATES",
    "CHINA",
    "INDIA",
    "INDONESIA",
    "JAPAN",
    "VIETNAM",
    "FRANCE",
    "GERMANY",
    "ROMANIA",
    "RUSSIA",
    "UNITED KINGDOM",
    "EGYPT",
    "IRAN",
    "IRAQ",
    "JORDAN",
    "SAUDI ARABIA",
];

pub(super) const CITIES_PER_NATION: u16 = 10;
pub(super) const NATIONS_PER_REGION: u16 = 5;

const ADDRESS_LENGTH_MIN: i32 = 6;
const ADDRESS_LENGTH_MAX: i32 = 24;

/// 64 characters, so that six random bits name one. `dbgen` has space and comma for the last two.
const ADDRESS_LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.";

/// City number `digit` of `nation`: the nation's first nine characters, padded, and the digit.
pub(super) fn city_name(nation: &str, digit: u16) -> String {
    let prefix: String = nation.chars().take(9).collect();
    format!("{prefix:<9}{digit}")
}

/// The word lists of the three place columns.
pub(super) struct Places {
    pub(super) cities: Words,
    pub(super) nations: Words,
    pub(super) regions: Words,
}

impl Places {
    pub(super) fn new() -> Self {
        let cities = NATIONS.iter().flat_map(|nation| (0..CITIES_PER_NATION).map(|digit| city_name(nation, digit)));
        Self { cities: Words::new(cities), nations: Words::new(NATIONS), regions: Words::new(REGIONS) }
    }
}

/// A place, as keys of the word lists of [`Places`].
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) city: u16,
    pub(super) nation: u16,
    pub(super) region: u16,
}

impl Place {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let city = rng.key(NATIONS.len() as u16 * CITIES_PER_NATION);
        let nation = city / CITIES_PER_NATION;
        Self { city, nation, region: nation / NATIONS_PER_REGION }
    }
}

/// 6 to 24 random characters.
pub(super) fn address(rng: &mut Rng) -> String {
    let length = rng.between(ADDRESS_LENGTH_MIN, ADDRESS_LENGTH_MAX);
    let letters = (0..length).filter_map(|_| ADDRESS_LETTERS.get(rng.below(64) as usize));
    letters.map(|letter| char::from(*letter)).collect()
}

/// A phone number whose first two digits are the nation's code, 10 to 34.
pub(super) fn phone(rng: &mut Rng, nation: u16) -> String {
    let code = nation + 10;
    let (area, exchange) = (rng.between(100, 999), rng.between(100, 999));
    format!("{code}-{area}-{exchange}-{}", rng.between(1000, 9999))
}
