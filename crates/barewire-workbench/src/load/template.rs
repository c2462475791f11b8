//! Makes the bytes of a request from a method and its params. Each further request has the same bytes with another
//! number.

use barewire_proto::json::Json;
use barewire_proto::rpc::{Id, Params, write};
use memchr::memmem;
use serde_json::value::RawValue;

use super::outstanding::{DIGITS, FIRST_ID};

/// The bytes of a request, and the offsets of the numbers that are different in every request.
pub(super) struct Template {
    bytes: Vec<u8>,
    numbers: Vec<usize>,
    /// The text after the number in the payload, if the request has a payload.
    tail: Option<Vec<u8>>,
}

impl Template {
    /// Makes a template for a whole request, including its line break.
    pub(super) fn request(method: &str, params: Option<&RawValue>) -> Self {
        let mut bytes = Vec::new();
        let id = Id::from(i64::try_from(FIRST_ID).expect("ten digits"));
        let params = params.and_then(|params| Json::parse(params.get().as_bytes()).ok());
        write::request(&mut bytes, &id, method, params.and_then(Params::from_json));
        bytes.push(b'\n');
        let at = memmem::find(&bytes, id.as_str().as_bytes()).expect("the id was just written");
        Self::of(bytes, vec![at])
    }

    /// Makes a template for the params only, for a client that numbers its requests itself.
    pub(super) fn params(params: &RawValue) -> Self {
        Self::of(params.get().as_bytes().to_vec(), Vec::new())
    }

    fn of(bytes: Vec<u8>, mut numbers: Vec<usize>) -> Self {
        let mark = memmem::find(&bytes, NUMBER_MARK.as_bytes());
        numbers.extend(mark);
        let tail = mark.map(|at| {
            let tail = &bytes[at + DIGITS..];
            tail.iter().take_while(|byte| **byte != b'"').copied().collect()
        });
        Self { bytes, numbers, tail }
    }

    pub(super) fn append(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let digits = digits(number);
        for at in &self.numbers {
            out[start + at..start + at + DIGITS].copy_from_slice(&digits);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the text after the number in the payload.
    pub(super) fn tail(&self) -> Option<&[u8]> {
        self.tail.as_deref()
    }
}

/// Returns a text for the params of a [`LoadRequest`](super::LoadRequest) that is different in every request, because
/// it begins with a number. It has at least [`MIN_PAYLOAD`] bytes; the rest are letters, which have only one spelling
/// in JSON.
pub fn payload(bytes: usize) -> String {
    let tail = ('a'..='z').cycle().take(bytes.saturating_sub(DIGITS));
    NUMBER_MARK.chars().chain(tail).collect()
}

pub(super) fn digits(mut number: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
    digits
}

/// The minimum length of a payload: the ten digits of its number, which distinguish the answers.
pub const MIN_PAYLOAD: usize = DIGITS;

/// The placeholder for the number in a payload.
const NUMBER_MARK: &str = "qQzZ#ZzQq#";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_differ_only_in_their_number() {
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
