//! The forty queries on a few rows: every case has its figures, and every answer is the one that is computed here from
//! the formulas of the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use arrow::temporal_conversions::date32_to_datetime;
use hobt_lab::RunOptions;
use serde_json::{Value, json};

use crate::experiments::{SMALL, assert_complete, case, run};

const ROWS: i64 = 3_000;
/// Days from 1970-01-01 to the first day of the facts, and to the last of 2025.
const FIRST_DAY: i64 = 16_436;
const LAST_OF_2025: i64 = 20_453;
/// Members of the dimension; their keys begin at 0.
const MEMBERS: i64 = 10_000;

/// Two runs of one experiment would use the same folder.
static RUNS: Mutex<()> = Mutex::new(());

struct Fact {
    id: i64,
    k: i64,
    u: i64,
    city: String,
    word: String,
    day: i64,
    cents: i64,
    price: f64,
    digits: i64,
    note: Option<String>,
}

impl Fact {
    fn new(id: i64) -> Fact {
        let note = match id {
            _ if id % 50 == 0 => None,
            _ if id % 97 == 3 => Some(format!("a note with a needle in it {}", id % 1013)),
            _ => Some(format!("a note without it, number {}", id % 1013)),
        };
        Fact {
            id,
            k: id * 48_271 % 1_000,
            u: id * 7_919 % 2_147_483_647,
            city: format!("City of {}", id * 7_919 % 300),
            word: format!("w{}x", id * 104_729 % 1_000_000),
            day: FIRST_DAY + id * 31_337 % 3_650,
            cents: id * 1_299_709 % 1_000_000,
            price: (id * 15_485_863 % 100_000) as f64 / 7.0,
            digits: id * 32_452_843 % 10_000_000,
            note,
        }
    }

    /// Its year and month.
    fn month(&self) -> (i64, i64) {
        let date = date32_to_datetime(i32::try_from(self.day).expect("a day")).expect("a date");
        let part = |format: &str| date.format(format).to_string().parse().expect("a number");
        (part("%Y"), part("%m"))
    }
}

fn decimal(cents: i64) -> String {
    format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100)
}

/// The number of the facts and the greatest `u` of them.
fn count_and_max<'f>(facts: impl Iterator<Item = &'f Fact>) -> Vec<String> {
    let found: Vec<i64> = facts.map(|fact| fact.u).collect();
    vec![found.len().to_string(), found.iter().max().expect("some").to_string()]
}

/// The number of the facts and the sum of their amounts.
fn count_and_sum<'f>(facts: impl Iterator<Item = &'f Fact>) -> Vec<String> {
    let found: Vec<i64> = facts.map(|fact| fact.cents).collect();
    vec![found.len().to_string(), decimal(found.iter().sum())]
}

/// The facts by a key, in the order of the keys. Texts here are ASCII in one case, with the order of their bytes.
fn groups<K: Ord>(facts: &[Fact], key: impl Fn(&Fact) -> K) -> BTreeMap<K, Vec<&Fact>> {
    let mut groups: BTreeMap<K, Vec<&Fact>> = BTreeMap::new();
    for fact in facts {
        groups.entry(key(fact)).or_default().push(fact);
    }
    groups
}

/// The number of groups and the size of the largest.
fn count_and_largest<K: Ord>(facts: &[Fact], key: impl Fn(&Fact) -> K) -> Vec<String> {
    let groups = groups(facts, key);
    vec![groups.len().to_string(), groups.values().map(Vec::len).max().expect("some").to_string()]
}

/// Every thousandth row of an order, from the first on.
fn thousandths<'f>(rows: impl Iterator<Item = &'f Fact>) -> Vec<&'f Fact> {
    rows.step_by(1_000).collect()
}

/// The facts that a query without groups counts, and with them what it computes, by name.
fn of_filters(facts: &[Fact]) -> Vec<(&'static str, Vec<String>)> {
    let all = || facts.iter();
    // The first quarter of 2018.
    let days = FIRST_DAY + 1_096..FIRST_DAY + 1_186;
    let has_needle = |fact: &&Fact| fact.note.as_ref().is_some_and(|note| note.contains("needle"));
    let in_range = || all().filter(|fact| (500_000_000..=700_000_000).contains(&fact.u));
    let sum_of_k: i64 = all().map(|fact| fact.k).sum();
    let most = |of: fn(&Fact) -> i64| all().map(of).max().expect("some");
    vec![
        ("count", vec![ROWS.to_string()]),
        (
            "sum_max_min",
            vec![
                sum_of_k.to_string(),
                most(|fact| fact.u).to_string(),
                decimal(all().map(|fact| fact.cents).min().expect("some")),
            ],
        ),
        (
            "range",
            match in_range().map(|fact| fact.id).max() {
                Some(id) => vec![in_range().count().to_string(), id.to_string()],
                None => vec!["0".to_owned(), "NULL".to_owned()],
            },
        ),
        ("date_range", count_and_sum(all().filter(|fact| days.contains(&fact.day)))),
        ("equal", count_and_max(all().filter(|fact| fact.k == 77))),
        ("in_list", count_and_max(all().filter(|fact| [3, 77, 123, 200, 451, 612, 801, 999].contains(&fact.k)))),
        ("text_equal", count_and_max(all().filter(|fact| fact.city == "City of 42"))),
        ("like_prefix", count_and_max(all().filter(|fact| fact.word.starts_with("w123")))),
        ("like_infix", count_and_max(all().filter(has_needle))),
    ]
}

fn of_groups(facts: &[Fact]) -> Vec<(&'static str, Vec<String>)> {
    fn first<K: Ord>(groups: BTreeMap<K, Vec<&Fact>>) -> (K, Vec<&Fact>) {
        groups.into_iter().next().expect("a group")
    }
    let beside = |key: Vec<String>, figures: Vec<String>| [key, figures].concat();
    let (k, of_k) = first(groups(facts, |fact| fact.k));
    let (city, of_city) = first(groups(facts, |fact| fact.city.clone()));
    let ((year, month), of_month) = first(groups(facts, Fact::month));
    let (start, of_start) = first(groups(facts, |fact| fact.word[..3].to_owned()));
    let different = |of: fn(&Fact) -> String| facts.iter().map(of).collect::<BTreeSet<String>>().len().to_string();
    vec![
        ("group_int", beside(vec![k.to_string()], count_and_sum(of_k.into_iter()))),
        ("group_int_all", count_and_largest(facts, |fact| fact.u)),
        ("group_text", beside(vec![city], count_and_sum(of_city.into_iter()))),
        ("group_text_many", count_and_largest(facts, |fact| fact.word.clone())),
        ("group_two", count_and_largest(facts, |fact| (fact.k, fact.city.clone()))),
        (
            "group_month",
            vec![year.to_string(), month.to_string(), decimal(of_month.iter().map(|fact| fact.cents).sum())],
        ),
        ("group_substring", vec![start, of_start.len().to_string()]),
        ("distinct_int", vec![different(|fact| fact.u.to_string())]),
        ("distinct_text", vec![different(|fact| fact.word.clone())]),
    ]
}

fn of_orders(facts: &[Fact]) -> Vec<(&'static str, Vec<String>)> {
    let by_u = groups(facts, |fact| fact.u);
    let by_word = groups(facts, |fact| (fact.word.clone(), fact.id));
    let greatest = by_u.values().next_back().expect("some")[0];
    let first_word = by_word.values().next().expect("some")[0];
    let every_u = thousandths(by_u.values().flatten().copied());
    let of_cities: Vec<&Fact> = groups(facts, |fact| fact.city.clone())
        .into_values()
        .flat_map(|mut city| {
            city.sort_by_key(|fact| (fact.word.clone(), fact.id));
            thousandths(city.into_iter())
        })
        .collect();
    let by_k = groups(facts, |fact| fact.k);
    let total = by_k.values().map(|group| group.iter().map(|fact| fact.cents).sum::<i64>()).max().expect("some");
    let steps: i64 = by_k.values().flat_map(|group| group.windows(2)).map(|pair| pair[1].u - pair[0].u).sum();
    let top: Vec<i64> = by_k
        .values()
        .flat_map(|group| {
            let mut values: Vec<i64> = group.iter().map(|fact| fact.u).collect();
            values.sort_unstable_by(|a, b| b.cmp(a));
            values.into_iter().take(3)
        })
        .collect();
    let sum = |facts: &[&Fact], of: fn(&Fact) -> i64| facts.iter().map(|fact| of(fact)).sum::<i64>().to_string();
    vec![
        ("top_int", vec![greatest.u.to_string(), greatest.id.to_string()]),
        ("top_text", vec![first_word.word.clone(), first_word.id.to_string()]),
        ("row_number_int", vec![every_u.len().to_string(), sum(&every_u, |fact| fact.u)]),
        ("row_number_text", vec![of_cities.len().to_string(), sum(&of_cities, |fact| fact.id)]),
        // No amount is negative, so the greatest running sum is that of a whole group.
        ("running_sum", vec![decimal(total), ROWS.to_string()]),
        ("lag", vec![steps.to_string()]),
        ("top_3_of_each", vec![top.len().to_string(), top.iter().sum::<i64>().to_string()]),
    ]
}

fn of_joins_and_sets(facts: &[Fact]) -> Vec<(&'static str, Vec<String>)> {
    let all = || facts.iter();
    let words = |from: i64, to: i64| -> BTreeSet<&str> {
        all().filter(|fact| (from..to).contains(&fact.k)).map(|fact| fact.word.as_str()).collect()
    };
    let left = words(0, 500).difference(&words(990, 1_000)).count();
    let pairs = groups(facts, |fact| (fact.city.clone(), fact.k % 10)).len();
    let cities = groups(facts, |fact| fact.city.clone()).len();
    let joined = groups(facts, |fact| fact.k);
    let length = |group: &Vec<&Fact>| group.iter().map(|fact| fact.word.len() + 1).sum::<usize>() - 1;
    vec![
        ("join_selective", count_and_sum(all().filter(|fact| fact.k % 100 == 7))),
        ("join_all", [vec!["0".to_owned()], count_and_sum(all().filter(|fact| fact.k % 100 == 0))].concat()),
        ("join_text", count_and_sum(all())),
        ("semi", count_and_max(all().filter(|fact| fact.k % 100 < 50))),
        ("anti", count_and_max(all().filter(|fact| fact.k % 100 >= 50))),
        ("union", vec![MEMBERS.to_string()]),
        ("except", vec![left.to_string()]),
        ("rollup", vec![(pairs + cities + 1).to_string(), (3 * ROWS).to_string()]),
        ("string_agg", vec![joined.values().map(length).max().expect("some").to_string()]),
    ]
}

fn of_expressions(facts: &[Fact]) -> Vec<(&'static str, Vec<String>)> {
    let all = || facts.iter();
    let sum = |of: &dyn Fn(&Fact) -> i64| all().map(of).sum::<i64>();
    // 2019-01-01.
    let turn = FIRST_DAY + 1_461;
    let replaced = |fact: &Fact| fact.note.as_ref().map_or(0, |note| note.replace("it", "them").len() as i64);
    let months = |fact: &Fact| {
        let (year, month) = fact.month();
        (2_025 - year) * 12 + 12 - month
    };
    let average = all().map(|fact| fact.price * 1.5 / (fact.k + 1) as f64).sum::<f64>() / ROWS as f64;
    vec![
        (
            "case_sums",
            vec![
                decimal(sum(&|fact| if fact.k < 100 { fact.cents } else { 0 })),
                sum(&|fact| i64::from(fact.k >= 500)).to_string(),
                decimal(sum(&|fact| if fact.day < turn { fact.cents } else { -fact.cents })),
            ],
        ),
        (
            "upper_replace",
            vec![all().map(|fact| fact.word.to_uppercase()).max().expect("some"), sum(&replaced).to_string()],
        ),
        (
            "to_text",
            vec![
                all().map(|fact| fact.u.to_string()).max().expect("some"),
                all().map(|fact| decimal(fact.cents).len()).max().expect("some").to_string(),
            ],
        ),
        ("from_text", vec![sum(&|fact| fact.digits).to_string()]),
        ("decimal_float", vec![decimal(sum(&|fact| 2 * fact.cents + 100 * fact.k)), format!("{average:.4}")]),
        (
            "datediff",
            vec![sum(&|fact| LAST_OF_2025 - fact.day).to_string(), all().map(months).max().expect("some").to_string()],
        ),
    ]
}

#[test]
fn each_of_the_forty_queries_has_its_figures_and_the_right_answer() {
    let _alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let (report, json) = run("operators", RunOptions { rows: Some(ROWS.unsigned_abs()), repeat: 1, ..SMALL });
    assert_complete(&json);
    let facts: Vec<Fact> = (1..=ROWS).map(Fact::new).collect();
    let parts = [of_filters(&facts), of_groups(&facts), of_orders(&facts), of_joins_and_sets(&facts)];
    let expected: Vec<(&str, Vec<String>)> = parts.into_iter().flatten().chain(of_expressions(&facts)).collect();
    assert_eq!((expected.len(), report.cases.len()), (40, 40));
    for (name, answer) in expected {
        let case = case(&json, name);
        let answer: Vec<Value> =
            answer.into_iter().map(|cell| if cell == "NULL" { Value::Null } else { json!(cell) }).collect();
        assert_eq!(case["answer"], json!(answer), "{name}");
        for key in ["warm_s_median", "scan_s_median", "over_scan", "rows_per_s", "pages_gb_s", "of_memory_percent"] {
            assert!(case[key].as_f64().is_some_and(|value| value > 0.0), "{key} of {name}: {}", case[key]);
        }
        let operators = case["operators"].as_array().expect("a list");
        assert!(operators.iter().any(|operator| operator["table"] == "OperatorFact"), "{name}: {operators:?}");
        assert!(case["operators_percent"].as_f64().is_some_and(|percent| percent > 0.0), "{name}");
        assert!(case["drawn_plan"].as_str().is_some_and(|plan| plan.contains("Table Scan")), "{name}");
    }
    assert_eq!(case(&json, "group_int")["answer_rows"], 1_000);
    assert_eq!(case(&json, "top_int")["answer_rows"], 10);
    let page = report.to_html();
    assert!(page.contains("<h2>Plans</h2>") && page.matches("<details>").count() == 40);
    assert!(report.headline()[0].contains("times what reading its columns takes, the median of 40"));
}

#[test]
fn operators_run_the_query_that_is_asked_for() {
    let _alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let cases = vec!["equal".to_owned()];
    let (report, json) = run("operators", RunOptions { rows: Some(1_000), repeat: 2, cases, ..SMALL });
    assert_eq!(report.cases.len(), 1);
    let case = case(&json, "equal");
    assert_eq!(case["scan_statement"], "SELECT MAX(k), MAX(u) FROM OperatorFact");
    assert!(report.headline()[0].starts_with("equal takes "), "{:?}", report.headline());
}
