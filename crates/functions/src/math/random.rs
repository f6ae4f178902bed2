//! `RAND`.
//!
//! The generator is L'Ecuyer's combination of two congruential generators (CACM 31, 1988). It returns the values that
//! SQL Server documents and users have observed, such as `RAND(100)` = 0.715436657367485.

use arrow::array::ArrayRef;
use arrow::datatypes::Float64Type;
use hobt_base::SqlError;

use crate::function::Call;

const FIRST_MODULUS: i64 = 2_147_483_563;
const FIRST_FACTOR: i64 = 40_014;
const SECOND_MODULUS: i64 = 2_147_483_399;
const SECOND_FACTOR: i64 = 40_692;
/// 1 / FIRST_MODULUS in the seven digits of the published program.
const UNIT: f64 = 4.656_613e-10;
/// The states for the seed 0.
const FIRST_DEFAULT: i64 = 12_345;
const SECOND_START: i64 = 67_890;

/// The first number of the sequence for `seed`.
fn first_of_seed(seed: i64) -> f64 {
    let seed = seed.unsigned_abs() as i64 % FIRST_MODULUS;
    let first = (if seed == 0 { FIRST_DEFAULT } else { seed }) * FIRST_FACTOR % FIRST_MODULUS;
    let second = SECOND_START * SECOND_FACTOR % SECOND_MODULUS;
    let mut difference = first - second;
    if difference < 1 {
        difference += FIRST_MODULUS - 1;
    }
    difference as f64 * UNIT
}

/// With a seed, one number per seed; without a seed, one number for the whole call.
pub(super) fn rand(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    if call.args.is_empty() {
        let bits = hobt_base::SplitMix64::new(call.context.random_seed).next_u64() >> 11;
        let value = bits as f64 / (1u64 << 53) as f64;
        return call.primitive_result::<Float64Type>(|_| Ok(Some(value)));
    }
    // A NULL seed is treated as 0.
    let seeds = call.integers(0)?;
    call.primitive_result::<Float64Type>(|row| Ok(Some(first_of_seed(seeds.get(row).unwrap_or(0)))))
}

#[cfg(test)]
mod tests {
    use super::first_of_seed;

    #[test]
    fn seeds_give_the_known_numbers() {
        for (seed, expected) in [(100, 0.715_436_657_367_485), (1, 0.713_591_993_212_924), (0, 0.943_597_390_424_144)] {
            assert!((first_of_seed(seed) - expected).abs() < 1e-9, "{seed}: {}", first_of_seed(seed));
        }
    }
}
