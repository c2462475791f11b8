//! The figures of a wire -> a page of text.

use std::io;
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use super::collect::last_request;
use super::figures::{FailureKind, MethodFigures, Summary};
use crate::output::{Output, Tone, shown, size, took};
use crate::read::plural;
use barewire_workbench::operations::Participant;
use barewire_workbench::rows::title;

pub(super) fn write(output: &mut Output, summary: &Summary) -> io::Result<()> {
    participants(output, summary)?;
    traffic(output, summary)?;
    operations(output, summary)?;
    methods(output, summary)?;
    slowest(output, summary)?;
    failures(output, summary)?;
    unanswered(output, summary)
}

fn fact(output: &mut Output, name: &str, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let name = output.paint(Tone::Faint, format_args!("{name:<13}"));
    writeln!(output, "{name} {text}")
}

fn heading(output: &mut Output, text: &str) -> io::Result<()> {
    let text = output.paint(Tone::Strong, text);
    writeln!(output, "\n{text}")
}

fn participants(output: &mut Output, summary: &Summary) -> io::Result<()> {
    let names = |all: &[Participant]| {
        let one = |it: &Participant| {
            format!("{} {}", shown(it.name.as_bytes(), 40), shown(it.version.as_bytes(), 20)).trim_end().to_owned()
        };
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    fact(output, "client", &names(&summary.clients))?;
    fact(output, "server", &names(&summary.servers))?;
    let version = |(version, era): &(String, Option<&str>)| {
        let version = shown(version.as_bytes(), 20);
        era.map_or(version.clone(), |era| format!("{version} ({era})"))
    };
    let versions: Vec<_> = summary.versions.iter().map(version).collect();
    fact(output, "revision", &versions.join(", "))?;
    let started = summary.started.as_ref().map(|started| format!("began {}", shown(started.as_bytes(), 40)));
    let span = summary.span.map(|(first, last)| format!("{} from first to last", took(last.saturating_sub(first))));
    let time: Vec<_> = span.into_iter().chain(started).collect();
    fact(output, "time", &time.join(", "))?;
    if summary.conversations > 1 {
        fact(output, "conversations", &summary.conversations.to_string())?;
    }
    Ok(())
}

fn traffic(output: &mut Output, summary: &Summary) -> io::Result<()> {
    if summary.has_directions {
        for (name, figures) in ["to server", "to client"].iter().zip(&summary.directions) {
            let kinds: Vec<_> = figures.kinds.iter().map(|(kind, count)| plural(*count, kind)).collect();
            let kinds =
                kinds.join(", ").replace("batchs", "batches").replace("invalids", "invalid").replace("cuts", "cut");
            let frames = plural(figures.frames.count, "frame");
            fact(output, name, &format!("{frames}, {}: {kinds}", size(figures.frames.bytes)))?;
        }
    } else {
        let (count, bytes) = (summary.frames, summary.directions.iter().map(|figures| figures.frames.bytes).sum());
        fact(output, "frames", &format!("{}, {}; directions are guessed", plural(count, "frame"), size(bytes)))?;
    }
    let stderr = &summary.stderr;
    if stderr.count > 0 {
        fact(output, "stderr", &format!("{}, {}", plural(stderr.count, "line"), size(stderr.bytes)))?;
    }
    let statuses: Vec<_> = summary.statuses.iter().map(|(status, count)| format!("{status} {count} times")).collect();
    fact(output, "HTTP", &statuses.join(", ").replace(" 1 times", " once"))?;
    fact(output, "exit", &summary.exits.join(", ").replace("exit code", "code"))
}

fn operations(output: &mut Output, summary: &Summary) -> io::Result<()> {
    let rounds: Vec<_> = summary
        .rounds
        .iter()
        .filter(|(rounds, _)| **rounds > 1)
        .map(|(rounds, count)| format!("{count} of {rounds} rounds"))
        .collect();
    let trips = plural(summary.round_trips, "round trip");
    let rounds = if rounds.is_empty() { String::new() } else { format!(" ({})", rounds.join(", ")) };
    fact(output, "operations", &format!("{} in {trips}{rounds}", summary.operations))?;
    let counts = [
        (summary.failures.values().map(|failure| failure.count).sum(), "failed"),
        (summary.unanswered, "unanswered"),
        (summary.cancelled, "cancelled"),
        (summary.late, "answered late"),
        (summary.second_answers, "answered twice"),
        (summary.unsolicited, "unsolicited"),
        (summary.ids_in_use, "with an id in use"),
        (summary.invalid(), "invalid"),
        (summary.cut(), "cut"),
        (summary.progress, "progress"),
    ];
    let counts: Vec<_> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    fact(output, "of note", &counts.join(", "))
}

fn methods(output: &mut Output, summary: &Summary) -> io::Result<()> {
    if summary.methods.is_empty() {
        return Ok(());
    }
    let mut all: Vec<_> = summary.methods.iter().collect();
    all.sort_by_key(|(method, figures)| (std::cmp::Reverse(figures.asked), (*method).clone()));
    let more = all.len().saturating_sub(MAX_ROWS);
    all.truncate(MAX_ROWS);
    let name = |method: &str| if method.is_empty() { "(none)".to_owned() } else { shown(method.as_bytes(), 40) };
    let width = all.iter().map(|(method, _)| name(method).width()).max().unwrap_or(0).max("method".len());
    heading(output, &format!("{:<width$}  asked  failed       p50       p95       max", "method"))?;
    for (method, figures) in all {
        let latency = |time: Option<Duration>| format!("{:>9}", time.map_or("-".into(), took));
        let MethodFigures { asked, failed, latencies, .. } = figures;
        let (p50, p95) = (latency(latencies.percentile(50)), latency(latencies.percentile(95)));
        let method = name(method);
        let space = " ".repeat(width - method.width());
        let failed = if *failed == 0 { "-".to_owned() } else { failed.to_string() };
        let max = latency(latencies.max());
        writeln!(output, "{method}{space}  {asked:>5}  {failed:>6} {p50} {p95} {max}")?;
    }
    if more > 0 {
        writeln!(output, "and {more} more: --json has them all")?;
    }
    Ok(())
}

fn slowest(output: &mut Output, summary: &Summary) -> io::Result<()> {
    if summary.slowest.is_empty() {
        return Ok(());
    }
    heading(output, "slowest")?;
    for (waited, operation) in summary.slowest.iter().take(5) {
        let title = title(&operation.method, operation.name.as_deref());
        write!(output, "{:>9}  frame {:<6} {title}", took(*waited), operation.asked().frame)?;
        if operation.rounds.len() > 1 {
            let total = operation.latency().map_or(String::new(), |total| format!(", {} in all", took(total)));
            write!(output, "  {} rounds{total}", operation.rounds.len())?;
        }
        writeln!(output)?;
    }
    Ok(())
}

fn failures(output: &mut Output, summary: &Summary) -> io::Result<()> {
    if summary.failures.is_empty() {
        return Ok(());
    }
    heading(output, "failures")?;
    let mut all: Vec<_> = summary.failures.iter().collect();
    all.sort_by_key(|(_, failure)| (std::cmp::Reverse(failure.count), failure.frame));
    for (key, failure) in all.iter().take(MAX_ROWS) {
        let message = key.message.as_deref().map_or(String::new(), |message| shown(message.as_bytes(), 40));
        let kind = match key.kind {
            FailureKind::Code(code) => format!("{code} {message}"),
            FailureKind::IsError => "isError".to_owned(),
            FailureKind::Status(status) => format!("HTTP {status}"),
            FailureKind::Unreadable => "invalid response".to_owned(),
            FailureKind::Any => String::new(),
        };
        let (times, title) = (format!("{}x", failure.count), title(&key.method, key.name.as_deref()));
        let line = format!("{times:>9}  frame {:<6} {title}  {kind}", failure.frame);
        writeln!(output, "{}", line.trim_end())?;
    }
    if let more @ 1.. = all.len().saturating_sub(MAX_ROWS) {
        writeln!(output, "and {more} more: --json has them all")?;
    }
    Ok(())
}

fn unanswered(output: &mut Output, summary: &Summary) -> io::Result<()> {
    if summary.unanswered == 0 {
        return Ok(());
    }
    heading(output, "unanswered")?;
    for operation in &summary.unanswered_first {
        let asked = last_request(operation);
        let time = asked.time.map_or(String::new(), |time| format!("{:.3} s", time.as_secs_f64()));
        let title = title(&operation.method, operation.name.as_deref());
        writeln!(output, "{time:>9}  frame {:<6} {title}", asked.frame)?;
    }
    let more = summary.unanswered - summary.unanswered_first.len() as u64;
    if more > 0 {
        writeln!(output, "and {more} more: barewire read --unanswered shows them")?;
    }
    Ok(())
}

/// The maximum number of rows in a table: as many as fit on a screen.
const MAX_ROWS: usize = 30;
