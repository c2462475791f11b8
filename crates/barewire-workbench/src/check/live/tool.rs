//! A list of tools -> the facts about each tool that the probes need.

use barewire_proto::json::{Json, Kind};
use serde_json::Value;

use super::outcome::ResultResponse;
use super::sample::sample;
use crate::check::passive::INVENTED_TEXT;
use crate::tree::small_tree;

/// A tool that the server lists.
pub(super) struct ListedTool {
    pub(super) name: Option<String>,
    /// Whether the server declares that the tool changes nothing.
    pub(super) is_harmless: bool,
    /// Whether the tool may or must be called as a task, in 2025-11-25.
    pub(super) has_tasks: bool,
    /// Whether a call needs arguments.
    pub(super) has_required: bool,
    /// The input schema, as JSON text; `None` if it is missing or too large to find arguments for it.
    schema: Option<Box<str>>,
}

impl ListedTool {
    pub(super) fn of(tool: Json<'_>) -> Self {
        let hint = |name| tool.at(&["annotations", name]).is_some_and(|hint| hint.kind() == Kind::True);
        let required = tool.at(&["inputSchema", "required"]);
        let schema = tool.member("inputSchema").map(Json::as_str).filter(|text| text.len() <= MAX_SCHEMA_LENGTH);
        Self {
            name: tool_name(tool),
            is_harmless: hint("readOnlyHint") && !hint("destructiveHint"),
            has_tasks: tool
                .at(&["execution", "taskSupport"])
                .is_some_and(|it| it.string().is_some_and(|support| support == "optional" || support == "required")),
            has_required: required.is_some_and(|required| required.elements().next().is_some()),
            schema: schema.map(Into::into),
        }
    }

    /// Returns arguments that probably match the input schema; `None` if the schema is too complicated.
    pub(super) fn sample(&self) -> Option<Value> {
        sample(&self.schema()?, 0)
    }

    /// Returns such arguments with a text if the tool takes one, even if it requires none.
    pub(super) fn sample_with_text(&self) -> Option<Value> {
        let schema = self.schema()?;
        let mut arguments = sample(&schema, 0)?;
        let members = arguments.as_object_mut()?;
        if !members.values().any(|value| *value == INVENTED_TEXT) {
            let mut properties = schema.get("properties")?.as_object()?.iter();
            let (name, _) =
                properties.find(|(_, schema)| sample(schema, 1).is_some_and(|value| value == INVENTED_TEXT))?;
            members.insert(name.clone(), INVENTED_TEXT.into());
        }
        Some(arguments)
    }

    fn schema(&self) -> Option<Value> {
        small_tree(Json::parse(self.schema.as_ref()?.as_bytes()).ok()?)
    }
}

/// Returns the tools in a result of `tools/list`.
pub(super) fn tools(result: &ResultResponse) -> impl Iterator<Item = Json<'_>> {
    result.at(&["tools"]).into_iter().flat_map(Json::elements)
}

pub(super) fn tool_name(tool: Json<'_>) -> Option<String> {
    Some(tool.member("name")?.string()?.into_owned())
}

/// The maximum number of tools that are read; more than a model can choose from.
pub(super) const MAX_TOOLS: usize = 16_384;
/// The maximum length of a schema for which arguments are found, in bytes.
const MAX_SCHEMA_LENGTH: usize = 64 * 1024;
