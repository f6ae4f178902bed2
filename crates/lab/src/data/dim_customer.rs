//! `DimCustomer`: customers like those in AdventureWorksDW's table, generated from a seed.
//!
//! The experiments depend on the shape of the data: 18,484 rows, the columns' types and lengths, a MiddleName that is
//! NULL in 42 % of the rows, an AddressLine2 that is NULL in 98 %. The words are our own (`names.rs`). Each row has its
//! own random sequence, so row n is independent of the number of rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, RecordBatch, StringViewArray, UInt8Array};
use hobt_base::SplitMix64;

use super::names;

/// Rows of AdventureWorksDW's table.
pub const CUSTOMERS: u64 = 18_484;

/// The seed of the laboratory's customers.
pub const SEED: u64 = 0x00D1_AC05;

/// The table's definition. The key is not an IDENTITY, because the rows contain it.
pub const CREATE_DIM_CUSTOMER: &str = "CREATE TABLE dbo.DimCustomer (
    CustomerKey int NOT NULL,
    GeographyKey int NULL,
    CustomerAlternateKey nvarchar(15) NOT NULL,
    Title nvarchar(8) NULL,
    FirstName nvarchar(50) NULL,
    MiddleName nvarchar(50) NULL,
    LastName nvarchar(50) NULL,
    NameStyle bit NULL,
    BirthDate date NULL,
    MaritalStatus nchar(1) NULL,
    Suffix nvarchar(10) NULL,
    Gender nvarchar(1) NULL,
    EmailAddress nvarchar(50) NULL,
    YearlyIncome money NULL,
    TotalChildren tinyint NULL,
    NumberChildrenAtHome tinyint NULL,
    EnglishEducation nvarchar(40) NULL,
    SpanishEducation nvarchar(40) NULL,
    FrenchEducation nvarchar(40) NULL,
    EnglishOccupation nvarchar(100) NULL,
    SpanishOccupation nvarchar(100) NULL,
    FrenchOccupation nvarchar(100) NULL,
    HouseOwnerFlag nchar(1) NULL,
    NumberCarsOwned tinyint NULL,
    AddressLine1 nvarchar(120) NULL,
    AddressLine2 nvarchar(120) NULL,
    Phone nvarchar(20) NULL,
    DateFirstPurchase date NULL,
    CommuteDistance nvarchar(15) NULL
)";

/// The first key, as in AdventureWorksDW.
const FIRST_KEY: i32 = 11_000;

/// 1930-01-01 and 1985-12-31 in days since 1970-01-01.
const BIRTH_DATES: (i32, i32) = (-14_610, 5_843);

/// 2010-12-29 and 2014-01-28 in days since 1970-01-01.
const PURCHASE_DATES: (i32, i32) = (14_972, 16_098);

/// One customer. Values derived from other columns are not stored.
struct Customer {
    key: i32,
    alternate_key: String,
    geography: i32,
    title: Option<&'static str>,
    first_name: &'static str,
    middle_name: Option<String>,
    last_name: &'static str,
    is_married: bool,
    is_woman: bool,
    suffix: Option<&'static str>,
    email: String,
    birth: i32,
    income: i128,
    children: u8,
    children_at_home: u8,
    education: &'static [&'static str; 3],
    occupation: &'static [&'static str; 3],
    owns_house: bool,
    cars: u8,
    address_1: String,
    address_2: Option<String>,
    phone: String,
    first_purchase: i32,
    commute: &'static str,
}

fn pick<T>(random: &mut SplitMix64, from: &'static [T]) -> &'static T {
    &from[number(random, from.len() as u64) as usize]
}

fn number(random: &mut SplitMix64, bound: u64) -> u32 {
    u32::try_from(random.below(bound)).expect("bounds are small")
}

fn percent(random: &mut SplitMix64, percent: u64) -> bool {
    random.below(100) < percent
}

fn day(random: &mut SplitMix64, (first, last): (i32, i32)) -> i32 {
    first + number(random, u64::from(first.abs_diff(last)) + 1) as i32
}

impl Customer {
    fn new(seed: u64, row: u64) -> Customer {
        // Hash the row number, otherwise neighbouring seeds would give shifted copies of one sequence.
        let mut random = SplitMix64::new(SplitMix64::new(seed ^ row.wrapping_mul(0xA076_1D64_78BD_642F)).next_u64());
        let random = &mut random;
        let key = FIRST_KEY + i32::try_from(row).expect("fewer rows than keys");
        let first = number(random, names::FIRST_NAMES.len() as u64) as usize;
        let (first_name, is_woman) = (names::FIRST_NAMES[first], first < names::WOMEN);
        let middle_name = (!percent(random, 42)).then(|| match number(random, 20) {
            0 => (*pick(random, &names::FIRST_NAMES)).to_owned(),
            _ => char::from(b'A' + number(random, 26) as u8).to_string(),
        });
        let last_name = *pick(random, &names::LAST_NAMES);
        let children = number(random, 6) as u8;
        let street = pick(random, &names::STREETS);
        let kind = pick(random, &names::STREET_KINDS);
        let house = 1 + number(random, 9_999);
        let address_2 = percent(random, 2).then(|| match number(random, 3) {
            0 => format!("Apt. {}", 1 + number(random, 400)),
            1 => format!("Bldg. {}", 1 + number(random, 30)),
            _ => format!("Unit {}", 1 + number(random, 99)),
        });
        let (area, exchange, line) = (201 + number(random, 700), 500 + number(random, 100), 100 + number(random, 100));
        Customer {
            key,
            alternate_key: format!("AW{key:08}"),
            geography: 1 + number(random, 655) as i32,
            title: percent(random, 1).then_some(if is_woman { "Ms." } else { "Mr." }),
            first_name,
            middle_name,
            last_name,
            is_married: percent(random, 54),
            is_woman,
            suffix: (number(random, 6_000) == 0).then_some("Jr."),
            email: format!("{}{}@example.com", first_name.to_lowercase(), number(random, 100)),
            birth: day(random, BIRTH_DATES),
            income: i128::from(1 + number(random, 17)) * 10_000 * 10_000,
            children,
            children_at_home: number(random, u64::from(children) + 1) as u8,
            education: pick(random, &names::EDUCATIONS),
            occupation: pick(random, &names::OCCUPATIONS),
            owns_house: percent(random, 68),
            cars: number(random, 5) as u8,
            address_1: format!("{house} {street} {kind}"),
            address_2,
            phone: format!("{area}-555-{:04}", (exchange * line) % 10_000),
            first_purchase: day(random, PURCHASE_DATES),
            commute: pick::<&str>(random, &names::COMMUTES),
        }
    }
}

fn text<'a>(customers: &'a [Customer], value: impl Fn(&'a Customer) -> Option<&'a str>) -> ArrayRef {
    Arc::new(customers.iter().map(value).collect::<StringViewArray>())
}

fn small(customers: &[Customer], value: impl Fn(&Customer) -> u8) -> ArrayRef {
    Arc::new(UInt8Array::from_iter_values(customers.iter().map(value)))
}

fn int(customers: &[Customer], value: impl Fn(&Customer) -> i32) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(customers.iter().map(value)))
}

fn date(customers: &[Customer], value: impl Fn(&Customer) -> i32) -> ArrayRef {
    Arc::new(Date32Array::from_iter_values(customers.iter().map(value)))
}

/// The first `rows` customers of a seed, as one batch with the table's columns in their carriers.
pub fn dim_customer(seed: u64, rows: u64) -> RecordBatch {
    let customers: Vec<Customer> = (0..rows).map(|row| Customer::new(seed, row)).collect();
    let all = &customers[..];
    let income = Decimal128Array::from_iter_values(all.iter().map(|one| one.income));
    let income = income.with_precision_and_scale(19, 4).expect("money is Decimal128(19, 4)");
    let columns: [(&str, ArrayRef); 29] = [
        ("CustomerKey", int(all, |one| one.key)),
        ("GeographyKey", int(all, |one| one.geography)),
        ("CustomerAlternateKey", text(all, |one| Some(&one.alternate_key))),
        ("Title", text(all, |one| one.title)),
        ("FirstName", text(all, |one| Some(one.first_name))),
        ("MiddleName", text(all, |one| one.middle_name.as_deref())),
        ("LastName", text(all, |one| Some(one.last_name))),
        ("NameStyle", small(all, |_| 0)),
        ("BirthDate", date(all, |one| one.birth)),
        ("MaritalStatus", text(all, |one| Some(if one.is_married { "M" } else { "S" }))),
        ("Suffix", text(all, |one| one.suffix)),
        ("Gender", text(all, |one| Some(if one.is_woman { "F" } else { "M" }))),
        ("EmailAddress", text(all, |one| Some(&one.email))),
        ("YearlyIncome", Arc::new(income)),
        ("TotalChildren", small(all, |one| one.children)),
        ("NumberChildrenAtHome", small(all, |one| one.children_at_home)),
        ("EnglishEducation", text(all, |one| Some(one.education[0]))),
        ("SpanishEducation", text(all, |one| Some(one.education[1]))),
        ("FrenchEducation", text(all, |one| Some(one.education[2]))),
        ("EnglishOccupation", text(all, |one| Some(one.occupation[0]))),
        ("SpanishOccupation", text(all, |one| Some(one.occupation[1]))),
        ("FrenchOccupation", text(all, |one| Some(one.occupation[2]))),
        ("HouseOwnerFlag", text(all, |one| Some(if one.owns_house { "1" } else { "0" }))),
        ("NumberCarsOwned", small(all, |one| one.cars)),
        ("AddressLine1", text(all, |one| Some(&one.address_1))),
        ("AddressLine2", text(all, |one| one.address_2.as_deref())),
        ("Phone", text(all, |one| Some(&one.phone))),
        ("DateFirstPurchase", date(all, |one| one.first_purchase)),
        ("CommuteDistance", text(all, |one| Some(one.commute))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("all columns have a value a customer")
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};

    use super::*;
    use crate::data::content_hash;

    fn nulls(batch: &RecordBatch, column: &str) -> f64 {
        let array = batch.column_by_name(column).expect("the column is there");
        array.null_count() as f64 / array.len() as f64
    }

    #[test]
    fn customers_are_the_same_on_every_machine() {
        let batch = dim_customer(SEED, CUSTOMERS);
        assert_eq!(content_hash(std::slice::from_ref(&batch)), content_hash(&[dim_customer(SEED, CUSTOMERS)]));
        assert_eq!(content_hash(&[batch.slice(0, 100)]), content_hash(&[dim_customer(SEED, 100)]));
        assert_ne!(content_hash(&[batch.slice(0, 100)]), content_hash(&[dim_customer(SEED + 1, 100)]));
        assert_eq!(
            content_hash(&[batch]),
            11_208_098_301_769_824_069,
            "changed data make old results incomparable: change the seed's name too"
        );
    }

    #[test]
    fn the_shape_is_that_of_the_real_table() {
        let batch = dim_customer(SEED, CUSTOMERS);
        assert_eq!(batch.num_rows(), 18_484);
        assert!((0.41..0.43).contains(&nulls(&batch, "MiddleName")));
        assert!((0.975..0.985).contains(&nulls(&batch, "AddressLine2")));
        let keys = batch.column_by_name("CustomerAlternateKey").expect("there").as_string_view();
        assert_eq!((keys.value(0), keys.value(18_483)), ("AW00011000", "AW00029483"));
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let limit = CREATE_DIM_CUSTOMER
                .lines()
                .find_map(|line| line.trim().strip_prefix(field.name().as_str())?.strip_prefix(' '))
                .unwrap_or_else(|| panic!("{} is not in the definition", field.name()));
            let Some((_, limit)) = limit.split_once('(') else { continue };
            let limit: usize = limit.split_once(')').expect("a closed length").0.parse().expect("a number");
            let longest = array.as_string_view().iter().flatten().map(|text| text.encode_utf16().count()).max();
            assert!(longest.unwrap_or(0) <= limit, "{} holds {longest:?} of {limit}", field.name());
        }
    }
}
