//! The percentiles as an SVG picture.
//!
//! Ground rules:
//!
//! * Both axes are logarithmic. On the horizontal axis all nines are equally wide: 90 %, 99 %, 99.9 %. On the vertical axis all
//!   powers of ten are equally high. So one request in ten thousand, and a microsecond, can still be seen.
//! * The picture needs nothing else: no font, no script and no style sheet.

use hdrhistogram::Histogram;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

const SIZE: (u32, u32) = (800, 420);
const COLORS: [RGBColor; 3] = [RGBColor(192, 57, 43), RGBColor(36, 113, 163), RGBColor(125, 139, 153)];

/// Draws curves of nanoseconds, each with its name. Empty curves have a name only.
///
/// # Errors
///
/// If the curves cannot be drawn.
pub(crate) fn picture(title: &str, curves: &[(&str, &Histogram<u64>)]) -> Result<String, String> {
    let mut svg = String::new();
    draw(SVGBackend::with_string(&mut svg, SIZE), title, curves)
        .map_err(|error| format!("cannot draw a picture: {error}"))?;
    Ok(svg)
}

fn draw<B: DrawingBackend>(
    backend: B,
    title: &str,
    curves: &[(&str, &Histogram<u64>)],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let all = || curves.iter().map(|(_, histogram)| histogram).filter(|histogram| !histogram.is_empty());
    // Powers of ten around all values.
    let low = all().map(|histogram| histogram.min().max(1)).min().unwrap_or(1_000).ilog10();
    let high = all().map(|histogram| histogram.max().max(1)).max().unwrap_or(1_000).ilog10() + 1;
    let most = all().map(|histogram| nines(1.0 - 1.0 / histogram.len() as f64)).fold(2.0, f64::max).ceil();

    let root = backend.into_drawing_area();
    root.fill(&WHITE)?;
    root.draw(&Text::new(title.to_owned(), (16, 12), ("sans-serif", 17)))?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .margin_top(44)
        .margin_right(36)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..most, f64::from(low)..f64::from(high))?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .bold_line_style(RGBColor(221, 221, 221))
        .label_style(("sans-serif", 14))
        .x_labels(most as usize + 1)
        .y_labels((high - low) as usize + 1)
        .x_label_formatter(&|nines| percent(*nines))
        .y_label_formatter(&|power| unit(*power))
        .draw()?;
    for ((name, histogram), color) in curves.iter().zip(COLORS.iter().cycle()) {
        let points = histogram.iter_quantiles(10).map(|at| {
            let power = (at.value_iterated_to().max(1) as f64).log10();
            (nines(at.quantile_iterated_to()).min(most), power.clamp(f64::from(low), f64::from(high)))
        });
        chart
            .draw_series([PathElement::new(points.collect::<Vec<_>>(), color.stroke_width(2))])?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 14))
        .draw()?;
    root.present()
}

/// Returns how many nines a quantile has: 1 for 90 %, 2 for 99 %.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-12).log10()
}

/// The quantile with this many nines, as text.
fn percent(nines: f64) -> String {
    format!("{:.*} %", (nines.round() as usize).saturating_sub(2), 100.0 - 100.0 * 0.1_f64.powf(nines))
}

/// A power of ten of nanoseconds, as text.
fn unit(power: f64) -> String {
    let power = power.round() as u32;
    let unit = (power / 3).min(3);
    format!("{} {}", 10_u64.saturating_pow(power - 3 * unit), ["ns", "µs", "ms", "s"][unit as usize])
}
