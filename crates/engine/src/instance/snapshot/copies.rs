//! What a snapshot has of its source's files.

use std::sync::Arc;

use hobt_base::FileId;
use hobt_disk::FormerBlocks;

/// The copies that a snapshot has of its source's files.
#[derive(Clone, Debug)]
pub(in crate::instance) enum Copies {
    /// By the ids of the files.
    Open(Vec<(FileId, Arc<FormerBlocks>)>),
    /// One of them is not complete, and none is needed any more.
    Lost(String),
    /// One of them cannot be opened now. The source must not be written to meanwhile.
    Unready(String),
}

impl Copies {
    /// Nothing more is copied for the snapshot.
    pub(in crate::instance) fn retire(&self) {
        if let Copies::Open(copies) = self {
            copies.iter().for_each(|(_, copy)| copy.retire());
        }
    }

    /// Why the snapshot cannot be read, if it cannot.
    pub(in crate::instance) fn problem(&self) -> Option<String> {
        match self {
            Copies::Lost(why) | Copies::Unready(why) => Some(why.clone()),
            Copies::Open(copies) => copies.iter().find_map(|(_, copy)| copy.lost().map(str::to_owned)),
        }
    }
}
