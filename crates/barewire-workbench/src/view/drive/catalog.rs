//! What a server offers -> one JSON object: tools, resources, templates and prompts, each exactly as it lists them.

use std::collections::HashSet;

use barewire::client::{Client, MAX_LIST_BYTES, MAX_PAGES};
use barewire::peer::Raw;
use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{Implementation, ServerCapabilities};
use serde::Serialize;
use serde_json::value::RawValue;

/// The lists of a server. A list that the server does not offer is empty.
#[derive(Serialize)]
pub(super) struct Catalog {
    server: Option<Implementation>,
    revision: String,
    era: String,
    instructions: Option<String>,
    capabilities: ServerCapabilities,
    tools: Vec<Box<RawValue>>,
    resources: Vec<Box<RawValue>>,
    templates: Vec<Box<RawValue>>,
    prompts: Vec<Box<RawValue>>,
    /// Why lists could not be fetched.
    errors: Vec<String>,
}

impl Catalog {
    /// Requests all lists that the server offers.
    pub(super) async fn fetch(client: &Client) -> Self {
        let (info, mut errors) = (client.server_info(), Vec::new());
        let offered = &info.capabilities;
        let (has_tools, has_resources) = (offered.tools.is_some(), offered.resources.is_some());
        let has_prompts = offered.prompts.is_some();
        let tools = list(client, has_tools, "tools/list", "tools", &mut errors).await;
        let resources = list(client, has_resources, "resources/list", "resources", &mut errors).await;
        // A server with resources need not have templates.
        let mut no_templates = Vec::new();
        let templates =
            list(client, has_resources, "resources/templates/list", "resourceTemplates", &mut no_templates).await;
        let prompts = list(client, has_prompts, "prompts/list", "prompts", &mut errors).await;
        Self {
            server: info.implementation,
            revision: info.revision.as_str().to_owned(),
            era: if client.era() == barewire_proto::mcp::Era::Modern { "modern" } else { "legacy" }.to_owned(),
            instructions: info.instructions,
            capabilities: info.capabilities,
            tools,
            resources,
            templates,
            prompts,
            errors,
        }
    }
}

/// Requests all pages of a list. After an error, the items so far are returned.
async fn list(
    client: &Client,
    is_offered: bool,
    method: &'static str,
    member: &str,
    errors: &mut Vec<String>,
) -> Vec<Box<RawValue>> {
    let (mut items, mut bytes, mut seen, mut cursor) = (Vec::new(), 0, HashSet::new(), None::<String>);
    if !is_offered {
        return items;
    }
    for _ in 0..MAX_PAGES {
        let request = client.request(method, cursor.as_ref().map(|cursor| PageParams { cursor }));
        let page = match request.timeout(PAGE_TIME).await {
            Ok(page) => page,
            Err(error) => {
                errors.push(format!("{method}: {error}"));
                return items;
            }
        };
        bytes += page.as_str().map_or(0, str::len);
        if bytes > MAX_LIST_BYTES {
            errors.push(format!("{method}: the list is longer than {} MiB", MAX_LIST_BYTES >> 20));
            return items;
        }
        cursor = add(&page, member, &mut items);
        match &cursor {
            None => return items,
            Some(cursor) if seen.insert(cursor.clone()) => {}
            Some(_) => {
                errors.push(format!("{method}: the pages repeat"));
                return items;
            }
        }
    }
    errors.push(format!("{method}: the list does not end after {MAX_PAGES} pages"));
    items
}

#[derive(Serialize)]
struct PageParams<'a> {
    cursor: &'a str,
}

/// Adds the items of a page. Returns the cursor of the next page, if there is one.
fn add(page: &Raw, member: &str, items: &mut Vec<Box<RawValue>>) -> Option<String> {
    let json = Json::parse(page.as_str()?.as_bytes()).ok()?;
    for item in json.member(member).into_iter().flat_map(Json::elements) {
        items.extend(RawValue::from_string(item.as_str().to_owned()));
    }
    Some(Text::from_json(json.member("nextCursor")?)?.to_name().into_owned())
}

/// The maximum wait for a page of a list.
const PAGE_TIME: std::time::Duration = std::time::Duration::from_secs(60);
