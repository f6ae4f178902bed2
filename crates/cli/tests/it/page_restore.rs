//! Single pages of trees, heaps and large values are damaged on disk and restored, through everything that has changed
//! them since the backup.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use hobt::Instance;
use hobt_base::{PAGE_SIZE, SplitMix64};

use crate::client::{error, instance_with, ok, rows, session_in, setting};

/// Pages at the front of a file that are restored with the whole file alone.
const CONTROL_PAGES: u64 = 8;

const SCHEMA: &str = "
ALTER DATABASE d SET RECOVERY FULL;
CREATE TABLE t (id int PRIMARY KEY, part int INDEX by_part, text varchar(200), big nvarchar(max));
INSERT t SELECT value, value % 97, REPLICATE('x', value % 150), IIF(value % 50 = 0, REPLICATE(N'y', 6000), NULL)
FROM GENERATE_SERIES(1, 3000);
CREATE TABLE h (id int, text varchar(500));
INSERT h SELECT value, 'row' FROM GENERATE_SERIES(1, 2000);";

const CHANGES: &[&str] = &[
    "UPDATE t SET part = part + 1, text = REPLICATE('z', id % 190) WHERE id % 3 = 0",
    "DELETE t WHERE id % 11 = 5",
    "UPDATE h SET text = REPLICATE('moved', 80) WHERE id % 7 = 1",
    "INSERT t (id, part, text, big) SELECT MAX(id) + 1, 5, 'new', REPLICATE(N'w', 9000) FROM t",
    "UPDATE t SET big = REPLICATE(N'v', 4100) WHERE id % 40 = 1",
    "INSERT h SELECT id + 100000, text FROM h WHERE id % 5 = 2",
    "ALTER INDEX by_part ON t REORGANIZE",
    "CHECKPOINT",
    "BEGIN TRANSACTION; UPDATE t SET text = 'never' WHERE id % 4 = 1; ROLLBACK",
];

/// What the tables hold, by each of their trees.
const CONTENT: &str = "
SELECT COUNT(*), SUM(CAST(id AS bigint) * part), SUM(LEN(text)), SUM(DATALENGTH(big)), MAX(big) FROM d.dbo.t;
SELECT COUNT(*), SUM(part) FROM d.dbo.t WITH (INDEX(by_part)) WHERE part >= 0;
SELECT COUNT(*), SUM(CAST(id AS bigint)), SUM(LEN(text)) FROM d.dbo.h";

/// The pages of a file that hold anything.
fn used_pages(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).expect("the file");
    let pages = bytes.as_chunks::<PAGE_SIZE>().0.iter().zip(0..);
    pages
        .filter(|(page, number)| *number >= CONTROL_PAGES && page.iter().any(|byte| *byte != 0))
        .map(|page| page.1)
        .collect()
}

fn spoil(path: &Path, page: u64, random: &mut SplitMix64) {
    let mut file = std::fs::File::options().read(true).write(true).open(path).expect("the file");
    let at = page * PAGE_SIZE as u64 + random.below(PAGE_SIZE as u64 - 8);
    let mut bytes = [0; 8];
    file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes)).expect("read");
    bytes.iter_mut().for_each(|byte| *byte ^= 0xA5);
    file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&bytes)).expect("written");
}

#[test]
fn damaged_pages_of_every_kind_come_back() {
    let first = setting("HOBT_SEED", 1);
    for seed in first..first + setting("HOBT_PAGE_SEEDS", 4) {
        let mut random = SplitMix64::new(seed);
        let (folder, instance) = instance_with(SCHEMA);
        let mut session = session_in(&instance, "master");
        ok(&mut session, "BACKUP DATABASE d TO DISK = 'full.bak' WITH COMPRESSION");
        let path = folder.path().join("d.mdf");
        let pages = used_pages(&path);
        let mut logs = 0;
        for step in 0..12 {
            let change = CHANGES[random.below(CHANGES.len() as u64) as usize];
            ok(&mut session, &format!("USE d; {change}; USE master"));
            if step == 6 {
                // From here on rows have another layout.
                ok(&mut session, "ALTER TABLE d.dbo.t ADD more int NULL");
                ok(&mut session, "UPDATE d.dbo.t SET more = id WHERE id % 9 = 0");
            }
            if random.below(4) == 0 {
                ok(&mut session, "BACKUP LOG d TO DISK = 'log.bak'");
                logs += 1;
            }
        }
        let content = ok(&mut session, CONTENT);
        drop(session);
        instance.close().expect("closed");
        let count = 1 + random.below(40);
        let chosen: BTreeSet<u64> = (0..count).map(|_| pages[random.below(pages.len() as u64) as usize]).collect();
        chosen.iter().for_each(|page| spoil(&path, *page, &mut random));
        let instance = Instance::open(folder.path()).expect("opens");
        let mut session = session_in(&instance, "master");
        assert!(rows(&mut session, &format!("DBCC CHECKDB (d) WITH NO_INFOMSGS; {CONTENT}")).is_err(), "seed {seed}");
        let listed: Vec<String> = chosen.iter().map(|page| format!("1:{page}")).collect();
        let restore = format!("RESTORE DATABASE d PAGE = '{}' FROM DISK = 'full.bak'", listed.join(", "));
        if logs > 0 {
            assert_eq!(error(&mut session, &format!("{restore} WITH RECOVERY")), 4333, "seed {seed}");
        } else {
            ok(&mut session, &format!("{restore} WITH NORECOVERY"));
        }
        for number in 1..=logs {
            ok(&mut session, &format!("RESTORE LOG d FROM DISK = 'log.bak' WITH FILE = {number}, NORECOVERY"));
        }
        ok(&mut session, "RESTORE DATABASE d WITH RECOVERY");
        assert_eq!(ok(&mut session, CONTENT), content, "seed {seed}, {listed:?}");
        ok(&mut session, "DBCC CHECKDB (d) WITH NO_INFOMSGS");
    }
}
