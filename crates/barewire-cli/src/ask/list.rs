//! The pages of a list -> one result with all items, each exactly as the server wrote it; and single items of a list.

use std::borrow::Cow;
use std::collections::HashSet;

use barewire::client::{Client, ClientError, MAX_LIST_BYTES, MAX_PAGES};
use barewire::peer::Raw;
use barewire_proto::json::{Json, Kind, Text};
use barewire_workbench::tree;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::no_answer::{NoAnswer, RequestContext};
use super::request::{fields_of, no_such};
use super::schema::Fields;
use crate::output::shown;

/// Returns the arguments of a tool that the server lists.
pub(crate) async fn tool_fields(client: &Client, name: &str, context: &RequestContext) -> Result<Fields, NoAnswer> {
    let list = whole(client, "tools/list", context).await?;
    let tool = find(&list, "tools", "tool", name)?;
    Ok(tool.member("inputSchema").map(Fields::of_json).unwrap_or_default())
}

/// Returns the arguments of a prompt that the server lists.
pub(crate) async fn prompt_fields(client: &Client, name: &str, context: &RequestContext) -> Result<Fields, NoAnswer> {
    let list = whole(client, "prompts/list", context).await?;
    let prompt = find(&list, "prompts", "prompt", name)?;
    let prompt = tree::read(prompt).map_err(|error| NoAnswer::bad_result("prompts/list", &error))?;
    Ok(prompt.map(|prompt| fields_of(&prompt)).unwrap_or_default())
}

async fn whole(client: &Client, method: &str, context: &RequestContext) -> Result<Raw, NoAnswer> {
    all(client, method, None, &json!({})).await.map_err(|error| NoAnswer::from_client(&error, context))
}

fn find<'a>(list: &'a Raw, member: &str, what: &str, name: &str) -> Result<Json<'a>, NoAnswer> {
    let found = items(list, member).find(|item| item_name(*item).as_deref() == Some(name));
    found.ok_or_else(|| {
        let names: Vec<_> = items(list, member).filter_map(item_name).collect();
        no_such(what, name, &names.iter().map(|name| &**name).collect::<Vec<_>>())
    })
}

/// Returns the items of a list in a result.
pub(crate) fn items<'a>(list: &'a Raw, member: &str) -> impl Iterator<Item = Json<'a>> {
    let list = list.as_str().and_then(|text| Json::parse(text.as_bytes()).ok()).and_then(|list| list.member(member));
    list.into_iter().flat_map(Json::elements)
}

pub(crate) fn item_name(item: Json<'_>) -> Option<Cow<'_, str>> {
    item.member("name")?.string()
}

/// Requests all pages of a list. Items are copied without parsing them, so nothing in them is lost.
pub(crate) async fn all(
    client: &Client,
    method: &str,
    params: Option<&RawValue>,
    meta: &Value,
) -> Result<Raw, ClientError> {
    let first = request_page(client, method, params, None, meta).await?;
    let (mut pages, mut seen, mut bytes) = (vec![first], HashSet::new(), 0);
    let fault = |what: String| Err(ClientError::Fault { method: method.to_owned(), what });
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
        pages.push(request_page(client, method, params, Some(&cursor), meta).await?);
    }
    Ok(joined(&pages))
}

async fn request_page(
    client: &Client,
    method: &str,
    given: Option<&RawValue>,
    cursor: Option<&str>,
    meta: &Value,
) -> Result<Raw, ClientError> {
    let mut params = serde_json::Map::new();
    if let Some(given) = given {
        params = serde_json::from_str(given.get()).unwrap_or_default();
    }
    if let Some(cursor) = cursor {
        params.insert("cursor".to_owned(), cursor.into());
    }
    // Empty params are not sent.
    let params = if params.is_empty() { Value::Null } else { Value::Object(params) };
    client.request(method, params).meta(meta).await
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
    let mut text = String::from("{");
    for member in json.members().filter(|member| member.name != CURSOR) {
        let comma = if text.len() > 1 { "," } else { "" };
        text.push_str(&format!("{comma}{}:", member.name.raw()));
        if member.value.kind() != Kind::Array {
            text.push_str(member.value.as_str());
            continue;
        }
        let others = more.iter().filter_map(|page| Json::parse(page.as_str()?.as_bytes()).ok());
        let others = others.filter_map(|page| page.members().find(|it| it.name == member.name).map(|it| it.value));
        text.push('[');
        for (index, element) in member.value.elements().chain(others.flat_map(Json::elements)).enumerate() {
            text.push_str(if index > 0 { "," } else { "" });
            text.push_str(element.as_str());
        }
        text.push(']');
    }
    text.push('}');
    let text = RawValue::from_string(text).expect("an object of JSON members is JSON");
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
