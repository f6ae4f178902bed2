"""The mixed load: units of work, what each must leave behind, and the checks of it.

Every unit is a few batches on one session. A unit tells the model what it changes at the batch that commits it, so that
after a kill the model has one state, or, when the kill came while that batch ran, two: before it and after it.
"""

import copy
import random

# Rows of the table that big updates change whole.
BIG_ROWS = 200_000
# Accounts among which transfers move money, and what each has at first.
ACCOUNTS = 1_000
BALANCE = 1_000
# Owners of rows: each has its own range of keys and its own random numbers, as a client of a real program would.
OWNERS = 8
RANGE = 100_000_000
# Above this an owner deletes more than it inserts, so that the table stays small and files have no reason to grow.
OWNER_ROWS = 4_000

SCHEMA = f"""
CREATE DATABASE soak
GO
USE soak
GO
ALTER DATABASE soak SET ALLOW_SNAPSHOT_ISOLATION ON
GO
CREATE TABLE dbo.accounts (id int NOT NULL PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= -1000000))
INSERT INTO dbo.accounts SELECT value, {BALANCE} FROM GENERATE_SERIES(1, {ACCOUNTS})
CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, owner int NOT NULL, v int NOT NULL, pad varchar(400) NULL)
CREATE INDEX items_v ON dbo.items (owner, v) INCLUDE (pad)
CREATE TABLE dbo.children (id int NOT NULL PRIMARY KEY, account int NOT NULL REFERENCES dbo.accounts (id))
CREATE TABLE dbo.big (id int NOT NULL PRIMARY KEY, v int NOT NULL, pad varchar(60) NOT NULL)
INSERT INTO dbo.big SELECT value, 0, REPLICATE('b', 20 + value % 40) FROM GENERATE_SERIES(1, {BIG_ROWS})
CREATE TABLE dbo.loads (batch int NOT NULL, n int NOT NULL, pad varchar(40) NOT NULL)
CREATE TABLE dbo.queue (id int NOT NULL IDENTITY, state tinyint NOT NULL, payload varchar(200) NOT NULL)
CREATE CLUSTERED INDEX queue_state ON dbo.queue (state)
CREATE TABLE dbo.texts (id int NOT NULL PRIMARY KEY, body varchar(max) NOT NULL)
INSERT INTO dbo.texts SELECT value, 'short' FROM GENERATE_SERIES(1, 20)
CREATE TABLE dbo.probe (id int NOT NULL PRIMARY KEY, v int NOT NULL, pad char(100) NOT NULL)
INSERT INTO dbo.probe SELECT value, value, 'p' FROM GENERATE_SERIES(1, 10000)
CREATE TABLE dbo.probe_inserts (id int NOT NULL IDENTITY PRIMARY KEY, pad char(100) NOT NULL)
CREATE SEQUENCE dbo.numbers AS bigint START WITH 1
GO
CREATE PROCEDURE dbo.transfer @from int, @to int, @amount int AS
BEGIN TRY
  BEGIN TRANSACTION
  UPDATE dbo.accounts SET balance = balance - @amount WHERE id = @from
  UPDATE dbo.accounts SET balance = balance + @amount WHERE id = @to
  COMMIT
END TRY
BEGIN CATCH
  IF XACT_STATE() <> 0 ROLLBACK;
  THROW
END CATCH
GO
"""


class Wrong(Exception):
    """The engine holds other rows than it must."""


class Model:
    """What the tables must contain."""

    def __init__(self):
        # Values by key, of each owner.
        self.items = [{} for _ in range(OWNERS)]
        self.big = 0
        self.loads = {}
        self.queue = 0
        self.texts = {number: 5 for number in range(1, 21)}
        self.probes = 0
        self.databases = set()
        self.tables = set()
        # The greatest value that the sequence has given.
        self.numbers = 0

    def summary(self):
        """What `check` compares, as one value."""
        items = tuple((len(rows), sum(rows.values())) for rows in self.items)
        return {
            "accounts": (ACCOUNTS, ACCOUNTS * BALANCE),
            "items": items,
            "big": (BIG_ROWS, self.big, self.big),
            "loads": tuple(sorted(self.loads.items())),
            "queue": self.queue,
            "texts": sum(self.texts.values()),
        }


class Work:
    """Draws units and runs them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.model = Model()
        # The state after the batch that is running, if that batch commits one.
        self.after = None
        self.done = {}
        self.expected_errors = {}
        self.unexpected = []
        self.wrong = []
        self.number = 0
        self.slowest = {}
        self.units = [
            (30, self.insert), (30, self.update), (20, self.delete), (30, self.transfer), (6, self.thousand_rows),
            (6, self.set_of_rows), (6, self.rolled_back), (6, self.savepoints), (2, self.big_update), (1, self.big_rollback),
            (6, self.load), (3, self.unload), (3, self.select_into), (6, self.temporary), (5, self.table_life),
            (3, self.altered), (3, self.index_life), (2, self.database_life), (3, self.statistics), (2, self.checkpoint),
            (4, self.snapshot), (4, self.spills), (6, self.failures), (5, self.queue_life), (4, self.long_text),
            (4, self.modules), (2, self.partitions), (6, self.sequence), (4, self.views), (2, self.kills_nobody),
            (1, self.files), (1, self.truncated), (1, self.drop_clean_buffers), (1, self.two_databases),
        ]

    # The conversation.

    def ask(self, session, batch, expected=(), commits=None):
        """Runs a batch. `commits` changes a model: the batch does that, or nothing. Counts errors, expected or not."""
        if commits is not None:
            self.after = copy.deepcopy(self.model)
            commits(self.after)
        answer = session.ask(batch)
        unexpected = [error for error in answer.errors if error[0] not in expected]
        for error in answer.errors:
            if error not in unexpected:
                self.expected_errors[error[0]] = self.expected_errors.get(error[0], 0) + 1
        for number, text in unexpected:
            self.unexpected.append({"unit": self.unit_name, "number": number, "text": text[:400], "batch": batch[:400]})
        if commits is not None:
            # A batch that has failed has left nothing.
            if not answer.errors:
                self.model = self.after
            self.after = None
        return answer

    def step(self, session):
        """One unit, drawn by its weight; its name and seconds."""
        weights = [weight for weight, _ in self.units]
        unit = self.random.choices(self.units, weights)[0][1]
        self.unit_name = unit.__name__
        self.number += 1
        answer = unit(session)
        self.done[self.unit_name] = self.done.get(self.unit_name, 0) + 1
        return self.unit_name, answer

    def check(self, session):
        """Compares the tables with the model, or after a kill with its two states; Wrong when neither fits."""
        self.unit_name = "check"
        found = {
            "accounts": tuple(self.ask(session, "SELECT '@c', COUNT(*), SUM(balance) FROM dbo.accounts").numbers("c") or ()),
            "items": self._owners(session),
            "big": tuple(self.ask(session, "SELECT '@c', COUNT(*), MIN(v), MAX(v) FROM dbo.big").numbers("c") or ()),
            "loads": tuple(sorted(
                (int(row[1]), int(row[2]))
                for row in self.ask(session, "SELECT '@c', batch, COUNT(*) FROM dbo.loads GROUP BY batch").rows
            )),
            "queue": (self.ask(session, "SELECT '@c', COUNT(*) FROM dbo.queue").numbers("c") or [None])[0],
            "texts": (self.ask(session, "SELECT '@c', SUM(LEN(body)) FROM dbo.texts").numbers("c") or [None])[0],
        }
        states = [self.model] + ([self.after] if self.after else [])
        fitting = [state for state in states if state.summary() == found]
        if fitting:
            self.model = fitting[-1]
            self.after = None
            return
        wants = states[-1].summary()
        differences = {name: (found[name], wants[name]) for name in found if found[name] != wants[name]}
        raise Wrong(f"found and wanted of {'two states' if len(states) > 1 else 'one state'}: {differences}")

    def check_keys(self, session):
        """Each key and value of the owners, by the clustered index and by the other one."""
        self.unit_name = "check_keys"
        wanted = {key: value for rows in self.model.items for key, value in rows.items()}
        for hint in ("", "WITH (INDEX (items_v))"):
            answer = self.ask(session, f"SELECT '@c', id, v FROM dbo.items {hint}")
            found = {int(row[1]): int(row[2]) for row in answer.rows}
            if len(found) != len(answer.rows) or found != wanted:
                lost = sorted(set(wanted) - set(found))[:5]
                more = sorted(set(found) - set(wanted))[:5]
                other = [key for key in wanted if key in found and found[key] != wanted[key]][:5]
                raise Wrong(f"items {hint}: lost {lost}, too many {more}, other values {other}")

    def _owners(self, session):
        answer = self.ask(session, "SELECT '@c', owner, COUNT(*), SUM(v) FROM dbo.items GROUP BY owner")
        found = {int(row[1]): (int(row[2]), int(row[3])) for row in answer.rows}
        return tuple(found.get(owner, (0, 0)) for owner in range(OWNERS))

    def after_restart(self, session):
        """What a kill may leave besides rows: databases and tables of units that were cut off."""
        answer = self.ask(session, "SELECT '@c', name FROM sys.databases WHERE name LIKE 'made[_]%'")
        for row in answer.rows:
            self.ask(session, f"DROP DATABASE {row[1]}")
        answer = self.ask(session, "SELECT '@c', name FROM sys.tables WHERE name LIKE 'made[_]%'")
        for row in answer.rows:
            self.ask(session, f"DROP TABLE dbo.{row[1]}")
        for kind, view in (("SCHEME", "partition_schemes"), ("FUNCTION", "partition_functions")):
            for row in self.ask(session, f"SELECT '@c', name FROM sys.{view} WHERE name LIKE 'made[_]%'").rows:
                self.ask(session, f"DROP PARTITION {kind} {row[1]}")
        for kind, view in (("PROCEDURE", "procedures"), ("VIEW", "views"), ("SEQUENCE", "sequences")):
            for row in self.ask(session, f"SELECT '@c', name FROM sys.{view} WHERE name LIKE 'made[_]%'").rows:
                self.ask(session, f"DROP {kind} dbo.{row[1]}")
        for row in self.ask(session, "SELECT '@c', name FROM sys.indexes WHERE name LIKE 'made[_]%'").rows:
            self.ask(session, f"DROP INDEX {row[1]} ON dbo.items")
        for row in self.ask(session, "SELECT '@c', name FROM sys.stats WHERE name LIKE 'made[_]%'").rows:
            self.ask(session, f"DROP STATISTICS dbo.items.{row[1]}")
        for row in self.ask(session, "SELECT '@c', name FROM sys.columns WHERE name LIKE 'made[_]%' AND object_id = "
                                     "OBJECT_ID('dbo.items')").rows:
            self.ask(session, f"ALTER TABLE dbo.items DROP COLUMN {row[1]}")
        for row in self.ask(session, "SELECT '@c', name FROM sys.database_files WHERE name LIKE 'made[_]%'").rows:
            self.ask(session, f"DBCC SHRINKFILE ({row[1]}, EMPTYFILE)")
            self.ask(session, f"ALTER DATABASE soak REMOVE FILE {row[1]}")

    # Units on rows.

    def _owner(self):
        owner = self.random.randrange(OWNERS)
        return owner, self.model.items[owner]

    def _key(self, owner, rows):
        while True:
            key = owner * RANGE + self.random.randrange(RANGE)
            if key not in rows:
                return key

    def _pad(self):
        return "x" * self.random.randrange(300)

    def insert(self, session):
        owner, rows = self._owner()
        if len(rows) >= OWNER_ROWS:
            return self.delete(session)
        for _ in range(10):
            key, value = self._key(owner, self.model.items[owner]), self.random.randrange(1_000_000)
            self.ask(session, f"INSERT INTO dbo.items VALUES ({key}, {owner}, {value}, '{self._pad()}')",
                     commits=lambda model, key=key, value=value: model.items[owner].__setitem__(key, value))

    def update(self, session):
        owner, rows = self._owner()
        for key in self.random.sample(sorted(rows), min(10, len(rows))):
            value = self.random.randrange(1_000_000)
            self.ask(session, f"UPDATE dbo.items SET v = {value}, pad = '{self._pad()}' WHERE id = {key}",
                     commits=lambda model, key=key, value=value: model.items[owner].__setitem__(key, value))

    def delete(self, session):
        owner, rows = self._owner()
        count = 30 if len(rows) > OWNER_ROWS // 2 else 5
        for key in self.random.sample(sorted(rows), min(count, len(rows))):
            self.ask(session, f"DELETE dbo.items WHERE id = {key}", commits=lambda model, key=key: model.items[owner].pop(key))

    def transfer(self, session):
        for _ in range(5):
            one, other = self.random.sample(range(1, ACCOUNTS + 1), 2)
            self.ask(session, f"EXEC dbo.transfer {one}, {other}, {self.random.randrange(-50, 50)}")

    def thousand_rows(self, session):
        """A transaction of a thousand statements of a row."""
        owner, rows = self._owner()
        if len(rows) >= OWNER_ROWS:
            return self.delete_half(session, owner)
        first = owner * RANGE + self.random.randrange(RANGE - 1000)
        if any(key in rows for key in range(first, first + 1000)):
            return None

        def add(model):
            model.items[owner].update({first + n: n for n in range(1000)})

        self.ask(session, f"SET NOCOUNT ON; BEGIN TRAN; DECLARE @n int = 0; WHILE @n < 1000 BEGIN "
                          f"INSERT INTO dbo.items VALUES ({first} + @n, {owner}, @n, 'of a thousand'); SET @n += 1 END; "
                          f"COMMIT", commits=add)
        return None

    def delete_half(self, session, owner):
        middle = sorted(self.model.items[owner])[len(self.model.items[owner]) // 2]

        def cut(model):
            model.items[owner] = {key: value for key, value in model.items[owner].items() if key >= middle}

        self.ask(session, f"DELETE dbo.items WHERE owner = {owner} AND id < {middle}", commits=cut)

    def set_of_rows(self, session):
        """One statement that changes all rows of an owner, moving them in the second index."""
        owner, _ = self._owner()
        delta = self.random.randrange(-500, 500)

        def change(model):
            model.items[owner] = {key: value + delta for key, value in model.items[owner].items()}

        self.ask(session, f"UPDATE dbo.items SET v = v + {delta} WHERE owner = {owner}", commits=change)

    def rolled_back(self, session):
        owner, _ = self._owner()
        self.ask(session, f"BEGIN TRAN; UPDATE dbo.items SET v = -1 WHERE owner = {owner}; "
                          f"DELETE TOP (100) dbo.items WHERE owner = {owner}; "
                          f"INSERT INTO dbo.items SELECT {(owner + 1) * RANGE} - value, {owner}, 0, 'never' FROM "
                          f"GENERATE_SERIES(1, 300) "
                          f"WHERE {(owner + 1) * RANGE} - value NOT IN (SELECT id FROM dbo.items); ROLLBACK")

    def savepoints(self, session):
        owner, rows = self._owner()
        if not rows:
            return
        key, value = self.random.choice(sorted(rows)), self.random.randrange(1_000_000)
        self.ask(session, f"BEGIN TRAN; UPDATE dbo.items SET v = {value} WHERE id = {key}; SAVE TRAN a; "
                          f"UPDATE dbo.items SET v = v + 1 WHERE owner = {owner}; SAVE TRAN b; "
                          f"DELETE TOP (50) dbo.items WHERE owner = {owner}; "
                          f"ROLLBACK TRAN b; ROLLBACK TRAN a; COMMIT",
                 commits=lambda model: model.items[owner].__setitem__(key, value))

    def big_update(self, session):
        self.ask(session, "UPDATE dbo.big SET v = v + 1", commits=lambda model: setattr(model, "big", model.big + 1))

    def big_rollback(self, session):
        self.ask(session, "BEGIN TRAN; UPDATE dbo.big SET v = v + 1, pad = REPLICATE('c', 10 + id % 50); ROLLBACK")

    def load(self, session):
        batch, count = self.number, self.random.choice((10, 1_000, 20_000))

        def add(model):
            model.loads[batch] = count

        self.ask(session, f"INSERT INTO dbo.loads {self.random.choice(('', 'WITH (TABLOCK)'))} "
                          f"SELECT {batch}, value, REPLICATE('l', value % 40) FROM GENERATE_SERIES(1, {count})", commits=add)

    def unload(self, session):
        if not self.model.loads:
            return
        batch = self.random.choice(sorted(self.model.loads))
        self.ask(session, f"DELETE dbo.loads WHERE batch <= {batch}",
                 commits=lambda model: setattr(model, "loads", {key: count for key, count in model.loads.items() if key > batch}))

    def truncated(self, session):
        self.ask(session, "BEGIN TRAN; TRUNCATE TABLE dbo.loads; ROLLBACK")
        self.ask(session, "TRUNCATE TABLE dbo.loads", commits=lambda model: model.loads.clear())

    def queue_life(self, session):
        """First in, first out in one range of equal keys that is never empty."""
        count = self.random.randrange(1, 60)
        self.ask(session, f"INSERT INTO dbo.queue SELECT 1, REPLICATE('q', 50) FROM GENERATE_SERIES(1, {count})",
                 commits=lambda model: setattr(model, "queue", model.queue + count))
        gone = max(0, min(self.random.randrange(60), self.model.queue - 20))
        if gone:
            self.ask(session, f"WITH first AS (SELECT TOP ({gone}) * FROM dbo.queue ORDER BY state, id) DELETE first",
                     commits=lambda model: setattr(model, "queue", model.queue - gone))

    def long_text(self, session):
        number, length = self.random.randrange(1, 21), self.random.choice((5, 7_000, 9_000, 100_000))
        self.ask(session, f"UPDATE dbo.texts SET body = REPLICATE(CAST('t' AS varchar(max)), {length}) WHERE id = {number}",
                 commits=lambda model: model.texts.__setitem__(number, length))

    def sequence(self, session):
        answer = self.ask(session, "SELECT '@n', NEXT VALUE FOR dbo.numbers")
        given = answer.numbers("n")
        if given and given[0] <= self.model.numbers:
            raise Wrong(f"the sequence gave {given[0]} after {self.model.numbers}")
        if given:
            self.model.numbers = given[0]

    # Units on definitions. All that they make begins with made_.

    def select_into(self, session):
        name = f"made_into_{self.number}"
        answer = self.ask(session, f"SELECT value AS id, CAST(value % 97 AS varchar(20)) AS pad INTO dbo.{name} FROM "
                                   f"GENERATE_SERIES(1, 20000); "
                                   f"EXEC('SELECT ''@n'', COUNT(*) FROM dbo.{name} WHERE pad = ''5'''); DROP TABLE dbo.{name}")
        if answer.numbers("n") != [207]:
            raise Wrong(f"SELECT INTO: {answer.printed[-500:]}")

    def temporary(self, session):
        name = self.random.choice(("#t", f"#t{self.number}"))
        self.ask(session, f"CREATE TABLE {name} (id int PRIMARY KEY, v int INDEX ix, pad varchar(100)); "
                          f"INSERT INTO {name} SELECT value, value % 10, 'x' FROM GENERATE_SERIES(1, 2000); "
                          f"UPDATE {name} SET v = v + 1; "
                          f"SELECT v, COUNT(*) FROM {name} GROUP BY v; DECLARE @t TABLE (a int); "
                          f"INSERT INTO @t SELECT id FROM {name}; DROP TABLE {name}")

    def table_life(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"CREATE TABLE dbo.{name} (id int IDENTITY PRIMARY KEY, v int NOT NULL DEFAULT 5 CHECK (v > 0), u int "
                          f"UNIQUE)\nGO\n"
                          f"INSERT INTO dbo.{name} (u) SELECT value FROM GENERATE_SERIES(1, 500)\nGO\nBEGIN TRAN; "
                          f"DROP TABLE dbo.{name}; ROLLBACK\nGO\n"
                          f"DELETE dbo.{name} WHERE v = 5\nGO\nDROP TABLE dbo.{name}")
        self.ask(session, f"BEGIN TRAN; CREATE TABLE dbo.{name} (id int); INSERT INTO dbo.{name} VALUES (1); ROLLBACK")

    def altered(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"ALTER TABLE dbo.items ADD {name} int NOT NULL DEFAULT 7\nGO\nALTER TABLE dbo.items DROP COLUMN {name}"
                 if self.random.random() < 0.3 else f"ALTER TABLE dbo.items ADD {name} int NULL\nGO\n"
                                                    f"ALTER TABLE dbo.items DROP COLUMN {name}",
                 expected=(5074, 4922))
        # A default that is named by the engine keeps the column; it is dropped by its name.
        for row in self.ask(session, "SELECT '@c', d.name, c.name FROM sys.default_constraints AS d JOIN sys.columns AS c ON "
                                     "c.object_id = "
                                     "d.parent_object_id AND c.column_id = d.parent_column_id WHERE c.object_id = "
                                     "OBJECT_ID('dbo.items')").rows:
            self.ask(session, f"ALTER TABLE dbo.items DROP CONSTRAINT {row[1]}\nGO\nALTER TABLE dbo.items DROP COLUMN {row[2]}")

    def index_life(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"CREATE INDEX {name} ON dbo.items (v DESC, owner)\nGO\nUPDATE TOP (50) dbo.items SET v = v\nGO\n"
                          f"ALTER INDEX {name} ON dbo.items {self.random.choice(('REBUILD', 'REORGANIZE', 'DISABLE'))}\nGO\n"
                          f"DROP INDEX {name} ON dbo.items\nGO\n"
                          f"ALTER INDEX items_v ON dbo.items {self.random.choice(('REBUILD', 'REORGANIZE'))}")

    def database_life(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"CREATE DATABASE {name}\nGO\nUSE {name}\nGO\nCREATE TABLE dbo.t (id int PRIMARY KEY); "
                          f"INSERT INTO dbo.t SELECT value FROM GENERATE_SERIES(1, 1000)\nGO\nDBCC CHECKDB WITH NO_INFOMSGS\nGO\n"
                          f"USE soak\nGO\n"
                          f"DROP DATABASE {name}")

    def two_databases(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"CREATE DATABASE {name}\nGO\nCREATE TABLE {name}.dbo.t (id int)")
        one, other = self.random.sample(range(1, ACCOUNTS + 1), 2)
        self.ask(session, f"BEGIN TRAN; INSERT INTO {name}.dbo.t VALUES (1); EXEC dbo.transfer {one}, {other}, 5; COMMIT")
        self.ask(session, f"DROP DATABASE {name}")

    def statistics(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"CREATE STATISTICS {name} ON dbo.items (pad, v)\nGO\nUPDATE STATISTICS dbo.items\nGO\n"
                          f"DBCC SHOW_STATISTICS ('dbo.items', {name}) WITH NO_INFOMSGS\nGO\nDROP STATISTICS dbo.items.{name}")

    def partitions(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"CREATE PARTITION FUNCTION {name}_f (int) AS RANGE RIGHT FOR VALUES (100, 200); "
                          f"CREATE PARTITION SCHEME {name}_s AS PARTITION {name}_f ALL TO ([PRIMARY])\nGO\n"
                          f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY) ON {name}_s (id); "
                          f"INSERT INTO dbo.{name} SELECT value FROM GENERATE_SERIES(1, 1000)\nGO\n"
                          f"ALTER PARTITION SCHEME {name}_s NEXT USED [PRIMARY]; "
                          f"ALTER PARTITION FUNCTION {name}_f() SPLIT RANGE (500); "
                          f"ALTER PARTITION FUNCTION {name}_f() MERGE RANGE (100)\nGO\n"
                          f"TRUNCATE TABLE dbo.{name} WITH (PARTITIONS (1))\nGO\nDROP TABLE dbo.{name}; "
                          f"DROP PARTITION SCHEME {name}_s; "
                          f"DROP PARTITION FUNCTION {name}_f")

    def modules(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"CREATE PROCEDURE dbo.{name}_p @a int AS SELECT @a + COUNT(*) FROM dbo.accounts\nGO\n"
                          f"CREATE VIEW dbo.{name}_v AS "
                          f"SELECT id, v FROM dbo.items WHERE owner = 1\nGO\nEXEC dbo.{name}_p 5; "
                          f"SELECT COUNT(*) FROM dbo.{name}_v; "
                          f"EXEC sp_executesql N'SELECT COUNT(*) FROM dbo.items WHERE v > @v', N'@v int', {self.number}\nGO\n"
                          f"DROP PROCEDURE dbo.{name}_p; DROP VIEW dbo.{name}_v")

    def files(self, session):
        name = f"made_{self.number}"
        self.ask(session, f"ALTER DATABASE soak ADD FILE (NAME = {name}, SIZE = 1MB, FILEGROWTH = 1MB)\nGO\nCHECKPOINT\nGO\n"
                          f"DBCC SHRINKFILE ({name}, EMPTYFILE) WITH NO_INFOMSGS\nGO\nALTER DATABASE soak REMOVE FILE {name}")

    # Units that read, and the others.

    def snapshot(self, session):
        """The same sum twice in a snapshot, with the session's own changes of other rows between."""
        answer = self.ask(session, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; "
                                   "SELECT '@a', SUM(balance), COUNT(*) FROM dbo.accounts; "
                                   "UPDATE dbo.accounts SET balance = balance WHERE id % 10 = 1; "
                                   "SELECT '@b', SUM(balance), COUNT(*) FROM dbo.accounts; "
                                   "COMMIT; SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        if answer.numbers("a") != [ACCOUNTS * BALANCE, ACCOUNTS] or answer.numbers("b") != answer.numbers("a"):
            raise Wrong(f"a snapshot: {answer.printed[-500:]}")

    def spills(self, session):
        """Sorts, joins and groups of more than their grant."""
        query = self.random.choice((
            "SELECT '@n', COUNT(*) FROM (SELECT TOP (1000000) value, REPLICATE('s', 60) + CAST(value AS varchar(20)) AS s FROM "
            "GENERATE_SERIES(1, 1000000) ORDER BY s DESC) AS t",
            "SELECT '@n', COUNT(*) FROM (SELECT s FROM (SELECT REPLICATE('g', 60) + CAST(value AS varchar(20)) AS s FROM "
            "GENERATE_SERIES(1, 1000000)) AS t GROUP BY s) AS u",
            "SELECT '@n', COUNT(*) * 5 FROM dbo.big AS a JOIN dbo.big AS b ON a.id = b.id AND a.pad = b.pad",
        ))
        answer = self.ask(session, query)
        if answer.numbers("n") != [1_000_000]:
            raise Wrong(f"a query that spills: {answer.printed[-500:]}")

    def failures(self, session):
        """Statements that must fail, each with its number."""
        missing, number = self.number % 1000 + 5_000, self.number
        for expected, batch in (
            (2627, "INSERT INTO dbo.accounts VALUES (1, 1)"),
            (547, f"INSERT INTO dbo.children VALUES ({number}, {missing})"),
            (547, "UPDATE dbo.accounts SET balance = -2000000 WHERE id = 1"),
            (515, f"INSERT INTO dbo.items VALUES ({number % 99}, NULL, 1, '')"),
            (2628, f"INSERT INTO dbo.items VALUES ({number % 99}, 0, 1, REPLICATE('y', 500))"),
            (8134, f"UPDATE dbo.accounts SET balance = balance / ({number} - {number})"),
            (245, f"SELECT CAST('a{number}' AS int)"),
            (208, f"SELECT * FROM dbo.absent{number}"),
            (102, f"SELECT FROM WHERE {number}"),
            (50000, f"RAISERROR ('raised %d', 16, 1, {number})"),
            (3903, "ROLLBACK"),
            (220, "DECLARE @t tinyint = 300"),
            (530, "WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT MAX(n) FROM r"),
        ):
            answer = self.ask(session, batch, expected=(expected, 156))
            if not answer.errors:
                raise Wrong(f"no error {expected} of: {batch}")
        # An error that dooms the transaction, which is then rolled back by hand.
        self.ask(session, f"BEGIN TRY BEGIN TRAN; UPDATE dbo.accounts SET balance = 0; SELECT CAST('b{number}' AS int); "
                          f"COMMIT END TRY "
                          f"BEGIN CATCH ROLLBACK END CATCH")
        self.ask(session, "SET XACT_ABORT ON; BEGIN TRAN; UPDATE dbo.accounts SET balance = 0; SELECT 1 / 0; "
                          "COMMIT", expected=(8134, ))
        self.ask(session, "SET XACT_ABORT OFF")

    def views(self, session):
        self.ask(session, "SELECT COUNT(*) FROM sys.dm_os_wait_stats; SELECT COUNT(*) FROM sys.dm_exec_query_stats; "
                          "SELECT COUNT(*) FROM sys.objects; "
                          "SELECT COUNT(*) FROM sys.dm_io_virtual_file_stats(NULL, NULL); "
                          "SELECT COUNT(*) FROM sys.dm_db_partition_stats; "
                          "SELECT COUNT(*) FROM sys.dm_tran_locks; SELECT COUNT(*) FROM sys.dm_db_index_usage_stats; "
                          "SELECT COUNT(*) FROM sys.dm_exec_cached_plans; SELECT COUNT(*) FROM sys.dm_db_missing_index_details")

    def kills_nobody(self, session):
        """KILL of a session that there is not."""
        self.ask(session, f"KILL {9_000 + self.number % 1000}", expected=(6106, ))

    def checkpoint(self, session):
        self.ask(session, "CHECKPOINT")

    def drop_clean_buffers(self, session):
        self.ask(session, "DBCC DROPCLEANBUFFERS WITH NO_INFOMSGS")

    def check_database(self, session):
        """DBCC CHECKDB of all databases; the lines that say what it found."""
        self.unit_name = "CHECKDB"
        lines = []
        for name in ("soak", "master"):
            answer = self.ask(session, f"DBCC CHECKDB ({name})")
            lines += [line for line in answer.printed.splitlines() if line.startswith("CHECKDB found")]
        return lines
