//! `barewire check --host`: runs a client command in which a word stands for the probe, once for each scenario.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barewire::transport::{Child, Stderr, Transport};
use barewire_workbench::capture::{CaptureClock, Redactor};
use barewire_workbench::check::Scenario;
use barewire_workbench::platform::write_private;
use barewire_workbench::probe::{ProbeAtUrl, capture};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::runtime::Builder;

use crate::failure::{report, runtime_failure};
use crate::output::{shown, stderr};
use crate::{Failure, probe_folder};

/// A client command, and the folder for the captures of its probes.
pub(super) struct HostRun<'a> {
    pub(super) command: &'a [OsString],
    pub(super) scenarios: Vec<Scenario>,
    pub(super) folder: PathBuf,
    /// The time limit of all runs of the command together.
    pub(super) timeout: Duration,
    pub(super) redacts: bool,
    pub(super) is_quiet: bool,
}

/// The words of a command that stand for the probe.
const PLACEHOLDERS: [&str; 4] = ["{server}", "{command}", "{config}", "{url}"];

/// Clients that take the path of a configuration file where others take the words of a command line.
const TAKE_CONFIG: [&str; 1] = ["fastmcp"];

impl HostRun<'_> {
    /// Runs the command for each scenario.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let has = |placeholder: &str| self.command.iter().any(|word| word.to_string_lossy().contains(placeholder));
        if !PLACEHOLDERS.iter().any(|placeholder| has(placeholder)) {
            return Err(Failure::new("the command does not say where the probe goes").with_hint(
                "write {server} in place of the server's command line, {command} for it as one text, {config} for a \
                 configuration file, or {url}",
            ));
        }
        probe_folder::create(&self.folder)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| runtime_failure(&error))?;
        let end = Instant::now() + self.timeout;
        runtime.block_on(async {
            for scenario in &self.scenarios {
                let left = end.saturating_duration_since(Instant::now());
                self.run_once(*scenario, has("{url}"), left.min(MAX_RUN)).await?;
            }
            Ok(())
        })
    }

    async fn run_once(&self, scenario: Scenario, uses_url: bool, limit: Duration) -> Result<(), Failure> {
        let server = self.server_words(scenario)?;
        if !uses_url {
            return self.client(scenario, &server, None, limit).await;
        }
        let clock = CaptureClock::start();
        let redactor = if self.redacts { Redactor::knowing([]) } else { Redactor::off() };
        let capture = capture(&self.folder, scenario, clock, redactor)?;
        let probe = ProbeAtUrl::listen("127.0.0.1:0", scenario).await;
        let probe = probe.map_err(|error| Failure::new(format!("cannot listen at 127.0.0.1: {error:?}")))?;
        let url = probe.url();
        let (done, ended) = tokio::sync::oneshot::channel::<()>();
        let client = async {
            let ran = self.client(scenario, &server, Some(&url), limit).await;
            let _ = done.send(());
            ran
        };
        let stop = async {
            let _ = ended.await;
        };
        let (ran, ()) = tokio::join!(client, probe.run((clock, capture), stop, report));
        ran
    }

    /// Returns the command line of the probe.
    fn server_words(&self, scenario: Scenario) -> Result<Vec<OsString>, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find the path of this program: {error}")))?;
        let folder = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let mut words = vec![program.into_os_string()];
        words.extend(["probe", "--scenario", scenario.as_str(), "--folder"].map(OsString::from));
        words.push(folder.into_os_string());
        if !self.redacts {
            words.push("--no-redact".into());
        }
        Ok(words)
    }

    /// Runs the command once, and waits for its end.
    async fn client(
        &self,
        scenario: Scenario,
        server: &[OsString],
        url: Option<&str>,
        limit: Duration,
    ) -> Result<(), Failure> {
        let config = self.folder.join("mcp.json");
        write_config(&config, server, url)?;
        let words = words(self.command, server, &config, url);
        let [program, args @ ..] = words.as_slice() else { return Ok(()) };
        if !self.is_quiet {
            let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            let _ = writeln!(stderr(), "{}: {}", scenario.as_str(), shown(line.as_bytes(), 300));
        }
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let keep = move |line: &[u8]| {
            let mut lines = sink.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(shown(line, 200));
            let extra = lines.len().saturating_sub(SHOWN_LINES);
            lines.drain(..extra);
        };
        let process = Child::new(program).args(args).stderr(Stderr::lines(keep)).spawn();
        let mut parts = process.map_err(Failure::not_started)?.into_parts();
        // The client has no input.
        drop(parts.writer);
        let mut output = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        let read = tokio::time::timeout(limit, async {
            while let Ok(count @ 1..) = parts.reader.read(&mut buffer).await {
                output.extend_from_slice(&buffer[..count]);
                let extra = output.len().saturating_sub(MAX_OUTPUT);
                output.drain(..extra);
            }
        })
        .await;
        drop(parts.reader);
        let exit = match parts.exit {
            Some(exit) => exit.await,
            None => None,
        };
        let how = match (read.is_err(), exit.and_then(|exit| exit.code)) {
            (true, _) => format!("was stopped after {} s", limit.as_secs()),
            (false, Some(0)) => return Ok(()),
            (false, Some(code)) => format!("exited with code {code}"),
            (false, None) => "was ended by a signal".to_owned(),
        };
        if !self.is_quiet {
            let _ = writeln!(stderr(), "{}: the client {how}", scenario.as_str());
            let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            let tail = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| shown(line, 200));
            let tail: Vec<String> = tail.collect();
            for line in tail.iter().rev().take(SHOWN_LINES).rev().chain(lines.iter()) {
                let _ = writeln!(stderr(), "  {line}");
            }
        }
        Ok(())
    }
}

/// Writes a configuration file with the probe as its only server.
fn write_config(path: &Path, server: &[OsString], url: Option<&str>) -> Result<(), Failure> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let entry = match (server, url) {
        (_, Some(url)) => json!({"type": "http", "url": url}),
        ([program, args @ ..], None) => {
            json!({"command": text(program), "args": args.iter().map(text).collect::<Vec<_>>()})
        }
        ([], None) => json!({}),
    };
    let config = json!({"mcpServers": {"barewire-probe": entry}});
    write_private(path, format!("{config:#}\n").as_bytes())
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Replaces the placeholders in a command. A word that is exactly `{server}` becomes the words of the probe's command
/// line; inside a longer word, `{server}` becomes one text that a shell splits into these words, as `{command}` does.
fn words(command: &[OsString], server: &[OsString], config: &Path, url: Option<&str>) -> Vec<OsString> {
    let mut words = Vec::new();
    let takes_config = command
        .first()
        .and_then(|program| Path::new(program).file_name())
        .is_some_and(|name| TAKE_CONFIG.iter().any(|client| name == *client));
    for word in command {
        if word == "{server}" {
            match takes_config {
                true => words.push(config.as_os_str().to_owned()),
                false => words.extend(server.iter().cloned()),
            }
            continue;
        }
        let Some(text) = word.to_str() else {
            words.push(word.clone());
            continue;
        };
        let quoted = server.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let text = text
            .replace("{server}", &quoted)
            .replace("{command}", &quoted)
            .replace("{config}", &config.to_string_lossy());
        words.push(text.replace("{url}", url.unwrap_or_default()).into());
    }
    words
}

/// Quotes a word for a shell.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The maximum time of one run of the client: a client that lists something needs some seconds.
const MAX_RUN: Duration = Duration::from_secs(60);
/// The number of lines of the client's output that are shown if it fails.
const SHOWN_LINES: usize = 5;
/// The number of bytes of the client's output that are kept.
const MAX_OUTPUT: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placeholders_are_replaced() {
        let command = ["c", "{server}", "sh -c \"{server}\"", "--config={config}", "{url}"].map(OsString::from);
        let server = ["/b/barewire", "probe", "--folder", "/a b"].map(OsString::from);
        let words = words(&command, &server, Path::new("/f/mcp.json"), Some("http://x/mcp"));
        let expected = [
            "c",
            "/b/barewire",
            "probe",
            "--folder",
            "/a b",
            "sh -c \"/b/barewire probe --folder '/a b'\"",
            "--config=/f/mcp.json",
            "http://x/mcp",
        ];
        assert_eq!(words, expected.map(OsString::from));
        let command = ["/x/fastmcp", "list", "{server}", "{command}"].map(OsString::from);
        let words = super::words(&command, &server, Path::new("/f/mcp.json"), None);
        let expected = ["/x/fastmcp", "list", "/f/mcp.json", "/b/barewire probe --folder '/a b'"];
        assert_eq!(words, expected.map(OsString::from));
    }
}
