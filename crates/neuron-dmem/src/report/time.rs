//! When a report was made: Unix time, and the runtime's way to write it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;

/// Unix time. Displayed as a log prefix has it, in UTC: `2026-May-21 15:02:21.561070`
/// (`spec/report.md` 1; the zone is our choice).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time {
    /// Seconds.
    pub seconds: u64,
    /// Microseconds of the second.
    pub micros: u32,
}

impl Time {
    /// Now; the epoch on a machine whose clock stands before it.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { seconds: since.as_secs(), micros: since.subsec_micros() }
    }

    /// Reads `2026-May-21` and `15:02:21.561070`. `None` for anything else, and for the four
    /// digits of milliseconds of older runtimes.
    pub(super) fn parse(date: &str, time: &str) -> Option<Self> {
        let mut parts = date.splitn(3, '-');
        let year: u64 = number(parts.next()?, 4)?;
        let name = parts.next()?;
        let month = (1..).zip(MONTHS).find(|(_, month)| *month == name)?.0;
        let day = number(parts.next()?, 2)?;
        let (clock, micros) = time.split_once('.')?;
        let mut parts = clock.splitn(3, ':');
        let hour = number(parts.next()?, 2)?;
        let minute = number(parts.next()?, 2)?;
        let second = number(parts.next()?, 2)?;
        let micros = u32::try_from(number(micros, 6)?).ok()?;
        let valid = year >= 1970 && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
        let days = days_since_epoch(year, month, day).filter(|_| valid)?;
        let this = Self { seconds: days * DAY + hour * 3600 + minute * 60 + second, micros };
        // A day that its month does not have would come back as another.
        (this.to_string() == format!("{date} {time}")).then_some(this)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.seconds / DAY);
        let name = MONTHS.get(month.wrapping_sub(1) as usize).copied().unwrap_or("???");
        let (hour, minute, second) = (self.seconds % DAY / 3600, self.seconds % 3600 / 60, self.seconds % 60);
        write!(f, "{year:04}-{name}-{day:02} {hour:02}:{minute:02}:{second:02}.{:06}", self.micros)
    }
}

fn number(text: &str, digits: usize) -> Option<u64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Years are counted from March, so that the leap day is the last of one: day 0 is the first
/// of March of the year 0, 719,468 days before the epoch.
const TO_EPOCH: u64 = 719_468;

/// Year, month and day of a day since the epoch.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + TO_EPOCH;
    let of_era = day % ERA;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (day / ERA * 400 + year + next, month, day_of_month)
}

/// The inverse of [`date`]; `None` before the epoch.
fn days_since_epoch(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let of_era = year % 400;
    let of_year = (153 * month + 2) / 5 + day - 1;
    (year / 400 * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(TO_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hex_of_a_public_file_name_is_its_report_s_date() {
        let time = Time { seconds: 0x6a0f_1e7d, micros: 561_070 };
        assert_eq!(time.to_string(), "2026-May-21 15:02:21.561070");
        assert_eq!(Time::default().to_string(), "1970-Jan-01 00:00:00.000000");
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for (date, time) in [
            ("2025-Feb-29", "00:00:00.000000"),
            ("2025-Apr-31", "00:00:00.000000"),
            ("2025-Apr-00", "00:00:00.000000"),
            ("2025-04-01", "00:00:00.000000"),
            ("2025-Apr-01", "24:00:00.000000"),
            ("2023-Apr-01", "12:00:00.0093"),
            ("1969-Dec-31", "23:59:59.000000"),
            ("2025-Apr", "12:00:00.000000"),
        ] {
            assert_eq!(Time::parse(date, time), None, "{date} {time}");
        }
        assert!(Time::parse("2024-Feb-29", "23:59:59.999999").is_some());
    }

    proptest! {
        #[test]
        fn a_time_is_read_back(seconds in 0u64..253_402_300_800, micros in 0u32..1_000_000) {
            let time = Time { seconds, micros };
            let text = time.to_string();
            let (date, clock) = text.split_once(' ').unwrap();
            prop_assert_eq!(Time::parse(date, clock), Some(time));
        }
    }
}
