//! What the versions of a page and those of a key have in common: both are spread over generations, and are put
//! together the oldest first.

use hobt_base::Stamp;
use hobt_page::EncodingDamage;

use crate::view::Readers;

/// The versions of a page or key in one generation, or in several that follow each other.
pub(super) trait History: Clone + Default {
    /// Adds the versions of the next newer generation.
    fn append(&mut self, newer: Self);

    /// Forgets what is said of older generations, of which there is none.
    fn is_oldest(&mut self);

    /// Notes that `writer` has undone all of its changes.
    fn undone_by(&mut self, writer: Stamp);

    /// Removes versions that no reader needs: those between two that no snapshot tells apart, except for the newest of
    /// a transaction that has ended. Returns the bytes of memory that are free.
    fn prune(&mut self, readers: &Readers) -> usize;

    /// The transactions that have put versions, or have undone some.
    fn writers(&self) -> impl Iterator<Item = Stamp>;

    /// Appends the versions' bytes to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// What [`History::encode`] has written.
    fn decode(bytes: &[u8]) -> Result<Self, EncodingDamage>;
}
