//! The tables that the texts' scripts expect.

use hobt_engine::InstanceSettings;
use hobt_lab::{FIXTURE_DATABASE, FixtureOptions, Laboratory, Progress, RunOptions, make_fixtures};

use crate::TestFolder;

#[test]
fn fixtures_are_made_once_and_found_again() {
    let folder = TestFolder::new("fixtures");
    let options = FixtureOptions { big_data_rows: Some(40_000), line_item_scale: Some(0.001), tpch_scale: None };
    for _ in 0..2 {
        let text = make_fixtures(folder.path(), options, Progress::hidden()).expect("they are made");
        assert!(text.contains("DimCustomer: 18,484 rows") && text.contains("BigData: 55,452 rows"), "{text}");
    }
    let mut lab = Laboratory::open_database(
        folder.path(),
        FIXTURE_DATABASE,
        InstanceSettings::default(),
        RunOptions::default(),
        Progress::hidden(),
    )
    .expect("the instance opens again");
    let question = "SELECT COUNT(*), COUNT(MiddleName), COUNT(AddressLine2), MIN(CustomerAlternateKey), \
                    MAX(CustomerKey), COUNT(DISTINCT CustomerKey) FROM dbo.DimCustomer";
    let answer = lab.run(question).expect("it can be asked").rows();
    let row: Vec<&str> = answer[0].iter().map(|cell| cell.as_deref().expect("no NULL")).collect();
    let count = |place: usize| row[place].parse::<f64>().expect("a number") / 18_484.0;
    assert_eq!((row[0], row[3], row[4], row[5]), ("18484", "AW00011000", "29483", "18484"));
    assert!((0.57..0.59).contains(&count(1)) && (0.015..0.025).contains(&count(2)), "{row:?}");
    lab.close().expect("it closes");
}
