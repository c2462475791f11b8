//! Tests the actions of every fault.

use super::*;

fn to_client(spec: &str, seed: u64) -> FaultInjector {
    let ordered = FaultInjector::by_direction(&[FaultSpec::parse(spec).expect(spec)], Some(seed));
    ordered.to_client.expect("the fault is for the client")
}

/// Returns the actions for four messages to the client.
fn actions(spec: &str, seed: u64) -> Vec<FaultAction> {
    let mut faults = to_client(spec, seed);
    let mut actions = faults.push("first\nsécond\nthi".as_bytes());
    if !faults.closed {
        actions.extend(faults.push(b"rd\nfourth\n"));
        actions.extend(faults.finish());
    }
    actions
}

/// Returns the event for a dropped message to the client.
fn drop_of(message: u64) -> FaultAction {
    let name = Word::new("drop").expect("a word");
    FaultAction::Note(Note::Fault(InjectedFault::Applied {
        stream: Stream::ToClient,
        message,
        name,
        detail: Vec::new(),
    }))
}

/// Returns the actions in one line: written bytes in quotes, events as text.
fn described(spec: &str) -> String {
    let actions = actions(spec, 7).into_iter().map(|action| match action {
        FaultAction::Note(note) => String::from_utf8(note.text()).expect("UTF-8"),
        FaultAction::Write(bytes) => format!("{:?}", String::from_utf8_lossy(&bytes)),
        FaultAction::Pause(time) => format!("{time:?}"),
        FaultAction::Close => "close".into(),
        FaultAction::Kill => "kill".into(),
    });
    actions.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_fault_does_what_it_says() {
    for (spec, expected) in [
        ("drop@2", r#""first\n" fault < 2 drop "third\n" "fourth\n""#),
        ("crlf@2", r#""first\n" fault < 2 crlf "sécond\r\n" "third\n" "fourth\n""#),
        ("bom@1", r#"fault < 1 bom "\u{feff}first\n" "sécond\n" "third\n" "fourth\n""#),
        ("junk=x@4", r#""first\n" "sécond\n" "third\n" fault < 4 junk "x\nfourth\n""#),
        ("truncate=3@3", r#""first\n" "sécond\n" fault < 3 truncate 3 "thi\n" "fourth\n""#),
        ("truncate=5", r#""first\n" fault < 2 truncate 5 "séco\n" "third\n" fault < 4 truncate 5 "fourt\n""#),
        ("duplicate=3@1", r#"fault < 1 duplicate "first\nfirst\nfirst\n" "sécond\n" "third\n" "fourth\n""#),
        ("delay=50ms@3", r#""first\n" "sécond\n" fault < 3 delay 50ms 50ms "third\n" "fourth\n""#),
        ("cut-utf8", r#""first\n" fault < 2 cut-utf8 2 "s�" 2ms "�cond\n" "third\n" "fourth\n""#),
        (
            "reorder@every2",
            r#""first\n" fault < 2 reorder "third\n" "sécond\n" fault < 4 reorder fault < 4 reorder undone "fourth\n""#,
        ),
        ("coalesce=3@1", r#"fault < 1 coalesce "first\nsécond\nthird\n" "fourth\n""#),
        (
            "dribble=1ms@1%100",
            r#"fault < 1 dribble 1ms "f" 1ms "i" 1ms "r" 1ms "s" 1ms "t" 1ms "\n" "sécond\n" "third\n" "fourth\n""#,
        ),
        ("half-close@2", r#""first\n" fault < 2 half-close "sécond\n" cut < 3 bytes were there already close"#),
        ("kill@2", r#""first\n" fault < 2 kill "sé" kill cut < 3 bytes were there already close"#),
    ] {
        assert_eq!(described(spec), expected, "{spec}");
    }
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    for spec in ["split=3", "split%50", "truncate", "drop%50", "cut-utf8%50"] {
        for seed in 0..20 {
            assert_eq!(actions(spec, seed), actions(spec, seed), "{spec}");
        }
    }
    assert!((0..20).any(|seed| actions("split=3", seed) != actions("split=3", 20)));
    let dropped = (0..100).filter(|seed| actions("drop@1%30", *seed).contains(&drop_of(1)));
    assert!((15..45).contains(&dropped.count()));
}

#[test]
fn the_size_of_reads_changes_nothing() {
    let whole = |faults: &mut FaultInjector, pieces: &[&[u8]]| -> Vec<FaultAction> {
        pieces.iter().flat_map(|piece| faults.push(piece)).collect()
    };
    let faults = || to_client("<:split%50", 3);
    let bytes = b"one message\nand another\nand a third one\n".repeat(10);
    let at_once = whole(&mut faults(), &[&bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(7).collect();
    assert_eq!(whole(&mut faults(), &pieces), at_once);
}

#[test]
fn responses_are_selected_by_the_method_of_their_request() {
    let ordered = FaultInjector::by_direction(&[FaultSpec::parse("<:drop@tools/call").expect("a spec")], Some(1));
    let (mut up, mut down) = (ordered.to_server.expect("it sees requests"), ordered.to_client.expect("faults"));
    for (id, method) in [(1, "tools/list"), (2, "tools/call")] {
        let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"}}\n");
        assert_eq!(up.push(request.as_bytes()), [FaultAction::Write(request.clone().into_bytes())]);
    }
    let answer = |id: u8| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n").into_bytes();
    assert_eq!(down.push(&answer(2)), [drop_of(1)]);
    assert_eq!(down.push(&answer(1)), [FaultAction::Write(answer(1))]);
}

#[test]
fn a_line_of_any_length_is_relayed() {
    let mut faults = to_client("<:drop@2", 1);
    let long = vec![b'x'; MAX_FRAME];
    let mut written = 0;
    for piece in [&long[..], b"y", b"z\n", b"dropped\n", b"kept\n"] {
        for action in faults.push(piece) {
            match action {
                FaultAction::Write(bytes) => written += bytes.len(),
                action => assert_eq!(action, drop_of(2)),
            }
        }
        assert!(faults.partial.len() <= MAX_FRAME);
    }
    assert_eq!(written, MAX_FRAME + 3 + 5);
}
