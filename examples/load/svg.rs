//! The percentiles as an SVG picture.
//!
//! Ground rules:
//!
//! * Both axes are logarithmic. To the right each nine is as wide as the one before it: 90 %, 99 %, 99.9 %. Upwards each power
//!   of ten is as high as the one below it. So one request in ten thousand, and a microsecond, can still be seen.
//! * The picture needs nothing else: no font, no script and no style sheet.

use std::fmt::Write;

use hdrhistogram::Histogram;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 420.0;
/// Where the axes are: left, top, right, bottom.
const PLOT: [f64; 4] = [80.0, 50.0, 760.0, 370.0];
const COLORS: [&str; 3] = ["#c0392b", "#2471a3", "#7d8b99"];

/// The picture of some curves of nanoseconds, each with its name. Those that are empty have a name only.
pub(crate) fn picture(title: &str, curves: &[(&str, &Histogram<u64>)]) -> String {
    let all = || curves.iter().map(|(_, histogram)| histogram).filter(|histogram| !histogram.is_empty());
    // Powers of ten around all that is to be seen.
    let low = all().map(|histogram| histogram.min().max(1)).min().unwrap_or(1_000).ilog10();
    let high = all().map(|histogram| histogram.max().max(1)).max().unwrap_or(1_000).ilog10() + 1;
    let nines = all().map(|histogram| nines(1.0 - 1.0 / histogram.len() as f64)).fold(2.0, f64::max).ceil();
    let x = |quantile: f64| PLOT[0] + (PLOT[2] - PLOT[0]) * (self::nines(quantile).min(nines) / nines);
    let y = |nanos: u64| {
        let part = ((nanos.max(1) as f64).log10() - f64::from(low)) / f64::from(high - low);
        PLOT[3] - (PLOT[3] - PLOT[1]) * part.clamp(0.0, 1.0)
    };

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <g font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n\
         <text x=\"{}\" y=\"20\" font-size=\"14\">{title}</text>\n",
        PLOT[0],
        title = escaped(title),
    );
    let mut grid = |from: (f64, f64), to: (f64, f64), label: &str, at: (f64, f64), anchor: &str| {
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            from.0, from.1, to.0, to.1, at.0, at.1
        );
    };
    for power in low..=high {
        let y = y(10_u64.saturating_pow(power));
        grid((PLOT[0], y), (PLOT[2], y), &unit(power), (PLOT[0] - 8.0, y + 4.0), "end");
    }
    for nine in 0..=nines as usize {
        let quantile = 1.0 - 0.1_f64.powi(nine as i32);
        let label = format!("{:.*} %", nine.saturating_sub(2), quantile * 100.0);
        let x = x(quantile);
        grid((x, PLOT[1]), (x, PLOT[3]), &label, (x, PLOT[3] + 18.0), "middle");
    }
    for ((number, (name, histogram)), color) in curves.iter().enumerate().zip(COLORS.iter().cycle()) {
        let points = histogram.iter_quantiles(10).fold(String::new(), |mut points, at| {
            let _ = write!(points, "{:.1},{:.1} ", x(at.quantile_iterated_to()), y(at.value_iterated_to()));
            points
        });
        let at = PLOT[0] + 130.0 * number as f64;
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n\
             <text x=\"{at}\" y=\"40\" fill=\"{color}\">{}</text>",
            points.trim_end(),
            escaped(name)
        );
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// How many nines a quantile has: 1 for 90 %, 2 for 99 %.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-12).log10()
}

/// A power of ten of nanoseconds.
fn unit(power: u32) -> String {
    let unit = (power / 3).min(3);
    format!("{} {}", 10_u64.saturating_pow(power - 3 * unit), ["ns", "µs", "ms", "s"][unit as usize])
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
