//! The embeddable library.
