//! The engine's description of a plan that has run, read from its showplan.

/// An operator of a plan that has run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Operator {
    /// SQL Server's name for it.
    pub(super) physical: String,
    logical: String,
    /// The rows estimated, summed over all estimated executions.
    pub(super) estimated_rows: f64,
    /// The method that an adaptive join used.
    joined_by: Option<String>,
    /// The table that it reads, without brackets.
    table: Option<String>,
}

/// A plan's operators, from the root down, the outer side of a join first.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct ShownPlan {
    pub(super) operators: Vec<Operator>,
}

impl ShownPlan {
    /// Parses a document in Microsoft's showplan schema.
    pub(super) fn of(xml: &str) -> ShownPlan {
        // The text between one operator's tag and the next belongs to the first one: its inputs begin with tags.
        let operators = xml.split("<RelOp ").skip(1).filter_map(operator);
        ShownPlan { operators: operators.collect() }
    }

    /// The join method of the plan: `hash join`, `nested loops`, `merge join`. `None` if it has no join.
    pub(super) fn join(&self) -> Option<&'static str> {
        let join = self.operators.iter().find(|operator| operator.logical.ends_with("Join"))?;
        Some(match join.joined_by.as_deref().unwrap_or(&join.physical) {
            "Hash Match" => "hash join",
            "Nested Loops" => "nested loops",
            "Merge Join" => "merge join",
            _ => "adaptive join",
        })
    }

    /// The operator that reads a table.
    pub(super) fn read_of(&self, table: &str) -> Option<&Operator> {
        self.operators.iter().find(|operator| operator.table.as_deref() == Some(table))
    }
}

/// Parses the text after the name of an operator's tag, up to the next operator's.
fn operator(text: &str) -> Option<Operator> {
    let (tag, own) = text.split_once('>')?;
    let of_tag = |name| attribute(tag, name);
    let inner = |name: &str| own.split_once(name).and_then(|(_, rest)| rest.split_once('>')).map(|(tag, _)| tag);
    let number = |name| of_tag(name)?.parse::<f64>().ok();
    let joined_by = inner("<RunTimeCountersPerThread ").and_then(|tag| attribute(tag, "ActualJoinType"));
    let table = inner("<Object ").and_then(|tag| attribute(tag, "Table"));
    Some(Operator {
        physical: of_tag("PhysicalOp")?.to_owned(),
        logical: of_tag("LogicalOp")?.to_owned(),
        estimated_rows: number("EstimateRows")? * (number("EstimateRebinds").unwrap_or(0.0) + 1.0),
        joined_by: joined_by.map(str::to_owned),
        table: table.map(|name| name.trim_matches(['[', ']']).to_owned()),
    })
}

/// The value of an attribute, as written in a tag.
fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = tag;
    loop {
        let (before, behind) = rest.split_once("=\"")?;
        let (value, next) = behind.split_once('"')?;
        if before.trim_start() == name {
            return Some(value);
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_operator_by_operator() {
        let xml = r#"<X><RelOp EstimateRows="1" LogicalOp="Aggregate" PhysicalOp="Hash Match"><OutputList/>
            <RelOp EstimateRows="20.5" LogicalOp="Inner Join" PhysicalOp="Adaptive Join">
            <RunTimeCountersPerThread Thread="0" ActualJoinType="Hash Match"/>
            <RelOp EstimateRows="7" LogicalOp="Clustered Index Seek" PhysicalOp="Clustered Index Seek">
            <Object Database="[d]" Table="[fact]" Index="[i]"/><ScalarOperator ScalarString="a=&quot;x&quot;"/></RelOp>
            <RelOp EstimateRows="3" LogicalOp="Table Scan" PhysicalOp="Table Scan"><Object Table="[other]"/></RelOp>
            </RelOp></RelOp></X>"#;
        let plan = ShownPlan::of(xml);
        assert_eq!(plan.join(), Some("hash join"));
        assert_eq!(plan.read_of("fact").map(|operator| operator.estimated_rows), Some(7.0));
        assert_eq!(plan.read_of("other").map(|operator| operator.estimated_rows), Some(3.0));
        assert_eq!(plan.read_of("none"), None);
        let loops = ShownPlan::of(r#"<RelOp LogicalOp="Inner Join" PhysicalOp="Nested Loops" EstimateRows="1">"#);
        assert_eq!(loops.join(), Some("nested loops"));
        assert_eq!(ShownPlan::of("<RelOp PhysicalOp=").operators, []);
        assert_eq!(ShownPlan::of("").join(), None);
    }
}
