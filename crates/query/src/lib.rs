//! T-SQL binder, procedural interpreter, planner rules and operators on DataFusion.
//!
//! ```text
//! interpreter --statement--> binder --LogicalPlan--> execute --rows--> interpreter
//!                            wrap: kernels as functions of DataFusion   source: tables as DataFusion's providers
//! ```
//! The only crate that uses DataFusion. It never accesses the bytes of a page.

pub mod access_path;
pub mod binder;
mod cardinality;
pub mod execute;
pub mod formula;
pub mod interpreter;
pub mod plan_tree;
pub mod source;
pub mod wrap;
