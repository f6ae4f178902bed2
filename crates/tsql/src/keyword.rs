//! T-SQL's reserved words.
//!
//! A reserved word is an identifier only if quoted. An error at a reserved word is 156, where it would be 102 at
//! another word. Words with a meaning in only one context (`NOLOCK`, `ROWS`, `TRY`) are not listed: the parser compares
//! their text there. Source: Microsoft's "Reserved Keywords (Transact-SQL)", except `PRECISION`, which SQL Server
//! accepts as a name: it is a column of `sys.columns`.

macro_rules! keywords {
    ($($word:ident)*) => {
        /// A reserved word; each variant is the word itself.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "a variant is spelled as its word")]
        pub(crate) enum Keyword {
            $($word,)*
        }

        /// All reserved words with their spelling, in alphabetical order.
        const KEYWORDS: &[(&str, Keyword)] = &[$((stringify!($word), Keyword::$word),)*];
    };
}

keywords! {
    ADD ALL ALTER AND ANY AS ASC AUTHORIZATION BACKUP BEGIN BETWEEN BREAK BROWSE BULK BY CASCADE CASE CHECK CHECKPOINT
    CLOSE CLUSTERED COALESCE COLLATE COLUMN COMMIT COMPUTE CONSTRAINT CONTAINS CONTAINSTABLE CONTINUE CONVERT CREATE
    CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DBCC DEALLOCATE DECLARE
    DEFAULT DELETE DENY DESC DISK DISTINCT DISTRIBUTED DOUBLE DROP DUMP ELSE END ERRLVL ESCAPE EXCEPT EXEC EXECUTE
    EXISTS EXIT EXTERNAL FETCH FILE FILLFACTOR FOR FOREIGN FREETEXT FREETEXTTABLE FROM FULL FUNCTION GOTO GRANT GROUP
    HAVING HOLDLOCK IDENTITY IDENTITYCOL IDENTITY_INSERT IF IN INDEX INNER INSERT INTERSECT INTO IS JOIN KEY KILL LEFT
    LIKE LINENO LOAD MERGE NATIONAL NOCHECK NONCLUSTERED NOT NULL NULLIF OF OFF OFFSETS ON OPEN OPENDATASOURCE
    OPENQUERY OPENROWSET OPENXML OPTION OR ORDER OUTER OVER PERCENT PIVOT PLAN PRIMARY PRINT PROC PROCEDURE
    PUBLIC RAISERROR READ READTEXT RECONFIGURE REFERENCES REPLICATION RESTORE RESTRICT RETURN REVERT REVOKE RIGHT
    ROLLBACK ROWCOUNT ROWGUIDCOL RULE SAVE SCHEMA SECURITYAUDIT SELECT SEMANTICKEYPHRASETABLE
    SEMANTICSIMILARITYDETAILSTABLE SEMANTICSIMILARITYTABLE SESSION_USER SET SETUSER SHUTDOWN SOME STATISTICS
    SYSTEM_USER TABLE TABLESAMPLE TEXTSIZE THEN TO TOP TRAN TRANSACTION TRIGGER TRUNCATE TRY_CONVERT TSEQUAL UNION
    UNIQUE UNPIVOT UPDATE UPDATETEXT USE USER VALUES VARYING VIEW WAITFOR WHEN WHERE WHILE WITH WRITETEXT
}

/// The length of the longest reserved word.
const LENGTH_MAX: usize = 30;

/// The reserved word with the spelling `word`, ignoring ASCII case.
pub(crate) fn lookup(word: &str) -> Option<Keyword> {
    if word.len() > LENGTH_MAX {
        return None;
    }
    let mut buffer = [0u8; LENGTH_MAX];
    let upper = &mut buffer[..word.len()];
    upper.copy_from_slice(word.as_bytes());
    upper.make_ascii_uppercase();
    let found = KEYWORDS.binary_search_by(|(spelling, _)| spelling.as_bytes().cmp(upper)).ok()?;
    Some(KEYWORDS[found].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_every_word_is_found_in_either_case() {
        assert!(KEYWORDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (spelling, keyword) in KEYWORDS {
            assert_eq!(lookup(spelling), Some(*keyword));
            assert_eq!(lookup(&spelling.to_lowercase()), Some(*keyword));
        }
    }

    #[test]
    fn words_of_one_place_are_not_reserved() {
        for word in ["NOLOCK", "rows", "TRY", "precision", "Measure", "", "a_word_longer_than_any_reserved_word_is"] {
            assert_eq!(lookup(word), None);
        }
    }
}
