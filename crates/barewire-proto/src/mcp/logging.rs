//! The log messages of a server, and the minimum level of the messages that a client wants.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Meta;

/// The severity of a log message, as in syslog (RFC 5424). A more severe level is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the levels are those of RFC 5424")]
pub enum LoggingLevel {
    /// Debugging information.
    Debug,
    /// General information.
    Info,
    /// A normal but significant event.
    Notice,
    /// A warning.
    Warning,
    /// An error.
    Error,
    /// A component has failed.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LoggingLevel {
    /// All levels, the least severe first.
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

    /// Returns the name that is used on the wire.
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

    /// Returns the level with exactly this name.
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
    /// The minimum level of the log messages to send.
    pub level: LoggingLevel,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SetLevelParams {
    /// Creates parameters with this minimum level.
    pub fn new(level: LoggingLevel) -> Self {
        Self { level, meta: None }
    }
}

setters! { SetLevelParams { meta: Option<Meta> } }

/// The parameters of `notifications/message`: a log message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogMessage {
    /// The severity of the message.
    pub level: LoggingLevel,
    /// The name of the component that wrote the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// The message: a string, an object or any other JSON value.
    pub data: Box<RawValue>,
    /// The `_meta` member.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl LogMessage {
    /// Creates a log message with this data.
    pub fn new(level: LoggingLevel, data: Box<RawValue>) -> Self {
        Self { level, logger: None, data, meta: None }
    }
}

setters! { LogMessage { logger: Option<impl Into<String>>, meta: Option<Meta> } }
