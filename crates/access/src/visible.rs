//! What a statement sees of a page of rows.

use hobt_page::PageBytes;

/// What a statement sees of a page of rows.
pub(crate) enum VisiblePage {
    /// All of it.
    AsItStands,
    /// None of it: the load that built it is not visible.
    Nothing,
    /// These pages instead, with changes undone, in the page's order. For a heap's page it is one.
    Otherwise(Vec<PagePiece>),
}

/// A page, or a part of it, with changes undone.
pub(crate) struct PagePiece {
    /// The position in the page of its first row.
    pub(crate) first: usize,
    pub(crate) page: Box<PageBytes>,
}
