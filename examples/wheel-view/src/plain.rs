//! A frame as text.

use ratatui::buffer::Buffer;

/// The symbols of a frame: a line per row, without trailing blanks, and an empty line after the last one.
pub(crate) fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(buffer.area.width).max(1)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    #[test]
    fn rows_become_lines() {
        let buffer = Buffer::with_lines(["ab  ", " c░ "]);
        assert_eq!(text(&buffer), "ab\n c░\n\n");
        assert_eq!(text(&Buffer::empty(Rect::ZERO)), "\n");
    }
}
