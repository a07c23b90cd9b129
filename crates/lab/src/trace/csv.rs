//! Lines of comma-separated values, read by the names of their columns.

use std::collections::HashMap;

use super::detect::Look;

/// The columns of a file.
#[derive(Debug, Default)]
pub(super) struct Columns {
    places: HashMap<String, usize>,
}

impl Columns {
    /// The columns that a first line names, whatever their case.
    pub(super) fn of(line: &str) -> Self {
        let places = split(line).into_iter().enumerate().map(|(at, name)| (name.trim().to_lowercase(), at)).collect();
        Self { places }
    }

    /// Whether a line names all of these.
    pub(super) fn are_named(look: &Look<'_>, names: [&str; 3]) -> bool {
        let Look::Text(line) = look else { return false };
        let columns = Self::of(line);
        names.into_iter().all(|name| columns.places.contains_key(name))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What stands in the column of this name; `None` where the file has none, or nothing stands there.
    pub(super) fn get<'a>(&self, row: &'a [String], name: &str) -> Option<&'a str> {
        let text = row.get(*self.places.get(name)?)?.trim();
        (!text.is_empty()).then_some(text)
    }
}

/// The values of a line. One in quotes may hold commas, and quotes that are doubled.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut in_quotes = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if in_quotes && chars.peek() == Some(&'"') => {
                chars.next();
                push(&mut values, '"');
            }
            '"' => in_quotes = !in_quotes,
            ',' if !in_quotes => values.push(String::new()),
            char => push(&mut values, char),
        }
    }
    values
}

fn push(values: &mut [String], char: char) {
    if let Some(last) = values.last_mut() {
        last.push(char);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_commas_outside_quotes() {
        for (line, values) in [
            ("a,b", &["a", "b"][..]),
            ("", &[""]),
            (",", &["", ""]),
            ("\"a,b\",\"say \"\"x\"\"\"", &["a,b", "say \"x\""]),
            ("\"open,", &["open,"]),
        ] {
            assert_eq!(split(line), values, "{line}");
        }
        let columns = Columns::of("TIMESTAMP, Total Tokens");
        let row = split("1,2");
        assert_eq!((columns.get(&row, "timestamp"), columns.get(&row, "total tokens")), (Some("1"), Some("2")));
        assert_eq!((columns.get(&row, "other"), columns.get(&split("1"), "total tokens")), (None, None));
    }
}
