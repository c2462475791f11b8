//! The front door of the replay: a capture as a client and as a server, in memory and over HTTP.

use std::path::PathBuf;

use barewire::client::http::{Dialer, Endpoint};
use barewire::transport::{Transport, memory};
use barewire_proto::transcript::read;
use barewire_workbench::replay::{
    HTTP_PATH, PlayOptions, PlayReport, Script, ScriptOptions, ServeOptions, ServeReport, play, play_http, serve,
    serve_http,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const ADD: &str = r#"
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"adding"}}
< {"jsonrpc":"2.0","id":1,"result":{"sum":2}}
> {"jsonrpc":"2.0","id":2,"method":"ping"}
< {"jsonrpc":"2.0","id":2,"result":{}}
"#;

fn script(text: &str) -> Script {
    Script::from_entries(&read(text.as_bytes()).expect("a transcript"), ScriptOptions::default()).expect("fit")
}

/// Plays one capture to the server of another.
async fn between(client: &str, server: &str) -> (PlayReport, ServeReport, Vec<String>) {
    let (client, server) = (script(client), script(server));
    let (near, far) = memory(64 * 1024);
    let far = far.into_parts();
    let (play_options, serve_options) = (PlayOptions::default(), ServeOptions::default());
    let mut log = Vec::new();
    let served = serve(&server, far.reader, far.writer, &serve_options, |line: &str| log.push(line.to_owned()));
    let (played, served) = tokio::join!(play(&client, near, &play_options), served);
    (played, served, log)
}

#[tokio::test]
async fn a_capture_answers_itself() {
    let (played, served, log) = between(ADD, ADD).await;
    assert!(played.differences.is_empty(), "{:?}", played.differences);
    assert_eq!((played.sent, played.compared), (2, 2));
    assert_eq!((served.matched, served.unmatched, served.unused), (2, 0, 0));
    assert_eq!(log, ["tools/call add, id 1: as frame 1", "ping, id 2: as frame 4"]);
}

#[tokio::test]
async fn another_answer_is_a_difference_with_its_place() {
    let (played, served, _) = between(ADD, &ADD.replace("\"sum\":2", "\"sum\":3")).await;
    let [difference] = played.differences.as_slice() else { panic!("{:?}", played.differences) };
    assert_eq!((difference.frame, difference.answer_frame), (Some(1), Some(3)));
    let change = &difference.changes[0];
    assert_eq!(change.pointer(), "/result/sum");
    assert_eq!((change.recorded(), change.received()), (Some("2"), Some("3")));
    let json = serde_json::to_value(difference).expect("JSON");
    assert_eq!(json["kind"], "answer");
    assert_eq!(json["changes"][0], serde_json::json!({"path": "/result/sum", "recorded": 2, "came": 3}));
    assert_eq!(served.unmatched, 0);
}

#[tokio::test]
async fn over_http_it_ends_when_the_caller_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}{HTTP_PATH}", listener.local_addr().expect("an address"));
    let script = script(ADD);
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let options = ServeOptions::default();
    let served = serve_http(&script, listener, &options, stopped, |_: &str| {});
    let played = async {
        let dialer = Dialer::new(&Endpoint::new(url)).expect("a URL");
        let played = play_http(&script, dialer, Vec::new(), &PlayOptions::default()).await;
        stop.send(()).expect("it is served");
        played
    };
    let (served, played) = tokio::join!(served, played);
    let played = played.expect("it is reached");
    assert!(played.differences.is_empty(), "{:?}", played.differences);
    assert_eq!((served.matched, served.unmatched, served.unused), (2, 0, 0));
}

/// A library has no options and no commands: its hints name none.
#[test]
fn hints_name_no_option() {
    let refused = |text: &str| {
        let entries = read(text.as_bytes()).expect("a transcript");
        let mut options = ScriptOptions::default();
        options.max_frame = 100;
        Script::from_entries(&entries, options).expect_err("unfit").hint().expect("a hint")
    };
    let long = format!("> \"{}\"\n", "x".repeat(200));
    let compressed = "@x1 head > POST / HTTP/1.1\n@x1 head < HTTP/1.1 200 OK\n@x1 head < Content-Encoding: gzip\n";
    for text in [">a {}\n>b {}\n", ">(redacted) {}\n", "< {}\n", compressed, &long] {
        let hint = refused(text);
        assert!(!hint.contains("--") && !hint.contains("barewire"), "{hint}");
    }
    let missing = Script::load(&PathBuf::from("no-such.wire"), ScriptOptions::default(), &|_| {});
    assert!(missing.expect_err("no file").to_string().starts_with("cannot read no-such.wire: "));
}
