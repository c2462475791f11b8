//! The rounds as one table, the marks under it, or both as JSON.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::contender::{CONTENDERS, Contender, FLOOR, OURS, THEIRS};
use super::measure::Round;
use super::workload::{LARGE, Likeness, MEDIUM, PING_PONG, SMALL, WORKLOADS, Workload};

/// What a run has found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) idle: Vec<Idle>,
    pub(crate) marks: Vec<Mark>,
}

/// One contender under one workload. Times are in nanoseconds and for one request; a ratio is the median of the ratios to
/// the floor of the same round.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    workload: &'static str,
    contender: &'static str,
    cpu: f64,
    cpu_least: f64,
    cpu_ratio: Option<f64>,
    p50: Option<f64>,
    p50_ratio: Option<f64>,
    p99: Option<f64>,
    same_bytes: bool,
    pub(crate) instructions: Option<f64>,
}

/// Resident memory of a server that does nothing.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    pub(crate) contender: &'static str,
    pub(crate) resident_kib: u64,
}

/// Something one of ours must not exceed, or a distance that is only told.
#[derive(Debug, Serialize)]
pub(crate) struct Mark {
    what: String,
    found: Option<f64>,
    most: Option<f64>,
    unit: &'static str,
    /// Why nothing was found, if nothing was.
    #[serde(skip)]
    absence: &'static str,
}

impl Row {
    pub(crate) fn new(
        workload: &Workload,
        contender: &Contender,
        rounds: &[Round],
        floor: Option<&[Round]>,
    ) -> Self {
        let of = |take: fn(&Round) -> Option<f64>| median(rounds.iter().filter_map(take).collect());
        let ratio = |take: fn(&Round) -> Option<f64>| {
            let pairs = rounds.iter().zip(floor?);
            median(pairs.filter_map(|(ours, floor)| Some(take(ours)? / take(floor)?)).collect())
        };
        let cpu = |round: &Round| Some(round.cpu);
        let p50 = |round: &Round| Some(round.latency?.p50);
        Self {
            workload: workload.name,
            contender: contender.name,
            cpu: of(cpu).expect("there is at least one round"),
            cpu_least: rounds.iter().map(|round| round.cpu).fold(f64::INFINITY, f64::min),
            cpu_ratio: ratio(cpu),
            p50: of(p50),
            p50_ratio: ratio(p50),
            p99: of(|round| Some(round.latency?.p99)),
            same_bytes: rounds.iter().all(|round| round.likeness == Likeness::Bytes),
            instructions: None,
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Report {
    fn row(&self, workload: &Workload, contender: &Contender) -> Option<&Row> {
        self.rows.iter().find(|row| row.workload == workload.name && row.contender == contender.name)
    }

    fn idle(&self, contender: &Contender) -> Option<f64> {
        let idle = self.idle.iter().find(|idle| idle.contender == contender.name)?;
        Some(idle.resident_kib as f64 / 1024.0)
    }

    /// Fills in the marks from the rows.
    pub(crate) fn judge(&mut self) {
        for ours in OURS {
            self.marks.extend(self.marks_of(ours));
        }
        for ours in OURS {
            self.marks.extend(self.distances_of(ours));
        }
    }

    fn marks_of(&self, ours: &Contender) -> Vec<Mark> {
        let cpu = |workload: &Workload| self.row(workload, ours).and_then(|row| row.cpu_ratio);
        let against = |what: &str| format!("({}) / ({}) {what}", ours.letter, FLOOR.letter);
        let absence = absence(ours);
        let mark = |what, found, most, unit| Mark { what, found, most: Some(most), unit, absence };
        vec![
            mark(against("pipelined 64 B CPU"), cpu(SMALL), 1.5, ""),
            mark(
                against("ping-pong 64 B p50"),
                self.row(PING_PONG, ours).and_then(|row| row.p50_ratio),
                1.5,
                "",
            ),
            mark(against("pipelined 4 KiB CPU"), cpu(MEDIUM), 1.2, ""),
            mark(against("pipelined 1 MiB CPU"), cpu(LARGE), 1.2, ""),
            mark(format!("({}) idle memory", ours.letter), self.idle(ours), 3.0, " MiB"),
        ]
    }

    /// How much more the others need, by their medians.
    fn distances_of(&self, ours: &Contender) -> Vec<Mark> {
        let mut marks = Vec::new();
        for (theirs, workload) in THEIRS.iter().flat_map(|theirs| WORKLOADS.iter().map(move |w| (theirs, w)))
        {
            let (Some(our), Some(their)) = (self.row(workload, ours), self.row(workload, theirs)) else {
                continue;
            };
            let what = format!("({}) / ({}) {}", theirs.letter, ours.letter, workload.name);
            let (what, found) = match (our.p50, their.p50) {
                (Some(our), Some(their)) => (what + " p50", their / our),
                _ => (what + " CPU", their.cpu / our.cpu),
            };
            marks.push(Mark { what, found: Some(found), most: None, unit: "", absence: "" });
        }
        marks
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let a = FLOOR.letter;
        writeln!(f, "One request, median of {} rounds in turns; x({a}) is against the floor.", self.rounds)?;
        for contender in &CONTENDERS {
            writeln!(f, "  {:<18}{}", contender.title(), contender.what)?;
        }
        let ratio = format!("x({a})");
        writeln!(
            f,
            "\n{:<19} {:>10} {:>10} {ratio:>7} {:>10} {ratio:>7} {:>10} {:>12} {ratio:>7}",
            "", "CPU", "least", "p50", "p99", "instructions"
        )?;
        for workload in &WORKLOADS {
            writeln!(f, "{}", workload.name)?;
            let floor = self.row(workload, FLOOR).and_then(|row| row.instructions);
            for contender in &CONTENDERS {
                let row = self.row(workload, contender);
                let star = if row.is_some_and(|row| !row.same_bytes) { "*" } else { "" };
                write!(f, "  {:<17} ", contender.title() + star)?;
                match row {
                    Some(row) => row.write(f, floor)?,
                    None => writeln!(f, "{:>10}", absence(contender))?,
                }
            }
        }
        writeln!(f, "idle, resident")?;
        for contender in &CONTENDERS {
            write!(f, "  {:<17} ", contender.title())?;
            match self.idle(contender) {
                Some(mib) => writeln!(f, "{:>10}", format!("{mib:.2} MiB"))?,
                None => writeln!(f, "{:>10}", absence(contender))?,
            }
        }
        if self.rows.iter().any(|row| !row.same_bytes) {
            writeln!(f, "* in another order or with other members, with the same ids and texts")?;
        }
        writeln!(f)?;
        self.marks.iter().try_for_each(|mark| writeln!(f, "{mark}"))
    }
}

fn absence(contender: &Contender) -> &'static str {
    if contender.built { "left out" } else { "not built" }
}

impl Row {
    fn write(&self, f: &mut Formatter<'_>, floor_instructions: Option<f64>) -> fmt::Result {
        let instructions_ratio = self.instructions.zip(floor_instructions).map(|(ours, floor)| ours / floor);
        let line = format!(
            "{:>10} {:>10} {:>7} {:>10} {:>7} {:>10} {:>12} {:>7}",
            micros(Some(self.cpu)),
            micros(Some(self.cpu_least)),
            ratio(self.cpu_ratio),
            micros(self.p50),
            ratio(self.p50_ratio),
            micros(self.p99),
            self.instructions.map_or(String::new(), |count| format!("{count:.0}")),
            ratio(instructions_ratio),
        );
        writeln!(f, "{}", line.trim_end())
    }
}

impl Display for Mark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { what, found, most, unit, absence } = self;
        match (found, most) {
            (Some(found), Some(most)) => {
                let verdict = if found <= most { "holds" } else { "MISSED" };
                write!(f, "{what}: {found:.2}{unit} (mark {most}{unit}) {verdict}")
            }
            (Some(found), None) => write!(f, "{what}: {found:.2}{unit}"),
            (None, Some(most)) => write!(f, "{what}: {absence} (mark {most}{unit})"),
            (None, None) => write!(f, "{what}: {absence}"),
        }
    }
}

fn micros(nanos: Option<f64>) -> String {
    nanos.map_or(String::new(), |nanos| format!("{:.2} us", nanos / 1000.0))
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))
}
