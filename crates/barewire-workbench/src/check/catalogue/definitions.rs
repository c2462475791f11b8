//! The checks of definitions: tools, prompts, resources, templates and instructions that change without notice, or
//! whose text hides something from people.

use super::Bound::Server;
use super::Document::Page;
use super::Reference::{Cwe, Mcp, Other};
use super::rule::{Rule, ours, should, states, written};
use super::{ALL, BASE, Category, Check, LIVE_ANYWHERE, Level, Severity};

pub(super) const CHECKS: &[&Check] = &[
    &DEFINITION_PIN,
    &DEFINITION_CHANGES,
    &TEXT_DIRECTION,
    &INVISIBLE_TEXT,
    &CONTROL_CHARACTERS,
    &LONG_DESCRIPTION,
    &CONFUSABLE_NAMES,
    &DUPLICATE_DEFINITIONS,
];

/// The default fields of a check of definitions.
const DEFINITIONS: Check = Check {
    skip: "no definition was seen",
    level: Level::Ours,
    rules: &[&ours(Server, ALL)],
    category: Category::Definitions,
    ..BASE
};

/// The words of the rule about notices, on the page of each kind of definition.
const NOTICE: &str = "servers that declared the listChanged capability SHOULD send";
const NOTICE_SECTION: &str = "List Changed Notification";

pub(crate) static TOOLS_NOTICE: Rule = written(Server, &[should(ALL, Page("server/tools"), NOTICE_SECTION, NOTICE)]);
pub(crate) static PROMPTS_NOTICE: Rule =
    written(Server, &[should(ALL, Page("server/prompts"), NOTICE_SECTION, NOTICE)]);
pub(crate) static RESOURCES_NOTICE: Rule =
    written(Server, &[should(ALL, Page("server/resources"), NOTICE_SECTION, NOTICE)]);
/// The rule where no notice is declared, or none can be sent.
pub(crate) static QUIET_CHANGE: Rule = ours(Server, ALL);

pub(crate) static DEFINITION_PIN: Check = Check {
    id: "definition-pin",
    title: "The definitions are those that the user has accepted",
    why: "A user reads the description of a tool once, when the server is installed. A server that changes it later \
          can make a model do what the user has never seen (a rug pull).",
    rationale: "the change may be an honest update, which the user accepts after reading it",
    looks_at: "all pages of all lists, and the instructions, in each era; compared by value with the pin file. The \
               size and the last change of a resource are not compared",
    pass: "every definition has the value that is pinned; or there was no pin file, and it is written",
    fail: "a definition was added, removed or changed",
    skip: "no pin file is given",
    sentence: "a definition is not the one that was pinned",
    remedy: "Read the difference. If it is what you expect, accept it: write the pin file again.",
    example: r#"{"kind":"tool","name":"add","eras":["legacy"],"sha256":"9f86d0…","definition":{"/name":"add"}}"#,
    see: &["definition-changes", "invisible-text"],
    references: &[
        Cwe(494, "Download of Code Without Integrity Check"),
        Mcp("2025-11-25/server/tools#security-considerations"),
        Other(
            "MCP Security Notification: Tool Poisoning Attacks",
            "https://invariantlabs.ai/blog/mcp-security-notification-tool-poisoning-attacks",
        ),
    ],
    places: LIVE_ANYWHERE,
    ..DEFINITIONS
};

pub(crate) static DEFINITION_CHANGES: Check = Check {
    id: "definition-changes",
    title: "A definition changes only with a notice",
    why: "Hosts keep the lists that they have read, and show them to users and models. Without a notice, a host goes \
          on with a definition that is no longer true, and the user does not learn that it has changed.",
    rationale: "user and model decide by a definition that no longer holds",
    looks_at: "definitions with the same name in two results for the same client: the same capabilities, credentials, \
               parameters and revision. `_meta`, and the size and the last change of a resource, are not compared. In \
               a legacy session over HTTP only if the server has sent something on a stream; in 2026-07-28 only \
               changes while the client listens, on stdio, or while the first result is fresh by its own ttlMs",
    pass: "the definitions are the same, or a list_changed notification came in between or right after",
    fail: "a definition has changed, and no notification says so",
    skip: "no definition was seen twice",
    sentence: "a definition has changed without a notice",
    level: Level::Should,
    rules: &[&TOOLS_NOTICE, &PROMPTS_NOTICE, &RESOURCES_NOTICE, &QUIET_CHANGE],
    remedy: "Declare listChanged, and send the notification whenever a definition changes. Keep texts that change all \
             the time, such as the date, out of definitions.",
    example: r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
    see: &["definition-pin", "list-order", "caching-hints"],
    references: &[Cwe(494, "Download of Code Without Integrity Check")],
    ..DEFINITIONS
};

pub(crate) static TEXT_DIRECTION: Check = Check {
    id: "text-direction",
    title: "No definition changes the order in which its text is shown",
    why: "Direction overrides and isolates show text in another order than a model reads it. A user then approves a \
          text that the model has never got.",
    rationale: "people and model read different texts, but no host is known to fail",
    looks_at: "all strings and member names of definitions, the instructions and the names of the server: U+202A to \
               U+202E, U+2066 to U+2069, U+200E, U+200F and U+061C. In texts with letters of right-to-left scripts, \
               marks and complete isolates and embeddings are expected. Regular expressions are not inspected",
    pass: "there are no such characters, except where a right-to-left script needs them",
    fail: "there are some. The finding names the member and the code points",
    sentence: "a definition has characters that change the order of its text",
    remedy: "Remove the characters. Write names and descriptions in logical order, without overrides.",
    example: r#"{"name":"open","description":"Opens a file"}"#,
    see: &["invisible-text", "control-characters"],
    references: &[
        Cwe(451, "User Interface (UI) Misrepresentation of Critical Information"),
        Other("Trojan Source: Invisible Vulnerabilities", "https://trojansource.codes/trojan-source.pdf"),
        Other("UAX #9: Unicode Bidirectional Algorithm", "https://www.unicode.org/reports/tr9/"),
    ],
    ..DEFINITIONS
};

pub(crate) static INVISIBLE_TEXT: Check = Check {
    id: "invisible-text",
    title: "People can see all text of a definition",
    why: "A model reads characters that no person sees. Instructions in tag characters or variation selectors, and \
          words that are split by characters without width, pass every review.",
    rationale: "the model gets text that the user cannot approve, but no host is known to fail",
    looks_at: "all strings and member names of definitions, the instructions and the names of the server: tag \
               characters, variation selectors without a variant, characters without width, other invisible \
               characters, private-use characters and noncharacters. Emoji, flags, and the joiners of Arabic, Indic \
               and similar scripts are expected, and so are soft hyphens inside words. Regular \
               expressions are not inspected",
    pass: "there are no such characters, except where a script or an emoji needs them",
    fail: "there are some. The finding names the member and the code points, and shows the text that they encode",
    sentence: "a definition has text that people do not see",
    remedy: "Remove the characters. Texts that were copied from web pages often contain them.",
    example: r#"{"name":"read","description":"Reads a file"}"#,
    see: &["text-direction", "control-characters", "definition-pin"],
    references: &[
        Cwe(451, "User Interface (UI) Misrepresentation of Critical Information"),
        Other("UTR #36: Unicode Security Considerations", "https://www.unicode.org/reports/tr36/"),
    ],
    ..DEFINITIONS
};

pub(crate) static CONTROL_CHARACTERS: Check = Check {
    id: "control-characters",
    title: "Definitions have no control characters",
    why: "A host on a terminal that prints a description runs its escape sequences: they hide text, move the cursor, \
          or set the title and the clipboard.",
    rationale: "a host that does not escape them shows something else than the model reads",
    looks_at: "all strings and member names of definitions, the instructions and the names of the server: U+0000 to \
               U+001F except tab and line breaks, and U+007F to U+009F. Regular expressions and the values of default, \
               const, enum and examples in schemas are not inspected",
    pass: "there are none",
    fail: "there are some. The finding names the member and the code points",
    sentence: "a definition has control characters",
    remedy: "Remove colours and other escape sequences from texts that go over the wire.",
    example: r#"{"name":"status","description":"Shows what is running"}"#,
    see: &["invisible-text", "stderr-hygiene"],
    references: &[Cwe(150, "Improper Neutralization of Escape, Meta, or Control Sequences")],
    ..DEFINITIONS
};

pub(crate) static LONG_DESCRIPTION: Check = Check {
    id: "long-description",
    title: "Descriptions are short enough to be read",
    why: "No user reads a description of many pages, and every request to the model pays for it. Instructions for the \
          model are easily hidden at its end.",
    severity: Severity::Low,
    rationale: "it costs tokens and attention, but nothing fails",
    looks_at: "every title and description in a definition, and the instructions",
    pass: "each has at most 10 KiB of UTF-8",
    fail: "one of them is longer",
    sentence: "a description is too long to be read",
    remedy: "Say what the tool does in a few sentences. Put manuals into resources.",
    example: r#"{"name":"search","description":"Searches the notes. The resource notes://syntax explains the syntax."}"#,
    see: &["invisible-text", "tool-schemas"],
    ..DEFINITIONS
};

pub(crate) static CONFUSABLE_NAMES: Check = Check {
    id: "confusable-names",
    title: "People can tell the names in a list apart",
    why: "A user who approves one of two names that look alike does not know which one was called, and a model easily \
          writes the other one.",
    rationale: "the wrong tool can be approved or called, but no host is known to fail",
    looks_at: "the names of tools and prompts in all pages of a list, and URIs with characters outside ASCII: by the \
               skeletons of UTS #39, by case and by width. Two ASCII names are also compared by 1, l, I and |, and by \
               0 and O",
    pass: "no two names look alike",
    fail: "two names differ only in letters that look alike, in case or in width",
    sentence: "two names look alike",
    remedy: "Rename one of them. Use lower-case ASCII letters, digits and underscores.",
    example: r#"{"tools":[{"name":"search_notes"},{"name":"search_files"}]}"#,
    see: &["tool-names", "invisible-text"],
    references: &[
        Cwe(1007, "Insufficient Visual Distinction of Homoglyphs Presented to User"),
        Other("UTS #39: Unicode Security Mechanisms", "https://www.unicode.org/reports/tr39/"),
    ],
    ..DEFINITIONS
};

pub(crate) static RESOURCE_URIS: Rule =
    written(Server, &[states(ALL, Page("server/resources"), "Resource", "Unique identifier for the resource")]);
pub(crate) static PROMPT_NAMES: Rule =
    written(Server, &[states(ALL, Page("server/prompts"), "Prompt", "Unique identifier for the prompt")]);
/// The rule for templates, of which no page says that they are unique.
pub(crate) static TEMPLATE_URIS: Rule = ours(Server, ALL);

pub(crate) static DUPLICATE_DEFINITIONS: Check = Check {
    id: "duplicate-definitions",
    title: "Each resource, prompt and template is listed once",
    why: "A client keeps resources by their URI, and prompts by their name. Of two with the same one, it shows one \
          twice, or one of them cannot be reached.",
    severity: Severity::Low,
    rationale: "at most one of the definitions cannot be used",
    looks_at: "the URIs in resources/list, the names in prompts/list, and the templates in resources/templates/list",
    pass: "none of them appears twice on all pages together",
    fail: "one of them appears twice. `tool-names` reports tools with the same name",
    sentence: "a URI, a name or a template is listed twice",
    level: Level::Stated,
    rules: &[&RESOURCE_URIS, &PROMPT_NAMES, &TEMPLATE_URIS],
    remedy: "Keep definitions in a map by URI or name. If pages overlap, derive each cursor from the last element.",
    example: r#"{"resources":[{"uri":"file:///a","name":"a"},{"uri":"file:///a","name":"a, again"}]}"#,
    see: &["tool-names", "confusable-names", "pagination"],
    ..DEFINITIONS
};
