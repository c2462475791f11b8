//! The rounds as a table with the targets below it, or both as JSON.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::{BEST_RMCP, CONNECTIONS, CONTENDERS, ERAS, HttpRound};
use crate::harness::contender::{Contender, Role};
use crate::harness::era::Era;
use crate::harness::table::{Target, count, median, micros, ratio, share};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct HttpReport {
    rounds: usize,
    pub(super) rows: Vec<HttpRow>,
    pub(super) streams: Vec<StreamRow>,
    marks: Vec<Target>,
}

/// The results of one contender in one era. Times are in nanoseconds, for one request. A ratio is the median of the
/// ratios to another contender in the same round.
#[derive(Debug, Serialize)]
pub(super) struct HttpRow {
    era: &'static str,
    contender: &'static str,
    cpu: f64,
    cpu_least: f64,
    to_floor: Option<f64>,
    to_best: Option<f64>,
    rate: f64,
    p50: f64,
    p99: f64,
    pub(super) instructions: Option<f64>,
}

/// The memory of an idle stream of one contender.
#[derive(Debug, Serialize)]
pub(super) struct StreamRow {
    era: &'static str,
    contender: &'static str,
    /// `None` if the server has no such streams.
    kib: Option<f64>,
}

impl HttpRow {
    pub(super) fn new(
        era: Era,
        contender: &Contender,
        rounds: &[HttpRound],
        floor: Option<&[HttpRound]>,
        best: Option<&[HttpRound]>,
    ) -> Self {
        let of = |take: fn(&HttpRound) -> f64| median(rounds.iter().map(take).collect()).unwrap_or(f64::NAN);
        let against = |others: Option<&[HttpRound]>| {
            median(rounds.iter().zip(others?).map(|(ours, theirs)| ours.cpu / theirs.cpu).collect())
        };
        Self {
            era: name(era),
            contender: contender.name,
            cpu: of(|round| round.cpu),
            cpu_least: rounds.iter().map(|round| round.cpu).fold(f64::INFINITY, f64::min),
            to_floor: against(floor),
            to_best: against(best),
            rate: of(|round| round.rate),
            p50: of(|round| round.latency.p50),
            p99: of(|round| round.latency.p99),
            instructions: None,
        }
    }
}

impl StreamRow {
    pub(super) fn new(era: Era, contender: &Contender, measured: Vec<Option<f64>>) -> Self {
        let kib = median(measured.into_iter().flatten().collect());
        Self { era: name(era), contender: contender.name, kib }
    }
}

fn name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "http-legacy",
        Era::Modern => "http-modern",
    }
}

impl HttpReport {
    pub(super) fn new(rounds: usize) -> Self {
        Self { rounds, rows: Vec::new(), streams: Vec::new(), marks: Vec::new() }
    }

    fn row(&self, era: Era, contender: &Contender) -> Option<&HttpRow> {
        self.rows.iter().find(|row| row.era == name(era) && row.contender == contender.name)
    }

    fn stream(&self, era: Era, contender: &Contender) -> Option<f64> {
        let of = |row: &&StreamRow| row.era == name(era) && row.contender == contender.name;
        self.streams.iter().find(of)?.kib
    }

    /// Fills in the targets from the rows.
    pub(super) fn judge(&mut self) {
        let letter = |of: fn(&Contender) -> bool| CONTENDERS.iter().find(|one| of(one)).map_or('?', |one| one.letter);
        let (a, e) = (letter(|one| one.role == Role::Floor), letter(|one| one.name == BEST_RMCP));
        let floor = CONTENDERS.iter().find(|one| one.role == Role::Floor);
        let mut marks = Vec::new();
        for ours in CONTENDERS.iter().filter(|one| one.role == Role::Ours) {
            let b = ours.letter;
            for era in ERAS {
                let row = self.row(era, ours);
                let mut mark = |what: String, found, most, unit| marks.push(Target { what, found, most, unit });
                let era_name = name(era);
                let to_floor = row.and_then(|row| row.to_floor);
                mark(format!("({b}) / ({a}) {era_name} CPU"), to_floor, Some(MAX_RATIO_TO_FLOOR), "");
                let to_best = row.and_then(|row| row.to_best);
                mark(format!("({b}) / ({e}) {era_name} CPU"), to_best, Some(MAX_RATIO_TO_BEST), "");
                let stream = self.stream(era, ours);
                mark(format!("({b}) {era_name} idle stream"), stream, Some(MAX_STREAM_KIB), " KiB");
                let less = floor.and_then(|floor| Some(stream? - self.stream(era, floor)?));
                mark(format!("({b}) - ({a}) {era_name} idle stream"), less, None, " KiB");
            }
        }
        self.marks = marks;
    }
}

impl Display for HttpReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rounds = self.rounds;
        writeln!(
            f,
            "One request over HTTP, {CONNECTIONS} connections, servers on one thread, median of {rounds} rounds in turns."
        )?;
        for contender in &CONTENDERS {
            writeln!(f, "  {:<23}{}", contender.title(), contender.what)?;
        }
        writeln!(
            f,
            "\n{:<25} {:>10} {:>10} {:>6} {:>6} {:>9} {:>12} {:>12} {:>12} {:>6}",
            "", "CPU", "least", "x(a)", "x(e)", "a second", "p50", "p99", "instructions", "x(a)"
        )?;
        for era in ERAS {
            writeln!(f, "{}", name(era))?;
            let floor = CONTENDERS.iter().find(|one| one.role == Role::Floor);
            let floor = floor.and_then(|floor| self.row(era, floor)?.instructions);
            for (contender, row) in CONTENDERS.iter().filter_map(|one| Some((one, self.row(era, one)?))) {
                let line = format!(
                    "  {:<23} {:>10} {:>10} {:>6} {:>6} {:>9.0} {:>12} {:>12} {:>12} {:>6}",
                    contender.title(),
                    micros(Some(row.cpu)),
                    micros(Some(row.cpu_least)),
                    ratio(row.to_floor),
                    ratio(row.to_best),
                    row.rate,
                    micros(Some(row.p50)),
                    micros(Some(row.p99)),
                    count(row.instructions),
                    ratio(share(row.instructions, floor)),
                );
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        writeln!(f, "\nmemory of the server for one idle stream, with its session in the legacy era")?;
        for era in ERAS {
            writeln!(f, "{}", name(era))?;
            for row in self.streams.iter().filter(|row| row.era == name(era)) {
                let kib = row.kib.map_or("no streams".to_owned(), |kib| format!("{kib:.1} KiB"));
                writeln!(f, "  {:<23} {kib:>10}", row.contender)?;
            }
        }
        writeln!(f)?;
        self.marks.iter().try_for_each(|mark| writeln!(f, "{mark}"))
    }
}

/// The targets for the CPU time, relative to the floor and to the fastest server of the official SDK.
const MAX_RATIO_TO_FLOOR: f64 = 1.6;
const MAX_RATIO_TO_BEST: f64 = 0.6;

/// The target for the memory of an idle stream, in KiB.
const MAX_STREAM_KIB: f64 = 20.0;
