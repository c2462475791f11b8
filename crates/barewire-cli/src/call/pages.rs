//! The pages of a list -> one result with all items, each exactly as the server wrote it.

use std::collections::HashSet;

use barewire::client::{Client, ClientError, MAX_LIST_BYTES, MAX_PAGES};
use barewire::peer::Raw;
use barewire_proto::json::{Json, Kind, Text};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ask::request::PreparedRequest;
use crate::output::shown;

/// Requests all pages. Items are copied without parsing them, so nothing in them is lost.
pub(super) async fn all(client: &Client, request: &PreparedRequest, meta: &Value) -> Result<Raw, ClientError> {
    let first = request_page(client, request, None, meta).await?;
    let (mut pages, mut seen, mut bytes) = (vec![first], HashSet::new(), 0);
    let fault = |what: String| Err(ClientError::Fault { method: request.method.clone(), what });
    while let Some(cursor) = pages.last().and_then(next) {
        bytes += pages.last().and_then(Raw::as_str).map_or(0, str::len);
        if bytes > MAX_LIST_BYTES {
            return fault(format!("the list does not end after {} MiB", MAX_LIST_BYTES >> 20));
        }
        if !seen.insert(cursor.clone()) {
            let cursor = shown(cursor.as_bytes(), MAX_CURSOR);
            return fault(format!("the pages repeat from cursor \"{cursor}\""));
        }
        if pages.len() == MAX_PAGES {
            return fault(format!("the list does not end after {MAX_PAGES} pages"));
        }
        pages.push(request_page(client, request, Some(&cursor), meta).await?);
    }
    Ok(joined(&pages))
}

async fn request_page(
    client: &Client,
    request: &PreparedRequest,
    cursor: Option<&str>,
    meta: &Value,
) -> Result<Raw, ClientError> {
    let mut params = serde_json::Map::new();
    if let Some(given) = &request.params {
        params = serde_json::from_str(given.get()).unwrap_or_default();
    }
    if let Some(cursor) = cursor {
        params.insert("cursor".to_owned(), cursor.into());
    }
    // Empty params are not sent.
    let params = if params.is_empty() { Value::Null } else { Value::Object(params) };
    client.request(request.method.clone(), params).meta(meta).await
}

fn next(page: &Raw) -> Option<String> {
    let json = Json::parse(page.as_str()?.as_bytes()).ok()?;
    let cursor = json.members().find(|member| member.name == CURSOR)?.value;
    Some(Text::from_json(cursor)?.to_name().into_owned())
}

/// Returns the first page with the items of all pages in its list. A single page is returned unchanged.
fn joined(pages: &[Raw]) -> Raw {
    let [first, more @ ..] = pages else { return Raw::default() };
    let Some(json) = first.as_str().and_then(|text| Json::parse(text.as_bytes()).ok()).filter(|_| !more.is_empty())
    else {
        return first.clone();
    };
    let mut members = Vec::new();
    for member in json.members().filter(|member| member.name != CURSOR) {
        let name = member.name.raw();
        let value = match member.value.kind() {
            Kind::Array => {
                let others = more.iter().filter_map(|page| Json::parse(page.as_str()?.as_bytes()).ok());
                let others =
                    others.filter_map(|page| page.members().find(|it| it.name == member.name).map(|it| it.value));
                let elements = member.value.elements().chain(others.flat_map(Json::elements));
                format!("[{}]", elements.map(Json::as_str).collect::<Vec<_>>().join(","))
            }
            _ => member.value.as_str().to_owned(),
        };
        members.push(format!("{name}:{value}"));
    }
    let text = RawValue::from_string(format!("{{{}}}", members.join(","))).expect("an object of JSON members is JSON");
    Raw::of(&text).expect("JSON text can be written")
}

const CURSOR: &str = "nextCursor";

/// The maximum number of characters of a cursor shown in a message.
const MAX_CURSOR: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Raw {
        Raw::of(&RawValue::from_string(text.to_owned()).expect("JSON")).expect("JSON")
    }

    #[test]
    fn joined_pages_keep_the_text_of_their_items() {
        let first = page(r#"{"tools":[{"name":"a", "x":1.0}],"nextCursor":"2","ttlMs":5}"#);
        let second = page(r#"{"tools":[{"name":"\u0062"},{"name":"c"}]}"#);
        assert_eq!(next(&first).as_deref(), Some("2"));
        assert_eq!(next(&second), None);
        let all = joined(&[first, second.clone()]);
        assert_eq!(all.as_str(), Some(r#"{"tools":[{"name":"a", "x":1.0},{"name":"\u0062"},{"name":"c"}],"ttlMs":5}"#));
        assert_eq!(joined(std::slice::from_ref(&second)), second);
    }
}
