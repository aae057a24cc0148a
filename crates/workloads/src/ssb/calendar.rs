//! The seven years of the benchmark, 1992-01-01 to 1998-12-31, as day numbers from 0.

/// Days of the `dates` table.
pub(super) const DAYS: u32 = 2557;

/// Days that have orders: 1992-01-01 to 1998-08-02. The last commit date, 90 days later, is
/// still in the calendar.
pub(super) const ORDER_DAYS: u32 = 2406;

/// Most days from an order to its commit date.
pub(super) const COMMIT_DAYS_MAX: i32 = 90;

const _: () = assert!(ORDER_DAYS + COMMIT_DAYS_MAX as u32 <= DAYS);

/// One day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Day {
    /// 1992 to 1998.
    pub(super) year: i32,
    /// 1 to 12.
    pub(super) month: i32,
    /// Day of the month, from 1.
    pub(super) day: i32,
    /// Day of the year, from 1.
    pub(super) day_of_year: i32,
    /// Sunday is 1, Saturday 7.
    pub(super) day_of_week: i32,
}

impl Day {
    /// The day `number` days after 1992-01-01.
    pub(super) fn new(number: u32) -> Self {
        // Leap years in range are exactly every fourth from 1992 on, so four years are a cycle.
        let cycle_days = (number % 1461) as i32;
        let cycle_year = if cycle_days < 366 { 0 } else { (cycle_days - 1) / 365 };
        let year_start = if cycle_year == 0 { 0 } else { cycle_year * 365 + 1 };
        let day_of_year = cycle_days - year_start;
        let leap = i32::from(cycle_year == 0);
        // Counted from March a month's start is (153 m + 2) / 5, the usual civil-date formula.
        let (month, day) = if day_of_year < 59 + leap {
            if day_of_year < 31 { (1, day_of_year + 1) } else { (2, day_of_year - 30) }
        } else {
            let from_march = day_of_year - 59 - leap;
            let month = (5 * from_march + 2) / 153;
            (month + 3, from_march - (153 * month + 2) / 5 + 1)
        };
        Self {
            year: 1992 + 4 * (number / 1461) as i32 + cycle_year,
            month,
            day,
            day_of_year: day_of_year + 1,
            // 1992-01-01 was a Wednesday.
            day_of_week: ((number + 3) % 7) as i32 + 1,
        }
    }

    /// The day as `yyyymmdd`, the key of the `dates` table.
    pub(super) fn key(self) -> i32 {
        self.year * 10_000 + self.month * 100 + self.day
    }
}
