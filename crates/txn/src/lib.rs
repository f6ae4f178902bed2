//! Statement context, cancellation, memory accounts, object locks and undo.
