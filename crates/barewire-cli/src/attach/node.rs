//! A server's entry in a configuration file, whatever its syntax: the values, and their places in the text.

use std::ops::Range;

/// A value, and the range of bytes in which it is written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: NodeKind,
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    Text(String),
    List(ListNode),
    Table(TableNode),
    /// A value that no entry of a server needs.
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct ListNode {
    pub(super) elements: Vec<Node>,
    /// The end of a comma after the last element.
    pub(super) trailing_comma: Option<usize>,
    /// Whether each element has a line of its own that begins with a dash, as in YAML.
    pub(super) has_dashes: bool,
}

#[derive(Clone, Debug)]
pub(super) struct TableNode {
    pub(super) members: Vec<Member>,
    /// Whether each member has a line of its own, without a comma after it, as in TOML and YAML.
    pub(super) has_lines: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) key: Range<usize>,
    pub(super) value: Node,
}

/// The syntax of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Syntax {
    /// JSON, in which comments and trailing commas are allowed.
    Json,
    Toml,
    Yaml,
}

impl Node {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn table(&self) -> Option<&TableNode> {
        match &self.kind {
            NodeKind::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the member with this name; if there are several, the last one, because hosts use the last one.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.table()?.members.iter().rev().find(|member| member.name == name)
    }

    pub(super) fn has_several(&self, name: &str) -> bool {
        self.table().is_some_and(|table| table.members.iter().filter(|member| member.name == name).count() > 1)
    }
}
