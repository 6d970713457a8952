//! Skill use counts per account: the catalog lists the most used skills first (section 4.2 of the
//! interface).

use domain::id::AccountId;

use crate::sql::{Result, RowExt, Sql, SqlExt, params};

/// The maximum number of skills that [`list_skill_uses`] returns.
const SKILLS_MAX: u32 = 10_000;

/// Counts one use of each skill, given by full name; duplicates count once. The transaction must not take
/// other locks afterwards.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn count_skill_uses(tx: &mut dyn Sql, account: AccountId, full_names: &[String]) -> Result<()> {
    // A fixed order prevents deadlocks between two callers.
    let mut names: Vec<&String> = full_names.iter().collect();
    names.sort();
    names.dedup();
    for name in names {
        tx.send_statement(
            "INSERT INTO skill_uses (account_id, skill, uses) VALUES ($1, $2, 1)
             ON CONFLICT (account_id, skill) DO UPDATE SET uses = skill_uses.uses + 1",
            params![account, name],
        )?;
    }
    Ok(())
}

/// Returns the full names of the skills that an account has used and their counts, most used first, then by
/// name.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn list_skill_uses(tx: &mut dyn Sql, account: AccountId) -> Result<Vec<(String, u64)>> {
    tx.query_all(
        "SELECT skill, uses FROM skill_uses WHERE account_id = $1 ORDER BY uses DESC, skill LIMIT $2",
        params![account, SKILLS_MAX],
        |row| Ok((row.get_text(0)?.to_owned(), row.get_count(1)?)),
    )
}
