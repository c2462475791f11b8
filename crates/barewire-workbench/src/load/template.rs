//! A method and its params -> the bytes of a request, from which the next is made by writing over the digits that count.

use barewire_proto::json::Json;
use barewire_proto::rpc::{Id, Params, write};
use memchr::memmem;
use serde_json::value::RawValue;

use super::outstanding::{DIGITS, FIRST_ID};

/// Bytes with numbers in them that are other ones each time.
pub struct Template {
    bytes: Vec<u8>,
    /// Where the numbers stand.
    numbers: Vec<usize>,
    /// What stands behind the number in the payload, if there is one.
    tail: Option<Vec<u8>>,
}

impl Template {
    /// A whole request and its line break.
    pub fn request(method: &str, params: Option<&RawValue>) -> Self {
        let mut bytes = Vec::new();
        let id = Id::from(i64::try_from(FIRST_ID).expect("ten digits"));
        let params = params.and_then(|params| Json::parse(params.get().as_bytes()).ok());
        write::request(&mut bytes, &id, method, params.and_then(Params::from_json));
        bytes.push(b'\n');
        let at = memmem::find(&bytes, id.as_str().as_bytes()).expect("it was just written");
        Self::of(bytes, vec![at])
    }

    /// Params alone, for those who number their requests themselves.
    pub fn params(params: &RawValue) -> Self {
        Self::of(params.get().as_bytes().to_vec(), Vec::new())
    }

    fn of(bytes: Vec<u8>, mut numbers: Vec<usize>) -> Self {
        let mark = memmem::find(&bytes, MARK.as_bytes());
        numbers.extend(mark);
        let tail = mark.map(|at| {
            let tail = &bytes[at + DIGITS..];
            tail.iter().take_while(|byte| **byte != b'"').copied().collect()
        });
        Self { bytes, numbers, tail }
    }

    /// Appends the one with this number.
    pub fn append(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let digits = digits(number);
        for at in &self.numbers {
            out[start + at..start + at + DIGITS].copy_from_slice(&digits);
        }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What the payload says after its number.
    pub fn tail(&self) -> Option<&[u8]> {
        self.tail.as_deref()
    }
}

/// A text of so many bytes that begins with the place for a number. Letters only: nobody writes them in another way.
pub fn payload(bytes: usize) -> String {
    let tail = ('a'..='z').cycle().take(bytes.saturating_sub(DIGITS));
    MARK.chars().chain(tail).collect()
}

/// The last ten digits of a number.
pub fn digits(mut number: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
    digits
}

/// Stands where the number of a payload will.
const MARK: &str = "qQzZ#ZzQq#";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_the_one_before_with_another_number() {
        let params = format!(r#"{{"text":"{}"}}"#, payload(13));
        let template = Template::request("m", Some(&RawValue::from_string(params).expect("JSON")));
        let mut out = Vec::new();
        template.append(1_000_000_007, &mut out);
        template.append(FIRST_ID, &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "{\"jsonrpc\":\"2.0\",\"id\":1000000007,\"method\":\"m\",\"params\":{\"text\":\"1000000007abc\"}}\n\
             {\"jsonrpc\":\"2.0\",\"id\":1000000000,\"method\":\"m\",\"params\":{\"text\":\"1000000000abc\"}}\n"
        );
        assert_eq!((template.tail(), template.len()), (Some(&b"abc"[..]), out.len() / 2));
        assert!(Template::request("m", None).tail().is_none());
    }
}
