//! Pages as arbitrary bytes: reading them never panics and never leaves their bounds.

mod codec;
mod flips;
mod format;
mod fuzz;
mod index;
mod model;
mod random;
mod relayout;
