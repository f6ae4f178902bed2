//! Tables for the terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// A table of a report, before anybody decides how it looks.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// What it shows.
    pub title: String,
    /// The columns' names.
    pub headers: Vec<String>,
    /// The rows, each as long as the headers.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table without rows.
    pub(crate) fn new(title: impl Into<String>, headers: &[&str]) -> Grid {
        Grid {
            title: title.into(),
            headers: headers.iter().map(|header| (*header).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// The table with its title, for a terminal.
    pub fn to_text(&self) -> String {
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        let mut table = empty(&headers);
        table.add_rows(&self.rows);
        let table = match &self.title {
            title if title.is_empty() => table.to_string(),
            title => format!("{title}\n{table}"),
        };
        format!("{table}\n")
    }
}

/// A table with these headers, the first column to the left and the others to the right.
pub(crate) fn empty(headers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_header(headers);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
