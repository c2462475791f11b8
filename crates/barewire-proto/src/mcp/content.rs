//! The content of tool results and prompts: text, images, audio, resources and links to resources.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{Meta, Resource};

/// A piece of content. On the wire, the member `type` tells the variants apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
    /// Audio. Since 2025-03-26.
    Audio(AudioContent),
    /// A link to a resource. Since 2025-06-18.
    ResourceLink(Resource),
    /// An embedded resource.
    Resource(EmbeddedResource),
    /// Content of a type that this crate does not know, kept unchanged.
    #[serde(untagged)]
    Other(Value),
}

impl Content {
    /// Creates text content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Creates an image from its bytes in Base64.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(data, mime_type))
    }

    /// Creates audio from its bytes in Base64.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(data, mime_type))
    }

    /// Creates a link to a resource.
    pub fn link(resource: Resource) -> Self {
        Self::ResourceLink(resource)
    }

    /// Creates an embedded resource.
    pub fn embedded(contents: ResourceContents) -> Self {
        Self::Resource(EmbeddedResource::new(contents))
    }

    /// Returns the text, or `None` if the content is not text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// Reads the `type` first, and then the members of that type. A derived untagged enum would try one type after another
/// instead, and lose the error of the right type.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let kind = value.get("type").and_then(Value::as_str);
        let content = match kind.ok_or_else(|| D::Error::missing_field("type"))? {
            "text" => serde_json::from_value(value).map(Self::Text),
            "image" => serde_json::from_value(value).map(Self::Image),
            "audio" => serde_json::from_value(value).map(Self::Audio),
            "resource_link" => serde_json::from_value(value).map(Self::ResourceLink),
            "resource" => serde_json::from_value(value).map(Self::Resource),
            _ => Ok(Self::Other(value)),
        };
        content.map_err(D::Error::custom)
    }
}

/// Content that is text.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// Hints about the intended audience and the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl TextContent {
    /// Creates text content without annotations.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

setters! { TextContent { annotations: Option<Annotations>, meta: Option<Meta> } }

/// Content that is an image.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ImageContent {
    /// The bytes, in Base64.
    pub data: String,
    /// The media type, such as `image/png`.
    pub mime_type: String,
    /// Hints about the intended audience and the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ImageContent {
    /// Creates an image without annotations.
    pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { data: data.into(), mime_type: mime_type.into(), ..Self::default() }
    }
}

setters! { ImageContent { annotations: Option<Annotations>, meta: Option<Meta> } }

/// Content that is audio.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AudioContent {
    /// The bytes, in Base64.
    pub data: String,
    /// The media type, such as `audio/wav`.
    pub mime_type: String,
    /// Hints about the intended audience and the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl AudioContent {
    /// Creates audio without annotations.
    pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { data: data.into(), mime_type: mime_type.into(), ..Self::default() }
    }
}

setters! { AudioContent { annotations: Option<Annotations>, meta: Option<Meta> } }

/// A resource embedded in content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The contents of the resource.
    pub resource: ResourceContents,
    /// Hints about the intended audience and the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl EmbeddedResource {
    /// Creates an embedded resource without annotations.
    pub fn new(resource: ResourceContents) -> Self {
        Self { resource, annotations: None, meta: None }
    }
}

setters! { EmbeddedResource { annotations: Option<Annotations>, meta: Option<Meta> } }

/// The contents of a resource: text, or bytes in Base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, try_from = "ContentsMembers")]
#[non_exhaustive]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Bytes.
    Blob(BlobResourceContents),
}

impl ResourceContents {
    /// Creates the contents of a text resource with this URI.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Text(TextResourceContents::new(uri, text))
    }

    /// Creates the contents of a binary resource with this URI; `blob` is Base64.
    pub fn blob(uri: impl Into<String>, blob: impl Into<String>) -> Self {
        Self::Blob(BlobResourceContents::new(uri, blob))
    }

    /// Sets the media type, such as `text/plain`.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        let place = match &mut self {
            Self::Text(contents) => &mut contents.mime_type,
            Self::Blob(contents) => &mut contents.mime_type,
        };
        *place = Some(mime_type.into());
        self
    }

    /// Returns the URI of this part of the contents, which can be a sub-resource of the requested resource.
    pub fn uri(&self) -> &str {
        match self {
            Self::Text(contents) => &contents.uri,
            Self::Blob(contents) => &contents.uri,
        }
    }

    /// Returns the media type.
    pub fn mime_type(&self) -> Option<&str> {
        match self {
            Self::Text(contents) => contents.mime_type.as_deref(),
            Self::Blob(contents) => contents.mime_type.as_deref(),
        }
    }
}

/// The contents of a text resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextResourceContents {
    /// The URI.
    pub uri: String,
    /// The media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text.
    pub text: String,
    /// The `_meta` member.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl TextResourceContents {
    /// Creates the contents of a text resource with this URI.
    pub fn new(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), text: text.into(), ..Self::default() }
    }
}

setters! { TextResourceContents { mime_type: Option<impl Into<String>>, meta: Option<Meta> } }

/// The contents of a binary resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BlobResourceContents {
    /// The URI.
    pub uri: String,
    /// The media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The bytes, in Base64.
    pub blob: String,
    /// The `_meta` member.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl BlobResourceContents {
    /// Creates the contents of a binary resource with this URI; `blob` is Base64.
    pub fn new(uri: impl Into<String>, blob: impl Into<String>) -> Self {
        Self { uri: uri.into(), blob: blob.into(), ..Self::default() }
    }
}

setters! { BlobResourceContents { mime_type: Option<impl Into<String>>, meta: Option<Meta> } }

/// The members of text contents and of binary contents. Text contents have `text`, binary contents have `blob`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentsMembers {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

impl TryFrom<ContentsMembers> for ResourceContents {
    type Error = &'static str;

    fn try_from(ContentsMembers { uri, mime_type, text, blob, meta }: ContentsMembers) -> Result<Self, Self::Error> {
        match (text, blob) {
            (Some(text), None) => Ok(Self::Text(TextResourceContents { uri, mime_type, text, meta })),
            (None, Some(blob)) => Ok(Self::Blob(BlobResourceContents { uri, mime_type, blob, meta })),
            (None, None) => Err("resource contents have neither text nor blob"),
            (Some(_), Some(_)) => Err("resource contents have both text and blob"),
        }
    }
}

/// The audience and priority of content.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// The roles that should see the content; all roles if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<Vec<Role>>,
    /// The priority of the content, from 0 (optional) to 1 (required).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// The time of the last change of the content, in ISO 8601. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

setters! { Annotations {
    audience: Option<impl Into<Vec<Role>>>, priority: Option<f64>, last_modified: Option<impl Into<String>>,
} }

/// The role of a speaker or of an audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the name that is used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}
