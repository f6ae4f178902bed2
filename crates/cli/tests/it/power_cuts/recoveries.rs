//! Recovery that is interrupted repeatedly while it undoes a large transaction.

use hobt_base::SplitMix64;

use super::World;
use crate::client;

/// Rows of the table, all changed by the open transaction.
const ROWS: i64 = 3_000;
const CUTS: u64 = 10;
/// The greatest number of disk operations after which recovery is interrupted, so that it gets more or less far.
const REACH: u64 = 30;

#[test]
fn a_recovery_that_is_cut_off_ten_times_undoes_a_large_transaction_whole() {
    let mut random = SplitMix64::new(1);
    let mut world = World::new();
    let mut session = world.session();
    client::ok(
        &mut session,
        &format!(
            "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int NOT NULL, s varchar(300) NOT NULL); \
             CREATE INDEX by_v ON t (v); \
             INSERT t SELECT value, value % 100, REPLICATE('a', 200) FROM GENERATE_SERIES(1, {ROWS}); CHECKPOINT; \
             BEGIN TRANSACTION; UPDATE t SET v = -v - 1, s = REPLICATE('b', 300); DELETE t WHERE id % 3 = 0; \
             INSERT t SELECT value + {ROWS}, -1, 'new' FROM GENERATE_SERIES(1, {ROWS})"
        ),
    );
    // A later commit makes the log of the open transaction durable.
    client::ok(&mut world.session(), "CREATE TABLE told (n int NOT NULL); INSERT told VALUES (1)");
    world.disk.lose_power(random.next_u64());
    drop(session);
    world.lose_power(0);
    let mut cut = 0;
    for _ in 0..CUTS {
        world.disk.crash_at(world.disk.changes() + 1 + random.below(REACH), random.next_u64());
        let failed = world.start().err().or_else(|| {
            let mut session = world.instance().session().expect("a session");
            client::answer(&mut session, "USE d").1
        });
        // Only the power cut may stop it. The test looks for a recovery that fails by itself.
        assert!(failed.is_none() || world.disk.is_off(), "{failed:?}");
        cut += u64::from(world.disk.is_off());
        world.lose_power(random.next_u64());
    }
    assert!(cut >= CUTS / 2, "recovery was cut off {cut} times");
    let story = format!("{cut} recoveries cut off");
    world.start_again(&story);
    let mut session = world.session();
    let sums = "SELECT CONCAT(COUNT(*), ' ', SUM(id), ' ', SUM(v), ' ', SUM(LEN(s)), ' ', MIN(s)) FROM t";
    let expected = format!("{ROWS} {} {} {} {}", ROWS * (ROWS + 1) / 2, ROWS / 100 * 4950, ROWS * 200, "a".repeat(200));
    assert_eq!(client::ok(&mut session, sums), [[expected]], "{story}");
    assert_eq!(client::number(&mut session, "SELECT COUNT(*) FROM t WITH (INDEX (by_v)) WHERE v < 0"), 0);
    assert_eq!(client::number(&mut session, "SELECT n FROM told"), 1, "{story}");
}
