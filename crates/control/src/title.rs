//! The rules of conversation titles.

use domain::id::{AccountId, ConversationId};
use domain::limits::TITLE_MAX_CHARS;
use store::{Sql, StoreError, conversations};

use crate::error::UseCaseError;

/// Returns the title of a new conversation: the first line of its first question, cut at a word.
pub(crate) fn of_question(question: &str) -> String {
    let line = question.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let clean: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= TITLE_MAX_CHARS {
        return clean;
    }
    let cut: String = clean.chars().take(TITLE_MAX_CHARS - 1).collect();
    let whole = cut.rsplit_once(' ').map_or(cut.as_str(), |(whole, _)| whole);
    format!("{whole}…")
}

/// Makes a change of a conversation after which another version of its first question may be shown. A title that was
/// derived from the earlier version is derived again; a title that the owner gave stays.
///
/// # Errors
/// Those of the change, and of the store.
pub(crate) fn follow_first_question<T, E: From<StoreError>>(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    change: impl FnOnce(&mut dyn Sql) -> Result<T, E>,
) -> Result<T, E> {
    let before = conversations::title_and_first_question(tx, account, conversation)?;
    let changed = change(tx)?;
    let Some((title, question)) = before else { return Ok(changed) };
    let after = conversations::title_and_first_question(tx, account, conversation)?;
    if let Some((_, now)) = after.filter(|(_, now)| *now != question)
        && title == of_question(&question)
    {
        conversations::set_title(tx, account, conversation, &of_question(&now))?;
    }
    Ok(changed)
}

/// Checks a title that a user gives, and returns it without white space around it.
///
/// # Errors
/// [`PublicCode::BadRequest`](crate::PublicCode::BadRequest) when it is empty, has more than [`TITLE_MAX_CHARS`]
/// characters, or contains a control character.
pub(crate) fn check_title(title: &str) -> Result<String, UseCaseError> {
    let title = title.trim();
    if title.is_empty() || title.chars().count() > TITLE_MAX_CHARS || title.chars().any(char::is_control) {
        return Err(UseCaseError::invalid(format_args!(
            "invalid title: use 1 to {TITLE_MAX_CHARS} characters without control characters"
        )));
    }
    Ok(title.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_title_is_first_line_cut() {
        assert_eq!(of_question("\n  Kolik činí nájemné?\nPodrobně."), "Kolik činí nájemné?");
        let long = of_question(&"slovo ".repeat(100));
        assert!(long.chars().count() <= TITLE_MAX_CHARS && long.ends_with("slovo…"), "{long}");
        assert!(of_question(&"x".repeat(500)).chars().count() <= TITLE_MAX_CHARS);
    }

    #[test]
    fn check_title_trims_and_bounds() {
        let longest = "č".repeat(TITLE_MAX_CHARS);
        assert_eq!(check_title(&format!("  {longest}\n")), Ok(longest));
        for wrong in ["", " \n", "a\u{7}b", "a\nb", &"x".repeat(TITLE_MAX_CHARS + 1)] {
            assert!(check_title(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn question_title_passes_check() {
        for question in ["Why?", "a\tb", &"x".repeat(500), &"slovo ".repeat(100)] {
            let title = of_question(question);
            assert_eq!(check_title(&title), Ok(title));
        }
    }
}
