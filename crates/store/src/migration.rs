//! Migrations: the numbered SQL files that create and change the tables of a store.
//!
//! A database keeps the number and the name of every migration that it went through. This module owns what all engines
//! share; it must not run SQL.

/// One numbered SQL file. A released one is never edited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    pub(crate) version: u32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// The version of the schema after all migrations.
pub(crate) fn newest_version(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Whether the migrations of a database, as far as this program knows their numbers, are those of this program. Development
/// versions from before the first release used the same numbers for other files.
pub(crate) fn is_known_history(applied: &[(u32, String)], migrations: &[Migration]) -> bool {
    migrations.iter().all(|known| {
        let same_number = applied.iter().find(|(version, _)| *version == known.version);
        same_number.is_none_or(|(_, name)| name == known.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIGRATIONS: [Migration; 2] =
        [Migration { version: 1, name: "tables", sql: "" }, Migration { version: 2, name: "more", sql: "" }];

    fn is_known(applied: &[(u32, &str)]) -> bool {
        let applied: Vec<_> = applied.iter().map(|(version, name)| (*version, (*name).to_owned())).collect();
        is_known_history(&applied, &MIGRATIONS)
    }

    #[test]
    fn migration_history_of_an_older_or_newer_release_is_known() {
        assert!(is_known(&[]));
        assert!(is_known(&[(1, "tables")]));
        assert!(is_known(&[(1, "tables"), (2, "more"), (3, "of a newer program")]));
    }

    #[test]
    fn migration_history_with_another_name_is_unknown() {
        assert!(!is_known(&[(1, "initial")]));
        assert!(!is_known(&[(1, "tables"), (2, "other"), (3, "more")]));
    }
}
