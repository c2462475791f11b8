//! Results of lists, `initialize` and `server/discover` -> the definitions in them: tools, prompts, resources,
//! templates and instructions.

pub(super) mod confusable;
pub(super) mod difference;
pub(super) mod hidden;
pub(super) mod leaves;
pub(super) mod pin;
mod pin_file;
mod scripts;
pub(super) mod walk;

use barewire_proto::json::Json;

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DefinitionKind {
    /// The text for the model in the result of `initialize` or `server/discover`.
    Instructions,
    Tool,
    Prompt,
    Resource,
    Template,
}

/// A list of definitions.
pub(super) struct DefinitionList {
    pub(super) kind: DefinitionKind,
    pub(super) method: &'static str,
    /// The capability of servers that have the list.
    pub(super) capability: &'static str,
    /// The member of the result that has the definitions.
    pub(super) member: &'static str,
    /// The member of a definition that identifies it.
    pub(super) id: &'static str,
    /// The notification that the list has changed.
    pub(super) notice: &'static str,
}

/// All lists of definitions.
pub(super) const DEFINITION_LISTS: [DefinitionList; 4] = [
    DefinitionList {
        kind: DefinitionKind::Tool,
        method: "tools/list",
        capability: "tools",
        member: "tools",
        id: "name",
        notice: "notifications/tools/list_changed",
    },
    DefinitionList {
        kind: DefinitionKind::Prompt,
        method: "prompts/list",
        capability: "prompts",
        member: "prompts",
        id: "name",
        notice: "notifications/prompts/list_changed",
    },
    DefinitionList {
        kind: DefinitionKind::Resource,
        method: "resources/list",
        capability: "resources",
        member: "resources",
        id: "uri",
        notice: "notifications/resources/list_changed",
    },
    DefinitionList {
        kind: DefinitionKind::Template,
        method: "resources/templates/list",
        capability: "resources",
        member: "resourceTemplates",
        id: "uriTemplate",
        notice: "notifications/resources/list_changed",
    },
];

/// A definition in a result.
#[derive(Clone, Copy)]
pub(super) struct Definition<'a> {
    pub(super) list: &'static DefinitionList,
    /// The index in the list of the result.
    pub(super) index: usize,
    pub(super) json: Json<'a>,
}

impl DefinitionKind {
    pub(super) const ALL: [Self; 5] = [Self::Instructions, Self::Tool, Self::Prompt, Self::Resource, Self::Template];

    /// Returns the name of the kind, as reports and pin files show it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "template",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether a member of a definition describes data that changes while the definition stays the same: the size of a
    /// resource, and the time of its last change.
    pub(super) fn is_data(self, pointer: &str) -> bool {
        self == Self::Resource && matches!(pointer, "/size" | "/annotations/lastModified")
    }
}

impl DefinitionList {
    /// Returns the list that this method requests.
    pub(super) fn of_method(method: &str) -> Option<&'static Self> {
        DEFINITION_LISTS.iter().find(|list| list.method == method)
    }

    /// Returns the definitions in a result of the list's method.
    pub(super) fn definitions<'a>(&'static self, result: Json<'a>) -> impl Iterator<Item = Definition<'a>> {
        let elements = result.member(self.member).into_iter().flat_map(Json::elements);
        elements.enumerate().map(move |(index, json)| Definition { list: self, index, json })
    }
}

impl Definition<'_> {
    /// Returns the name or URI that identifies the definition; `None` if it is missing or not a string.
    pub(super) fn name(&self) -> Option<String> {
        Some(self.json.member(self.list.id)?.string()?.into_owned())
    }

    /// Returns the JSON Pointer of the definition in its message.
    pub(super) fn pointer(&self) -> String {
        format!("/result/{}/{}", self.list.member, self.index)
    }
}
