//! JSON from a server -> a type that the client itself reads, unless the JSON has too many values.
//!
//! The types of MCP hold trees of values, for example in `_meta`, and a tree takes up to 290 times the memory of its
//! text. A program that asks for such a type decides this itself; what the client reads unasked is limited.

use barewire_proto::json::Json;
use serde::de::DeserializeOwned;

use crate::peer::Raw;

/// Parses JSON that the client reads unasked.
pub(super) fn parse_small<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let json = Json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    if json.has_more_values_than(MAX_VALUES) {
        return Err(format!("it has more than {MAX_VALUES} values"));
    }
    json.to().map_err(|error| error.to_string())
}

/// Parses a message part that the client reads unasked. Nothing at all is not valid.
pub(super) fn parse_small_raw<T: DeserializeOwned>(raw: &Raw) -> Result<T, String> {
    parse_small(raw.as_str().unwrap_or_default())
}

/// Whether a notification can be parsed. The `data` of a log message may be large, because it stays text.
pub(super) fn is_small_notification(params: Json<'_>) -> bool {
    let mut members = params.members().filter(|member| member.name != "data");
    !params.has_more_values_than(MAX_VALUES)
        || members.all(|member| !member.value.has_more_values_than(MAX_VALUES))
            && params.members().nth(MAX_VALUES).is_none()
}

/// The maximum number of values that the client reads unasked. A message to a model has at most some ten thousand
/// values; a tree of this many takes at most 25 MiB.
const MAX_VALUES: usize = 65_536;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_the_data_of_a_notification_may_have_many_values() {
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        assert!(parse_small::<Value>(&many).expect_err("too many").contains("more than"));
        assert!(parse_small::<Value>("[0]").is_ok());
        let is_small = |text: String| is_small_notification(Json::parse(text.as_bytes()).expect("JSON"));
        assert!(is_small(format!(r#"{{"level":"info","data":{many}}}"#)));
        assert!(!is_small(format!(r#"{{"level":"info","data":0,"_meta":{{"a":{many}}}}}"#)));
        assert!(!is_small(format!("{{{}\"b\":0}}", r#""a":0,"#.repeat(MAX_VALUES))));
    }
}
