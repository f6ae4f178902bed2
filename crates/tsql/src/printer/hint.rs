//! Hints.

use std::fmt::{Display, Formatter, Result};

use super::{list, string};
use crate::ast::*;
use crate::parser::TABLE_HINTS;

impl JoinHint {
    /// The hint as written.
    pub fn word(self) -> &'static str {
        match self {
            JoinHint::Loop => "LOOP",
            JoinHint::Hash => "HASH",
            JoinHint::Merge => "MERGE",
            JoinHint::Remote => "REMOTE",
        }
    }
}

impl Display for TableHint {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TableHint::Index(indexes) => list(f, "INDEX ", indexes),
            TableHint::ForceSeek(None) => f.write_str("FORCESEEK"),
            TableHint::ForceSeek(Some(seek)) => {
                write!(f, "FORCESEEK ({}", seek.index)?;
                list(f, " ", &seek.columns)?;
                f.write_str(")")
            }
            TableHint::SpatialWindowMaxCells(cells) => write!(f, "SPATIAL_WINDOW_MAX_CELLS = {cells}"),
            word => {
                let found = TABLE_HINTS.iter().find(|(_, hint)| hint == word);
                f.write_str(found.map_or("", |(name, _)| name))
            }
        }
    }
}

impl Display for IndexReference {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            IndexReference::Name(name) => write!(f, "{name}"),
            IndexReference::Number(number) => write!(f, "{number}"),
        }
    }
}

impl Display for QueryHint {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.kind)
    }
}

impl Display for QueryHintKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        use QueryHintKind as H;
        f.write_str(match self {
            H::MaxDop(n) => return write!(f, "MAXDOP {n}"),
            H::MaxRecursion(n) => return write!(f, "MAXRECURSION {n}"),
            H::Fast(n) => return write!(f, "FAST {n}"),
            H::QueryTraceOn(n) => return write!(f, "QUERYTRACEON {n}"),
            H::MinGrantPercent(value) => return write!(f, "MIN_GRANT_PERCENT = {value}"),
            H::MaxGrantPercent(value) => return write!(f, "MAX_GRANT_PERCENT = {value}"),
            H::Join(hint) => return write!(f, "{} JOIN", hint.word()),
            H::OptimizeFor(_) | H::UseHint(_) | H::UsePlan(_) | H::Label(_) | H::TableHint { .. } => {
                return with_list(f, self);
            }
            H::Recompile => "RECOMPILE",
            H::ForceOrder => "FORCE ORDER",
            H::HashGroup => "HASH GROUP",
            H::OrderGroup => "ORDER GROUP",
            H::ConcatUnion => "CONCAT UNION",
            H::HashUnion => "HASH UNION",
            H::MergeUnion => "MERGE UNION",
            H::ExpandViews => "EXPAND VIEWS",
            H::KeepPlan => "KEEP PLAN",
            H::KeepFixedPlan => "KEEPFIXED PLAN",
            H::RobustPlan => "ROBUST PLAN",
            H::IgnoreNonclusteredColumnstoreIndex => "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX",
            H::Parameterization { forced: true } => "PARAMETERIZATION FORCED",
            H::Parameterization { forced: false } => "PARAMETERIZATION SIMPLE",
            H::OptimizeForUnknown => "OPTIMIZE FOR UNKNOWN",
        })
    }
}

fn with_list(f: &mut Formatter<'_>, hint: &QueryHintKind) -> Result {
    match hint {
        QueryHintKind::OptimizeFor(values) => {
            f.write_str("OPTIMIZE FOR (")?;
            for (index, (name, value)) in values.iter().enumerate() {
                f.write_str(if index > 0 { ", " } else { "" })?;
                match value {
                    Some(value) => write!(f, "{name} = {value}")?,
                    None => write!(f, "{name} UNKNOWN")?,
                }
            }
            f.write_str(")")
        }
        QueryHintKind::UseHint(names) => {
            f.write_str("USE HINT (")?;
            for (index, name) in names.iter().enumerate() {
                f.write_str(if index > 0 { ", " } else { "" })?;
                string(f, name)?;
            }
            f.write_str(")")
        }
        QueryHintKind::UsePlan(plan) => {
            f.write_str("USE PLAN N")?;
            string(f, plan)
        }
        QueryHintKind::Label(label) => {
            f.write_str("LABEL = N")?;
            string(f, label)
        }
        QueryHintKind::TableHint { name, hints } => {
            write!(f, "TABLE HINT ({name}")?;
            hints.iter().try_for_each(|hint| write!(f, ", {hint}"))?;
            f.write_str(")")
        }
        _ => Ok(()),
    }
}
