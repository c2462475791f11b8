//! The text of a configuration file -> the servers in it. The name of the file decides about the syntax.

use std::path::Path;

use super::jsonc::{self, ParseError};
use super::node::Syntax;
use super::servers::{self, Server};
use super::{toml, yaml};

/// A text with one configuration.
pub(super) struct ConfigDocument<'a> {
    pub(super) text: &'a str,
    pub(super) syntax: Syntax,
    pub(super) servers: Vec<Server>,
}

impl<'a> ConfigDocument<'a> {
    pub(super) fn parse(text: &'a str, syntax: Syntax) -> Result<Self, ParseError> {
        let servers = match syntax {
            Syntax::Json => servers::servers(&jsonc::JsoncDocument::parse(text)?),
            Syntax::Toml => toml::servers(text)?,
            Syntax::Yaml => yaml::servers(text)?,
        };
        Ok(Self { text, syntax, servers })
    }
}

impl Syntax {
    /// Returns the syntax of a file, judging by its name.
    pub(super) fn of_file(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }
}
