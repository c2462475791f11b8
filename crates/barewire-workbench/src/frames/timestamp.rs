//! The text of a date and time -> nanoseconds, and whether its time zone is known.

use barewire_proto::transcript::Header;

/// A date and time in a log or a HAR file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timestamp {
    /// The nanoseconds since 1970-01-01: in UTC if the zone is known, otherwise in the time zone of the writer.
    pub(super) nanos: i64,
    /// Whether the text names its time zone.
    pub(super) has_zone: bool,
    /// The character between the date and the time: `T` or a space.
    pub(super) separator: u8,
    /// The length of the text.
    pub(super) length: usize,
}

impl Timestamp {
    /// Reads the date and time at the start of a text: `2026-07-28T09:30:00.125Z`, `2026-07-28 09:30:00,125`. The
    /// fraction and the zone can be left out.
    pub(super) fn at_start(text: &[u8]) -> Option<Self> {
        let year = digits(text, 0, 4)?;
        let (month, day) = (digits(text, 5, 2)?, digits(text, 8, 2)?);
        let (hour, minute, second) = (digits(text, 11, 2)?, digits(text, 14, 2)?, digits(text, 17, 2)?);
        let separator = text[10];
        let marks = [text[4], text[7], text[13], text[16]];
        let is_date = marks == *b"--::" && matches!(separator, b'T' | b't' | b' ');
        let is_in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60;
        // A leap second is the second 60.
        if !is_date || !is_in_range || second > 60 || !(1970..=2200).contains(&year) {
            return None;
        }
        let (nanos, at) = fraction(text, 19);
        let (zone, length) = zone(text, at);
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone.unwrap_or(0);
        Some(Self { nanos: seconds * 1_000_000_000 + nanos, has_zone: zone.is_some(), separator, length })
    }
}

/// Returns the wall-clock time at which a transcript begins, in nanoseconds since 1970, if its header says it.
pub(crate) fn started_nanos(header: &Header) -> Option<i64> {
    let started = header.facts.iter().find(|(name, _)| matches!(name.as_str(), "started" | "started-local"))?;
    Some(Timestamp::at_start(&started.1)?.nanos)
}

/// Reads a number of `count` digits.
fn digits(text: &[u8], at: usize, count: usize) -> Option<i64> {
    let digits = text.get(at..at + count)?;
    let value = |value: i64, digit: &u8| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'));
    digits.iter().try_fold(0, value)
}

/// Reads the fraction of a second, in nanoseconds. Returns it with the offset of the text after it.
fn fraction(text: &[u8], at: usize) -> (i64, usize) {
    let Some(b'.' | b',') = text.get(at) else { return (0, at) };
    let digits = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit());
    let (mut nanos, mut count) = (0, 0);
    for digit in digits {
        if count < 9 {
            nanos = nanos * 10 + i64::from(digit - b'0');
        }
        count += 1;
    }
    match count {
        0 => (0, at),
        count => (nanos * 10_i64.pow(9 - u32::try_from(count.min(9)).unwrap_or(9)), at + 1 + count),
    }
}

/// Reads a time zone: `Z`, `+02:00` or `+0200`. Returns its seconds east of UTC, and the offset of the text after it.
fn zone(text: &[u8], at: usize) -> (Option<i64>, usize) {
    match text.get(at) {
        Some(b'Z' | b'z') => (Some(0), at + 1),
        Some(sign @ (b'+' | b'-')) => {
            let colon = usize::from(text.get(at + 3) == Some(&b':'));
            let (Some(hours), Some(minutes)) = (digits(text, at + 1, 2), digits(text, at + 3 + colon, 2)) else {
                return (None, at);
            };
            let seconds = hours * 3600 + minutes * 60;
            (Some(if *sign == b'+' { seconds } else { -seconds }), at + 5 + colon)
        }
        _ => (None, at),
    }
}

/// Returns the number of days from 1970-01-01 to a date. In the calculation, years begin in March, so that the leap day
/// is the last day of a year; 400 years have 146097 days.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year / 400, year % 400);
    era * 146_097 + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn dates_are_read_in_the_forms_that_hosts_write() {
        let read = |text: &'static str| {
            Timestamp::at_start(text.as_bytes()).map(|it| (it.nanos / 1_000_000, it.has_zone, &text[it.length..]))
        };
        assert_eq!(read("1970-01-01T00:00:00Z"), Some((0, true, "")));
        assert_eq!(read("2026-07-28T09:30:00.125Z [info]"), Some((1_785_231_000_125, true, " [info]")));
        assert_eq!(read("2026-07-28T11:30:00.125+02:00x"), Some((1_785_231_000_125, true, "x")));
        assert_eq!(read("2026-07-28T05:00:00-0430"), Some((1_785_231_000_000, true, "")));
        assert_eq!(read("2026-07-28 09:30:00,5 a"), Some((1_785_231_000_500, false, " a")));
        assert_eq!(read("2000-02-29 00:00:00.1234567891 "), Some((951_782_400_123, false, " ")));
        for bad in ["", "2026", "2026-07-28", "2026-13-01T00:00:00Z", "2026/07/28 09:30:00", "0000-01-01T00:00:00Z"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
