//! Draws diagrams of generated wires and checks their size, overlaps and escapes.

use std::fmt::Write;

use barewire_proto::transcript::read;
use unicode_width::UnicodeWidthStr;

use super::{Diagram, DiagramBuilder, Picture};
use crate::filter::Filter;
use crate::frames::{FrameLimits, Streams};
use crate::pipeline::ObserverSink;

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Mermaid,
    Svg,
    Text,
}

fn picture(transcript: &str, filter: &str) -> Diagram {
    let filter = Filter::parse(filter).expect("a filter");
    let mut sink = ObserverSink::new(DiagramBuilder::new(&filter, true));
    let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        assert!(matches!(streams.entry(&entry, &mut sink), Ok(true)));
    }
    assert!(streams.finish(&mut sink).is_ok());
    sink.finish().finish()
}

fn draw(diagram: &Diagram, form: Form, width: usize) -> String {
    match form {
        Form::Mermaid => diagram.mermaid("SVG"),
        Form::Svg => diagram.svg(),
        Form::Text => diagram.text(width),
    }
}

/// Returns a wire with `count` operations, of which some overlap, some fail and some get no response.
fn wire(count: u64, name: impl Fn(u64) -> String) -> String {
    let mut out = String::from("wire 1\n");
    let mut events = Vec::new();
    for number in 0..count {
        let (at, took) = (number * 30, 5 + number * 7 % 90);
        let name = serde_json::to_string(&name(number)).unwrap();
        let ask = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":{name}}}}}"#);
        events.push((at, '>', ask));
        let answer = match number % 17 {
            3 => format!(r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":-32602,"message":"no"}}}}"#),
            5 => format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{"isError":true}}}}"#),
            7 => continue,
            _ => format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#),
        };
        events.push((at + took, '<', answer));
    }
    events.sort_by_key(|(at, _, _)| *at);
    for (at, way, text) in events {
        writeln!(out, "{way}(+{}.{:03}) {text}", at / 1000, at % 1000).unwrap();
    }
    out
}

/// Returns the texts of an SVG, each with its left and right x coordinate and its baseline.
fn texts(svg: &str) -> Vec<(f64, f64, f64, String)> {
    let attribute = |tag: &str, name: &str| {
        tag.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned)
    };
    let mut found = Vec::new();
    for piece in svg.split("<text").skip(1) {
        let (tag, rest) = piece.split_once('>').expect("a tag ends");
        let text = rest.split("</text>").next().expect("and is closed");
        let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
        let plain = plain.replace("&amp;", "&");
        let number = |name| attribute(tag, name).and_then(|value| value.parse::<f64>().ok()).expect("a number");
        let size = if attribute(tag, "class").is_some_and(|class| class.starts_with('s')) { 11.0 } else { 12.0 };
        let columns = u32::try_from(plain.width()).expect("a line");
        let wide = f64::from(columns) * super::svg::column(size);
        let (x, y) = (number("x"), number("y"));
        let left = match attribute(tag, "text-anchor").as_deref() {
            Some("end") => x - wide,
            Some("middle") => x - wide / 2.0,
            _ => x,
        };
        found.push((left, left + wide, y, plain));
    }
    found
}

/// Asserts that no text overlaps another one or extends beyond the page.
fn assert_legible(svg: &str) {
    let view = svg.split("viewBox=\"0 0 ").nth(1).and_then(|rest| rest.split('"').next()).expect("a viewBox");
    let (width, height) = view.split_once(' ').expect("two numbers");
    let (width, height): (f64, f64) = (width.parse().unwrap(), height.parse().unwrap());
    let mut texts = texts(svg);
    texts.sort_by(|a, b| (a.2, a.0).partial_cmp(&(b.2, b.0)).unwrap());
    for (left, right, y, text) in &texts {
        assert!(*left >= 0.0 && *right <= width && *y > 0.0 && *y < height, "{text} at {left}..{right}, {y}");
    }
    for (index, (left, right, y, one)) in texts.iter().enumerate() {
        // A line of text is 11 pixels high.
        for (from, to, below, other) in texts[index + 1..].iter().take_while(|next| next.2 - y < 11.0) {
            assert!(right <= from || to <= left, "{one} and {other} at {y} and {below}");
        }
    }
}

#[test]
fn five_operations_are_arrows_and_five_hundred_are_bars() {
    let long = |number: u64| format!("{}-{number}", "name".repeat(usize::try_from(number % 30).unwrap()));
    for (count, is_rows) in [(5, true), (50, true), (500, false), (5000, false)] {
        let wire = wire(count, long);
        assert_eq!(matches!(picture(&wire, "").picture, Picture::Rows(_)), is_rows, "{count}");
        let svg = draw(&picture(&wire, ""), Form::Svg, 80);
        assert_legible(&svg);
        assert!(svg.len() < 10_000 + 1000 * usize::try_from(count).unwrap(), "{count}: {}", svg.len());
        for width in [40, 80, 100] {
            let text = draw(&picture(&wire, ""), Form::Text, width);
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(width), "{widest:?} of {width}");
        }
        // Mermaid refuses longer texts by default.
        let mermaid = draw(&picture(&wire, ""), Form::Mermaid, 80);
        assert!(mermaid.len() < 50_000, "{}", mermaid.len());
    }
}

#[test]
fn repetitions_are_drawn_once() {
    let mut wire = String::from("wire 1\n");
    for number in 0..500 {
        let at = f64::from(number) / 10.0;
        writeln!(wire, r#">(+{at:.3}) {{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#).unwrap();
        writeln!(wire, r#"<(+{:.3}) {{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#, at + 0.003).unwrap();
    }
    let text = draw(&picture(&wire, ""), Form::Text, 80);
    assert!(text.contains("ping, 500 times") && text.lines().count() < 5, "{text}");
}

#[test]
fn a_filter_draws_whole_operations() {
    let wire = wire(500, |number| format!("tool{}", number % 9));
    let text = draw(&picture(&wire, "slower-than:94ms"), Form::Text, 100);
    let (asked, answered) = (text.matches("tools/call tool").count(), text.matches("94.0 ms").count());
    assert!(answered > 2 && asked >= answered, "{text}");
    let open = draw(&picture(&wire, "unanswered"), Form::Text, 100);
    assert_eq!(open.matches("no response to").count(), 29, "{open}");
    assert!(!open.contains("result"), "{open}");
}

#[test]
fn names_cannot_break_out_of_a_diagram() {
    let nasty = [
        "</text><script>alert(1)</script>",
        "]]>&lt;\"' onload='x",
        "a;b#35;%%{init: {}}%%",
        "end",
        "x\nend\nC->>S: forged",
        "\u{1b}[31m\u{202e}\u{0}\u{fffe}",
        "```\n<img src=x>",
        "日本語テキスト日本語テキスト日本語テキスト日本語テキスト",
    ];
    for count in [8u64, 400] {
        let wire = wire(count, |number| nasty[usize::try_from(number % 8).unwrap()].to_owned());
        for form in [Form::Svg, Form::Mermaid, Form::Text] {
            let drawn = draw(&picture(&wire, ""), form, 80);
            assert!(!drawn.contains("<script") && !drawn.contains("<img") || form == Form::Text, "{drawn}");
            assert!(drawn.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')), "{drawn}");
            match form {
                Form::Svg => {
                    assert_legible(&drawn);
                    assert_eq!(drawn.matches("<text").count(), drawn.matches("</text>").count());
                }
                Form::Mermaid => {
                    let starts = ["sequenceDiagram", "participant", "C-", "S-", "Note ", "rect ", "end", "deactivate "];
                    for line in drawn.lines().map(str::trim) {
                        assert!(starts.iter().any(|start| line.starts_with(start)), "{line}");
                        let behind = line.split_once(": ").map_or("", |(_, text)| text);
                        // Special characters appear only as numeric escapes.
                        let rest: String = behind
                            .split('#')
                            .skip(1)
                            .filter_map(|part| part.split_once(';'))
                            .map(|(number, _)| number)
                            .collect();
                        assert!(rest.chars().all(|c| c.is_ascii_digit()), "{line}");
                        assert!(!line.contains('%') && !line.contains('`') && !behind.contains('<'), "{line}");
                    }
                    assert!(!drawn.contains("C->>S: forged"), "{drawn}");
                }
                Form::Text => assert!(drawn.lines().all(|line| line.width() <= 80), "{drawn}"),
            }
        }
    }
}

#[test]
fn rounds_are_one_span_and_open_operations_end_without_a_response() {
    let wire = r#"wire 1
>(+1) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}
<(+1.5) {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}
>(+4) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","requestState":"s"}}
<(+4.25) {"jsonrpc":"2.0","id":2,"result":{}}
>(+5) {"jsonrpc":"2.0","id":3,"method":"ping"}
"#;
    let diagram = picture(wire, "");
    let Picture::Rows(rows) = &diagram.picture else { panic!("few rows") };
    let spans: Vec<_> = rows.spans.iter().map(|span| (span.first, span.last, span.rounds, span.is_open())).collect();
    assert_eq!(spans, [(0, 4, 2, false), (5, 6, 1, true)]);
    let mermaid = draw(&diagram, Form::Mermaid, 80);
    assert_eq!(mermaid.matches("->>+").count(), 2);
    assert_eq!(mermaid.matches("-->>-").count() + mermaid.matches("deactivate").count(), 2);
    assert!(mermaid.contains("Note right of S: 2 rounds, 3.25 s"), "{mermaid}");
}

#[test]
fn messages_beyond_the_limit_do_not_count_as_unanswered() {
    let mut wire = String::from("wire 1\n");
    for number in 0..30_000 {
        writeln!(wire, r#"> {{"jsonrpc":"2.0","id":{number},"method":"m{}"}}"#, number % 7).unwrap();
    }
    for number in 0..30_000 {
        writeln!(wire, r#"< {{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#).unwrap();
    }
    let Picture::Bars(bars) = picture(&wire, "").picture else { panic!("many bars") };
    assert_eq!(bars.bars().count(), 20_000);
    assert!(bars.bars().all(|bar| bar.style == super::bars::BarStyle::Good));
}

#[test]
fn without_times_the_scale_is_in_frames() {
    let mut wire = String::from("wire 1\n");
    for number in 0..300 {
        writeln!(wire, r#"> {{"jsonrpc":"2.0","id":{number},"method":"m{number}"}}"#).unwrap();
        writeln!(wire, r#"< {{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#).unwrap();
    }
    let svg = draw(&picture(&wire, ""), Form::Svg, 80);
    assert_legible(&svg);
    assert!(svg.contains("The input has no times") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn long_times_have_room_and_times_that_go_back_are_marked() {
    let wire = r#"wire 1
>(+999999999.5) {"jsonrpc":"2.0","id":1,"method":"ping"}
<(+999999999.75) {"jsonrpc":"2.0","id":1,"result":{}}
>(+123456.5) {"jsonrpc":"2.0","id":2,"method":"ping"}
<(+123456.75) {"jsonrpc":"2.0","id":2,"result":{}}
"#;
    let text = draw(&picture(wire, ""), Form::Text, 80);
    let lines: Vec<&str> = text.lines().collect();
    let client = |line: &str| line.chars().position(|c| "│┃C".contains(c));
    assert!(lines.iter().all(|line| client(line) == Some(15) && line.width() <= 80), "{text}");
    assert!(lines[1].starts_with("999999999.500  │── ping"), "{text}");
    assert!(lines[3].contains("! the time goes back by 11573 d"), "{text}");
    assert!(lines[4].starts_with("   123456.500  │── ping"), "{text}");
    let svg = draw(&picture(wire, ""), Form::Svg, 80);
    let left = svg.split("viewBox=\"-").nth(1).and_then(|rest| rest.split(' ').next()).expect("room at the left");
    let left: f64 = left.parse().expect("a number");
    assert!(texts(&svg).iter().all(|(from, ..)| *from >= -left), "{svg}");

    let many: String = (0..300)
        .map(|number| {
            let at = if number == 200 { 1 } else { 100_000 + number };
            format!(">(+{at}) {{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"m{number}\"}}\n")
        })
        .collect();
    let text = draw(&picture(&many, ""), Form::Text, 80);
    assert!(text.lines().all(|line| line.width() <= 80) && text.contains("! The time goes back once."), "{text}");
}

/// Returns a wire with four concurrent calls of two rounds each, which end in the order of `ends`.
fn nested(ends: [usize; 4]) -> String {
    let mut wire = String::from("wire 1\n");
    for id in 0..4 {
        writeln!(wire, r#">(+1.{id}) {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t{id}"}}}}"#)
            .unwrap();
    }
    for id in 0..4 {
        writeln!(wire, r#"<(+2.{id}) {{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"{id}"}}}}"#)
            .unwrap();
    }
    for id in 0..4 {
        writeln!(wire, r#">(+3.{id}) {{"jsonrpc":"2.0","id":"r{id}","method":"tools/call","params":{{"name":"t{id}","requestState":"{id}"}}}}"#)
            .unwrap();
    }
    for (at, id) in ends.into_iter().enumerate() {
        writeln!(wire, r#"<(+4.{at}) {{"jsonrpc":"2.0","id":"r{id}","result":{{}}}}"#).unwrap();
    }
    wire
}

#[test]
fn overlapping_operations_have_a_bracket_each() {
    for ends in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let wire = nested(ends);
        let svg = draw(&picture(&wire, ""), Form::Svg, 80);
        assert_legible(&svg);
        assert_eq!(svg.matches(">2 rounds, 3").count() + svg.matches(">2 rounds, 2").count(), 4, "{svg}");
        // Each bracket has a different x coordinate.
        let brackets = svg.split("<path d=\"M").filter(|path| path.contains("h-6\""));
        let places: std::collections::BTreeSet<_> = brackets.filter_map(|path| path.split(' ').next()).collect();
        assert_eq!(places.len(), 4, "{svg}");
        let text = draw(&picture(&wire, ""), Form::Text, 80);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        for corner in ["┐", "┘"] {
            assert_eq!(text.matches(corner).count(), 4, "{text}");
        }
        // Each of the four brackets has two inner arrows.
        assert_eq!(text.matches('┤').count(), 8, "{text}");
        let mermaid = draw(&picture(&wire, ""), Form::Mermaid, 80);
        assert_eq!(mermaid.matches("(2 rounds").count(), 4, "{mermaid}");
    }
    let text = draw(&picture(&nested([0, 1, 2, 3]), ""), Form::Text, 60);
    assert!(text.lines().any(|line| line.ends_with("┃ ┘│││")), "{text}");
}

#[test]
fn a_listen_request_is_not_drawn_as_unanswered() {
    let listen = ">(+1) {\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"subscriptions/listen\"}\n";
    let few = format!("wire 1\n{listen}");
    let svg = draw(&picture(&few, ""), Form::Svg, 80);
    assert!(svg.contains("class=\"on\"") && !svg.contains("class=\"none\""), "{svg}");
    let many: String = (0..300)
        .map(|id| format!(">(+2.{id:03}) {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m{id}\"}}\n"))
        .collect();
    let text = draw(&picture(&format!("{few}{many}"), ""), Form::Text, 80);
    let line = text.lines().find(|line| line.contains("subscriptions/listen")).expect("it is drawn");
    assert!(line.contains("█>") && line.ends_with("listening"), "{line}");
}

#[test]
fn every_round_has_the_tag_of_its_own_exchange() {
    let wire = r#"wire 1
>x8(+1) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}
<x8(+1.1) {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}
>x9(+1.2) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","requestState":"s"}}
<x9(+1.3) {"jsonrpc":"2.0","id":2,"result":{}}
"#;
    let text = draw(&picture(wire, ""), Form::Text, 80);
    let tags: Vec<_> = text.lines().skip(1).filter_map(|line| line.split(['┐', '┤', '┘']).nth(1)).collect();
    assert_eq!(tags, [" x8", "", " x9", ""], "{text}");
}
