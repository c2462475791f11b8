//! A revision of MCP -> text: its methods and codes, and those added and removed, from the protocol's tables.

use std::io;

use barewire_proto::mcp::method::INPUT_REQUESTS;
use barewire_proto::mcp::{CODES, Era, METHODS, Method, Revision};
use serde_json::json;

use crate::output::{Output, Tone, wrapped};

pub(super) fn show(revision: Revision, output: &mut Output, as_json: bool) -> io::Result<()> {
    let before = Revision::ALL.into_iter().rev().find(|other| *other < revision);
    let here = names(|method| is_in(method, revision));
    let new = names(|method| is_in(method, revision) && before.is_some_and(|before| !is_in(method, before)));
    let gone = names(|method| {
        !is_in(method, revision)
            && before.is_some_and(|before| is_in(method, before))
            && !(revision.is_modern() && method.is_input_request())
    });
    let inputs = if revision.is_modern() { &INPUT_REQUESTS[..] } else { &[] };
    let codes: Vec<i64> = CODES.iter().filter(|known| known.is_in(revision)).map(|known| known.code.get()).collect();
    if as_json {
        let era = match revision.era() {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        let value = json!({
            "name": revision, "era": era, "what": description(revision), "methods": here, "inputRequests": inputs, "new": new, "gone": gone, "codes": codes,
        });
        return writeln!(output, "{value}");
    }
    let head = output.paint(Tone::Strong, format_args!("{revision}: a revision of MCP"));
    writeln!(output, "{head}\n")?;
    wrapped(output, "", description(revision))?;
    writeln!(output)?;
    let opens = match revision.era() {
        Era::Legacy => "with initialize, whose result applies to the whole connection",
        Era::Modern => "without a handshake: each request has all it needs in its _meta",
    };
    let batches = match revision {
        Revision::V2024_11_05 => "not mentioned, so allowed by JSON-RPC",
        revision if revision.has_batches() => "allowed, but not for initialize",
        _ => "not allowed",
    };
    wrapped(output, "Opens:      ", opens)?;
    wrapped(output, "Batches:    ", batches)?;
    let lists =
        [("New:        ", &new[..]), ("Gone:       ", &gone), ("Methods:    ", &here), ("In results: ", inputs)];
    for (label, names) in lists {
        if !names.is_empty() {
            wrapped(output, label, &names.join(" "))?;
        }
    }
    let codes: Vec<String> = codes.iter().map(i64::to_string).collect();
    wrapped(output, "Codes:      ", &format!("those of JSON-RPC, and {}", codes.join(" ")))
}

fn names(wanted: impl Fn(&Method) -> bool) -> Vec<&'static str> {
    METHODS.iter().filter(|method| wanted(method)).map(|method| method.name).collect()
}

fn is_in(method: &Method, revision: Revision) -> bool {
    [method.by_client, method.by_server].into_iter().flatten().any(|sent| sent.is_in(revision))
}

/// Describes the changes in a revision, except for changes to its methods.
pub(super) fn description(revision: Revision) -> &'static str {
    match revision {
        Revision::V2024_11_05 => {
            "The first revision: tools, resources, prompts, roots and sampling, over stdio or HTTP with SSE."
        }
        Revision::V2025_03_26 => {
            "Streamable HTTP and authorization; batches; audio; annotations of tools; the capability completions; \
             progress with a message."
        }
        Revision::V2025_06_18 => {
            "Structured content and output schemas; elicitation; resource links; titles; the header \
             MCP-Protocol-Version. Batches are gone."
        }
        Revision::V2025_11_25 => {
            "Icons; elicitation by URL; sampling with tools; experimental tasks; bad arguments of a tool are \
             results that the model sees."
        }
        Revision::V2026_07_28 => {
            "No handshake, no sessions and no requests from the server: its questions are in its result, and \
             the client sends the request again with the answers. Results have a type (resultType) and a lifetime \
             in caches (ttlMs, cacheScope). Tasks are an extension. Roots, sampling and logging are deprecated."
        }
        _ => "A revision that barewire knows only by name.",
    }
}
