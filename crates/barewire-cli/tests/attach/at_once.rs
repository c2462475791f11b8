//! Several programs at one file: two `attach`, a host that writes meanwhile, and an `attach` that is killed.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::place::{BAREWIRE, Place, text};

/// Returns a configuration with two servers and a long history, which takes a while to read and to write. `count` is
/// what the host has changed last.
fn configuration(count: usize, history: usize) -> String {
    let history: Vec<String> = (0..history).map(|line| format!("    \"line {line} of what the user typed\"")).collect();
    format!(
        "{{\n  \"count\": {count},\n  \"mcpServers\": {{\n    \"a\": {{\"command\": \"one\"}},\n    \
         \"b\": {{\"command\": \"two\", \"args\": []}}\n  }},\n  \"history\": [\n{}\n  ]\n}}\n",
        history.join(",\n")
    )
}

fn start(place: &Place, verb: &str, server: &str) -> Child {
    let mut command: Command = place.command(env!("CARGO_BIN_EXE_barewire"));
    command.args([verb, "c.json", server]).args(BAREWIRE.iter().filter(|_| verb == "attach"));
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs")
}

/// Waits for the end of a program. Returns whether it succeeded, and its stderr.
fn end(child: Child) -> (bool, String) {
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
    (output.status.success(), said)
}

fn is_attached(configuration: &Value, server: &str) -> bool {
    configuration["mcpServers"][server]["command"] == "/b/barewire"
}

#[test]
fn two_at_once_both_change_the_file() {
    let place = Place::new();
    let before = configuration(0, 5_000);
    let mut silent_losses = Vec::new();
    for pair in 0..40 {
        place.write("c.json", &before);
        let both = ["a", "b"].map(|server| (server, start(&place, "attach", server)));
        let both = both.map(|(server, child)| (server, end(child)));
        let now: Value = serde_json::from_str(&place.read("c.json")).expect("JSON");
        for (server, (success, said)) in both {
            assert!(success && said.starts_with(&format!("attached {server} in ")), "pair {pair}: {said}");
            if !is_attached(&now, server) {
                silent_losses.push((pair, server));
            }
        }
        let detached = ["a", "b"].map(|server| start(&place, "detach", server)).map(end);
        assert!(detached.iter().all(|(success, _)| *success), "pair {pair}: {detached:?}");
        if place.read("c.json") != before {
            silent_losses.push((pair, "detach"));
        }
    }
    assert_eq!(silent_losses, [], "said to be changed, but not changed: {} of 40 pairs", silent_losses.len());
    assert_eq!(place.files(), ["c.json"]);
}

/// The host knows nothing of `attach`, and writes its own text as fast as it can for a while: by renaming a new file,
/// or into the file itself.
#[test]
fn no_write_of_a_host_is_lost() {
    let place = Place::new();
    let path = place.write("c.json", configuration(0, 200));
    let (mut count, mut succeeded, mut lost) = (0, 0, Vec::new());
    for round in 0..60 {
        let verb = if round % 2 == 0 { "attach" } else { "detach" };
        let child = start(&place, verb, "a");
        let until = Instant::now() + Duration::from_millis(20 + 7 * (round % 11));
        while Instant::now() < until {
            count += 1;
            let text = configuration(count, 200);
            if round % 3 == 0 {
                fs::write(&path, text).expect("written");
            } else {
                place.write("host.tmp", text);
                fs::rename(place.path("host.tmp"), &path).expect("renamed");
            }
        }
        let (success, said) = end(child);
        let now: Value = serde_json::from_str(&place.read("c.json")).expect("JSON");
        if now["count"] != count {
            lost.push((round, said.clone()));
        }
        let is_clear = said.contains("was changed by another program") || said.contains("is not JSON: ");
        assert!(success || is_clear || said.contains(" is empty"), "round {round}: {said}");
        succeeded += usize::from(success);
    }
    assert!(lost.is_empty(), "{} of {count} writes are lost: {lost:?}", lost.len());
    assert!(succeeded > 0, "no attach succeeded");
    assert_eq!(place.files(), ["c.json"]);
}

#[test]
fn files_of_a_killed_attach_are_removed_by_the_next() {
    let place = Place::new();
    let before = configuration(0, 5_000);
    place.write("c.json", &before);
    // The file of an attach that was killed earlier, and one of the user.
    place.write(".c.json.barewire-4242", "{}");
    place.write(".c.json.barewire-old", "{}");
    let mut left = 0;
    for kill in 0..120 {
        let mut child = start(&place, if kill % 2 == 0 { "attach" } else { "detach" }, "a");
        thread::sleep(Duration::from_micros(1_000 + 997 * (kill * 7 % 60)));
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        left += usize::from(place.files().len() > 2);
        let now: Value = serde_json::from_str(&place.read("c.json")).expect("a killed attach leaves valid JSON");
        assert_eq!(now["history"].as_array().map(Vec::len), Some(5_000), "kill {kill}");
    }
    for verb in ["attach", "detach"] {
        let (success, said) = end(start(&place, verb, "a"));
        assert!(success, "{said}");
        assert_eq!(place.files(), [".c.json.barewire-old", "c.json"], "after {left} kills there were files");
    }
    assert_eq!(place.read("c.json"), before);
}
