//! The text of a number -> its exact value, never through a float.

/// A number's exact value: `digits` x 10^`exponent`, in the one form that has neither leading nor trailing zeros.
///
/// Two numbers are equal exactly if their `Decimal`s are: 1, 1.0, 1e0 and 10e-1 are one value.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: Exponent,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Exponent {
    Exact(i128),
    /// Beyond 10^36 the exponent is not added up: two such numbers are taken for different if their mantissas are shifted
    /// differently, even if the sums were the same. No such number is met in earnest.
    Huge { negative: bool, digits: Vec<u8>, shift: i128 },
}

impl Decimal {
    /// The value of a checked JSON number.
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
            // Zero has no sign and no exponent: -0 and 0e9 are 0.
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

/// The integer that a checked JSON number is, if it is one: -32600 and also -32600.0, as JSON knows no difference.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let written = std::str::from_utf8(text).ok()?;
    if let Ok(integer) = written.parse() {
        return Some(integer);
    }
    let Decimal { negative, digits, exponent: Exponent::Exact(zeros) } = Decimal::new(text) else {
        return None;
    };
    // Nineteen digits hold every i64; what is longer is out of range whatever it is.
    let room = 19usize.checked_sub(digits.len())?;
    let zeros = usize::try_from(zeros).ok().filter(|zeros| *zeros <= room)?;
    let all = digits.iter().copied().chain(std::iter::repeat_n(b'0', zeros));
    let value = all.fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    i64::try_from(if negative { -value } else { value }).ok()
}

fn written_exponent(text: &[u8]) -> Option<i128> {
    let (negative, digits) = sign_and_digits(text);
    // 36 digits leave room in an i128 for the shift by the mantissa's length.
    let value = (digits.len() <= 36)
        .then(|| digits.iter().fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0')))?;
    Some(if negative { -value } else { value })
}

/// An exponent without its sign and its leading zeros.
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
        // Each of these pairs is one number to a double.
        for (a, b) in [
            ("9007199254740992", "9007199254740993"),
            ("1e400", "1e401"),
            ("0.1", "0.10000000000000001"),
            ("1", "-1"),
        ] {
            assert_ne!(Decimal::new(a.as_bytes()), Decimal::new(b.as_bytes()), "{a} {b}");
        }
        // Beyond 10^36 equal spellings are equal, and unequal numbers are not.
        let nines = "9".repeat(50);
        let huge = |form: &str| Decimal::new(form.replace('H', &nines).as_bytes());
        assert_eq!(huge("1eH"), huge("1.0e+00H"));
        for other in ["10eH", "1e-H", "-1eH", "1e1H", "2eH"] {
            assert_ne!(huge("1eH"), huge(other), "{other}");
        }
    }

    #[test]
    fn an_integer_is_one_however_it_is_written() {
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
