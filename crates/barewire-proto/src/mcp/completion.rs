//! Completion of arguments: the parameters and the result of `completion/complete`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Meta;
use super::member::{is_false, object, optional_object, or_default, whole};

/// The parameters of `completion/complete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteParams {
    /// The prompt or resource template that has the argument.
    #[serde(rename = "ref", deserialize_with = "object")]
    pub reference: CompleteReference,
    /// The argument to complete.
    #[serde(deserialize_with = "object")]
    pub argument: CompleteArgument,
    /// The arguments that are already set. Since 2025-06-18.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub context: Option<CompleteContext>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CompleteParams {
    /// Creates parameters to complete this argument.
    pub fn new(reference: CompleteReference, name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { reference, argument: CompleteArgument::new(name, value), context: None, meta: None }
    }
}

setters! { CompleteParams { context: Option<CompleteContext>, meta: Option<Meta> } }

/// The prompt or resource template that has the argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompleteReference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    #[non_exhaustive]
    Prompt {
        /// The name of the prompt.
        name: String,
        /// The name to display to people. Since 2025-06-18.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A resource or a template of resources.
    #[serde(rename = "ref/resource")]
    #[non_exhaustive]
    Resource {
        /// The URI or URI template.
        uri: String,
    },
}

impl CompleteReference {
    /// Creates a reference to the prompt with this name.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt { name: name.into(), title: None }
    }

    /// Creates a reference to the resource or resource template with this URI.
    pub fn resource(uri: impl Into<String>) -> Self {
        Self::Resource { uri: uri.into() }
    }
}

/// An argument to complete.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteArgument {
    /// The name of the argument.
    pub name: String,
    /// The beginning of the value, as far as the user has entered it.
    pub value: String,
}

impl CompleteArgument {
    /// Creates an argument whose value begins with `value`.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The context of a completion: the values of other arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteContext {
    /// Maps the names of the arguments that are already set to their values.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

setters! { CompleteContext { arguments: impl Into<BTreeMap<String, String>> } }

/// The result of `completion/complete`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteResult {
    /// The proposed values.
    pub completion: Completion,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CompleteResult {
    /// Creates a result with these proposals.
    pub fn new(completion: Completion) -> Self {
        Self { completion, meta: None }
    }
}

setters! { CompleteResult { meta: Option<Meta> } }

/// Proposals for the value of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// The best proposals, at most [`Self::MAX_VALUES`].
    pub values: Vec<String>,
    /// The total number of proposals, which can be larger than the number of `values`.
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Whether there are more proposals than those in `values`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub has_more: bool,
}

impl Completion {
    /// The maximum number of values in a response. The specification: "must not exceed 100 items".
    pub const MAX_VALUES: usize = 100;

    /// Creates a completion with the first [`Self::MAX_VALUES`] of these values and with their total number.
    pub fn new(mut values: Vec<String>) -> Self {
        let total = u64::try_from(values.len()).ok();
        let has_more = values.len() > Self::MAX_VALUES;
        values.truncate(Self::MAX_VALUES);
        Self { values, total, has_more }
    }
}

setters! { Completion { total: Option<u64>, has_more: bool } }
