//! What was measured -> a page for people: for one server with all its times, for several a column each.

use std::io::Write;
use std::time::Duration;

use barewire_workbench::load::{Amount, LoadSettings, MeasuredServer, Tally};

use super::super::{Args, Failure};
use super::{PERCENTILES, micros, ratio};
use crate::output::{Output, Tone, shown, size, took_precisely as time};

/// One server.
pub(super) fn one(
    output: &mut Output,
    args: &Args,
    settings: &LoadSettings,
    server: &MeasuredServer,
    stopped: bool,
) -> Result<(), Failure> {
    head(output, args, settings, std::slice::from_ref(server))?;
    let about = who(server);
    let tally = server.tally();
    writeln!(output, "{} {about}", output.paint(Tone::Strong, server.name()))?;
    writeln!(output)?;
    writeln!(output, "  requests    {}", counts(tally))?;
    writeln!(output, "  throughput  {} a second", number(tally.throughput()))?;
    let times: Vec<String> = PERCENTILES
        .iter()
        .filter_map(|(name, share)| Some(format!("{name} {}", time(tally.latency.percentile(*share)?))))
        .collect();
    if !times.is_empty() {
        writeln!(output, "  latency     {}", times.join("  "))?;
    }
    if let Some(used) = server.usage() {
        let each = server.cpu_per_answer().map_or(String::new(), |each| format!("{} a request, ", time(each)));
        let cpu = match used.cpu {
            Some(cpu) => {
                let seconds = tally.time.as_secs_f64();
                // It is counted in steps of 10 ms: in a moment that is no figure.
                let cores = (seconds >= 0.1).then(|| format!("{:.2} cores", cpu.as_secs_f64() / seconds));
                let cores = cores.unwrap_or_else(|| time(cpu));
                format!("CPU {each}{cores}")
            }
            None => "CPU less than can be measured".to_owned(),
        };
        let processes = match used.at_end.processes {
            1 => String::new(),
            several => format!(" in {several} processes"),
        };
        let (memory, peak) = (size(used.at_end.memory), size(used.at_end.peak_memory));
        writeln!(output, "  server      {cpu}; memory {memory}, at most {peak}{processes}")?;
    }
    if let Some(own) = server.tally().own_cpu_per_answer() {
        writeln!(output, "  generator   CPU {} a request{}", time(own), lag(tally))?;
    }
    bars(output, tally)?;
    complaints(output, server, None)?;
    foot(output, stopped)
}

/// Several, side by side.
pub(super) fn several(
    output: &mut Output,
    args: &Args,
    settings: &LoadSettings,
    servers: &[MeasuredServer],
    stopped: bool,
) -> Result<(), Failure> {
    let Some(first) = servers.first() else { return Ok(()) };
    head(output, args, settings, servers)?;
    for server in servers {
        writeln!(output, "{} {}", output.paint(Tone::Strong, server.name()), who(server))?;
    }
    writeln!(output)?;
    let widths: Vec<usize> = servers.iter().map(|server| server.name().chars().count().max(WIDTH)).collect();
    let mut line = format!("  {:<LABEL$}", "");
    for (at, (server, width)) in servers.iter().zip(&widths).enumerate() {
        let gap = if at == 0 { "" } else { "        " };
        line = format!("{line}  {:>width$}{gap}", server.name());
    }
    writeln!(output, "{}", line.trim_end())?;
    type Of<'a> = Box<dyn Fn(&MeasuredServer) -> Option<f64> + 'a>;
    type Shown = fn(f64) -> String;
    let mut rows: Vec<(String, Of<'_>, Shown)> =
        vec![("answers a second".to_owned(), Box::new(|server| Some(server.tally().throughput())), number)];
    let as_time: Shown = |us| time(Duration::from_secs_f64(us / 1e6));
    for (name, share) in PERCENTILES {
        let of = move |server: &MeasuredServer| server.tally().latency.percentile(share).map(micros);
        rows.push((format!("latency {name}"), Box::new(of), as_time));
    }
    rows.push(("server CPU a request".to_owned(), Box::new(|server| server.cpu_per_answer().map(micros)), as_time));
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    rows.push((
        "peak memory".to_owned(),
        Box::new(|server| server.usage().map(|used| used.at_end.peak_memory as f64)),
        |bytes| size(bytes as u64),
    ));
    rows.push((
        "generator CPU a request".to_owned(),
        Box::new(|server| server.tally().own_cpu_per_answer().map(micros)),
        as_time,
    ));
    for (label, of, shown) in rows {
        let mut line = format!("  {label:<LABEL$}");
        for (at, (server, width)) in servers.iter().zip(&widths).enumerate() {
            let text = of(server).map_or("-".to_owned(), shown);
            line = format!("{line}  {text:>width$}");
            if at > 0 {
                let ratio = ratio(of(server), of(first)).map_or(String::new(), |it| format!("({it:.2})"));
                line = format!("{line} {ratio:>7}");
            }
        }
        writeln!(output, "{}", line.trim_end())?;
    }
    writeln!(output)?;
    for server in servers {
        writeln!(output, "  {}: {}", server.name(), counts(server.tally()))?;
        complaints(output, server, Some(server.name()))?;
    }
    foot(output, stopped)
}

/// What was sent, and how.
fn head(output: &mut Output, args: &Args, settings: &LoadSettings, servers: &[MeasuredServer]) -> Result<(), Failure> {
    let mut each: Vec<String> = servers.iter().map(asked).collect();
    if each.windows(2).any(|pair| pair[0] != pair[1]) {
        for (what, server) in each.iter_mut().zip(servers) {
            *what = format!("{what} to {}", server.name());
        }
        writeln!(output, "Not the same request: no other is known to all, so the ratios compare unlike things.")?;
    } else {
        each.truncate(1);
    }
    let what = each.join(", ");
    let payload = args.payload.as_ref().map_or(String::new(), |payload| {
        let is_compared = servers.iter().all(|server| server.details().compares_echo);
        let echo = if is_compared { ", compared with what comes back" } else { "" };
        format!(", {} of payload{echo}", size(payload.bytes as u64))
    });
    let pace = match settings.rate {
        Some(rate) => format!("{} a second, at most {} in flight", number(rate), settings.in_flight),
        None => format!("{} in flight", settings.in_flight),
    };
    let amount = match settings.amount {
        Amount::For(time) => format!("for {} s", time.as_secs_f64()),
        Amount::Count(1) => "once".to_owned(),
        Amount::Count(count) => format!("{count} times"),
    };
    let warm_up = match settings.warm_up {
        Duration::ZERO => String::new(),
        time => format!(" after {} s of warm-up", time.as_secs_f64()),
    };
    writeln!(output, "{what}{payload}; {pace}, {amount}{warm_up}")?;
    Ok(())
}

/// `tools/call echo`
fn asked(server: &MeasuredServer) -> String {
    let what = match &server.details().name {
        Some(target) => format!("{} {}", server.details().method, target),
        None => server.details().method.clone(),
    };
    shown(what.as_bytes(), LONGEST)
}

/// The server, as it calls itself.
fn who(server: &MeasuredServer) -> String {
    let about = server.details();
    let server = about.implementation.as_ref().map_or(String::new(), |info| {
        let name = format!("{} {}, ", info.name, info.version);
        shown(name.as_bytes(), LONGEST)
    });
    format!(
        "({server}MCP {} over {}, requests of {})",
        about.revision,
        about.transport,
        size(about.request_bytes as u64)
    )
}

fn counts(tally: &Tally) -> String {
    let mut text = format!(
        "{} sent, {} answered, {} lost, {} duplicated, {} wrong",
        tally.sent,
        tally.good_answers(),
        tally.lost,
        tally.duplicated,
        tally.wrong_answers(),
    );
    if tally.late > 0 {
        text = format!("{text}, {} late", tally.late);
    }
    if tally.unsent > 0 {
        text = format!("{text}; {} more were due and not sent", tally.unsent);
    }
    text
}

/// How late we were ourselves.
fn lag(tally: &Tally) -> String {
    match (tally.lag.percentile(0.99), tally.lag.max()) {
        (Some(most), Some(max)) => format!("; it sent late by p99 {}  max {}", time(most), time(max)),
        _ => String::new(),
    }
}

fn bars(output: &mut Output, tally: &Tally) -> Result<(), Failure> {
    let rows = tally.latency.rows();
    let Some(most) = rows.iter().map(|row| row.1).max().filter(|most| *most > 0) else { return Ok(()) };
    writeln!(output)?;
    let digits = most.to_string().len().max(5);
    let room = output.width().saturating_sub(20 + digits).min(BAR);
    for (up_to, count) in rows {
        let bar = bar(count, most, room);
        writeln!(output, "  up to {:>7}  {count:>digits$}  {bar}", edge(up_to))?;
    }
    Ok(())
}

/// A bar as long as its count against the largest; what there is of it can be seen.
fn bar(count: u64, most: u64, room: usize) -> String {
    let eighths = u128::from(count) * (room as u128) * 8 / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).max(usize::from(count > 0));
    let mut bar = "█".repeat(eighths / 8);
    if let Some(part) = (eighths % 8).checked_sub(1) {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][part]);
    }
    bar
}

/// What is wrong, and an example of it.
fn complaints(output: &mut Output, server: &MeasuredServer, name: Option<&str>) -> Result<(), Failure> {
    let tally = server.tally();
    let indent = if name.is_some() { "    " } else { "  " };
    if !server.is_clean() && name.is_none() {
        writeln!(output)?;
    }
    for (wrong, example) in &tally.wrong {
        let what = format!("{} wrong: {}", example.count, wrong.description());
        writeln!(output, "{indent}{}", output.paint(Tone::Bad, what))?;
        writeln!(output, "{indent}  the first: {}", example.first)?;
    }
    if let Some(broken) = server.broken() {
        writeln!(output, "{indent}{}", output.paint(Tone::Bad, broken))?;
    }
    Ok(())
}

fn foot(output: &mut Output, stopped: bool) -> Result<(), Failure> {
    if stopped {
        writeln!(output, "\n  stopped before its time")?;
    }
    Ok(())
}

/// One of the round times between two rows.
fn edge(time: Duration) -> String {
    match time.as_nanos() {
        ns if ns < 1_000 => format!("{ns} ns"),
        ns if ns < 1_000_000 => format!("{} us", ns / 1_000),
        ns if ns < 1_000_000_000 => format!("{} ms", ns / 1_000_000),
        ns => format!("{} s", ns / 1_000_000_000),
    }
}

/// A number, with commas if it is large.
fn number(number: f64) -> String {
    if number < 100.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// As much of a name as fits a line.
const LONGEST: usize = 60;

/// Of the names of rows, and of a column at the least.
const LABEL: usize = 24;
const WIDTH: usize = 10;

/// Longer bars say no more.
const BAR: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_people_write_them() {
        assert_eq!([0.5, 99.94, 100.0, 1234.6, 1e6].map(number), ["0.5", "99.9", "100", "1,235", "1,000,000"]);
        let times = [1, 12_345, 123_456, 1_234_567, 999_000_000, 1_500_000_000].map(Duration::from_nanos);
        assert_eq!(times.map(time), ["0.00 us", "12.3 us", "123 us", "1.23 ms", "999 ms", "1.50 s"]);
    }

    #[test]
    fn a_bar_is_in_proportion_and_never_nothing() {
        assert_eq!((bar(4, 8, 4), bar(8, 8, 2)), ("██".to_owned(), "██".to_owned()));
        assert_eq!((bar(1, 1_000_000, 4), bar(0, 8, 4)), ("▏".to_owned(), String::new()));
    }
}
