//! Log messages of a server, and from which level on they are wanted.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Meta;

/// How bad it is, as syslog (RFC 5424) has it. Worse is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the levels are those of RFC 5424")]
pub enum LoggingLevel {
    /// For who looks for a fault.
    Debug,
    /// What is done.
    Info,
    /// What is done and matters.
    Notice,
    /// What may become a fault.
    Warning,
    /// A fault.
    Error,
    /// A part has failed.
    Critical,
    /// Something must be done at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LoggingLevel {
    /// All of them, the mildest first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// As it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of this name, exactly as written.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The parameters of `logging/setLevel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SetLevelParams {
    /// This level and worse are wanted.
    pub level: LoggingLevel,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SetLevelParams {
    /// This level and worse are wanted.
    pub fn new(level: LoggingLevel) -> Self {
        Self { level, meta: None }
    }
}

setters! { SetLevelParams { meta: Option<Meta> } }

/// The parameters of `notifications/message`: a line of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogMessage {
    /// How bad it is.
    pub level: LoggingLevel,
    /// Which part says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What is said: a string, an object, any JSON.
    pub data: Box<RawValue>,
    /// What else is said of it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl LogMessage {
    /// A line that says this.
    pub fn new(level: LoggingLevel, data: Box<RawValue>) -> Self {
        Self { level, logger: None, data, meta: None }
    }
}

setters! { LogMessage { logger: Option<impl Into<String>>, meta: Option<Meta> } }
