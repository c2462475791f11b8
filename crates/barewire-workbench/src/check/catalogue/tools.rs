//! Tools: their schemas, their results, their failures.

use barewire_proto::mcp::Revision;

use super::Reference::{Mcp, Other};
use super::{BASE, Category, Check, LIVE_ANYWHERE, Level, RevisionRange, Severity};

pub(super) const CHECKS: &[&Check] = &[&TOOL_SCHEMAS, &TOOL_NAMES, &OUTPUT_SCHEMA, &TOOL_ARGUMENT_ERRORS, &LIST_ORDER];

pub(crate) static TOOL_SCHEMAS: Check = Check {
    id: "tool-schemas",
    title: "The schemas of tools are JSON Schema",
    why: "Hosts hand the schema of a tool to a model's provider, which refuses the whole request if it is not valid: one bad tool \
          takes all the others of all servers with it.",
    severity: Severity::High,
    rationale: "one bad schema makes the whole list of tools unusable with strict hosts",
    looks_at: "inputSchema and outputSchema of every tool in every tools/list",
    pass: "each is an object, valid by the dialect it names or by 2020-12, and inputSchema has the type object, as has outputSchema up \
           to 2025-11-25",
    fail: "one is not valid, refers to nothing, or its type is something else",
    skip: "no tool was seen",
    sentence: "the schema of a tool is not valid",
    remedy: "Generate the schema from types, or validate it in a test against the metaschema of 2020-12.",
    example: r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#,
    see: &["output-schema", "tool-names", "result-shape"],
    references: &[
        Mcp("2025-11-25/server/tools#tool"),
        Mcp("2026-07-28/basic#json-schema-usage"),
        Other("JSON Schema 2020-12", "https://json-schema.org/draft/2020-12"),
    ],
    category: Category::Tools,
    ..BASE
};

pub(crate) static TOOL_NAMES: Check = Check {
    id: "tool-names",
    title: "Names of tools are unique and plain",
    why: "A model calls a tool by its name. Of two with the same name one cannot be called, and providers of models refuse names \
          with spaces or other letters.",
    severity: Severity::Medium,
    rationale: "single tools cannot be used",
    looks_at: "the name of every tool in tools/list",
    pass: "each stands there once, on all pages together; from 2025-11-25 on it is of 1 to 128 letters, digits, underscores, hyphens and \
           dots",
    fail: "a name is empty or stands there twice; or, from 2025-11-25 on, is too long or has other characters",
    skip: "no tool was seen",
    sentence: "the name of a tool cannot be used",
    level: Level::Should,
    remedy: "Rename the tool, and put what is for people into title.",
    example: r#"{"name":"get_weather","title":"Get weather"}"#,
    see: &["tool-schemas", "list-order"],
    references: &[Mcp("2025-11-25/server/tools#tool-names"), Mcp("2026-07-28/server/tools#tool-names")],
    category: Category::Tools,
    ..BASE
};

pub(crate) static OUTPUT_SCHEMA: Check = Check {
    id: "output-schema",
    title: "A result is what its output schema says",
    why: "A client that was given an output schema reads the result by it, and fails where it does not fit: the call was made, and \
          its result is thrown away.",
    severity: Severity::High,
    rationale: "clients that check throw the result of a call away",
    looks_at: "results of tools/call whose tool has an outputSchema in the last tools/list",
    pass: "structuredContent is there and valid by the schema, or isError is set",
    fail: "it is missing or not valid",
    skip: "no result of a tool with an outputSchema was seen",
    sentence: "a result is not what the output schema of its tool says",
    revisions: RevisionRange(Revision::V2025_06_18, Revision::LATEST),
    remedy: "Make both from one type.",
    example: r#"{"content":[{"type":"text","text":"{\"t\":21}"}],"structuredContent":{"t":21}}"#,
    see: &["tool-schemas", "result-shape"],
    references: &[Mcp("2025-11-25/server/tools#output-schema"), Mcp("2026-07-28/server/tools#output-schema")],
    category: Category::Tools,
    needs: &["early-exit", "mute-server", "handshake", "tool-schemas"],
    ..BASE
};

pub(crate) static TOOL_ARGUMENT_ERRORS: Check = Check {
    id: "tool-argument-errors",
    title: "Wrong arguments of a tool are told to the model",
    why: "A model that leaves out an argument can correct itself if it hears of it. From 2025-11-25 on that is a result with \
          isError; many hosts never show an error of the protocol to the model.",
    severity: Severity::Medium,
    rationale: "the model cannot correct itself; with a tool that runs anyway, nobody knows with what",
    looks_at: "a call of a tool that may be called, without one of its required arguments",
    pass: "a result with isError; up to 2025-06-18 also the error -32602",
    fail: "the tool runs as if nothing were wrong, the error is told as one of the protocol though the revision has isError or as \
           -32603, or nothing is answered",
    skip: "no tool with required arguments may be called",
    sentence: "wrong arguments of a tool are not told as the revision has it",
    level: Level::Should,
    remedy: "Check arguments against the inputSchema before the tool runs, and answer with a result that has isError and names the \
             argument.",
    example: r#"{"result":{"content":[{"type":"text","text":"city is missing"}],"isError":true}}"#,
    see: &["invalid-params", "reserved-error-codes"],
    references: &[Mcp("2025-06-18/server/tools#error-handling"), Mcp("2025-11-25/server/tools#error-handling")],
    category: Category::Tools,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static LIST_ORDER: Check = Check {
    id: "list-order",
    title: "A list that has not changed comes in the same order",
    why: "Hosts put the tools into the prompt. Another order makes another prompt, and the provider's cache of it is of no use: every \
          turn costs the full price.",
    severity: Severity::Low,
    rationale: "it costs money and time, and nothing fails",
    looks_at: "tools/list, asked twice in a row",
    pass: "the same tools in the same order",
    fail: "another order, or other tools, though nothing said that the list has changed",
    skip: "the server has fewer than two tools",
    sentence: "the same list comes in another order",
    level: Level::Should,
    remedy: "Keep tools in a list or a sorted map, not in a hash map.",
    example: "tools.sort(key=lambda tool: tool.name)",
    see: &["pagination", "caching-hints"],
    references: &[Mcp("2026-07-28/server/tools#capabilities")],
    category: Category::Tools,
    places: LIVE_ANYWHERE,
    ..BASE
};
