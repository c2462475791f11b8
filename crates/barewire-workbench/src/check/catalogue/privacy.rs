//! The check for data that should not be in messages: secrets and personal identifiers.

use super::Bound::Both;
use super::Reference::{Cwe, Mcp};
use super::rule::ours;
use super::{ALL, BASE, Category, Check, Level};

pub(super) const CHECKS: &[&Check] = &[&PAYLOAD_EXPOSURE];

pub(crate) static PAYLOAD_EXPOSURE: Check = Check {
    id: "payload-exposure",
    title: "Messages contain no secrets and no personal identifiers",
    why: "A tool's result goes into the context of a model and into the logs of the host and the provider, and any \
          user of the model can make the model repeat the text. A key in a result must be considered leaked.",
    rationale: "a leaked secret must be replaced; a personal identifier only travels further than it should",
    looks_at: "messages, and the server's stderr: keys and tokens by their format, values of members like password, \
               secret and token, secrets of the environment, e-mail addresses and home directories; in the schemas of \
               tools only generated passwords in URLs; in a capture also values that were redacted while recording",
    pass: "none of these is seen",
    fail: "one of these is seen. The finding names frame and path, and shows at most the prefix that all such values \
           share",
    skip: "no message was seen",
    sentence: "a message or stderr contains what looks like a secret or a personal identifier",
    level: Level::Ours,
    rules: &[&ours(Both, ALL)],
    remedy: "Remove the value. Pass secrets in the environment, and use opaque user ids and relative paths.",
    example: r#"{"structuredContent":{"user":"u_17","file":"notes/today.md"}}"#,
    see: &["structured-errors", "stderr-hygiene"],
    references: &[
        Cwe(200, "Exposure of Sensitive Information to an Unauthorized Actor"),
        Cwe(532, "Insertion of Sensitive Information into Log File"),
        Mcp("2025-11-25/server/utilities/logging#security"),
    ],
    category: Category::Privacy,
    version: 2,
    history: &[(1, "first"), (2, "generated passwords in the URLs of schemas")],
    ..BASE
};
