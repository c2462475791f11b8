//! Resources: the results of `resources/list`, `resources/templates/list` and `resources/read`.

use serde::{Deserialize, Serialize};

use super::member::{known, whole, whole_or_zero};
use super::{Annotations, CacheScope, Icon, Meta, ResourceContents};

/// A resource of a server. The type is also used as content: there it is a link to the resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// The name that programs use.
    pub name: String,
    /// The name to display to people. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type, such as `text/plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size in bytes, before Base64 encoding.
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Hints about the intended audience and the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Icons. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Resource {
    /// Creates a resource with this URI.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

setters! { Resource {
    title: Option<impl Into<String>>, description: Option<impl Into<String>>,
    mime_type: Option<impl Into<String>>, size: Option<u64>, annotations: Option<Annotations>,
    icons: Option<impl Into<Vec<Icon>>>, meta: Option<Meta>,
} }

/// A template for the URIs of resources.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The URI template, as in RFC 6570.
    pub uri_template: String,
    /// The name that programs use.
    pub name: String,
    /// The name to display to people. Since 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type, if all resources of the template have the same media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Hints about the intended audience and the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Icons. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ResourceTemplate {
    /// Creates a resource template with this URI template.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }
}

setters! { ResourceTemplate {
    title: Option<impl Into<String>>, description: Option<impl Into<String>>,
    mime_type: Option<impl Into<String>>, annotations: Option<Annotations>,
    icons: Option<impl Into<Vec<Icon>>>, meta: Option<Meta>,
} }

/// The result of `resources/list`: a page of resources.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListResourcesResult {
    /// The resources.
    pub resources: Vec<Resource>,
    /// The cursor of the next page; `None` on the last page. An empty string is a valid cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The number of milliseconds for which the result may be cached. Since 2026-07-28.
    #[serde(default, deserialize_with = "whole_or_zero", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The clients for which a cached result may be used. Since 2026-07-28.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListResourcesResult {
    /// Creates the last page of the list, with these resources.
    pub fn new(resources: Vec<Resource>) -> Self {
        Self { resources, ..Self::default() }
    }
}

setters! { ListResourcesResult {
    next_cursor: Option<impl Into<String>>, ttl_ms: Option<u64>, cache_scope: Option<CacheScope>,
    meta: Option<Meta>,
} }

/// The result of `resources/templates/list`: a page of templates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListResourceTemplatesResult {
    /// The templates.
    pub resource_templates: Vec<ResourceTemplate>,
    /// The cursor of the next page; `None` on the last page. An empty string is a valid cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The number of milliseconds for which the result may be cached. Since 2026-07-28.
    #[serde(default, deserialize_with = "whole_or_zero", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The clients for which a cached result may be used. Since 2026-07-28.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListResourceTemplatesResult {
    /// Creates the last page of the list, with these templates.
    pub fn new(resource_templates: Vec<ResourceTemplate>) -> Self {
        Self { resource_templates, ..Self::default() }
    }
}

setters! { ListResourceTemplatesResult {
    next_cursor: Option<impl Into<String>>, ttl_ms: Option<u64>, cache_scope: Option<CacheScope>,
    meta: Option<Meta>,
} }

/// The result of `resources/read`: the contents, in one part or in several parts, for example for a folder.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// The parts of the contents.
    pub contents: Vec<ResourceContents>,
    /// The number of milliseconds for which the result may be cached. Since 2026-07-28.
    #[serde(default, deserialize_with = "whole_or_zero", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The clients for which a cached result may be used. Since 2026-07-28.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ReadResourceResult {
    /// Creates a result with these parts.
    pub fn new(contents: Vec<ResourceContents>) -> Self {
        Self { contents, ..Self::default() }
    }
}

setters! { ReadResourceResult { ttl_ms: Option<u64>, cache_scope: Option<CacheScope>, meta: Option<Meta> } }

/// The parameters of `notifications/resources/updated`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceUpdated {
    /// The URI of the changed resource, which can be a sub-resource of the resource with the subscription.
    pub uri: String,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ResourceUpdated {
    /// Creates a notification that this resource has changed.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), meta: None }
    }
}

setters! { ResourceUpdated { meta: Option<Meta> } }
