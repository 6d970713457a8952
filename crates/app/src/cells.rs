//! Rows of tables in texts that the machine has read: their cells are separated by tabs, which are hardly visible.

/// The shown separator, as in answers.
const SEPARATOR: &str = " | ";

/// Separates the cells of rows visibly, in a text that is shown in several pieces.
#[derive(Default)]
pub(crate) struct CellSeparator {
    /// True within a line, after its indentation.
    is_within: bool,
}

impl CellSeparator {
    /// Returns the next piece of the text. Tabs that indent a line stay.
    pub(crate) fn separate_piece(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for letter in piece.chars() {
            match letter {
                '\t' if self.is_within => out.push_str(SEPARATOR),
                letter => out.push(letter),
            }
            self.is_within = letter != '\n' && (self.is_within || !letter.is_whitespace());
        }
        out
    }
}

/// Returns a text with the cells of its rows apart.
pub(crate) fn separate_cells(text: &str) -> String {
    CellSeparator::default().separate_piece(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_apart_and_indentation_stays() {
        assert_eq!(separate_cells("Name\tRent\nAda\t\t12\n\tif x:\n"), "Name | Rent\nAda |  | 12\n\tif x:\n");
        let mut separator = CellSeparator::default();
        let pieces = ["Name", "\tRent\n", "\tx"].map(|piece| separator.separate_piece(piece));
        assert_eq!(pieces, ["Name", " | Rent\n", "\tx"], "a piece goes on with the line before");
    }
}
