//! What must hold for any bytes, tried with bytes made to hit it and with the corpus that fuzzing has found.

#[path = "../../../fuzz/workbench/mod.rs"]
#[allow(unreachable_pub, reason = "also the body of the fuzz targets")]
mod checks;

use std::path::Path;

use proptest::prelude::*;

#[test]
fn what_fuzzing_found_still_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus");
    for (name, check) in checks::ALL {
        let folder = corpus.join(name);
        let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for file in files.map(|file| file.expect("a file").path()) {
            let bytes = std::fs::read(&file).expect("readable");
            // The name of the file is what a failure has to say.
            println_name(&file);
            check(&bytes);
            count += 1;
        }
        assert!(count > 10, "{name} has a corpus of {count}");
    }
}

/// Shown by the test harness when a check fails.
#[allow(clippy::print_stdout)]
fn println_name(file: &Path) {
    println!("{}", file.display());
}

/// Bytes of which many are such words.
fn made_of(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

/// Two bytes for options and cuts before them.
fn with_options(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 2]>(), made_of(words)).prop_map(|(options, bytes)| [&options[..], &bytes].concat())
}

/// What secrets and the text around them are made of.
#[rustfmt::skip] // a table
const SECRETS: &[&str] = &[
    "{", "}", "[", "]", ",", ":", "=", "\"", "\\\"", "\\\\\\\"", "'", "\\", "\n", "\r\n", "\\n", " ", "\t", ";",
    "&", "%3D", "token", "\"password\":", "\"secret\":{", "\"value\":", "\"cookies\":[", "a1b2c3d4e5f6", "123456",
    "***", "<redacted-1>", "--token", "Authorization: ", "Digest a=", "Bearer ", "basic ", "Cookie: ",
    "X-Api-Key: ", "?key=", "postgres://u:", "@h/", "ghp_", "sk-", "SG.", "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.", "-----BEGIN PRIVATE KEY-----", "-----END", "> ", "< ", "! ", "@ eof >", "@ gap > 3",
    "@ head > ", "(noeol) ", "(esc) ",
];

/// What heads and bodies are made of.
#[rustfmt::skip] // a table
const HTTP: &[&str] = &[
    "POST /mcp HTTP/1.1\r\n", "GET http://localhost/ HTTP/1.1\n", "HEAD * HTTP/1.0\r\n", "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 204 \r\n", "Host: localhost\r\n", "host:[::1]:80\r\n", "Content-Length: 3\r\n",
    "content-length: 0, 0\r\n", "Content-Type: application/json\r\n", "Content-Type: text/event-stream\n",
    "Transfer-Encoding: chunked\r\n", "Accept-Encoding: gzip\r\n", "Content-Encoding: br\r\n", "\r\n", "\n", "\r",
    "\r\n\r\n", "3\r\nabc\r\n", "0\r\n\r\n", "1;a=b\r\n", "fffffffffffffffff\r\n", "a: b\r\n", " ", "\t", ":", "{}",
];

/// What a transcript is made of.
#[rustfmt::skip] // a table
const WIRE: &[&str] = &[
    "wire 1\n", "> ", "< ", ">a ", "<a ", "<b(+0.000001) ", "! ", "@ ", "@a ", "# ", "\n", "(noeol) ",
    "(esc redacted) ", "\\x0a",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":{\"progressToken\":1},\"requestState\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"error\":{\"code\":-1,\"message\":\"x\"}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"input_required\",\"requestState\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1}}\n",
    "{\"id\":1,\"method\":2}\n",
    "[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"m\"},{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}]\n", "data: ",
    "event: endpoint\n", "framing body\n", "framing sse\n", "eof >\n", "eof <\n", "gap < 3\n",
    "closed > the client closed the connection\n", "head > POST /mcp HTTP/1.1\n", "head > mcp-session-id: s\n",
    "head > mcp-method: m\n", "head < HTTP/1.1 400 Bad Request\n", "head < mcp-session-id: s\n", "exit code 1\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn secrets_are_gone_and_nothing_else(bytes in with_options(SECRETS)) { checks::redactor::check(&bytes) }
    #[test]
    fn any_split_of_http_is_no_split(bytes in with_options(HTTP)) { checks::http_framing::check(&bytes) }
    #[test]
    fn operations_are_the_same_from_memory_and_from_a_file(bytes in made_of(WIRE)) { checks::operations::check(&bytes) }
    #[test]
    fn plain_noise_harms_nobody(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        checks::ALL.iter().for_each(|(_, check)| check(&bytes));
    }
}
