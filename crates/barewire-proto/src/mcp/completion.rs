//! Completion of arguments: the parameters of `completion/complete`, and what it proposes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Meta;
use super::member::{is_false, object, optional_object, or_default, whole};

/// Which argument of what is to be completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteParams {
    /// The prompt or template.
    #[serde(rename = "ref", deserialize_with = "object")]
    pub reference: CompleteReference,
    /// The argument, as far as it is written.
    #[serde(deserialize_with = "object")]
    pub argument: CompleteArgument,
    /// The arguments that are already there. Since 2025-06-18.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub context: Option<CompleteContext>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CompleteParams {
    /// Completes an argument of this.
    pub fn new(reference: CompleteReference, name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { reference, argument: CompleteArgument::new(name, value), context: None, meta: None }
    }
}

setters! { CompleteParams { context: Option<CompleteContext>, meta: Option<Meta> } }

/// What has the argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompleteReference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    #[non_exhaustive]
    Prompt {
        /// Its name.
        name: String,
        /// Its name, for people. Since 2025-06-18.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A resource or a template of resources.
    #[serde(rename = "ref/resource")]
    #[non_exhaustive]
    Resource {
        /// The URI or its template.
        uri: String,
    },
}

impl CompleteReference {
    /// A prompt of this name.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt { name: name.into(), title: None }
    }

    /// A template of URIs.
    pub fn resource(uri: impl Into<String>) -> Self {
        Self::Resource { uri: uri.into() }
    }
}

/// An argument, as far as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteArgument {
    /// Its name.
    pub name: String,
    /// What is there of it.
    pub value: String,
}

impl CompleteArgument {
    /// An argument of which this is written.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// What is already known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteContext {
    /// The arguments that are already there.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

setters! { CompleteContext { arguments: impl Into<BTreeMap<String, String>> } }

/// The result of `completion/complete`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteResult {
    /// What is proposed.
    pub completion: Completion,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CompleteResult {
    /// A result that proposes this.
    pub fn new(completion: Completion) -> Self {
        Self { completion, meta: None }
    }
}

setters! { CompleteResult { meta: Option<Meta> } }

/// What an argument could be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// The best ones, at most [`Self::MOST`].
    pub values: Vec<String>,
    /// How many there are in all.
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// There are more than these.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub has_more: bool,
}

impl Completion {
    /// How many values may be sent: "must not exceed 100 items".
    pub const MOST: usize = 100;

    /// As many of these as may be sent, and how many there are.
    pub fn new(mut values: Vec<String>) -> Self {
        let total = u64::try_from(values.len()).ok();
        let has_more = values.len() > Self::MOST;
        values.truncate(Self::MOST);
        Self { values, total, has_more }
    }
}

setters! { Completion { total: Option<u64>, has_more: bool } }
