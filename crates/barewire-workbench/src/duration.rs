//! Parses durations on a command line, such as `100ms`, `2s` or `1.5`.

use std::time::Duration;

/// Parses a number with a unit. A number without a unit is in seconds.
pub fn parse(text: &str) -> Result<Duration, &'static str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(EXPECTED),
    };
    match number.parse::<f64>() {
        Ok(number) if number * unit <= YEAR => Ok(Duration::from_secs_f64(number * unit)),
        Ok(_) => Err("more than a year"),
        Err(_) => Err(EXPECTED),
    }
}

/// Parses a duration that is greater than zero.
pub fn parse_nonzero(text: &str) -> Result<Duration, &'static str> {
    match parse(text) {
        Ok(time) if time.is_zero() => Err("expected a time greater than 0, such as 100ms, 2s or 1.5"),
        time => time,
    }
}

const EXPECTED: &str = "expected a time such as 100ms, 2s or 1.5 (seconds)";

/// The maximum duration, in seconds: longer than any useful wait, and short enough to be added to any clock time.
const YEAR: f64 = 365.0 * 24.0 * 60.0 * 60.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_unit_or_is_in_seconds() {
        for (text, micros) in [
            ("250us", 250),
            ("100ms", 100_000),
            ("1.5s", 1_500_000),
            ("1.5", 1_500_000),
            ("0", 0),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "ms", "1e3ms", "1..2s", "-1s", "-1", "5 parsecs", "inf", "NaN", "."] {
            assert_eq!(parse(text), Err(EXPECTED), "{text}");
        }
        assert_eq!(parse("366d"), Err(EXPECTED));
        assert_eq!(parse("9999h"), Err("more than a year"));
    }

    #[test]
    fn zero_is_refused() {
        assert!(
            parse_nonzero("0ms").is_err() && parse_nonzero("1ms").is_ok() && parse_nonzero("soon") == Err(EXPECTED)
        );
    }
}
