//! The name of a member -> what it means in MCP.

use std::collections::BTreeMap;

/// Returns the meaning of a member below `params`, `result` or `error`.
pub(super) fn meaning(name: &str) -> Option<&'static str> {
    MEANINGS.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}

/// Returns all meanings, by name.
pub(super) fn all_meanings() -> BTreeMap<&'static str, &'static str> {
    MEANINGS.iter().copied().collect()
}

/// The members that many messages have.
const MEANINGS: &[(&str, &str)] = &[
    ("_meta", "facts about the message that are not part of its content"),
    ("annotations", "hints about how the item may be used; they need not be true"),
    ("arguments", "the arguments of the tool or prompt, by name"),
    ("capabilities", "the optional features that the sender supports"),
    ("clientInfo", "the name and the version of the client"),
    ("content", "the result for the model: texts, pictures, sound, resources"),
    ("code", "the kind of the error, as a number"),
    ("cursor", "the place in the list at which the next page begins, from nextCursor"),
    ("data", "details of the error, in the sender's own form"),
    ("elicitationId", "the id of a question to the user that is answered on a page"),
    ("inputRequests", "the questions that the client must answer before the call can go on"),
    ("inputResponses", "the answers to the questions of the last round, by their names"),
    ("inputSchema", "the JSON Schema of the tool's arguments"),
    ("instructions", "a text of the server for the model"),
    ("isError", "whether the tool ran and failed"),
    ("level", "the severity of the log message"),
    ("logger", "the part of the server that logs"),
    ("message", "a short description for people"),
    ("nextCursor", "there is another page: send this as cursor to get it"),
    ("outputSchema", "the JSON Schema of the tool's structured result"),
    ("progress", "how much is done; it only grows"),
    ("progressToken", "the request that the progress is about; the requester chose it"),
    ("protocolVersion", "the revision of MCP"),
    ("reason", "why the request was cancelled"),
    ("requestId", "the id of the request that is cancelled"),
    ("requestState", "the server's own state, which the client sends back unchanged with the next round"),
    ("requestedSchema", "the fields of the form that the user is asked to fill in"),
    ("resultType", "whether the result is complete, or asks for input"),
    ("serverInfo", "the name and the version of the server"),
    ("structuredContent", "the result as JSON, by the tool's outputSchema"),
    ("total", "how much there is to do"),
    ("uri", "the address of the resource"),
    ("io.modelcontextprotocol/protocolVersion", "the revision of MCP that this request follows"),
    ("io.modelcontextprotocol/clientInfo", "the name and the version of the client"),
    ("io.modelcontextprotocol/clientCapabilities", "the optional features that the client supports for this request"),
    ("io.modelcontextprotocol/serverInfo", "the name and the version of the server"),
];
