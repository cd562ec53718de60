//! One picture per workload: bars with whiskers from the minimum to the maximum, one panel per unit.
//!
//! Ground rules:
//!
//! * Metrics that are only reported are not drawn; the table has them.
//! * A panel whose values lie far apart has a logarithmic axis: the length of a bar is a logarithm, and the labels show
//!   the values.
//! * Text is SVG text, so no font is needed to draw it.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::catalog::Unit;
use crate::contestant::Contestant;
use crate::summary::{MetricSummary, Summary};

const WIDTH: u32 = 1_000;
const PANEL: u32 = 340;
const TITLE: u32 = 36;
const LEGEND: u32 = 30;
/// Values whose ratio is greater than this are drawn on a logarithmic axis.
const FAR_APART: f64 = 12.0;
/// How much of its place a group of bars fills.
const GROUP: f64 = 0.84;

fn color(contestant: Contestant) -> RGBColor {
    match contestant {
        Contestant::Mainspring => RGBColor(214, 92, 21),
        Contestant::Before => RGBColor(233, 166, 118),
        Contestant::Tokio => RGBColor(52, 101, 164),
        Contestant::Smol => RGBColor(78, 154, 6),
        Contestant::Monoio => RGBColor(117, 80, 123),
        Contestant::MonoioLegacy => RGBColor(173, 127, 168),
        Contestant::Compio => RGBColor(193, 125, 17),
        Contestant::Zruntime => RGBColor(6, 152, 154),
        Contestant::DelayQueue => RGBColor(114, 159, 207),
        Contestant::Timerfd => RGBColor(136, 138, 133),
    }
}

/// Draws the results of one workload into `directory`.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn draw(summary: &Summary, directory: &Path) -> Result<(), String> {
    let path = directory.join(format!("{}.svg", summary.workload.id.name().to_lowercase()));
    let panels = panels(summary);
    if panels.is_empty() {
        return Ok(());
    }
    picture(summary, &panels, &path).map_err(|error| format!("cannot draw {}: {error}", path.display()))
}

/// Returns the metrics to draw, those of one unit together.
fn panels(summary: &Summary) -> Vec<(Unit, Vec<&MetricSummary>)> {
    let mut panels: Vec<(Unit, Vec<&MetricSummary>)> = Vec::new();
    for metric in &summary.metrics {
        if !metric.drawn || metric.entries.is_empty() {
            continue;
        }
        match panels.iter_mut().find(|(unit, _)| *unit == metric.unit) {
            Some((_, metrics)) => metrics.push(metric),
            None => panels.push((metric.unit, vec![metric])),
        }
    }
    panels
}

fn picture(
    summary: &Summary,
    panels: &[(Unit, Vec<&MetricSummary>)],
    path: &Path,
) -> Result<(), Box<dyn Error>> {
    let height = TITLE + LEGEND + PANEL * panels.len() as u32;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{}  {}", summary.workload.id.name(), summary.workload.title);
    let font = ("sans-serif", 17).into_font();
    root.draw(&Text::new(title, (16, 10), font))?;
    let (_, rest) = root.split_vertically(TITLE);
    let (key, rest) = rest.split_vertically(LEGEND);
    legend(&key, panels)?;
    for (area, (unit, metrics)) in rest.split_evenly((panels.len(), 1)).iter().zip(panels) {
        panel(area, *unit, metrics)?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn legend(area: &Area<'_>, panels: &[(Unit, Vec<&MetricSummary>)]) -> Result<(), Box<dyn Error>> {
    let metrics = || panels.iter().flat_map(|(_, metrics)| metrics);
    let mut left = 70;
    for contestant in Contestant::ALL.iter().chain(&[Contestant::Before]) {
        if !metrics().any(|metric| metric.entry(*contestant).is_some()) {
            continue;
        }
        area.draw(&Rectangle::new([(left, 6), (left + 12, 18)], color(*contestant).filled()))?;
        area.draw(&Text::new(contestant.name(), (left + 17, 5), ("sans-serif", 13)))?;
        left += 34 + 8 * contestant.name().len() as i32;
    }
    Ok(())
}

/// Maps values to places on an axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    logarithmic: bool,
    low: f64,
    high: f64,
}

impl Axis {
    fn of(metrics: &[&MetricSummary]) -> Axis {
        let spreads = || metrics.iter().flat_map(|metric| &metric.entries).map(|entry| entry.spread);
        let most = spreads().map(|spread| spread.most).fold(f64::MIN, f64::max);
        let least = spreads().map(|spread| spread.least).fold(f64::MAX, f64::min);
        if least > 0.0 && most / least > FAR_APART {
            let (low, high) = (least.log10().floor(), most.log10());
            return Axis { logarithmic: true, low, high: high + 0.08 * (high - low) };
        }
        // A cost in percent may be below zero.
        let (low, high) = (least.min(0.0) * 1.1, most.max(0.0) * 1.1);
        Axis { logarithmic: false, low, high: if high > low { high } else { low + 1.0 } }
    }

    fn place(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(f64::MIN_POSITIVE).log10().max(self.low) } else { value }
    }

    fn base(&self) -> f64 {
        if self.logarithmic { self.low } else { 0.0 }
    }

    fn label(&self, place: f64) -> String {
        let value = if self.logarithmic { 10_f64.powf(place) } else { place };
        number(value)
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{}M", value / 1e6),
        large if large >= 1e4 => format!("{}k", (value / 1e2).round() / 10.0),
        middling if middling >= 10.0 => format!("{value:.0}"),
        small if small >= 1.0 || small == 0.0 => format!("{}", (value * 10.0).round() / 10.0),
        _ => format!("{value:.2}"),
    }
}

fn panel(area: &Area<'_>, unit: Unit, metrics: &[&MetricSummary]) -> Result<(), Box<dyn Error>> {
    let axis = Axis::of(metrics);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(16)
        .x_label_area_size(34)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..metrics.len() as f64, axis.low..axis.high)?;
    let scale = if axis.logarithmic { ", logarithmic" } else { "" };
    // On a logarithmic axis, powers of ten have labels, if there are several.
    let ticks = if axis.logarithmic { (axis.high - axis.low).floor().max(1.0) as usize + 1 } else { 6 };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(222, 222, 222))
        .y_labels(ticks)
        .y_label_formatter(&|place| axis.label(*place))
        .y_desc(format!("{}{scale}", unit.name()))
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .draw()?;
    let small = ("sans-serif", 11).into_font().color(&BLACK);
    let above = small.pos(Pos::new(HPos::Center, VPos::Bottom));
    let below = ("sans-serif", 13).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Top));
    for (group, metric) in metrics.iter().enumerate() {
        let width = GROUP / metric.entries.len() as f64;
        let left = group as f64 + (1.0 - GROUP) / 2.0;
        for (place, entry) in metric.entries.iter().enumerate() {
            let (from, to) = (left + place as f64 * width, left + (place as f64 + 0.9) * width);
            let middle = (from + to) / 2.0;
            let at = |value: f64| axis.place(value);
            let spread = entry.spread;
            chart.draw_series([Rectangle::new(
                [(from, axis.base()), (to, at(spread.median))],
                color(entry.contestant).filled(),
            )])?;
            chart.draw_series([PathElement::new(
                [(middle, at(spread.least)), (middle, at(spread.most))],
                BLACK.stroke_width(1),
            )])?;
            for end in [spread.least, spread.most] {
                let (left, right) = (middle - width * 0.15, middle + width * 0.15);
                chart.draw_series([PathElement::new([(left, at(end)), (right, at(end))], BLACK)])?;
            }
            // On thin bars the values would run into each other.
            if width * WIDTH as f64 / metrics.len() as f64 > 26.0 {
                let label = Text::new(number(spread.median), (middle, at(spread.most)), above.clone());
                chart.draw_series([label])?;
            }
        }
        let (x, y) = chart.plotting_area().map_coordinate(&(group as f64 + 0.5, axis.low));
        let (left, top) = area.get_base_pixel();
        area.draw(&Text::new(metric.label.clone(), (x - left, y - top + 8), below.clone()))?;
    }
    Ok(())
}
