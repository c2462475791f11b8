//! Measurements -> text: all figures of a single server, or a table with one column per server.

use std::time::Duration;

use barewire_workbench::load::{Amount, MeasuredServer, ServerDetails, Tally};

use super::{BenchReport, PERCENTILES, micros, ratio};
use crate::Failure;
use crate::output::{Output, Tone, shown, size, took_precisely as time};

pub(super) fn print_one(output: &mut Output, report: &BenchReport<'_>, server: &MeasuredServer) -> Result<(), Failure> {
    head(output, report)?;
    let tally = &server.tally;
    writeln!(output, "{} {}", output.paint(Tone::Strong, &server.name), description(server))?;
    writeln!(output)?;
    writeln!(output, "  requests    {}", counts(tally))?;
    writeln!(output, "  throughput  {} per second", number(tally.throughput()))?;
    let times: Vec<String> = PERCENTILES
        .iter()
        .filter_map(|(name, share)| Some(format!("{name} {}", time(tally.latency.percentile(*share)?))))
        .collect();
    if !times.is_empty() {
        writeln!(output, "  latency     {}", times.join("  "))?;
    }
    if let Some(used) = server.usage {
        let each = server.cpu_per_answer().map_or(String::new(), |each| format!("{} per request, ", time(each)));
        let cpu = match used.cpu {
            Some(cpu) => {
                let seconds = tally.time.as_secs_f64();
                // CPU time is counted in steps of 10 ms, which is too coarse for a short load.
                let cores = (seconds >= 0.1).then(|| format!("{:.2} cores", cpu.as_secs_f64() / seconds));
                let cores = cores.unwrap_or_else(|| time(cpu));
                format!("CPU {each}{cores}")
            }
            None => "CPU too little to measure".to_owned(),
        };
        let processes = match used.at_end.processes {
            1 => String::new(),
            several => format!(" in {several} processes"),
        };
        let (memory, peak) = (size(used.at_end.memory), size(used.at_end.peak_memory));
        writeln!(output, "  server      {cpu}; memory {memory}, peak {peak}{processes}")?;
    }
    if let Some(own) = tally.own_cpu_per_answer() {
        writeln!(output, "  generator   CPU {} per request{}", time(own), lag(tally))?;
    }
    bars(output, tally)?;
    if !server.is_clean() {
        writeln!(output)?;
    }
    problems(output, server, "  ")?;
    foot(output, report)
}

pub(super) fn print_several(output: &mut Output, report: &BenchReport<'_>) -> Result<(), Failure> {
    let servers = report.servers;
    head(output, report)?;
    for server in servers {
        writeln!(output, "{} {}", output.paint(Tone::Strong, &server.name), description(server))?;
    }
    writeln!(output)?;
    let width = |server: &MeasuredServer| server.name.chars().count().max(MIN_COLUMN_WIDTH);
    let mut line = format!("  {:<LABEL_WIDTH$}", "");
    for (at, server) in servers.iter().enumerate() {
        let gap = if at == 0 { "" } else { "        " };
        line = format!("{line}  {:>width$}{gap}", server.name, width = width(server));
    }
    writeln!(output, "{}", line.trim_end())?;
    let mut row = |label: &str, value: &dyn Fn(&MeasuredServer) -> Option<f64>, text: fn(f64) -> String| {
        let mut line = format!("  {label:<LABEL_WIDTH$}");
        for (at, server) in servers.iter().enumerate() {
            let text = value(server).map_or("-".to_owned(), text);
            line = format!("{line}  {text:>width$}", width = width(server));
            if at > 0 {
                let ratio = ratio(value(server), value(&servers[0])).map_or(String::new(), |it| format!("({it:.2})"));
                line = format!("{line} {ratio:>7}");
            }
        }
        writeln!(output, "{}", line.trim_end())
    };
    let as_time = |us| time(Duration::from_secs_f64(us / 1e6));
    row("answers per second", &|server| Some(server.tally.throughput()), number)?;
    for (name, share) in PERCENTILES {
        let latency = |server: &MeasuredServer| server.tally.latency.percentile(share).map(micros);
        row(&format!("latency {name}"), &latency, as_time)?;
    }
    row("server CPU per request", &|server| server.cpu_per_answer().map(micros), as_time)?;
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    row("peak memory", &|server| Some(server.usage?.at_end.peak_memory as f64), |bytes| size(bytes as u64))?;
    row("generator CPU per request", &|server| server.tally.own_cpu_per_answer().map(micros), as_time)?;
    writeln!(output)?;
    for server in servers {
        writeln!(output, "  {}: {}", server.name, counts(&server.tally))?;
        problems(output, server, "    ")?;
    }
    foot(output, report)
}

/// Prints the request and the settings of the load.
fn head(output: &mut Output, report: &BenchReport<'_>) -> Result<(), Failure> {
    let BenchReport { args, settings, servers, .. } = report;
    let mut each: Vec<String> = servers.iter().map(request_name).collect();
    if each.windows(2).any(|pair| pair[0] != pair[1]) {
        for (what, server) in each.iter_mut().zip(*servers) {
            *what = format!("{what} to {}", server.name);
        }
        writeln!(
            output,
            "The servers got different requests, because they share no revision: the ratios are not comparable."
        )?;
    } else {
        each.truncate(1);
    }
    let what = each.join(", ");
    let payload = args.payload.as_ref().map_or(String::new(), |payload| {
        let is_compared = servers.iter().all(|server| server.details.compares_echo);
        let echo = if is_compared { " that each answer must contain" } else { "" };
        format!(", {} of payload{echo}", size(payload.bytes as u64))
    });
    let pace = match settings.rate {
        Some(rate) => format!("{} per second, at most {} in flight", number(rate), settings.in_flight),
        None => format!("{} in flight", settings.in_flight),
    };
    let amount = match settings.amount {
        Amount::Time(time) => format!("for {} s", time.as_secs_f64()),
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

/// Returns the method, and the tool or prompt it names, such as `tools/call echo`.
fn request_name(server: &MeasuredServer) -> String {
    let what = match &server.details.name {
        Some(target) => format!("{} {}", server.details.method, target),
        None => server.details.method.clone(),
    };
    shown(what.as_bytes(), MAX_NAME_LENGTH)
}

/// Returns the name, version, revision and transport of a server.
fn description(server: &MeasuredServer) -> String {
    let ServerDetails { implementation, revision, transport, request_bytes, .. } = &server.details;
    let name = implementation.as_ref().map_or(String::new(), |it| format!("{} {}, ", it.name, it.version));
    let (name, size) = (shown(name.as_bytes(), MAX_NAME_LENGTH), size(*request_bytes as u64));
    format!("({name}MCP {revision} over {transport}, requests of {size})")
}

fn counts(tally: &Tally) -> String {
    let Tally { sent, lost, duplicated, .. } = tally;
    let (answered, wrong) = (tally.good_answers(), tally.wrong_answers());
    let mut text = format!("{sent} sent, {answered} answered, {lost} lost, {duplicated} duplicated, {wrong} wrong");
    if tally.late > 0 {
        text = format!("{text}, {} late", tally.late);
    }
    if tally.unsent > 0 {
        text = format!("{text}; {} more were due and not sent", tally.unsent);
    }
    text
}

/// Returns how late the load generator sent requests, at a fixed rate.
fn lag(tally: &Tally) -> String {
    match (tally.lag.percentile(0.99), tally.lag.max()) {
        (Some(most), Some(max)) => format!("; sent late by p99 {}  max {}", time(most), time(max)),
        _ => String::new(),
    }
}

fn bars(output: &mut Output, tally: &Tally) -> Result<(), Failure> {
    let rows = tally.latency.rows();
    let Some(most) = rows.iter().map(|row| row.1).max().filter(|most| *most > 0) else { return Ok(()) };
    writeln!(output)?;
    let digits = most.to_string().len().max(5);
    let room = output.width().saturating_sub(20 + digits).min(MAX_BAR_WIDTH);
    for (up_to, count) in rows {
        let bar = bar(count, most, room);
        writeln!(output, "  up to {:>7}  {count:>digits$}  {bar}", edge(up_to))?;
    }
    Ok(())
}

/// Returns a bar whose length is proportional to the count. A count above 0 always has a visible bar.
fn bar(count: u64, most: u64, room: usize) -> String {
    let eighths = u128::from(count) * (room as u128) * 8 / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).max(usize::from(count > 0));
    let mut bar = "█".repeat(eighths / 8);
    if let Some(part) = (eighths % 8).checked_sub(1) {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][part]);
    }
    bar
}

/// Prints each kind of wrong answer with an example, and the reason for a disconnect.
fn problems(output: &mut Output, server: &MeasuredServer, indent: &str) -> Result<(), Failure> {
    for (kind, wrong) in &server.tally.wrong {
        let what = format!("{} wrong: {}", wrong.count, kind.description());
        writeln!(output, "{indent}{}", output.paint(Tone::Bad, what))?;
        writeln!(output, "{indent}  first: {}", wrong.first)?;
    }
    if let Some(disconnect) = &server.disconnect {
        writeln!(output, "{indent}{}", output.paint(Tone::Bad, disconnect))?;
    }
    Ok(())
}

fn foot(output: &mut Output, report: &BenchReport<'_>) -> Result<(), Failure> {
    if report.is_stopped {
        writeln!(output, "\n  stopped early")?;
    }
    Ok(())
}

/// Returns the upper limit of a histogram row. Limits are round numbers, so the division is exact.
fn edge(time: Duration) -> String {
    match time.as_nanos() {
        ns if ns < 1_000 => format!("{ns} ns"),
        ns if ns < 1_000_000 => format!("{} us", ns / 1_000),
        ns if ns < 1_000_000_000 => format!("{} ms", ns / 1_000_000),
        ns => format!("{} s", ns / 1_000_000_000),
    }
}

/// Returns a number with commas between groups of three digits, or with one decimal if it is below 100.
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

/// The maximum number of characters of a name, so that it fits on one line.
const MAX_NAME_LENGTH: usize = 60;

/// The width of the row labels, and the minimum width of a column.
const LABEL_WIDTH: usize = 25;
const MIN_COLUMN_WIDTH: usize = 10;

const MAX_BAR_WIDTH: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_times_have_units() {
        assert_eq!([0.5, 99.94, 100.0, 1234.6, 1e6].map(number), ["0.5", "99.9", "100", "1,235", "1,000,000"]);
        let times = [1, 12_345, 123_456, 1_234_567, 999_000_000, 1_500_000_000].map(Duration::from_nanos);
        assert_eq!(times.map(time), ["0.00 us", "12.3 us", "123 us", "1.23 ms", "999 ms", "1.50 s"]);
    }

    #[test]
    fn a_bar_is_in_proportion_and_never_empty() {
        assert_eq!((bar(4, 8, 4), bar(8, 8, 2)), ("██".to_owned(), "██".to_owned()));
        assert_eq!((bar(1, 1_000_000, 4), bar(0, 8, 4)), ("▏".to_owned(), String::new()));
    }
}
