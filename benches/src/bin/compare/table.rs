//! The table for the terminal, and the one for a page.

use std::fmt::Write;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

use crate::contestant::Contestant;
use crate::document;
use crate::options::Plan;
use crate::rounds::Findings;
use crate::summary::{MetricSummary, Spread, Summary, Verdict};

/// Shown in place of a missing number.
const NONE: &str = "–";
/// The lines of a page between which the table is.
const BEGIN: &str = "<!-- compare: begin -->";
const END: &str = "<!-- compare: end -->";

/// Makes one table for each workload, as wide as it needs to be.
pub(crate) fn terminal(plan: &Plan, summaries: &[Summary], findings: &Findings) -> String {
    let mut text = format!("{}\n", heading(plan, findings));
    for summary in summaries {
        let contestants = entrants(plan, summary);
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        table.set_header(header(&contestants));
        for metric in &summary.metrics {
            table.add_row(row(metric, &contestants, "\n"));
        }
        for column in 1..=figures(&contestants) {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let _ = write!(text, "\n{}  {}\n{table}\n", summary.workload.id.name(), summary.workload.title);
        for line in failures(summary, findings) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = write!(text, "\n{}", score(summaries));
    text
}

/// Makes the same tables for a page.
pub(crate) fn markdown(plan: &Plan, summaries: &[Summary], findings: &Findings) -> String {
    let mut text = format!("{}\n", heading(plan, findings));
    for summary in summaries {
        let contestants = entrants(plan, summary);
        let _ = write!(text, "\n**{}** {}\n\n", summary.workload.id.name(), summary.workload.title);
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let header = header(&contestants);
        text += &line(&header);
        let rule: Vec<_> = (0..header.len())
            .map(|column| {
                if (1..=figures(&contestants)).contains(&column) { "---:" } else { "---" }.to_string()
            })
            .collect();
        text += &line(&rule);
        for metric in &summary.metrics {
            text += &line(&row(metric, &contestants, " "));
        }
        for failure in failures(summary, findings) {
            let _ = write!(text, "\n{failure}\n");
        }
    }
    let _ = write!(text, "\n{}\n", score(summaries));
    text
}

/// Returns `page` with `table` between its marks.
///
/// # Errors
///
/// If the page has no marks, or if they are not in order.
pub(crate) fn between_marks(page: &str, table: &str) -> Result<String, String> {
    let marks = page.find(BEGIN).zip(page.find(END)).filter(|(begin, end)| begin < end);
    let (begin, end) = marks.ok_or_else(|| format!("the page has no lines {BEGIN} and {END}"))?;
    Ok(format!("{}{BEGIN}\n\n{}\n\n{}", &page[..begin], table.trim(), &page[end..]))
}

fn heading(plan: &Plan, findings: &Findings) -> String {
    let rounds = if findings.rounds == 1 { "1 round".into() } else { format!("{} rounds", findings.rounds) };
    let packages: Vec<_> = plan.contestants.iter().filter_map(|one| document::package(*one)).collect();
    format!(
        "{} on {}: a {} run of {rounds}, medians (least–most); less is better.\n{}.",
        document::today(),
        document::machine(),
        plan.scale.name,
        packages.join(", "),
    )
}

/// Returns the contestants that have a figure in the summary.
fn entrants(plan: &Plan, summary: &Summary) -> Vec<Contestant> {
    let has = |one: &Contestant| summary.metrics.iter().any(|metric| metric.entry(*one).is_some());
    plan.contestants.iter().copied().filter(has).collect()
}

fn header(contestants: &[Contestant]) -> Vec<String> {
    let mut cells = vec![String::new()];
    cells.extend(contestants.iter().map(|one| one.name().to_string()));
    if contestants.contains(&Contestant::Before) {
        cells.push("× before".into());
    }
    cells.extend(["× tokio", "× best", "reach", "reached"].map(String::from));
    cells
}

/// Returns how many columns of figures follow the label: those of the contestants, and the ratios.
fn figures(contestants: &[Contestant]) -> usize {
    contestants.len() + 2 + usize::from(contestants.contains(&Contestant::Before))
}

fn row(metric: &MetricSummary, contestants: &[Contestant], between: &str) -> Vec<String> {
    let mut cells = vec![format!("{}, {}", metric.label, metric.unit.name())];
    for contestant in contestants {
        let entry = metric.entry(*contestant);
        cells.push(entry.map_or_else(|| NONE.into(), |entry| spread(&entry.spread, between)));
    }
    let ours = metric.entry(Contestant::Mainspring);
    if contestants.contains(&Contestant::Before) {
        let to_before = ours.and_then(|entry| entry.to_before);
        cells.push(to_before.map_or_else(|| NONE.into(), |ratio| spread(&ratio, between)));
    }
    let ratio = |ratio: Option<Spread>| ratio.map_or_else(|| NONE.into(), |ratio| number(ratio.median));
    cells.push(ratio(ours.and_then(|entry| entry.to_tokio)));
    let to_best = ours.and_then(|entry| entry.to_best).zip(metric.best);
    cells.push(to_best.map_or_else(
        || NONE.into(),
        |(spread, best)| format!("{} ({})", number(spread.median), best.name()),
    ));
    let goals: Vec<_> = metric.verdicts.iter().map(|verdict| verdict.goal.clone()).collect();
    cells.push(goals.join(", "));
    let verdicts: Vec<_> = metric.verdicts.iter().map(word).collect();
    cells.push(verdicts.join(", "));
    cells
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict.reached {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "?",
    }
}

fn spread(spread: &Spread, between: &str) -> String {
    let (least, median, most) = (number(spread.least), number(spread.median), number(spread.most));
    if least == most { median } else { format!("{median}{between}({least}–{most})") }
}

/// Formats a number with three digits, or with all digits before the decimal point if there are more.
fn number(value: f64) -> String {
    match value.abs() {
        small if small < 9.995 => format!("{value:.2}"),
        middling if middling < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn failures(summary: &Summary, findings: &Findings) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mine = findings.failures.iter().filter(|(workload, ..)| *workload == summary.workload.id);
    for (_, contestant, round, message) in mine {
        lines.push(format!("{} failed in round {}: {message}", contestant.name(), round + 1));
    }
    lines
}

fn score(summaries: &[Summary]) -> String {
    let verdicts = || summaries.iter().flat_map(|summary| &summary.metrics).flat_map(|one| &one.verdicts);
    let count = |wanted: Option<bool>| verdicts().filter(|verdict| verdict.reached == wanted).count();
    let untold = match count(None) {
        0 => String::new(),
        untold => format!(", {untold} cannot be told"),
    };
    format!("Of {} things to reach {} are reached{untold}.", verdicts().count(), count(Some(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [0.0, 1.234, 12.34, 123.4, 12_345.0].map(number),
            ["0.00", "1.23", "12.3", "123", "12345"]
        );
        assert_eq!(number(9.999), "10.0");
    }

    #[test]
    fn a_page_keeps_what_is_outside_its_marks() {
        let page = format!("# Title\n{BEGIN}\nold\n{END}\nend\n");
        let text = between_marks(&page, "new").unwrap();
        assert_eq!(text, format!("# Title\n{BEGIN}\n\nnew\n\n{END}\nend\n"));
        assert!(between_marks("no marks", "new").is_err());
        assert!(between_marks(&format!("{END}{BEGIN}"), "new").is_err());
    }
}
