//! The name, version and icons of a client or server.

use serde::{Deserialize, Serialize};

use super::member::known;

/// The name and version of a client or server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// The name that programs use.
    pub name: String,
    /// The version of the client or server.
    pub version: String,
    /// The name to display to people. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The URL of the website of the client or server. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Icons. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
}

impl Implementation {
    /// Creates an implementation with this name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }
}

setters! { Implementation {
    title: Option<impl Into<String>>, description: Option<impl Into<String>>,
    website_url: Option<impl Into<String>>, icons: Option<impl Into<Vec<Icon>>>,
} }

/// An icon. A program that shows the icon must treat it as untrusted data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// The location: an `https:` or `data:` URI.
    pub src: String,
    /// The media type, if the response from `src` does not specify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The sizes, such as `48x48`, or `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<String>>,
    /// The theme for which the icon is designed.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub theme: Option<Theme>,
}

impl Icon {
    /// Creates an icon at this location.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }
}

setters! { Icon {
    mime_type: Option<impl Into<String>>, sizes: Option<impl Into<Vec<String>>>, theme: Option<Theme>,
} }

/// The theme of an icon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Theme {
    /// For a light background.
    Light,
    /// For a dark background.
    Dark,
}
