//! Results -> whether their members have values that the schema allows: no null, and the right range and format.

use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{Notification, Params};

use super::INVENTED_TEXT;
use super::shape::ShapeError;
use crate::operations::member;
use crate::text::shown;

type Checked = Result<(), ShapeError>;

/// Checks the values in the result of a method. Its members have the right types, but those that may be missing can be
/// null.
pub(super) fn check(method: &str, result: Json<'_>, is_modern: bool) -> Checked {
    let path = "/result";
    no_null(result, path, &["_meta"])?;
    match method {
        "initialize" => {
            no_null(result, path, &["instructions"])?;
            no_null_in(result, path, "serverInfo", &["title", "description", "websiteUrl", "icons"])
        }
        "tools/list" => each(result, path, "tools", |tool, path| {
            no_null(tool, path, &["title", "description", "annotations", "icons", "execution", "_meta"])?;
            let hints = &["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
            no_null_in(tool, path, "annotations", hints)
        }),
        "resources/list" => each(result, path, "resources", |resource, path| {
            described(resource, path)?;
            uri(resource, path)
        }),
        "resources/templates/list" => each(result, path, "resourceTemplates", |template, path| {
            described(template, path)?;
            uri_template(template, path)
        }),
        "prompts/list" => each(result, path, "prompts", |prompt, path| {
            no_null(prompt, path, &["title", "description", "arguments", "icons", "_meta"])?;
            each(prompt, path, "arguments", |it, path| no_null(it, path, &["title", "description", "required"]))
        }),
        "tools/call" => {
            no_null(result, path, &["isError"])?;
            // Since 2026-07-28, structured content can be any value.
            no_null(result, path, if is_modern { &[] } else { &["structuredContent"] })?;
            each(result, path, "content", content)
        }
        "resources/read" => each(result, path, "contents", contents),
        "prompts/get" => {
            no_null(result, path, &["description"])?;
            each(result, path, "messages", |message, path| match message.member("content") {
                Some(it) => content(it, &format!("{path}/content")),
                None => Ok(()),
            })
        }
        "completion/complete" => {
            no_null_in(result, path, "completion", &["total", "hasMore"])?;
            let values = result.at(&["completion", "values"]);
            match values.is_some_and(|values| values.elements().nth(MAX_COMPLETIONS).is_some()) {
                true => fail(path, "completion/values", format!("there are more than {MAX_COMPLETIONS} values")),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Checks the params of a notification of a server.
pub(super) fn notification(notification: &Notification<'_>) -> Checked {
    let method = notification.method.to_name();
    let params = notification.params.map(Params::json);
    if &*method != "notifications/message" {
        return Ok(());
    }
    let level = member(params, "level").and_then(Json::string);
    if !level.as_deref().is_some_and(|level| LEVELS.contains(&level)) {
        return fail("", "params", format!("{method}: level is not a level of RFC 5424 in lower case"));
    }
    match member(params, "data") {
        Some(_) => Ok(()),
        None => fail("", "params", format!("{method}: data is missing")),
    }
}

/// Checks an element of a list of resources or templates, or a link to a resource.
fn described(value: Json<'_>, path: &str) -> Checked {
    no_null(value, path, &["title", "description", "mimeType", "size", "annotations", "icons", "_meta"])?;
    annotations(value, path)
}

fn annotations(value: Json<'_>, path: &str) -> Checked {
    no_null_in(value, path, "annotations", &["audience", "priority", "lastModified"])?;
    let priority = value.at(&["annotations", "priority"]).and_then(|priority| priority.to::<f64>().ok());
    match priority.is_some_and(|priority| !(0.0..=1.0).contains(&priority)) {
        true => fail(path, "annotations/priority", "priority is not between 0 and 1".to_owned()),
        false => Ok(()),
    }
}

/// Checks an element of the content of a tool's result, or the content of a message.
fn content(value: Json<'_>, path: &str) -> Checked {
    no_null(value, path, &["annotations", "_meta"])?;
    annotations(value, path)?;
    match value.member("type").and_then(Json::string).as_deref() {
        Some("image" | "audio") => base64(value, path, "data"),
        Some("resource") => match value.member("resource") {
            Some(resource) => contents(resource, &format!("{path}/resource")),
            None => Ok(()),
        },
        Some("resource_link") => {
            described(value, path)?;
            uri(value, path)
        }
        _ => Ok(()),
    }
}

/// Checks an element of the result of `resources/read`.
fn contents(value: Json<'_>, path: &str) -> Checked {
    no_null(value, path, &["mimeType", "_meta"])?;
    uri(value, path)?;
    base64(value, path, "blob")
}

/// Checks that the member `uri` begins with a scheme.
fn uri(value: Json<'_>, path: &str) -> Checked {
    let Some(uri) = value.member("uri").and_then(Json::string) else { return Ok(()) };
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    };
    // A tool or a prompt may take the URI from its arguments.
    let is_number = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let is_ours = uri.strip_prefix(INVENTED_TEXT).is_some_and(is_number);
    match is_ours || uri.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) {
        true => Ok(()),
        false => fail(path, "uri", format!("{} is not a URI, which begins with a scheme", shown(uri.as_bytes(), 60))),
    }
}

/// Checks that each brace of the member `uriTemplate` has its counterpart.
fn uri_template(value: Json<'_>, path: &str) -> Checked {
    let Some(template) = value.member("uriTemplate").and_then(Json::string) else { return Ok(()) };
    let mut is_open = false;
    for byte in template.bytes().filter(|b| matches!(b, b'{' | b'}')) {
        if (byte == b'{') == is_open {
            is_open = true;
            break;
        }
        is_open = byte == b'{';
    }
    match is_open {
        true => fail(path, "uriTemplate", "a brace of the template has no counterpart".to_owned()),
        false => Ok(()),
    }
}

/// Checks that a string has only characters of base64. Some parsers skip line breaks, and do without padding.
fn base64(value: Json<'_>, path: &str, name: &str) -> Checked {
    let Some(data) = value.member(name).filter(|data| data.kind() == Kind::String) else { return Ok(()) };
    let text = data.as_str().trim_matches('"');
    // A backslash is the escape of a slash or of a line break.
    let is_base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\\');
    match text.bytes().all(is_base64) {
        true => Ok(()),
        false => fail(path, name, format!("{name} is not base64")),
    }
}

/// Checks each element of a list.
fn each(value: Json<'_>, path: &str, list: &str, check: impl Fn(Json<'_>, &str) -> Checked) -> Checked {
    let elements = value.member(list).into_iter().flat_map(Json::elements);
    elements.enumerate().try_for_each(|(index, element)| check(element, &format!("{path}/{list}/{index}")))
}

fn no_null_in(value: Json<'_>, path: &str, name: &str, optional: &[&str]) -> Checked {
    value.member(name).map_or(Ok(()), |value| no_null(value, &format!("{path}/{name}"), optional))
}

/// Checks that none of these members is null. A member without a value must be missing.
fn no_null(value: Json<'_>, path: &str, optional: &[&str]) -> Checked {
    for member in value.members().filter(|member| member.value.kind() == Kind::Null) {
        if let Some(name) = optional.iter().find(|name| member.name == **name) {
            return fail(path, name, format!("{name} is null; omit it instead"));
        }
    }
    Ok(())
}

fn fail(path: &str, member: &str, what: String) -> Checked {
    Err(ShapeError { path: format!("{path}/{member}"), what })
}

/// The maximum number of values of a completion, according to the schema.
const MAX_COMPLETIONS: usize = 100;

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
