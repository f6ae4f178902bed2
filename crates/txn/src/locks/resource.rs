//! The resources that can be locked.

use std::fmt;
use std::hash::{Hash, Hasher};

use hobt_base::{DatabaseId, HobtId, ObjectId, PageId, SlotId};

use super::LockMode;

/// The hash of a key, 48 bits. Two keys of one hash wait for each other; there is no worse effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyHash([u8; 6]);

impl KeyHash {
    /// The end of an index, behind its last key.
    pub const END: KeyHash = KeyHash([0xff; 6]);

    /// The hash of a key's bytes.
    pub fn of(key: &[u8]) -> KeyHash {
        let bytes = hash_of(key).to_be_bytes();
        KeyHash([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]])
    }

    fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

/// `(8194443284a0)`, as `%%lockres%%` prints it.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:012x})", self.number())
    }
}

/// A resource that can be locked. Small, and compared as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockResource {
    /// A database.
    Database(DatabaseId),
    /// A schema of a database.
    Schema(DatabaseId, i32),
    /// A table, or another object of a schema.
    Object(DatabaseId, ObjectId),
    /// One partition of one index of a table.
    Hobt(DatabaseId, HobtId),
    /// A page of a HOBT.
    Page(DatabaseId, HobtId, PageId),
    /// A row of a heap.
    Rid(DatabaseId, HobtId, PageId, SlotId),
    /// A key of an index.
    Key(DatabaseId, HobtId, KeyHash),
    /// A name that applications agree on: its database, the id of the principal that may lock it, the name's hash. Made
    /// by [`LockManager::application`](super::LockManager::application).
    Application(DatabaseId, i32, u64),
}

const _: () = assert!(size_of::<LockResource>() <= 24, "a part of every lock");

impl LockResource {
    /// The database that it is part of.
    pub const fn database(&self) -> DatabaseId {
        match *self {
            LockResource::Database(database)
            | LockResource::Schema(database, _)
            | LockResource::Object(database, _)
            | LockResource::Hobt(database, _)
            | LockResource::Page(database, ..)
            | LockResource::Rid(database, ..)
            | LockResource::Key(database, ..)
            | LockResource::Application(database, ..) => database,
        }
    }

    /// `resource_type` of `sys.dm_tran_locks`.
    pub const fn type_name(&self) -> &'static str {
        match self {
            LockResource::Database(_) => "DATABASE",
            LockResource::Schema(..) => "METADATA",
            LockResource::Object(..) => "OBJECT",
            LockResource::Hobt(..) => "HOBT",
            LockResource::Page(..) => "PAGE",
            LockResource::Rid(..) => "RID",
            LockResource::Key(..) => "KEY",
            LockResource::Application(..) => "APPLICATION",
        }
    }

    /// `resource_subtype` of `sys.dm_tran_locks`; mostly empty.
    pub const fn subtype_name(&self) -> &'static str {
        if let LockResource::Schema(..) = self { "SCHEMA" } else { "" }
    }

    /// `resource_associated_entity_id` of `sys.dm_tran_locks`: the object, or the HOBT that holds the page, row or key.
    pub fn associated_entity(&self) -> i64 {
        match *self {
            LockResource::Object(_, object) => i64::from(object.0),
            LockResource::Hobt(_, hobt)
            | LockResource::Page(_, hobt, _)
            | LockResource::Rid(_, hobt, ..)
            | LockResource::Key(_, hobt, _) => hobt.0.cast_signed(),
            LockResource::Database(_) | LockResource::Schema(..) | LockResource::Application(..) => 0,
        }
    }

    /// `resource_description` of `sys.dm_tran_locks`. The name of an `APPLICATION` is not in its resource:
    /// [`LockRow::description`](super::LockRow::description) has it.
    pub fn description(&self) -> String {
        self.description_named("")
    }

    /// Like [`LockResource::description`], with the first characters of the name of an `APPLICATION`.
    pub(super) fn description_named(&self, name: &str) -> String {
        match self {
            LockResource::Database(_) | LockResource::Object(..) | LockResource::Hobt(..) => String::new(),
            LockResource::Schema(_, schema) => format!("schema_id = {schema}"),
            LockResource::Page(_, _, page) => format!("{}:{}", page.file, page.number),
            LockResource::Rid(_, _, page, slot) => format!("{}:{}:{slot}", page.file, page.number),
            LockResource::Key(_, _, hash) => hash.to_string(),
            LockResource::Application(_, principal, hash) => format!("{principal}:[{name}]:({:08x})", hash >> 32),
        }
    }

    /// `resource_description` of `sys.dm_os_waiting_tasks` for a wait for a lock of this mode.
    pub fn waiting_description(&self, mode: LockMode) -> String {
        let (database, entity) = (self.database(), self.associated_entity());
        let what = match self {
            LockResource::Database(_) => "databaselock subresource=FULL".to_owned(),
            LockResource::Schema(..) => format!("metadatalock subresource=SCHEMA classid={}", self.description()),
            LockResource::Object(_, object) => {
                return format!("objectlock lockPartition=0 objid={object} dbid={database} mode={mode}");
            }
            LockResource::Hobt(_, hobt) => format!("hobtlock hobtid={hobt} subresource=FULL"),
            LockResource::Page(_, _, page) => format!("pagelock fileid={} pageid={}", page.file, page.number),
            LockResource::Rid(_, _, page, slot) => {
                format!("ridlock fileid={} pageid={} slot={slot}", page.file, page.number)
            }
            LockResource::Key(_, hobt, hash) => format!("keylock hobtid={hobt} hash={hash}"),
            LockResource::Application(_, principal, hash) => {
                format!("applicationlock hash={:08x} databasePrincipalId={principal}", hash >> 32)
            }
        };
        format!("{what} dbid={database} mode={mode} associatedObjectId={entity}")
    }

    /// The HOBT of a page, row or key: for resources whose locks escalation exchanges for a larger one.
    pub(super) const fn escalates_in(&self) -> Option<(DatabaseId, HobtId)> {
        match *self {
            LockResource::Page(database, hobt, _)
            | LockResource::Rid(database, hobt, ..)
            | LockResource::Key(database, hobt, _) => Some((database, hobt)),
            _ => None,
        }
    }

    /// A hash of the whole resource. The tables decide which bits they use for what.
    pub(super) fn hash_value(&self) -> u64 {
        let page_bits = |page: PageId| u64::from(page.file.0) << 32 | u64::from(page.number);
        let (kind, first, second) = match *self {
            LockResource::Database(_) => (1, 0, 0),
            LockResource::Schema(_, schema) => (2, u64::from(schema.cast_unsigned()), 0),
            LockResource::Object(_, object) => (3, u64::from(object.0.cast_unsigned()), 0),
            LockResource::Hobt(_, hobt) => (4, hobt.0, 0),
            LockResource::Page(_, hobt, page) => (5, hobt.0, page_bits(page)),
            LockResource::Rid(_, hobt, page, slot) => (6, hobt.0, page_bits(page) | u64::from(slot.0) << 48),
            LockResource::Key(_, hobt, hash) => (7, hobt.0, hash.number()),
            LockResource::Application(_, principal, hash) => (8, u64::from(principal.cast_unsigned()), hash),
        };
        let start = u64::from(self.database().0) << 8 | kind;
        mix(mix(mix(0, start), first), second)
    }
}

/// As `wait_resource` of `sys.dm_exec_requests` and deadlock graphs: `KEY: 5:72057594043039744 (8194443284a0)`.
impl fmt::Display for LockResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, database, description) = (self.type_name(), self.database(), self.description());
        match self {
            LockResource::Database(_) => write!(f, "{kind}: {database}:0"),
            LockResource::Schema(..) => write!(f, "{kind}: database_id = {database} SCHEMA({description})"),
            LockResource::Object(_, object) => write!(f, "{kind}: {database}:{object}:0"),
            LockResource::Hobt(_, hobt) => write!(f, "{kind}: {database}:{hobt}"),
            LockResource::Key(_, hobt, _) => write!(f, "{kind}: {database}:{hobt} {description}"),
            LockResource::Page(..) | LockResource::Rid(..) | LockResource::Application(..) => {
                write!(f, "{kind}: {database}:{description}")
            }
        }
    }
}

impl Hash for LockResource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash_value());
    }
}

/// Passes on the one number that a [`LockResource`] hashes to.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ResourceHasher(u64);

impl Hasher for ResourceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix(self.0, hash_of(bytes));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The hash of bytes.
pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    hash
}

/// The finisher of SplitMix64 over both numbers: every bit of either reaches every bit of the result.
const fn mix(hash: u64, number: u64) -> u64 {
    let mut z = (hash ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use hobt_base::FileId;

    use super::*;

    const DATABASE: DatabaseId = DatabaseId(5);
    const HOBT: HobtId = HobtId(72_057_594_043_039_744);
    const PAGE: PageId = PageId::new(FileId(1), 104);

    #[test]
    fn texts_are_those_of_sql_server() {
        let key = LockResource::Key(DATABASE, HOBT, KeyHash([0x81, 0x94, 0x44, 0x32, 0x84, 0xa0]));
        let name = LockResource::Application(DATABASE, 0, 0x8d2a_b3c5_0000_0000);
        let expected = [
            (LockResource::Database(DATABASE), "DATABASE", "", "DATABASE: 5:0"),
            (
                LockResource::Schema(DATABASE, 7),
                "METADATA",
                "schema_id = 7",
                "METADATA: database_id = 5 SCHEMA(schema_id = 7)",
            ),
            (LockResource::Object(DATABASE, ObjectId(1000)), "OBJECT", "", "OBJECT: 5:1000:0"),
            (LockResource::Hobt(DATABASE, HOBT), "HOBT", "", "HOBT: 5:72057594043039744"),
            (LockResource::Page(DATABASE, HOBT, PAGE), "PAGE", "1:104", "PAGE: 5:1:104"),
            (LockResource::Rid(DATABASE, HOBT, PAGE, SlotId(0)), "RID", "1:104:0", "RID: 5:1:104:0"),
            (key, "KEY", "(8194443284a0)", "KEY: 5:72057594043039744 (8194443284a0)"),
            (name, "APPLICATION", "0:[]:(8d2ab3c5)", "APPLICATION: 5:0:[]:(8d2ab3c5)"),
        ];
        for (resource, kind, description, text) in expected {
            assert_eq!((resource.type_name(), resource.description().as_str()), (kind, description));
            assert_eq!(resource.to_string(), text);
        }
        assert_eq!(name.description_named("report"), "0:[report]:(8d2ab3c5)");
        assert_eq!(KeyHash::END.to_string(), "(ffffffffffff)");
        let waits =
            "keylock hobtid=72057594043039744 hash=(8194443284a0) dbid=5 mode=X associatedObjectId=72057594043039744";
        assert_eq!(key.waiting_description(LockMode::Exclusive), waits);
    }

    #[test]
    fn neighbours_hash_apart() {
        let mut hashes = HashSet::new();
        let mut count = 0;
        for number in 0..200 {
            for slot in 0..50 {
                let page = PageId::new(FileId(1), number);
                hashes.insert(LockResource::Rid(DATABASE, HOBT, page, SlotId(slot)).hash_value());
                hashes.insert(LockResource::Rid(DATABASE, HobtId(HOBT.0 + 1), page, SlotId(slot)).hash_value());
                count += 2;
            }
        }
        assert_eq!(hashes.len(), count);
        let tables: HashSet<u64> = hashes.iter().map(|hash| hash >> 48 & 63).collect();
        assert_eq!(tables.len(), 64, "every table is used");
    }

    #[test]
    fn keys_differ_by_length_and_content() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a", b"b", b"abcdefghi"];
        let hashes: HashSet<KeyHash> = keys.into_iter().map(KeyHash::of).collect();
        assert_eq!(hashes.len(), keys.len());
    }
}
