//! The star query with its sources in random orders: four dimensions and the fact table. A database that plans by
//! statistics, and not by the written order, takes about the same time for all of them.

use hobt_base::SplitMix64;

use super::{DIMENSION, FACTS, plan_of};
use crate::error::{LabError, Result};
use crate::experiment::Plan;
use crate::figures::median;
use crate::laboratory::Laboratory;
use crate::report::{Case, Grid, Mark};

/// The number of orders. In the first, the fact table comes first.
const ORDERS: usize = 10;
const SEED: u64 = 20_261_123;
/// The greatest allowed ratio of the slowest order's time to the fastest one's.
const SPREAD: f64 = 2.0;

/// A dimension in addition to that of members. Its keys start at 0.
struct Dimension {
    name: &'static str,
    rows: u64,
    /// The column used in conditions, computed from the key `value`.
    column: &'static str,
}

const DIMENSIONS: [Dimension; 3] = [
    Dimension { name: "StarDay", rows: 365, column: "CAST(value / 31 AS int) AS Month" },
    Dimension { name: "StarQuantity", rows: 1_000, column: "CAST(value * 7 % 100 AS int) AS Size" },
    Dimension { name: "StarAmount", rows: 100_000, column: "CAST(value * 7919 % 100 AS int) AS Band" },
];

/// The sources of the query with their conditions, the fact table first.
const SOURCES: [(&str, &str); 5] = [
    (FACTS, ""),
    (DIMENSION, "d0.Id = f.Member AND d0.Grade < 2500"),
    ("StarDay", "d1.Id = f.Day AND d1.Month = 5"),
    ("StarQuantity", "d2.Id = f.Quantity AND d2.Size < 40"),
    ("StarAmount", "d3.Id = f.Amount AND d3.Band < 60"),
];

/// Steps of [`ensure`].
pub(super) const STEPS: u64 = DIMENSIONS.len() as u64;

/// Creates the dimensions.
pub(super) fn ensure(lab: &mut Laboratory) -> Result<()> {
    for Dimension { name, rows, column, .. } in DIMENSIONS {
        let build = format!("SELECT value AS Id, {column} INTO dbo.{name} FROM GENERATE_SERIES(0, {})", rows - 1);
        lab.ensure_table(name, rows, &[build])?;
    }
    Ok(())
}

/// The indexes of the sources in each order. No order occurs twice.
fn orders() -> Vec<[usize; SOURCES.len()]> {
    let mut random = SplitMix64::new(SEED);
    let written = std::array::from_fn(|place| place);
    let mut orders = vec![written];
    while orders.len() < ORDERS {
        let mut order = written;
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}

/// The query with its sources in this order.
fn query(order: &[usize; SOURCES.len()], has_filter: bool) -> String {
    let alias = |place: usize| if place == 0 { "f".to_owned() } else { format!("d{}", place - 1) };
    let from: Vec<String> = order.iter().map(|&place| format!("dbo.{} {}", SOURCES[place].0, alias(place))).collect();
    let conditions: Vec<&str> = order.iter().map(|&place| SOURCES[place].1).filter(|text| !text.is_empty()).collect();
    let hint = if has_filter { "" } else { super::NO_FILTER };
    format!(
        "SELECT COUNT_BIG(*), SUM(f.Amount), SUM(CAST(f.Quantity AS bigint)), MAX(f.Remark) FROM {} WHERE {}{hint}",
        from.join(", "),
        conditions.join(" AND ")
    )
}

fn case_name(place: usize, has_filter: bool) -> String {
    format!("{}_{}", if has_filter { "order" } else { "no_filter_order" }, place + 1)
}

/// All orders with a filter, and all without.
pub(super) fn plans(rows: u64) -> Vec<Plan> {
    let all = [true, false]
        .into_iter()
        .flat_map(|has_filter| orders().into_iter().enumerate().map(move |(place, order)| (place, order, has_filter)));
    all.map(|(place, order, has_filter)| plan_of(case_name(place, has_filter), query(&order, has_filter), rows))
        .collect()
}

/// Checks that all orders give the same answer. One step.
pub(super) fn check(lab: &mut Laboratory) -> Result<()> {
    lab.progress().step("whether all orders give one answer");
    let mut first = None;
    for order in orders() {
        let statement = query(&order, true);
        let rows = lab.run(&statement)?.rows();
        match &first {
            None => first = Some(rows),
            Some(known) if *known != rows => {
                return Err(LabError::Wrong(format!("another order answered {known:?}, and {rows:?}: {statement}")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The median times of all orders.
fn times(cases: &[Case], has_filter: bool) -> Vec<f64> {
    let of = |place: usize| {
        let name = case_name(place, has_filter);
        cases.iter().find(|case| case.name == name)?.median("warm_s")
    };
    (0..ORDERS).filter_map(of).collect()
}

/// The ratio of the slowest order to the fastest.
fn spread(cases: &[Case], has_filter: bool) -> Option<f64> {
    let times = times(cases, has_filter);
    let (fastest, slowest) = (times.iter().copied().reduce(f64::min)?, times.iter().copied().reduce(f64::max)?);
    Some(slowest / fastest.max(1e-9))
}

pub(super) fn grid(cases: &[Case]) -> Grid {
    let headers = ["", "orders", "fastest s", "median s", "slowest s", "slowest / fastest"];
    let mut grid = Grid::new("One star of four dimensions in random orders", &headers);
    for has_filter in [true, false] {
        let times = times(cases, has_filter);
        let shown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.4}"));
        grid.rows.push(vec![
            if has_filter { "with filters" } else { "without" }.to_owned(),
            times.len().to_string(),
            shown(times.iter().copied().reduce(f64::min)),
            shown(median(&times)),
            shown(times.iter().copied().reduce(f64::max)),
            spread(cases, has_filter).map_or_else(|| "-".to_owned(), |spread| format!("{spread:.2}")),
        ]);
    }
    grid
}

pub(super) fn marks(cases: &[Case]) -> Vec<Mark> {
    let mark = |has_filter: bool| {
        let small = |place| super::too_small(cases, &case_name(place, has_filter));
        Some(Mark {
            name: format!(
                "random join orders{}, slowest over fastest",
                if has_filter { "" } else { " without filters" }
            ),
            value: spread(cases, has_filter)?,
            bound: SPREAD,
            at_least: false,
            of: None,
            too_small: (0..ORDERS).find_map(small),
            interval: None,
        })
    };
    [true, false].into_iter().filter_map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_has_all_sources_and_conditions_in_another_order() {
        let orders = orders();
        assert_eq!((orders.len(), orders[0]), (ORDERS, [0, 1, 2, 3, 4]));
        for order in &orders {
            let text = query(order, true);
            for (source, condition) in SOURCES {
                assert!(text.contains(&format!("dbo.{source} ")) && text.contains(condition), "{text}");
            }
            assert_eq!(orders.iter().filter(|other| *other == order).count(), 1);
        }
        for Dimension { name, .. } in DIMENSIONS {
            assert!(SOURCES.iter().any(|(source, on)| *source == name && on.contains(" = f.")), "{name}");
        }
    }
}
