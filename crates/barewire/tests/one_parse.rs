//! A message is parsed once, and its params are read once. All other code works with the result, a `KeptMessage` or a
//! `Parsed`, which only the calls listed below can make.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The calls that parse a message or read its params, by file. Each is the start of a separate path.
const PLACES: [(&str, usize, &str); 15] = [
    ("blocking/conn.rs", 1, "a frame of a stream"),
    ("peer/dispatch/received.rs", 1, "a frame of a stream"),
    ("peer/model.rs", 1, "the message of a test"),
    ("peer/service.rs", 1, "the params of a message whose carrier did not read them"),
    ("server/http/post.rs", 1, "the body of a POST, with its params"),
    ("server/http/session.rs", 1, "a message that arrived at another node of the cluster"),
    ("server/http/cluster/log.rs", 1, "our own messages, when the node that sent them is dead"),
    ("server/http/cluster/record.rs", 1, "the URI of a subscription, which may be in a batch"),
    ("server/http/cluster/route.rs", 1, "in a test"),
    ("server/task/call.rs", 1, "the params of a task that runs again at another node of the cluster"),
    ("server/http/scopes.rs", 1, "the requests of a batch, whose params are not kept, if an entry requires scopes"),
    ("client/http/connection.rs", 1, "a message of a server over HTTP"),
    ("client/http/tool_lookup.rs", 1, "an answer that does not pass through the engine"),
    ("client/http/mirrored.rs", 2, "an outgoing message, for its headers"),
    ("client/http/post.rs", 1, "an outgoing batch, for its ids"),
];

#[test]
fn each_path_parses_in_one_place() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    count(&src, &src, &mut found);
    let expected: BTreeMap<_, _> = PLACES.into_iter().map(|(file, count, _)| (file.to_owned(), count)).collect();
    assert_eq!(found, expected, "a message must not be parsed twice: pass on the parsed message");
}

fn count(src: &Path, dir: &Path, found: &mut BTreeMap<String, usize>) {
    for path in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("entry").path()) {
        if path.is_dir() {
            count(src, &path, found);
            continue;
        }
        let code = fs::read_to_string(&path).expect("UTF-8");
        assert!(!code.contains("rpc::parse"), "{}: import parse by its name", path.display());
        let calls = code.lines().map(|line| calls(line.split("//").next().unwrap_or_default())).sum();
        if calls > 0 {
            let name = path.strip_prefix(src).expect("it is below").to_string_lossy().into_owned();
            found.insert(name, calls);
        }
    }
}

/// The number of calls in a line that parse a message or read params.
fn calls(line: &str) -> usize {
    // `Json::parse(` and `x.parse(` parse something else, and `fn parse(` is not a call.
    let is_free = |at: usize| {
        let before = &line[..at];
        !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | ':' | '_')) && !before.ends_with("fn ")
    };
    let free = line.match_indices("parse(").filter(|(at, _)| is_free(*at)).count();
    let named = ["ParsedFrame::parse(", "ParsedMessage::read(", "RequestParams::read(", "RequestMeta::read("];
    free + named.iter().map(|call| line.matches(call).count()).sum::<usize>()
}

#[test]
fn calls_are_distinguished_from_other_parsers() {
    assert_eq!(calls("let parsed = parse(&frame, depth);"), 1);
    assert_eq!(calls("match ParsedMessage::read(body, depth) {}"), 1);
    assert_eq!(calls("Json::parse(text); text.parse(); fn parse(text: &str) {}; reparse(text)"), 0);
}
