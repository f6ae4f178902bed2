//! A stretch as text, and where its reading is.

use std::borrow::Cow;
use std::path::Path;

use hobt_base::{SqlError, errors};
use memchr::memchr_iter;

use super::layout::TextLayout;
use crate::encoding::CodePage;
use crate::stretches::{Cutter, Stretch};

/// A stretch that is being read.
pub(crate) struct StretchText {
    pub(crate) text: String,
    /// Whether the text is ASCII.
    pub(crate) is_ascii: bool,
    /// The file, by its place among the files that are read.
    pub(crate) file: usize,
    /// The line on which the stretch begins, from 1.
    first_line: u64,
    /// Where its next row begins.
    pub(crate) at: usize,
    /// The number of that row in its file, from 1.
    pub(crate) row: u64,
}

impl StretchText {
    /// The text of a stretch of the file `path`, whose rows `layout` cuts.
    ///
    /// # Errors
    /// 4864 for bytes that are no text of the encoding.
    pub(crate) fn of(
        stretch: Stretch,
        code_page: CodePage,
        layout: &TextLayout,
        path: &Path,
    ) -> Result<StretchText, SqlError> {
        let Stretch { bytes, file, first_row, first_line } = stretch;
        let wrong = |bytes: &[u8], at: usize| {
            let row = first_row + layout.cut(&bytes[..at], false).map_or(0, |cut| cut.rows);
            let line = first_line + memchr_iter(b'\n', &bytes[..at]).count() as u64;
            errors::BULK_TEXT_ENCODING.with([&row, &line, &path.display()])
        };
        let text = if code_page.is_utf8_when_cut() {
            // Without a copy.
            String::from_utf8(bytes).map_err(|error| wrong(error.as_bytes(), error.utf8_error().valid_up_to()))?
        } else {
            code_page.text(&bytes).map(Cow::into_owned).map_err(|at| wrong(&bytes, at))?
        };
        Ok(StretchText { is_ascii: text.is_ascii(), text, file, first_line, at: 0, row: first_row })
    }

    /// The line on which the byte `at` stands.
    pub(crate) fn line(&self, at: usize) -> u64 {
        self.lines().at(at)
    }

    /// Counts lines from the start of the stretch.
    pub(crate) fn lines(&self) -> Lines<'_> {
        Lines { text: self.text.as_bytes(), counted: 0, line: self.first_line }
    }
}

/// Counts the lines of a stretch on the way through it.
pub(crate) struct Lines<'t> {
    text: &'t [u8],
    /// How far they are counted, and the line there.
    counted: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line on which the byte `at` stands, which is not in front of that of the last call.
    pub(crate) fn at(&mut self, at: usize) -> u64 {
        self.line += memchr_iter(b'\n', &self.text[self.counted..at]).count() as u64;
        self.counted = at;
        self.line
    }
}
