//! The `dates` table.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use thermocline_transactions::types::{MONTHS, WEEKDAYS};

use super::calendar::{DAYS, Day};
use super::schema::DATES;
use crate::generate::{Source, Table, Words, integers, texts};

const SEASONS: [&str; 5] = ["Winter", "Spring", "Summer", "Fall", "Christmas"];

/// Month and day of the ten holidays.
const HOLIDAYS: [(i32, i32); 10] =
    [(1, 1), (2, 20), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (10, 20), (11, 20), (12, 24)];

pub(super) struct Dates {
    weekdays: Words,
    months: Words,
    year_months: Words,
    seasons: Words,
}

impl Dates {
    pub(super) fn new() -> Self {
        let year_months = (1992..=1998).flat_map(|year| {
            MONTHS.iter().map(move |month| {
                let short: String = month.chars().take(3).collect();
                format!("{short}{year}")
            })
        });
        Self {
            weekdays: Words::new(WEEKDAYS),
            months: Words::new(MONTHS),
            year_months: Words::new(year_months),
            seasons: Words::new(SEASONS),
        }
    }
}

/// The index in [`SEASONS`] of a month, 1 to 12.
fn season(month: i32) -> u16 {
    match month {
        1..=3 => 0,
        4 => 1,
        5..=8 => 2,
        9 | 10 => 3,
        _ => 4,
    }
}

fn date_text(day: &Day) -> String {
    let month = MONTHS.get(day.month as usize - 1).copied().unwrap_or_default();
    format!("{month} {} {}", day.day, day.year)
}

impl Source for Dates {
    fn table(&self) -> Table {
        DATES
    }

    fn units(&self) -> u64 {
        u64::from(DAYS)
    }

    fn rows(&self) -> u64 {
        u64::from(DAYS)
    }

    fn batch(&self, units: Range<u64>) -> Result<RecordBatch, ArrowError> {
        let days: Vec<Day> = units.clone().map(|number| Day::new(number as u32)).collect();
        let int = |value: fn(&Day) -> i32| integers(days.iter().map(value));
        let flag = |value: fn(&Day) -> bool| integers(days.iter().map(|day| i32::from(value(day))));
        let word = |words: &Words, key: fn(&Day) -> i32| words.column(days.iter().map(|day| key(day) as u16).collect());
        let month_ends = units.map(|number| i32::from(Day::new(number as u32 + 1).day == 1));
        RecordBatch::try_new(
            DATES.generated_schema(),
            vec![
                int(|day| day.key()),
                texts(days.iter().map(date_text)),
                word(&self.weekdays, |day| day.day_of_week - 1)?,
                word(&self.months, |day| day.month - 1)?,
                int(|day| day.year),
                int(|day| day.year * 100 + day.month),
                word(&self.year_months, |day| (day.year - 1992) * 12 + day.month - 1)?,
                int(|day| day.day_of_week),
                int(|day| day.day),
                int(|day| day.day_of_year),
                int(|day| day.month),
                int(|day| day.day_of_year / 7 + 1),
                self.seasons.column(days.iter().map(|day| season(day.month)).collect())?,
                flag(|day| day.day_of_week == 7),
                integers(month_ends),
                flag(|day| HOLIDAYS.contains(&(day.month, day.day))),
                flag(|day| (2..=6).contains(&day.day_of_week)),
            ],
        )
    }
}
