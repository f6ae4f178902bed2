//! What a statement sees of a page of rows.

use hobt_txn::{PagePiece, Pieces, RebuiltName, RebuiltRows, Snapshot};

/// What a statement sees of a page of rows.
pub(crate) enum VisiblePage {
    /// All of it.
    AsItStands,
    /// None of it: the load that built it is not visible.
    Nothing,
    /// These pages instead, with changes undone, in the page's order. For a heap's page it is one.
    Otherwise(Pieces),
}

/// What a snapshot has kept of a page, or else the page rebuilt for it. Without `rows` it is for one use only.
/// `rebuild` returns no page if the current one is as the snapshot sees it.
pub(crate) fn find_or_rebuild<E>(
    snapshot: &Snapshot,
    name: RebuiltName,
    rows: Option<RebuiltRows<'_>>,
    rebuild: impl FnOnce() -> Result<Vec<PagePiece>, E>,
) -> Result<VisiblePage, E> {
    if let Some(kept) = rows.and_then(|rows| snapshot.rebuilt_page(name, rows)) {
        return Ok(VisiblePage::Otherwise(kept));
    }
    let pieces = rebuild()?;
    if pieces.is_empty() {
        return Ok(VisiblePage::AsItStands);
    }
    let pieces = match rows {
        Some(rows) => snapshot.keep_rebuilt(name, rows, pieces),
        None => Pieces::Own(pieces),
    };
    Ok(VisiblePage::Otherwise(pieces))
}
