//! A request of the page: its path, its parameters and its body.

use super::answer::AnswerError;
use crate::filter::Filter;
use crate::index::{Expanded, SelectionQuery};

/// A request of the page, after all checks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ViewRequest {
    /// Whether the request is a POST.
    pub is_post: bool,
    /// The parts of the path after `/api/`.
    pub path: Vec<String>,
    /// The parameters of the query, in their order.
    pub parameters: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl ViewRequest {
    pub(super) fn new(is_post: bool, path: &str, query: &str, body: Vec<u8>) -> Self {
        let path = path.split('/').filter(|part| !part.is_empty()).map(|part| decoded(part, false)).collect();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name, true), decoded(value, true))
        });
        Self { is_post, path, parameters: parameters.collect(), body }
    }

    /// Returns the value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter that is a number; an error if it is anything else.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, AnswerError> {
        let Some(text) = self.parameter(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| AnswerError::new(400, format!("{name} is not such a number: {text}")))
    }

    /// Returns a time in seconds.
    pub(super) fn seconds(&self, name: &str) -> Result<Option<f64>, AnswerError> {
        Ok(self.number::<f64>(name)?.filter(|time| time.is_finite()))
    }

    /// Returns the rows that the request asks for.
    pub(super) fn selection(&self) -> Result<SelectionQuery, AnswerError> {
        let filter = match self.parameter("filter").map(str::trim).filter(|filter| !filter.is_empty()) {
            None => Filter::new(),
            Some(text) => Filter::parse(text).map_err(|error| AnswerError {
                at: Some(error.at),
                hint: Some(error.hint.clone()).filter(|hint| !hint.is_empty()),
                ..AnswerError::new(400, &error.what)
            })?,
        };
        let expanded = self.parameter("expand").unwrap_or_default().split(',');
        let expanded = expanded.filter_map(|number| number.trim().parse::<i64>().ok());
        let expanded = expanded.filter_map(|number| {
            let named = u32::try_from(number.unsigned_abs()).ok()?;
            Some(if number < 0 { Expanded::Frame(named) } else { Expanded::Operation(named) })
        });
        let is_folded = self.parameter("fold").is_some_and(|fold| fold != "0" && !fold.is_empty());
        Ok(SelectionQuery {
            filter,
            conversation: self.parameter("conversation").filter(|name| !name.is_empty()).map(str::to_owned),
            is_folded,
            expanded: if is_folded { expanded.take(MAX_EXPANDED).collect() } else { Vec::new() },
        })
    }
}

/// Decodes the percent signs of a part of a URL. In a query, a plus sign is a space.
fn decoded(text: &str, is_query: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |bytes: &[u8]| u8::from_str_radix(std::str::from_utf8(bytes).ok()?, 16).ok();
        match byte {
            b'%' => {
                let mut after = rest.clone();
                let digits = [after.next().unwrap_or(b'?'), after.next().unwrap_or(b'?')];
                match hex(&digits).filter(|_| digits.iter().all(u8::is_ascii_hexdigit)) {
                    Some(decoded) => {
                        bytes.push(decoded);
                        rest = after;
                    }
                    None => bytes.push(byte),
                }
            }
            b'+' if is_query => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The maximum number of operations whose rows are all shown.
const MAX_EXPANDED: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded() {
        let request = ViewRequest::new(false, "s/1/rows", "filter=tool%3Aa+b%20%zz&fold=1&expand=3,-4,x", Vec::new());
        assert_eq!(request.path, ["s", "1", "rows"]);
        assert_eq!(request.parameter("filter"), Some("tool:a b %zz"));
        let request = ViewRequest::new(false, "", "fold=1&expand=3,-4,x&count=x", Vec::new());
        let selection = request.selection().expect("a selection");
        assert_eq!(selection.expanded, [Expanded::Operation(3), Expanded::Frame(4)]);
        assert!(request.number::<usize>("count").is_err());
    }
}
