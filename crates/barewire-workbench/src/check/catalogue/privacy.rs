//! What should not be on the wire.

use super::Reference::{Cwe, Mcp};
use super::{BASE, Category, Check, Level, Severity};

pub(super) const CHECKS: &[&Check] = &[&PAYLOAD_EXPOSURE];

pub(crate) static PAYLOAD_EXPOSURE: Check = Check {
    id: "payload-exposure",
    title: "No secrets and no personal identifiers in messages",
    why: "What a tool returns goes into the context of a model, into the logs of the host and of the provider, and can be read out again by \
          whoever talks to the model. A key in it has to be taken for lost.",
    severity: Severity::Medium,
    rationale: "a secret that was on the wire has to be replaced; what says who somebody is only goes further than it should",
    looks_at: "messages, and stderr of the server: keys and tokens by their form, values with names like password, secret and token, \
               secrets of the environment, e-mail addresses and paths of home folders; in a capture also what was redacted when it \
               was recorded",
    pass: "nothing of that kind is seen",
    fail: "something is. It is named by frame and path, and of its value nothing is shown but what all of its kind begin with",
    skip: "no message was seen",
    sentence: "something that looks like a secret or a personal identifier is on the wire",
    level: Level::Ours,
    remedy: "Take it out of results and errors. Hand secrets over in the environment, name users by opaque ids, and paths relative to a root.",
    example: r#"{"structuredContent":{"user":"u_17","file":"notes/today.md"}}"#,
    see: &["structured-errors", "stderr-hygiene"],
    references: &[
        Cwe(200, "Exposure of Sensitive Information to an Unauthorized Actor"),
        Cwe(532, "Insertion of Sensitive Information into Log File"),
        Mcp("2025-11-25/server/utilities/logging#security"),
    ],
    category: Category::Privacy,
    ..BASE
};
