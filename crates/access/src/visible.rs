//! What a statement sees of a page of rows.

use hobt_page::PageBytes;

/// What a statement sees of a page of rows.
pub(crate) enum VisiblePage {
    /// All of it.
    AsItStands,
    /// None of it: whoever loaded it is not seen.
    Nothing,
    /// These pages instead, with changes taken back, in the page's order. A heap's page is one.
    Otherwise(Vec<PagePiece>),
}

/// A page, or a part of it, with changes taken back.
pub(crate) struct PagePiece {
    /// The position in the page of its first row.
    pub(crate) first: usize,
    pub(crate) page: Box<PageBytes>,
}
