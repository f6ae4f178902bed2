//! Collations: how text compares.
//!
//! A key is bytes whose order is the collation's order and whose equality is its equality; joins, groups, sorts and
//! distinct counts compare keys, never the text itself.

/// A collation that columns and expressions can have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Collation {
    /// `SQL_Latin1_General_CP1_CI_AS`, the default: case does not count, accents do.
    #[default]
    Latin1GeneralCiAs,
    /// `Latin1_General_CS_AS`: case and accents count.
    Latin1GeneralCsAs,
    /// `Latin1_General_BIN2`: code points.
    Latin1GeneralBin2,
}

/// A collation's key of one string, see the module.
pub type CollationKey = Vec<u8>;
