//! Help, completions and man pages have every verb and option, and other programs can read them.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn barewire(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null()).output().expect("it runs")
}

fn stdout(args: &[&str]) -> String {
    let output = barewire(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the verbs that `--help` lists.
fn verbs() -> Vec<String> {
    let help = stdout(&["--help"]);
    let name = |line: &str| line.strip_prefix("  ").and_then(|line| line.split(' ').next()).map(str::to_owned);
    let names: Vec<String> = help.lines().filter_map(name).collect();
    assert!(names.len() >= 6 && names.iter().any(|name| name == "read"), "{names:?}");
    names
}

/// Returns the long options in the help of a verb.
fn options(verb: &str) -> BTreeSet<String> {
    let help = stdout(&[verb, "--help"]);
    let all = help.split("\nOptions:\n").nth(1).expect("there is at least --help");
    let named = all.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
    let named = named.filter_map(|line| line.split([' ', ',', '[']).find(|word| word.starts_with("--")));
    let named: BTreeSet<String> = named.map(str::to_owned).collect();
    assert!(named.contains("--help"), "{verb}: {named:?}");
    named
}

#[test]
fn examples_come_before_usage_and_options() {
    let mut pages = Vec::new();
    for verb in verbs() {
        pages.push(stdout(&[&verb, "--help"]));
        pages.push(stdout(&[&verb, "-h"]));
        assert_eq!(stdout(&["help", &verb]), stdout(&[&verb, "--help"]));
    }
    for help in pages {
        let place = |what: &str| help.find(what).unwrap_or_else(|| panic!("no {what} in {help}"));
        assert!(place("\n\nExamples:\n  ") < place("\n\nUsage: barewire"), "{help}");
        assert!(place("\n\nUsage: barewire") < place("\n\nOptions:\n"), "{help}");
        assert_eq!(help.matches("Examples:").count(), 1, "{help}");
        assert!(!help.contains('\x1b'), "colours in a pipe: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn colours_of_the_help_can_be_forced_and_refused() {
    let run = |set: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(set.iter().copied());
        // clap prints one of them, the verb itself the other.
        let help = command.arg("--help").output().expect("it runs").stdout;
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(set.iter().copied());
        let explained = command.args(["explain", "-32601"]).output().expect("it runs").stdout;
        (help.contains(&0x1b), explained.contains(&0x1b))
    };
    assert_eq!(run(&[]), (false, false));
    assert_eq!(run(&[("CLICOLOR_FORCE", "1")]), (true, true));
    assert_eq!(run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), (false, false));
}

#[test]
fn completions_have_every_verb_and_option() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&["completions", shell]);
        for verb in verbs() {
            assert!(script.contains(&verb), "{shell} has no {verb}");
            for option in options(&verb) {
                // fish names them without their dashes.
                let name = if shell == "fish" { option.trim_start_matches("--") } else { &option };
                assert!(script.contains(name), "{shell} has no {option} of {verb}");
            }
        }
    }
}

/// Returns the output of a shell or `man` for a text; `None` if it is not installed.
fn run_tool(program: &str, args: &[&str], text: &str) -> Option<Output> {
    let spawned = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C.UTF-8")
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{program}: {error}"),
    };
    let mut stdin = child.stdin.take().expect("piped");
    let text = text.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    let _ = writer.join();
    Some(output)
}

#[test]
fn shells_parse_the_completions() {
    for (shell, args) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-execute"])] {
        let Some(output) = run_tool(shell, args, &stdout(&["completions", shell])) else { continue };
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    }
}

#[test]
fn bash_completes_a_verb_and_an_option() {
    let ask = |words: &[&str]| {
        let script = stdout(&["completions", "bash"]);
        let line = format!(
            "{script}\nCOMP_WORDS=({}); COMP_CWORD={}; COMP_LINE='{}'; COMP_POINT={}\n\
             _barewire barewire '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1,
            words.join(" "),
            words.join(" ").len(),
            words[words.len() - 1],
            words[words.len() - 2],
        );
        run_tool("bash", &[], &line).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if let Some(verbs) = ask(&["barewire", "exp"]) {
        assert_eq!(verbs, "explain\n");
        assert_eq!(ask(&["barewire", "read", "--max-"]).as_deref(), Some("--max-frame\n--max-depth\n"));
        for option in ["--only", "--skip", "--explain"] {
            assert_eq!(ask(&["barewire", "check", option, "stdout-"]).as_deref(), Some("stdout-purity\n"));
        }
        for verb in ["bench", "call", "serve"] {
            let revisions = ask(&["barewire", verb, "--revision", "2025-1"]);
            assert_eq!(revisions.as_deref(), Some("2025-11-25\n"), "{verb}");
        }
    }
}

/// The completions do not restrict the parser: a bad value has the error message of its verb.
#[test]
fn completions_change_no_error_message() {
    for (args, why) in [
        (&["check", "--explain", "stdout"][..], "barewire: there is no check stdout\n"),
        (&["check", "--only"], "error: a value is required for '--only <ID>' but none was supplied\n\n"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_barewire")).args(args).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.starts_with(why), "{stderr}");
    }
}

#[test]
fn manual_pages_have_every_verb_and_option() {
    let page = stdout(&["man"]);
    for verb in verbs() {
        assert!(page.contains(&format!("barewire\\-{verb}(1)")), "no {verb} in {page}");
        let page = stdout(&["man", &verb]);
        for option in options(&verb) {
            let written = option.replace('-', "\\-");
            assert!(page.contains(&written), "no {option} in the page of {verb}: {page}");
        }
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "OPTIONS"] {
            let (plain, quoted) = (format!("\n.SH {heading}\n"), format!("\n.SH \"{heading}\"\n"));
            assert!(page.contains(&plain) || page.contains(&quoted), "{verb} has no {heading}: {page}");
        }
    }
}

#[test]
fn manual_pages_are_read_without_a_warning() {
    let mut pages = vec![stdout(&["man"])];
    pages.extend(verbs().iter().map(|verb| stdout(&["man", verb])));
    for page in pages {
        if let Some(output) = run_tool("groff", &["-man", "-Tutf8", "-ww", "-rLL=100n", "-P-c", "-P-b", "-P-u"], &page)
        {
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}\n{page}");
            let shown = String::from_utf8_lossy(&output.stdout);
            assert!(shown.contains("EXAMPLES") && shown.contains("barewire"), "{shown}");
        }
        if let Some(output) = run_tool("mandoc", &["-T", "lint", "-W", "error"], &page) {
            assert!(output.status.success(), "{output:?}\n{page}");
        }
    }
}

#[test]
fn a_folder_of_pages() {
    let folder = std::env::temp_dir().join(format!("barewire-man-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    stdout(&["man", "--to", folder.to_str().expect("UTF-8")]);
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("it is there")
        .map(|entry| entry.expect("it is read").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    let mut wanted: Vec<String> = verbs().iter().map(|verb| format!("barewire-{verb}.1")).collect();
    wanted.push("barewire.1".into());
    wanted.sort();
    assert_eq!(names, wanted);
    assert_eq!(std::fs::read_to_string(folder.join("barewire-read.1")).expect("it is read"), stdout(&["man", "read"]));
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let output = barewire(&["man", "--to", folder.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write"), "{output:?}");
}
