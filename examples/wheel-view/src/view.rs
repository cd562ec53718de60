//! Draws a scene.
//!
//! ```text
//!   header                        how long, how many tasks a second, how many timers
//!   the wheel                     the levels from 65 µs on, the widest slots on top; 64 slots each, or 32, 16, 8 if it is narrow
//!   lateness        │ counts      left out if there is no room
//!   lateness, frame by frame      likewise
//!   footer                        the keys
//! ```
//!
//! Ground rules:
//!
//! * Any size is legal, including zero: parts that do not fit are left out or cut off, and nothing panics.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph, Sparkline, Widget};

use crate::scene::{BUCKETS, Level, Scene};

/// With fewer rows than this there are no borders, only the wheel.
const ROOMY: u16 = 14;
/// The columns of a level's name and slot width, and of its number of timers.
const WIDE: (u16, u16) = (22, 8);
const NARROW: (u16, u16) = (2, 6);

const DIM: Style = Style::new().fg(Color::DarkGray);
const BRIGHT: Style = Style::new().fg(Color::White).add_modifier(Modifier::BOLD);
const FILL: Style = Style::new().fg(Color::Cyan);
const HAND: Style = Style::new().fg(Color::Yellow);
const OPENED: Style = Style::new().fg(Color::LightMagenta).add_modifier(Modifier::BOLD);
const LATE: Style = Style::new().fg(Color::Green);
const CURVE: Style = Style::new().fg(Color::LightGreen);

/// A scene as a widget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a>(pub(crate) &'a Scene);

impl Widget for View<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let scene = self.0;
        let roomy = area.height >= ROOMY;
        let wheel = if roomy { 10 } else { 8 };
        let [head, wheel, middle, low, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(wheel),
            Constraint::Max(if roomy { 10 } else { 0 }),
            Constraint::Min(0),
            Constraint::Length(u16::from(area.height >= 10)),
        ])
        .areas(area);
        header(scene, head, buffer);
        let inside = if roomy { framed(legend(), wheel, buffer) } else { wheel };
        levels(scene, inside, buffer);
        if middle.height >= 3 {
            let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Max(44)]).areas(middle);
            let title = format!(" lateness of {} timers ", grouped(scene.lateness.total()));
            histogram(scene, framed(title.into(), left, buffer), buffer);
            counts(scene, framed(" timers ".into(), right, buffer), buffer);
        }
        if low.height >= 3 {
            recent(scene, low, buffer);
        }
        let keys = " + more  - less  p pause  q quit";
        Line::styled(keys, DIM).render(foot, buffer);
    }
}

/// Draws a border with a title. Returns the area inside it.
fn framed(title: Line<'_>, area: Rect, buffer: &mut Buffer) -> Rect {
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(DIM).title(title);
    let inside = block.inner(area);
    block.render(area, buffer);
    inside
}

fn header(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let seconds = scene.uptime.as_secs();
    let mut spans = vec![
        Span::styled(" mainspring", BRIGHT),
        Span::styled(format!("  {:02}:{:02}", seconds / 60, seconds % 60), DIM),
        Span::raw(format!("  {} tasks/s", grouped(scene.rate.into()))),
    ];
    if scene.paused {
        spans.push(Span::styled(" (paused)", HAND));
    }
    spans.push(Span::raw(format!("  {} tasks", grouped(scene.tasks as u64))));
    spans.push(Span::raw(format!("  {} timers", grouped(scene.live as u64))));
    Line::from(spans).render(area, buffer);
}

fn legend() -> Line<'static> {
    Line::from(vec![
        Span::raw(" the wheel "),
        Span::styled(" ░ 1 ▒ 2 ▓ 8 █ 32 timers ", FILL),
        Span::styled(" │ now ", HAND),
        Span::styled(" ↓ opened ", OPENED),
    ])
}

/// The levels, one a row. If there are too few rows, the highest levels are left out: little happens there.
fn levels(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let (label, count) = if area.width >= 64 + WIDE.0 + WIDE.1 { WIDE } else { NARROW };
    let room = area.width.saturating_sub(label + count);
    let columns = [64, 32, 16, 8].into_iter().find(|&columns| columns <= room).unwrap_or(0);
    let shown = scene.levels.iter().take(area.height.into());
    for (row, level) in shown.rev().enumerate() {
        let number = level.number;
        let [name, cells, timers, _] = Layout::horizontal([
            Constraint::Length(label),
            Constraint::Length(columns),
            Constraint::Length(count),
            Constraint::Fill(1),
        ])
        .areas(Rect { y: area.y + row as u16, height: 1, ..area });
        let text = if label == WIDE.0 {
            format!(" {number}  slots of {}", short(level.slot_width))
        } else {
            number.to_string()
        };
        Line::styled(text, DIM).render(name, buffer);
        for (column, x) in (cells.left()..cells.right()).enumerate() {
            let slots = level.slots.len() / usize::from(columns);
            let (symbol, style) = cell(level, column * slots..(column + 1) * slots);
            if let Some(cell) = buffer.cell_mut((x, cells.y)) {
                cell.set_symbol(symbol).set_style(style);
            }
        }
        let sum = level.slots.iter().map(|&n| u64::from(n)).sum();
        let style = if sum == 0 { DIM } else { Style::new() };
        Line::styled(grouped(sum), style).right_aligned().render(timers, buffer);
    }
}

/// The symbol and style of some slots of a level as one cell.
fn cell(level: &Level, slots: std::ops::Range<usize>) -> (&'static str, Style) {
    let timers: u32 = level.slots[slots.clone()].iter().sum();
    let opened = level.opened[slots.clone()].iter().any(|&glow| glow > 0);
    let now = slots.contains(&level.current);
    match (timers, now, opened) {
        (0, true, _) => ("│", HAND),
        (0, _, true) => ("↓", OPENED),
        (0, ..) => ("·", DIM),
        (_, true, _) => (shade(timers), HAND),
        _ => (shade(timers), FILL),
    }
}

fn shade(timers: u32) -> &'static str {
    match timers {
        0 => " ",
        1 => "░",
        2..8 => "▒",
        8..32 => "▓",
        32.. => "█",
    }
}

fn histogram(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let most = scene.lateness.buckets.iter().copied().max().unwrap_or(0).max(1);
    for (row, (n, &timers)) in area.rows().zip(scene.lateness.buckets.iter().enumerate()) {
        let [name, bar, number] =
            Layout::horizontal([Constraint::Length(11), Constraint::Fill(1), Constraint::Length(11)])
                .areas(row);
        let name_text = match BUCKETS.get(n) {
            Some(most) => format!(" < {}", short(*most)),
            None => " later".to_owned(),
        };
        Line::styled(name_text, DIM).render(name, buffer);
        Line::styled(bar_of(timers, most, bar.width), LATE).render(bar, buffer);
        Line::raw(format!("{} ", grouped(timers))).right_aligned().render(number, buffer);
    }
}

/// A bar, in eighths of a cell.
fn bar_of(value: u64, most: u64, width: u16) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (u128::from(value) * u128::from(width) * 8).div_ceil(u128::from(most)) as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(EIGHTHS[eighths % 8]);
    bar
}

fn counts(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let mut lines = vec![Line::styled(format!(" {:<10}{:>16}{:>14}", "", "in all", "a second"), DIM)];
    for (name, count) in scene.counts {
        let per_second = grouped(count.per_second.round() as u64);
        lines.push(Line::from(vec![
            Span::styled(format!(" {name:<10}"), DIM),
            Span::raw(format!("{:>16}{per_second:>14}", grouped(count.total))),
        ]));
    }
    lines.push(Line::from(vec![
        Span::styled(format!(" {:<10}", "worst late"), DIM),
        Span::raw(format!("{:>16}", short(scene.lateness.worst))),
    ]));
    Paragraph::new(lines).render(area, buffer);
}

fn recent(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let last = Duration::from_micros(scene.recent.last().copied().unwrap_or(0));
    let area =
        framed(format!(" the latest timer of each frame: now {} late ", short(last)).into(), area, buffer);
    let skipped = scene.recent.len().saturating_sub(usize::from(area.width));
    Sparkline::default().data(&scene.recent[skipped..]).style(CURVE).render(area, buffer);
}

/// A number with separated thousands.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in about three digits.
fn short(duration: Duration) -> String {
    const UNITS: [(f64, &str); 7] = [
        (365.25 * 86_400.0, "y"),
        (86_400.0, "d"),
        (3600.0, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "µs"),
    ];
    let seconds = duration.as_secs_f64();
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or((1e-6, "µs"));
    let value = seconds / unit;
    let digits = if value.fract() < 0.005 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;
    use crate::scene::{Count, Lateness};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// A level with that number, without timers.
    fn level((current, number): (usize, usize)) -> Level {
        let slot_width = Duration::from_nanos(1 << (4 + 6 * number));
        Level { number, slot_width, slots: vec![0; 64], current, opened: vec![0; 64] }
    }

    fn scene() -> Scene {
        let mut levels: Vec<_> = [5, 9, 39, 0, 0, 0, 0, 0].into_iter().zip(2..).map(level).collect();
        for (number, slot, timers) in [(0, 5, 1), (1, 10, 2), (2, 40, 8), (3, 63, 5_000)] {
            levels[number].slots[slot] = timers;
        }
        levels[2].opened[39] = 4;
        let mut lateness = Lateness::default();
        (0..40).for_each(|n| lateness.count(Duration::from_micros(10 * n)));
        Scene {
            uptime: Duration::from_secs(83),
            rate: 1_600,
            paused: true,
            tasks: 12_345,
            live: 5_011,
            levels,
            counts: [("armed", Count { total: 1_234_567, per_second: 1_599.6 }); 6],
            lateness,
            recent: (0..300).collect(),
        }
    }

    /// What a terminal of this size shows.
    fn drawn(scene: &Scene, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| frame.render_widget(View(scene), frame.area())).unwrap();
        plain::text(terminal.backend().buffer()).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_roomy_frame_shows_everything() {
        let lines = drawn(&scene(), 96, 28);
        assert_eq!(lines[0], " mainspring  01:23  1,600 tasks/s (paused)  12,345 tasks  5,011 timers");
        assert!(lines[1].contains("the wheel") && lines[1].contains("opened"), "{}", lines[1]);
        let level = |n: usize| &lines[2 + 7 - n];
        assert!(level(7).starts_with("│ 9  slots of 9.1 y"), "{}", level(7));
        assert!(level(0).starts_with("│ 2  slots of 65.5 µs"), "{}", level(0));
        // The slots, and the number of timers, of each level.
        let cells = |n: usize| level(n).chars().skip(1 + 22).take(64).collect::<String>();
        assert_eq!(cells(0), format!("{}░{}", "·".repeat(5), "·".repeat(58)));
        assert_eq!(cells(1), format!("{}│▒{}", "·".repeat(9), "·".repeat(53)));
        assert_eq!(cells(2), format!("{}│▓{}", "·".repeat(39), "·".repeat(23)));
        assert_eq!(cells(3), format!("│{}█", "·".repeat(62)));
        assert!(level(3).ends_with("5,000│"), "{}", level(3));
        let all = lines.join("\n");
        for part in
            ["lateness", "< 50 µs", "later", "1,234,567", "1,600", "worst late", "390 µs", "now 299 µs"]
        {
            assert!(all.contains(part), "{part} is missing:\n{all}");
        }
        assert!(lines[27].contains("q quit"));
    }

    #[test]
    fn a_slot_that_was_opened_shows_it_unless_the_hand_is_there() {
        let mut scene = scene();
        scene.levels[4].opened[7] = 1;
        let lines = drawn(&scene, 96, 28);
        assert_eq!(lines[5].chars().nth(1 + 22 + 7), Some('↓'), "{}", lines[5]);
        assert_eq!(lines[7].chars().nth(1 + 22 + 39), Some('│'));
    }

    #[test]
    fn a_small_terminal_shows_the_wheel() {
        let lines = drawn(&scene(), 40, 10);
        assert_eq!(lines.len(), 11);
        assert!(lines[0].starts_with(" mainspring"));
        for level in 0..8 {
            assert!(lines[8 - level].starts_with(&format!("{} ", level + 2)), "{}", lines[8 - level]);
        }
        assert!(lines[9].contains("q quit"));
        // Two slots a cell, so the last cell of level 5 is full, with the sum after it.
        assert!(lines[5].contains("█ 5,000"), "{}", lines[5]);
    }

    #[test]
    fn no_size_is_too_small_or_too_large() {
        let mut scenes = vec![scene(), scene()];
        scenes[1].recent.clear();
        scenes[1].levels.iter_mut().for_each(|level| level.slots.fill(u32::MAX / 64));
        scenes[1].lateness = Lateness { buckets: [u64::MAX / 9; 8], worst: Duration::MAX };
        for scene in &scenes {
            for width in [0, 1, 2, 8, 16, 40, 50, 93, 95, 96, 200] {
                for height in [0, 1, 2, 9, 10, 13, 14, 15, 24, 60] {
                    let area = Rect::new(0, 0, width, height);
                    View(scene).render(area, &mut Buffer::empty(area));
                }
            }
        }
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let widths: Vec<_> = (2..10).map(|number| short(level((0, number)).slot_width)).collect();
        let expected = ["65.5 µs", "4.2 ms", "268 ms", "17.2 s", "18.3 min", "19.5 h", "52.1 d", "9.1 y"];
        assert_eq!(widths, expected);
        assert_eq!([0, 50, 1_000].map(|n| short(Duration::from_micros(n))), ["0 µs", "50 µs", "1 ms"]);
    }

    #[test]
    fn bars_are_as_long_as_their_value() {
        assert_eq!(bar_of(0, 10, 5), "");
        assert_eq!(bar_of(10, 10, 5), "█████");
        assert_eq!(bar_of(5, 10, 5), "██▌");
        assert_eq!(bar_of(1, 1_000_000, 5), "▏", "what is there is seen");
        assert_eq!(bar_of(1, 1, 0), "");
    }
}
