//! What a statement sees of a page of rows.

use std::ops::Deref;
use std::sync::Arc;

use hobt_txn::{PagePiece, Rebuilt, RebuiltName, RebuiltRows, Snapshot};

/// What a statement sees of a page of rows.
pub(crate) enum VisiblePage {
    /// All of it.
    AsItStands,
    /// None of it: the load that built it is not visible.
    Nothing,
    /// These pages instead, with changes undone, in the page's order. For a heap's page it is one.
    Otherwise(Pieces),
}

/// Pages with changes undone.
pub(crate) enum Pieces {
    /// For this statement.
    Own(Vec<PagePiece>),
    /// Kept for others of its transaction.
    Kept(Arc<Rebuilt>),
}

impl Deref for Pieces {
    type Target = [PagePiece];

    fn deref(&self) -> &[PagePiece] {
        match self {
            Pieces::Own(pieces) => pieces,
            Pieces::Kept(rebuilt) => rebuilt.pieces(),
        }
    }
}

impl Pieces {
    pub(crate) fn into_owned(self) -> Vec<PagePiece> {
        match self {
            Pieces::Own(pieces) => pieces,
            Pieces::Kept(rebuilt) => rebuilt.pieces().to_vec(),
        }
    }
}

/// Rebuilds a page for a snapshot, unless the snapshot has it. Without `rows` it is for one use only. `rebuild` returns
/// no page if the current one is as the snapshot sees it.
pub(crate) fn rebuilt<E>(
    snapshot: &Snapshot,
    name: RebuiltName,
    rows: Option<RebuiltRows<'_>>,
    rebuild: impl FnOnce() -> Result<Vec<PagePiece>, E>,
) -> Result<VisiblePage, E> {
    if let Some(kept) = rows.and_then(|rows| snapshot.rebuilt_page(name, rows)) {
        return Ok(VisiblePage::Otherwise(Pieces::Kept(kept)));
    }
    let pieces = rebuild()?;
    if pieces.is_empty() {
        return Ok(VisiblePage::AsItStands);
    }
    let kept = match rows {
        Some(rows) => snapshot.keep_rebuilt(name, rows, pieces),
        None => Err(pieces),
    };
    Ok(VisiblePage::Otherwise(kept.map_or_else(Pieces::Own, Pieces::Kept)))
}
