//! A frame as an SVG picture.
//!
//! Ground rules:
//!
//! * Every cell of the frame lies on a grid. Blocks, shades and lines are drawn as rectangles, because they differ
//!   between fonts; the rest is text, stretched to the grid if the font is a different one.
//! * The picture needs nothing else: no font, no script, no style sheet.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// A cell's size, in the picture's units.
const CELL: (f64, f64) = (8.4, 18.0);
/// The margin around the frame.
const MARGIN: f64 = 14.0;

const BACKGROUND: &str = "#14181f";
const FOREGROUND: &str = "#d5dce4";

/// The picture.
pub(crate) fn picture(buffer: &Buffer) -> String {
    let (width, height) = (f64::from(buffer.area.width) * CELL.0, f64::from(buffer.area.height) * CELL.1);
    let (width, height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">The timing wheel, turning</title>\n\
         <desc id=\"desc\">A frame of examples/wheel-view: the upper eight levels of 64 slots, shaded by how many timers wait \
         in each, with counts and a histogram of lateness.</desc>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" \
         xml:space=\"preserve\">\n"
    );
    let columns = usize::from(buffer.area.width).max(1);
    for (row, cells) in buffer.content().chunks(columns).enumerate() {
        let mut column = 0;
        while column < cells.len() {
            let run = run(&cells[column..]);
            draw(&mut svg, &cells[column..column + run], column, row);
            column += run;
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// How a symbol is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Blank,
    Text,
    /// A part of the cell (left, top, right, bottom, from 0 to 1), with an opacity.
    Block([f64; 4], f64),
    /// Lines from the middle of the cell to its left, right, upper and lower edge.
    Lines([bool; 4]),
}

fn kind(symbol: &str) -> Kind {
    const LEFT: &str = "▏▎▍▌▋▊▉";
    const LOWER: &str = "▁▂▃▄▅▆▇";
    let whole = [0.0, 0.0, 1.0, 1.0];
    let part = |of: &str| of.chars().position(|c| symbol.starts_with(c)).map(|n| (n + 1) as f64 / 8.0);
    match symbol {
        " " | "" => Kind::Blank,
        "░" => Kind::Block(whole, 0.3),
        "▒" => Kind::Block(whole, 0.52),
        "▓" => Kind::Block(whole, 0.76),
        "█" => Kind::Block(whole, 1.0),
        "─" => Kind::Lines([true, true, false, false]),
        "│" => Kind::Lines([false, false, true, true]),
        "╭" => Kind::Lines([false, true, false, true]),
        "╮" => Kind::Lines([true, false, false, true]),
        "╰" => Kind::Lines([false, true, true, false]),
        "╯" => Kind::Lines([true, false, true, false]),
        _ => match (part(LEFT), part(LOWER)) {
            (Some(width), _) => Kind::Block([0.0, 0.0, width, 1.0], 1.0),
            (_, Some(height)) => Kind::Block([0.0, 1.0 - height, 1.0, 1.0], 1.0),
            _ => Kind::Text,
        },
    }
}

/// Returns how many cells, starting with the first, can be drawn as one: text of one style, without blanks at its
/// ends, or a row of the same blocks or lines.
fn run(cells: &[Cell]) -> usize {
    let first = &cells[0];
    let same_style = |cell: &Cell| cell.fg == first.fg && cell.modifier == first.modifier;
    match kind(first.symbol()) {
        Kind::Text => {
            let fits = |cell: &&Cell| same_style(cell) && kind(cell.symbol()) == Kind::Text;
            cells.iter().take_while(fits).count()
        }
        Kind::Block([.., width, _], _) if width < 1.0 => 1,
        Kind::Lines([true, true, ..]) | Kind::Block(..) => {
            cells.iter().take_while(|cell| same_style(cell) && cell.symbol() == first.symbol()).count()
        }
        Kind::Blank | Kind::Lines(_) => 1,
    }
}

fn draw(svg: &mut String, cells: &[Cell], column: usize, row: usize) {
    let (x, y) = (MARGIN + column as f64 * CELL.0, MARGIN + row as f64 * CELL.1);
    let width = cells.len() as f64 * CELL.0;
    let fill = colour(cells[0].fg);
    match kind(cells[0].symbol()) {
        Kind::Blank => {}
        Kind::Text => {
            let text: String = cells.iter().map(|cell| cell.symbol()).collect();
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let weight = if cells[0].modifier.contains(Modifier::BOLD) { " font-weight=\"600\"" } else { "" };
            line(
                svg,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{fill}\"{weight} textLength=\"{width:.1}\" \
                     lengthAdjust=\"spacingAndGlyphs\">{text}</text>",
                    y + 13.5
                ),
            );
        }
        Kind::Block([left, top, right, bottom], opacity) => {
            let (w, h) = (width * (right - left), CELL.1 * (bottom - top));
            // A little lower than the cell, so that rows of slots and bars stay apart. A curve's rows touch.
            let apart = if cells[0].fg == Color::LightGreen { 0.0 } else { 1.0 };
            let (y, h) = (y + CELL.1 * top + apart, h - 2.0 * apart);
            line(
                svg,
                format_args!(
                    "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"{fill}\" \
                     fill-opacity=\"{opacity}\"/>",
                    x + CELL.0 * left
                ),
            );
        }
        Kind::Lines([left, right, up, down]) => {
            let (middle_x, middle_y) = (x + CELL.0 / 2.0, y + CELL.1 / 2.0);
            let from_x = if left { x } else { middle_x };
            let to_x = if right { x + width } else { middle_x };
            let from_y = if up { y } else { middle_y };
            let to_y = if down { y + CELL.1 } else { middle_y };
            line(
                svg,
                format_args!(
                    "<path d=\"M{from_x:.1} {middle_y:.1}H{to_x:.1}M{middle_x:.1} {from_y:.1}V{to_y:.1}\" \
                     stroke=\"{fill}\" stroke-width=\"1.2\"/>"
                ),
            );
        }
    }
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{text}");
}

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::DarkGray => "#5b6673",
        Color::White => "#ffffff",
        Color::Cyan => "#4fc3d9",
        Color::Yellow => "#f5c344",
        Color::LightMagenta => "#ff8fd0",
        Color::Green | Color::LightGreen => "#6cc070",
        _ => FOREGROUND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    #[test]
    fn a_frame_becomes_rectangles_lines_and_text() {
        let mut buffer = Buffer::with_lines(["a<b ██ ░", "╭──╮ ▄▌ "]);
        buffer.set_style(ratatui::layout::Rect::new(4, 0, 2, 1), Style::new().fg(Color::Cyan));
        let svg = picture(&buffer);
        assert_eq!(svg.matches("<text ").count(), 1, "{svg}");
        assert!(svg.contains(">a&lt;b</text>"));
        // The background, the two blocks as one, the shade, and the two parts.
        assert_eq!(svg.matches("<rect ").count(), 5);
        assert!(svg.contains("width=\"16.8\" height=\"16.0\" fill=\"#4fc3d9\" fill-opacity=\"1\""));
        // Two corners, and the line between them as one.
        assert_eq!(svg.matches("<path ").count(), 3);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }

    #[test]
    fn parts_of_blocks_are_as_large_as_they_look() {
        assert_eq!(kind("▌"), Kind::Block([0.0, 0.0, 0.5, 1.0], 1.0));
        assert_eq!(kind("▂"), Kind::Block([0.0, 0.75, 1.0, 1.0], 1.0));
        assert_eq!((kind("µ"), kind(" ")), (Kind::Text, Kind::Blank));
    }

    #[test]
    fn an_empty_frame_is_a_picture() {
        let svg = picture(&Buffer::empty(ratatui::layout::Rect::ZERO));
        assert!(svg.contains("viewBox=\"0 0 28 28\""));
    }
}
