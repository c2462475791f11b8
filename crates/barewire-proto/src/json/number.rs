//! Reads the text of a number as its exact value, without floating point.

use std::cmp::Ordering;
use std::fmt;

use super::{Json, Kind};

/// The exact value of a number: `digits` x 10^`exponent`, normalized to have neither leading nor trailing zeros.
///
/// Two numbers are equal exactly if their `Decimal`s are equal: 1, 1.0, 1e0 and 10e-1 are the same value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: Exponent,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Exponent {
    Exact(i128),
    /// An exponent of more than 36 digits, kept as text. The `shift` from normalizing the digits is not added to it, so
    /// equal numbers with different shifts compare as different. Such numbers do not occur in practice.
    Huge {
        negative: bool,
        digits: Vec<u8>,
        shift: i128,
    },
}

impl Decimal {
    /// Returns the value of `json`, or `None` if `json` is not a number.
    pub fn from_json(json: Json<'_>) -> Option<Self> {
        (json.kind() == Kind::Number).then(|| Self::new(json.as_bytes()))
    }

    /// Whether the number has no fraction, in any notation: 30, 30.0 and 3e1 are integers.
    pub fn is_integer(&self) -> bool {
        match &self.exponent {
            Exponent::Exact(exponent) => *exponent >= 0,
            Exponent::Huge { negative, .. } => !negative,
        }
    }

    /// Returns the integer as text, without decimal point and exponent. Returns `None` if the number is not an integer
    /// or has more than 39 digits, which is too many for every integer type.
    pub fn to_integer(&self) -> Option<String> {
        let Exponent::Exact(exponent) = self.exponent else { return None };
        let zeros = usize::try_from(exponent).ok()?;
        if zeros.saturating_add(self.digits.len()) > 39 {
            return None;
        }
        let sign = self.negative.then_some('-');
        let digits = self.digits.iter().map(|digit| char::from(*digit));
        let text: String = sign.into_iter().chain(digits).chain(std::iter::repeat_n('0', zeros)).collect();
        Some(if text.is_empty() { "0".to_owned() } else { text })
    }

    /// Whether `self` is `step` times an integer; `None` if `step` is zero, its digits do not fit in 64 bits, or an
    /// exponent has more than 36 digits.
    pub fn is_multiple_of(&self, step: &Self) -> Option<bool> {
        let divisor = step
            .digits
            .iter()
            .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        let divisor = u128::from(divisor.filter(|divisor| *divisor > 0)?);
        if self.digits.is_empty() {
            return Some(true);
        }
        let (Exponent::Exact(ours), Exponent::Exact(theirs)) = (&self.exponent, &step.exponent) else {
            return None;
        };
        // `digits` x 10^`shift` must be a multiple of the divisor. With a negative shift the product is not even an
        // integer, because the digits do not end in zero.
        let Ok(mut shift) = u128::try_from(ours - theirs) else { return Some(false) };
        let mut rest =
            self.digits.iter().fold(0, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % divisor);
        let mut power = 10 % divisor;
        while shift > 0 {
            if shift % 2 == 1 {
                rest = rest * power % divisor;
            }
            power = power * power % divisor;
            shift /= 2;
        }
        Some(rest == 0)
    }

    /// Parses `text`, which the scanner has accepted as a JSON number.
    pub(crate) fn new(text: &[u8]) -> Self {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let split = text.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(text.len());
        let (mantissa, exponent) = (&text[..split], text.get(split + 1..).unwrap_or(b""));
        let point = mantissa.iter().position(|b| *b == b'.').unwrap_or(mantissa.len());
        let fraction = mantissa.get(point + 1..).unwrap_or(b"");

        let mut digits: Vec<u8> = mantissa[..point].iter().chain(fraction).copied().collect();
        let trailing = digits.iter().rev().take_while(|b| **b == b'0').count();
        digits.truncate(digits.len() - trailing);
        let leading = digits.iter().take_while(|b| **b == b'0').count();
        digits.drain(..leading);

        if digits.is_empty() {
            // Zero has neither sign nor exponent: -0 and 0e9 are 0.
            return Self { negative: false, digits, exponent: Exponent::Exact(0) };
        }
        let shift = trailing as i128 - fraction.len() as i128;
        let exponent = match written_exponent(exponent) {
            Some(written) => Exponent::Exact(written + shift),
            None => {
                let (negative, digits) = sign_and_digits(exponent);
                Exponent::Huge { negative, digits: digits.to_vec(), shift }
            }
        };
        Self { negative, digits, exponent }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let magnitude = || {
            let scale = self.exponent.scale(self.digits.len());
            // The digits have no leading or trailing zeros, so their lexical order is their numeric order.
            scale.cmp(&other.exponent.scale(other.digits.len())).then_with(|| self.digits.cmp(&other.digits))
        };
        match (sign(self), sign(other)) {
            (-1, -1) => magnitude().reverse(),
            (1, 1) => magnitude(),
            (ours, theirs) => ours.cmp(&theirs),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Exponent {
    /// Returns a sort key for the magnitude of a number with this exponent and `digits` digits: a larger number has a
    /// greater key.
    fn scale(&self, digits: usize) -> (i8, i128, i128, Vec<u8>, i128) {
        match self {
            Self::Exact(exponent) => (0, exponent + digits as i128, 0, Vec::new(), 0),
            Self::Huge { negative: false, digits: written, shift } => {
                (1, 0, written.len() as i128, written.clone(), shift + digits as i128)
            }
            Self::Huge { negative: true, digits: written, shift } => {
                // The larger the digits of a negative exponent, the smaller the number, so the digits are inverted.
                let smaller = written.iter().map(|digit| u8::MAX - digit).collect();
                (-1, 0, -(written.len() as i128), smaller, shift + digits as i128)
            }
        }
    }
}

/// Writes the normalized form of the value, such as `0`, `-125e-2` or `3e1`.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        if self.negative {
            f.write_str("-")?;
        }
        let text = |digits| std::str::from_utf8(digits).expect("digits are ASCII");
        f.write_str(text(&self.digits))?;
        match &self.exponent {
            Exponent::Exact(0) => Ok(()),
            Exponent::Exact(exponent) => write!(f, "e{exponent}"),
            Exponent::Huge { negative, digits, shift } => {
                write!(f, "e{}{}{shift:+}", if *negative { "-" } else { "" }, text(digits))
            }
        }
    }
}

/// Returns the value of a valid JSON number, or `None` if the value is not an integer or does not fit in an `i64`.
/// -32600.0 is an integer too, because JSON does not distinguish it from -32600.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let written = std::str::from_utf8(text).ok()?;
    if let Ok(integer) = written.parse() {
        return Some(integer);
    }
    let Decimal { negative, digits, exponent: Exponent::Exact(zeros) } = Decimal::new(text) else {
        return None;
    };
    // An i64 has at most 19 digits; a number with more is out of range.
    let room = 19usize.checked_sub(digits.len())?;
    let zeros = usize::try_from(zeros).ok().filter(|zeros| *zeros <= room)?;
    let all = digits.iter().copied().chain(std::iter::repeat_n(b'0', zeros));
    let value = all.fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    i64::try_from(if negative { -value } else { value }).ok()
}

fn written_exponent(text: &[u8]) -> Option<i128> {
    let (negative, digits) = sign_and_digits(text);
    // An exponent of at most 36 digits leaves room in an `i128` to add the shift, which is at most the length of the
    // mantissa.
    let value = (digits.len() <= 36)
        .then(|| digits.iter().fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0')))?;
    Some(if negative { -value } else { value })
}

/// Splits an exponent into its sign (whether it is negative) and its digits without leading zeros.
fn sign_and_digits(exponent: &[u8]) -> (bool, &[u8]) {
    let (negative, digits) = match exponent {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let leading = digits.iter().take_while(|b| **b == b'0').count();
    (negative, &digits[leading..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_exact_value() {
        for same in [
            &["1", "1.0", "1e0", "10e-1", "0.1e1", "1E+00", "1.000"][..],
            &["0", "-0", "0.0", "0e99", "-0.0e-5"],
            &["18446744073709551616", "18446744073709551616.0", "1.8446744073709551616e19"],
            &["1e400", "10e399", "0.1e401"],
        ] {
            for a in same {
                for b in same {
                    assert_eq!(Decimal::new(a.as_bytes()), Decimal::new(b.as_bytes()), "{a} {b}");
                }
            }
        }
        // The numbers of each pair are different, although those of the first three pairs are equal as doubles.
        for (a, b) in [
            ("9007199254740992", "9007199254740993"),
            ("1e400", "1e401"),
            ("0.1", "0.10000000000000001"),
            ("1", "-1"),
        ] {
            assert_ne!(Decimal::new(a.as_bytes()), Decimal::new(b.as_bytes()), "{a} {b}");
        }
        // Exponents of more than 36 digits: equal numbers with equal shifts are equal, different numbers are not.
        let nines = "9".repeat(50);
        let huge = |form: &str| Decimal::new(form.replace('H', &nines).as_bytes());
        assert_eq!(huge("1eH"), huge("1.0e+00H"));
        for other in ["10eH", "1e-H", "-1eH", "1e1H", "2eH"] {
            assert_ne!(huge("1eH"), huge(other), "{other}");
        }
    }

    fn decimal(text: &str) -> Decimal {
        Decimal::new(text.as_bytes())
    }

    #[test]
    fn numbers_are_ordered_by_exact_value() {
        let huge = format!("1e{}", "9".repeat(50));
        let larger = format!("1e1{}", "0".repeat(50));
        let tiny = format!("1e-{}", "9".repeat(50));
        let smaller = format!("1e-1{}", "0".repeat(50));
        let below = format!("-{huge}");
        let ordered = [
            &*below,
            "-1e400",
            "-18446744073709551616",
            "-9.5",
            "-9.25",
            "-1",
            "-1e-400",
            "0",
            &*smaller,
            &*tiny,
            "1e-400",
            "0.1",
            "0.10000000000000001",
            "0.9",
            "1",
            "1.5",
            "2",
            "10",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "1e400",
            &*huge,
            &*larger,
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(decimal(a).cmp(&decimal(b)), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn each_value_has_one_normalized_form() {
        for (written, spelled) in
            [("-0.0", "0"), ("30.0", "3e1"), ("1", "1"), ("-1.250", "-125e-2"), ("1e400", "1e400")]
        {
            assert_eq!(decimal(written).to_string(), spelled);
        }
        let nines = "9".repeat(50);
        assert_eq!(decimal(&format!("1.5e-{nines}")).to_string(), format!("15e-{nines}-1"));
    }

    #[test]
    fn integers_are_written_without_point_and_exponent() {
        for (written, integer) in [
            ("30.0", Some("30")),
            ("3e1", Some("30")),
            ("-0.0", Some("0")),
            ("-1.5e1", Some("-15")),
            ("1.8446744073709551615e19", Some("18446744073709551615")),
            ("1e38", Some("100000000000000000000000000000000000000")),
            ("1e39", None),
            ("1e99999999999999999999", None),
            ("1.5", None),
        ] {
            assert_eq!(decimal(written).to_integer().as_deref(), integer, "{written}");
        }
        assert!(decimal("1e39").is_integer() && decimal(&format!("1e{}", "9".repeat(50))).is_integer());
        assert!(!decimal("1.5").is_integer() && !decimal(&format!("1e-{}", "9".repeat(50))).is_integer());
    }

    #[test]
    fn multiples_are_exact() {
        for (number, step, multiple) in [
            ("0.3", "0.1", Some(true)),
            ("0.35", "0.1", Some(false)),
            ("1e300", "3", Some(false)),
            ("3e300", "3", Some(true)),
            ("9007199254740993", "2", Some(false)),
            ("18446744073709551616", "4294967296", Some(true)),
            ("-15", "2.5", Some(true)),
            ("0", "7", Some(true)),
            ("4.2", "4.2e1", Some(false)),
            ("100000000000000000000000000000000000000007", "7", Some(false)),
            ("1", "0", None),
            ("1", "123456789012345678901", None),
        ] {
            assert_eq!(decimal(number).is_multiple_of(&decimal(step)), multiple, "{number} {step}");
        }
    }

    #[test]
    fn an_integer_is_recognized_in_any_notation() {
        for (text, value) in [
            ("-32700", Some(-32700)),
            ("-32700.0", Some(-32700)),
            ("-327e2", Some(-32700)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1e400", None),
            ("1e99999999999999999999999999999999999999999", None),
            ("1e18446744073709551615", None),
            ("99999999999999999999999999999", None),
            ("1.5", None),
            ("1e-1", None),
        ] {
            assert_eq!(integer(text.as_bytes()), value, "{text}");
        }
    }
}
