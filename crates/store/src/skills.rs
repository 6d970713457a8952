//! How often an account has used which skill: its catalog lists the most used first (section 4.2 of the interface).

use domain::id::AccountId;

use crate::sql::{Result, RowExt, Sql, SqlExt, params};

/// The most skills of one account that are told.
const SKILLS_MAX: u32 = 10_000;

/// Counts one use of each of these skills, named in full; one that is named twice counts once. Nothing else may
/// be locked after it in the same transaction.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn count(tx: &mut dyn Sql, account: AccountId, full_names: &[String]) -> Result<()> {
    // In one order, so that two who count never wait for each other.
    let mut names: Vec<&String> = full_names.iter().collect();
    names.sort();
    names.dedup();
    for name in names {
        tx.send(
            "INSERT INTO skill_uses (account_id, skill, uses) VALUES ($1, $2, 1)
             ON CONFLICT (account_id, skill) DO UPDATE SET uses = skill_uses.uses + 1",
            params![account, name],
        )?;
    }
    Ok(())
}

/// The skills that an account has used, named in full, and how often; the most used first, then by name.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn uses(tx: &mut dyn Sql, account: AccountId) -> Result<Vec<(String, u64)>> {
    tx.all(
        "SELECT skill, uses FROM skill_uses WHERE account_id = $1 ORDER BY uses DESC, skill LIMIT $2",
        params![account, SKILLS_MAX],
        |row| Ok((row.text(0)?.to_owned(), row.count(1)?)),
    )
}
