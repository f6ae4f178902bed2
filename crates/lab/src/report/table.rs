//! Tables for the terminal. If the terminal is too narrow, headers and prose are wrapped at spaces, and then columns
//! are left out. Names and numbers are never broken.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// The least width of prose, unless one of its words is longer.
const PROSE_WIDTH_MIN: usize = 18;

/// A table of a report, independent of its presentation.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// What it shows.
    pub title: String,
    /// The columns' names.
    pub headers: Vec<String>,
    /// The rows, each as long as the headers.
    pub rows: Vec<Vec<String>>,
    /// Indexes of columns whose cells are words, not figures. They are left-aligned and may be wrapped at spaces.
    pub prose: Vec<usize>,
    /// Indexes of columns in the order in which they are left out if there is no room. After them, the last columns are
    /// left out.
    pub least_wanted: Vec<usize>,
}

impl Grid {
    /// A table without rows.
    pub fn new(title: impl Into<String>, headers: &[&str]) -> Grid {
        Grid {
            title: title.into(),
            headers: headers.iter().map(|header| (*header).to_owned()).collect(),
            ..Grid::default()
        }
    }

    /// Removes the columns in which every cell says nothing. Column indexes must be set after this.
    pub(crate) fn leave_out_where(&mut self, says_nothing: impl Fn(&str) -> bool) {
        for column in (0..self.headers.len()).rev() {
            if self.rows.iter().all(|row| row.get(column).is_none_or(|cell| says_nothing(cell))) {
                self.headers.remove(column);
                self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
    }

    /// The table with its title, for the terminal of the standard output. Without a terminal, the width is not limited.
    pub fn to_text(&self) -> String {
        self.to_text_within(terminal_width().unwrap_or(usize::MAX))
    }

    /// Like [`Grid::to_text`], for a width in characters.
    pub(crate) fn to_text_within(&self, limit: usize) -> String {
        let mut columns: Vec<usize> = (0..self.headers.len()).collect();
        let mut left_out = Vec::new();
        let widths = loop {
            if let Some(widths) = self.widths_within(&columns, limit) {
                break widths;
            }
            if columns.len() <= 1 {
                break self.widths(&columns, true);
            }
            let unwanted = self.least_wanted.iter().find_map(|wanted| columns.iter().position(|it| it == wanted));
            left_out.push(columns.remove(unwanted.unwrap_or(columns.len() - 1)));
        };
        let mut text = if self.title.is_empty() { String::new() } else { paragraph("", &self.title, limit) };
        text.push_str(&format!("{}\n", self.table(&columns, &widths)));
        if !left_out.is_empty() {
            let names: Vec<&str> = left_out.iter().map(|column| self.headers[*column].as_str()).collect();
            text.push_str(&paragraph("", &format!("Not shown, for lack of width: {}", names.join(", ")), limit));
        }
        text
    }

    /// Widths of these columns' texts with which the table fits.
    fn widths_within(&self, columns: &[usize], limit: usize) -> Option<Vec<usize>> {
        let natural = self.widths(columns, false);
        if table_width(&natural) <= limit {
            return Some(natural);
        }
        let mut narrow = self.widths(columns, true);
        let mut spare = limit.checked_sub(table_width(&narrow))?;
        // Prose gets the room first, and headers of figures the rest.
        for is_prose in [true, false] {
            for ((width, wanted), column) in narrow.iter_mut().zip(&natural).zip(columns) {
                if self.prose.contains(column) == is_prose {
                    let more = (wanted - *width).min(spare);
                    *width += more;
                    spare -= more;
                }
            }
        }
        Some(narrow)
    }

    /// The natural widths of these columns' texts, or their least widths.
    fn widths(&self, columns: &[usize], narrow: bool) -> Vec<usize> {
        let of_column = |column: usize| {
            let most = |of: fn(&str) -> usize| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| of(cell)).max().unwrap_or(0)
            };
            let header = &self.headers[column];
            match narrow {
                false => most(length).max(length(header)),
                true if self.prose.contains(&column) => {
                    most(length).min(PROSE_WIDTH_MIN).max(most(longest_word)).max(longest_word(header))
                }
                true => most(length).max(longest_word(header)),
            }
        };
        columns.iter().map(|column| of_column(*column)).collect()
    }

    fn table(&self, columns: &[usize], widths: &[usize]) -> Table {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        let cells = |row: &[String]| -> Vec<String> {
            let cell = |column: usize| row.get(column).map(String::as_str).unwrap_or_default();
            columns.iter().zip(widths).map(|(column, width)| wrapped(cell(*column), *width)).collect()
        };
        table.set_header(cells(&self.headers));
        table.add_rows(self.rows.iter().map(|row| cells(row)));
        for (place, column) in table.column_iter_mut().enumerate() {
            if place > 0 && !self.prose.contains(&columns[place]) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// The width in characters of the terminal of the standard output. `None` if that is not a terminal or the width is
/// unknown.
pub fn terminal_width() -> Option<usize> {
    // A terminal of unknown width reports 0.
    Table::new().width().filter(|width| *width > 0).map(usize::from)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(length).max().unwrap_or(0)
}

/// The width of a table whose columns' texts have these widths, with a space on both sides of each, and lines.
fn table_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + 3).sum::<usize>() + 1
}

/// A short prefix and a text, in lines of at most `limit` characters where spaces allow it. Further lines are indented
/// as far as the prefix is long.
pub(super) fn paragraph(prefix: &str, text: &str, limit: usize) -> String {
    let indent = format!("\n{:1$}", "", length(prefix));
    format!("{prefix}{}\n", wrapped(text, limit.saturating_sub(length(prefix))).replace('\n', &indent))
}

/// A space at which no line is broken. It is printed as any other.
pub(super) const FIRM_SPACE: char = '\u{a0}';

/// A text, wrapped at spaces if it is longer than `width`.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut line = 0;
    for word in text.split(' ') {
        if line > 0 && line + 1 + length(word) > width {
            lines.push('\n');
            line = 0;
        } else if line > 0 {
            lines.push(' ');
            line += 1;
        }
        lines.push_str(word);
        line += length(word);
    }
    lines.replace(FIRM_SPACE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new("Title", &["case", "of the disk", "longest wait", "warm", "what it says"]);
        let row =
            ["heap_24", "77 %", "PAGEIOLATCH_SH 35.8 ms", "0.028 s", "one two three four five six seven eight nine"];
        grid.rows.push(row.map(str::to_owned).to_vec());
        grid.prose = vec![4];
        grid.least_wanted = vec![2];
        grid
    }

    fn width(text: &str) -> usize {
        text.lines().map(length).max().unwrap_or(0)
    }

    #[test]
    fn a_table_fits_its_terminal_and_breaks_no_word() {
        let whole = grid().to_text_within(usize::MAX);
        assert!(whole.lines().any(|line| line.contains("of the disk")), "{whole}");
        for limit in 20..width(&whole) {
            let text = grid().to_text_within(limit);
            assert!(width(&text) <= limit, "{limit}:\n{text}");
            assert!(text.contains("heap_24"), "{limit}:\n{text}");
            let shown = |name: &str| text.lines().any(|line| line.contains('│') && line.contains(name));
            for (part, cell) in
                [("77", "77 %"), ("LATCH", "PAGEIOLATCH_SH 35.8 ms"), ("35.8", "SH 35.8"), ("028", "0.028 s")]
            {
                assert_eq!(shown(part), shown(cell), "{limit}:\n{text}");
            }
        }
        assert_eq!(width(&grid().to_text_within(width(&whole))), width(&whole));
    }

    #[test]
    fn what_is_wanted_least_goes_first_and_is_named() {
        let text = grid().to_text_within(70);
        assert!(text.contains("Not shown, for lack of width: longest wait\n"), "{text}");
        assert!(text.contains("0.028 s") && text.contains("77 %"), "{text}");
        let text = grid().to_text_within(35);
        assert!(text.contains("what it says"), "{text}");
        assert!(!text.contains("seven"), "{text}");
    }

    #[test]
    fn texts_are_broken_at_spaces_only() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("unbreakable x", 4), "unbreakable\nx");
        assert_eq!(wrapped("", 4), "");
    }
}
