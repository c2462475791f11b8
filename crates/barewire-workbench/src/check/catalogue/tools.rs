//! Checks of tools: their schemas, results and failures.

use barewire_proto::mcp::Revision;

use super::Bound::Server;
use super::Document::{Page, Schema};
use super::Reference::Other;
use super::rule::{must, ours, should, states, written};
use super::{
    Category, Check, LEGACY, LIVE_ANYWHERE, Level, MODERN, RevisionRange, Rule, SINCE_2025_06_18, SINCE_2025_11_25,
    Severity, UNTIL_2025_06_18, host,
};

pub(super) const CHECKS: &[&Check] =
    &[&TOOL_SCHEMAS, &TOOL_NAMES, &OUTPUT_SCHEMA, &TOOL_ARGUMENT_ERRORS, &OPTIONAL_ARGUMENTS, &LIST_ORDER];

const BASE: Check = Check { category: Category::Tools, ..super::BASE };
/// The default fields of a check that sends its own input.
const LIVE: Check = Check { places: LIVE_ANYWHERE, ..BASE };

pub(crate) static TOOL_SCHEMAS: Check = Check {
    id: "tool-schemas",
    title: "The schemas of tools are valid JSON Schema",
    why: "Hosts pass tool schemas to the provider of the model, which rejects the whole request if one schema is \
          invalid: one bad tool disables all tools of all servers.",
    severity: Severity::High,
    rationale: "with strict hosts one bad schema makes every tool unusable",
    looks_at: "inputSchema and outputSchema of every tool in every tools/list",
    pass: "each schema is an object, and valid in the dialect that it names or, without one, in 2020-12; inputSchema \
           has type object, and so does outputSchema up to 2025-11-25",
    fail: "a schema is invalid, has a dangling reference, or has the wrong type",
    skip: "no tool was seen",
    sentence: "the schema of a tool is not valid",
    rules: &[&written(
        Server,
        &[
            must(
                SINCE_2025_11_25,
                Page("basic"),
                "Schema Validation",
                "Schemas MUST be valid according to their declared",
            ),
            states(
                UNTIL_2025_06_18,
                Page("server/tools"),
                "Tool",
                "inputSchema: JSON Schema defining expected parameters",
            ),
        ],
    )],
    hosts: &[
        host(
            "Claude Code",
            "fails on every prompt until it is restarted",
            "https://github.com/anthropics/claude-code/issues/31800",
        ),
        host("VS Code", "reports Failed to validate tool", "https://github.com/microsoft/vscode/issues/246119"),
    ],
    remedy: "Generate the schema from types, or validate it in a test against the 2020-12 metaschema.",
    example: r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#,
    see: &["output-schema", "tool-names", "result-shape"],
    references: &[Other("JSON Schema 2020-12", "https://json-schema.org/draft/2020-12")],
    ..BASE
};

/// A name that is empty or too long.
pub(crate) static NAME_LENGTH: Rule = written(
    Server,
    &[
        should(SINCE_2025_11_25, Page("server/tools"), "Tool Names", "SHOULD be between 1 and 128 characters"),
        states(UNTIL_2025_06_18, Page("server/tools"), "Tool", "Unique identifier for the tool"),
    ],
);
/// A name with other characters than those of the list.
pub(crate) static NAME_CHARACTERS: Rule = written(
    Server,
    &[should(SINCE_2025_11_25, Page("server/tools"), "Tool Names", "SHOULD be the only allowed characters")],
);
/// Two tools with the same name.
pub(crate) static UNIQUE_NAMES: Rule = written(
    Server,
    &[
        should(SINCE_2025_11_25, Page("server/tools"), "Tool Names", "Tool names SHOULD be unique within a server"),
        states(UNTIL_2025_06_18, Page("server/tools"), "Tool", "Unique identifier for the tool"),
    ],
);

pub(crate) static TOOL_NAMES: Check = Check {
    id: "tool-names",
    title: "Tool names are unique and use plain characters",
    why: "A model calls a tool by its name. If two tools share a name, one of them cannot be called; and model \
          providers reject names with spaces or other special characters.",
    severity: Severity::High,
    rationale: "one name that a model provider rejects makes every tool unusable",
    looks_at: "the name of every tool in tools/list",
    pass: "no name appears twice on all pages together; from 2025-11-25 on, each name has 1 to 128 of the characters \
           a-z, A-Z, 0-9, '.', '_' and '-'",
    fail: "a name is empty or appears twice; or, from 2025-11-25 on, is longer than 128 characters or contains any \
           other character",
    skip: "no tool was seen",
    sentence: "a tool has a name that cannot be used",
    level: Level::Should,
    rules: &[&NAME_LENGTH, &NAME_CHARACTERS, &UNIQUE_NAMES],
    hosts: &[
        host(
            "Claude Desktop",
            "loads no tool of a server with a space in a name",
            "https://github.com/NetApp/netapp-dataops-toolkit/issues/38",
        ),
        host(
            "Claude Code",
            "fails on every prompt",
            "https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1345",
        ),
    ],
    remedy: "Rename the tool, and put a name for users into title.",
    example: r#"{"name":"get_weather","title":"Get weather"}"#,
    see: &["tool-schemas", "list-order"],
    ..BASE
};

pub(crate) static OUTPUT_SCHEMA: Check = Check {
    id: "output-schema",
    title: "A tool's result matches its output schema",
    why: "Clients reject a result that does not match the output schema, so the tool has run, but its result is lost.",
    severity: Severity::High,
    rationale: "clients that validate discard the result",
    looks_at: "results of tools/call whose tool has an outputSchema in the last tools/list",
    pass: "structuredContent is present and valid, or isError is set",
    fail: "structuredContent is missing or invalid",
    skip: "no result of a tool with an outputSchema was seen",
    sentence: "a result does not match the output schema of its tool",
    revisions: RevisionRange(Revision::V2025_06_18, Revision::LATEST),
    rules: &[&written(
        Server,
        &[must(
            SINCE_2025_06_18,
            Page("server/tools"),
            "Output Schema",
            "Servers MUST provide structured results that conform",
        )],
    )],
    hosts: &[
        host(
            "clients on the TypeScript SDK",
            "refuse the result",
            "https://github.com/oculairmedia/Letta-MCP-server/issues/102",
        ),
        host("clients on the Python SDK", "refuse the result", "https://github.com/cristianuibar/bricks-mcp/issues/45"),
    ],
    remedy: "Generate the schema and the result from the same type.",
    example: r#"{"content":[{"type":"text","text":"{\"t\":21}"}],"structuredContent":{"t":21}}"#,
    see: &["tool-schemas", "result-shape"],
    needs: &["early-exit", "mute-server", "handshake", "tool-schemas"],
    ..BASE
};

pub(crate) static TOOL_ARGUMENT_ERRORS: Check = Check {
    id: "tool-argument-errors",
    title: "Invalid tool arguments are reported to the model",
    why: "A model that omits an argument can correct itself if it sees the error. From 2025-11-25 on the error is a \
          result with isError; many hosts never show a protocol error to the model.",
    rationale: "the model cannot correct itself; a tool that runs anyway runs with unknown input",
    looks_at: "a call of a permitted tool without its required arguments",
    pass: "the response is a result with isError; up to 2025-06-18 also error -32602",
    fail: "the tool runs as if nothing were wrong, the response is a protocol error where the revision requires \
           isError, the code is -32603, or there is no response",
    skip: "no tool with required arguments may be called",
    sentence: "invalid tool arguments are not reported as the revision requires",
    level: Level::Should,
    rules: &[&written(
        Server,
        &[
            should(
                SINCE_2025_11_25,
                Schema,
                "CallToolResult",
                "Any errors that originate from the tool SHOULD be reported",
            ),
            states(UNTIL_2025_06_18, Page("server/tools"), "Error Handling", "Invalid arguments"),
        ],
    )],
    remedy: "Validate arguments against the inputSchema before the tool runs, and return a result with isError that \
             names the argument.",
    example: r#"{"result":{"content":[{"type":"text","text":"city is missing"}],"isError":true}}"#,
    see: &["invalid-params", "reserved-error-codes"],
    ..LIVE
};

pub(crate) static OPTIONAL_ARGUMENTS: Check = Check {
    id: "optional-arguments",
    title: "A tool that needs no arguments is called without them",
    why: "The member arguments of a call is optional, and some hosts omit it if the model gives no arguments. A server \
          that validates the missing member as if it were an argument refuses every such call.",
    severity: Severity::High,
    rationale: "with some hosts, tools without required arguments never work",
    looks_at: "two calls without the member arguments, of a tool whose schema requires none and that may be called \
               repeatedly; after each of them the same call with empty arguments",
    pass: "the tool runs, as it does with empty arguments",
    fail: "both calls are refused, or fail with isError, although the calls with empty arguments give a result",
    skip: "no tool that may be called repeatedly gave a result for empty arguments",
    sentence: "a tool that requires no arguments cannot be called without the member arguments",
    level: Level::Stated,
    rules: &[&written(
        Server,
        &[
            states(UNTIL_2025_06_18, Schema, "CallToolRequest", "arguments?: {"),
            states(SINCE_2025_11_25, Schema, "CallToolRequestParams", "arguments?: {"),
        ],
    )],
    hosts: &[
        host("Cline", "omits the member, so that the call is refused", "https://github.com/cline/cline/issues/10553"),
        host("Windsurf", "cannot call a tool without arguments", "https://github.com/mobile-next/mobile-mcp/pull/101"),
    ],
    remedy: "Take an empty object if the member is missing, before you validate the arguments.",
    example: "const args = request.params.arguments ?? {}",
    see: &["tool-argument-errors", "tool-schemas"],
    ..LIVE
};

pub(crate) static LIST_ORDER: Check = Check {
    id: "list-order",
    title: "An unchanged list keeps its order",
    why: "Hosts put the tools into the prompt. A different order is a different prompt, which misses the provider's \
          cache: every request to the model then costs the full price.",
    severity: Severity::Low,
    rationale: "each changed order costs money and time, but nothing fails",
    looks_at: "the tool names on all pages of tools/list, and those of a second tools/list right after it; if they \
               differ, those of up to three more",
    pass: "the second tools/list has the same tools in the same order, or the list changes only once, or a \
           notification says that it has changed",
    fail: "a tools/list has other tools or another order than the one before, and so has a later one",
    skip: "the server has fewer than two tools",
    sentence: "two tools/list requests in a row get different lists",
    level: Level::Should,
    rules: &[
        &written(
            Server,
            &[should(MODERN, Page("server/tools"), "Capabilities", "Servers SHOULD return tools in a deterministic")],
        ),
        &ours(Server, LEGACY),
    ],
    remedy: "Keep tools in a list or a sorted map, not in a hash map.",
    example: "tools.sort(key=lambda tool: tool.name)",
    see: &["pagination", "caching-hints"],
    ..LIVE
};
