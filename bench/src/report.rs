//! Figures with their promised limits, as a table for people and as JSON.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::machine::MachineInfo;
use crate::sample::Spread;

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    name: String,
    measured: f64,
    unit: &'static str,
    /// The quartiles, if several rounds were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    quartiles: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<bool>,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, measured: f64, unit: &'static str) -> Figure {
        Figure { name: name.into(), measured, unit, quartiles: None, bound: None, holds: None }
    }

    /// Creates a figure from the median of several rounds.
    pub(crate) fn spread(name: impl Into<String>, spread: Spread, unit: &'static str) -> Figure {
        Figure { quartiles: Some((spread.low, spread.high)), ..Figure::new(name, spread.median, unit) }
    }

    #[must_use]
    pub(crate) fn at_least(self, bound: f64) -> Figure {
        Figure { bound: Some(Bound::AtLeast(bound)), holds: Some(self.measured >= bound), ..self }
    }

    #[must_use]
    pub(crate) fn at_most(self, bound: f64) -> Figure {
        Figure { bound: Some(Bound::AtMost(bound)), holds: Some(self.measured <= bound), ..self }
    }

    fn cells(&self) -> [String; 4] {
        let spread = self.quartiles.map(|(low, high)| format!(" ({} to {})", number(low), number(high)));
        let measured = format!("{} {}{}", number(self.measured), self.unit, spread.unwrap_or_default());
        let bound = match self.bound {
            Some(Bound::AtLeast(bound)) => format!("{} {}", number(bound), self.unit),
            Some(Bound::AtMost(bound)) => format!("at most {} {}", number(bound), self.unit),
            None => String::new(),
        };
        let holds = match self.holds {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "",
        };
        [self.name.clone(), measured.trim_end().to_owned(), bound.trim_end().to_owned(), holds.to_owned()]
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        middle if middle >= 0.1 || middle == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

#[derive(Serialize)]
struct Saved<'a> {
    machine: &'a MachineInfo,
    figures: &'a [Figure],
}

impl Report {
    pub(crate) fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// A table in Markdown, aligned so that it reads well in a terminal, too.
    pub(crate) fn table(&self) -> String {
        let head = ["figure", "measured", "at least", "ok?"].map(str::to_owned);
        let rows: Vec<[String; 4]> = std::iter::once(head).chain(self.figures.iter().map(Figure::cells)).collect();
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        let line = |row: &[String; 4]| {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let rule = format!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"));
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.insert(1, rule);
        lines.join("\n")
    }

    /// Writes the figures beside earlier ones, and returns the name of the file.
    pub(crate) fn save(&self, folder: &Path, machine: &MachineInfo) -> anyhow::Result<String> {
        std::fs::create_dir_all(folder)?;
        let name = format!("{}-{}.json", machine.date.replace([':', '-'], ""), machine.commit);
        let mut text = serde_json::to_string_pretty(&Saved { machine, figures: &self.figures })?;
        text.push('\n');
        std::fs::write(folder.join(&name), text).context("cannot write the results")?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_say_whether_they_hold() {
        let figures = [
            Figure::new("share", 61.0, "%").at_least(60.0),
            Figure::new("p50", 2.5, "ms").at_most(2.0),
            Figure::new("floor", 0.04, "ms"),
        ];
        let mut report = Report::default();
        figures.into_iter().for_each(|figure| report.add(figure));
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[2], "| share  | 61.0 %    | 60.0 %          | ok     |");
        assert_eq!(lines[3], "| p50    | 2.50 ms   | at most 2.00 ms | MISSED |");
        assert!(lines[4].starts_with("| floor  | 0.0400 ms |"));
    }
}
