//! A part of a document that a habit writes again, between two comments with its name, so that the rest may be anybody's.

/// The page with the section replaced, or added at the end.
pub(crate) fn put(page: &str, name: &str, section: &str) -> String {
    let (begin, end) = marks(name);
    let section = format!("{begin}{section}{end}");
    match place(page, name) {
        Some((from, to)) => format!("{}{section}{}", &page[..from - begin.len()], &page[to + end.len()..]),
        None => format!("{}\n\n{section}", page.trim_end()),
    }
}

/// What the section says, without its comments.
pub(crate) fn get<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    place(page, name).map(|(from, to)| &page[from..to])
}

fn place(page: &str, name: &str) -> Option<(usize, usize)> {
    let (begin, end) = marks(name);
    let from = page.find(&begin)? + begin.len();
    Some((from, from + page[from..].find(&end)?))
}

fn marks(name: &str) -> (String, String) {
    (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_where_it_stands_and_the_others_stay() {
        let page = put(&put("# Title\n", "slice", "old\n"), "router", "theirs\n");
        assert_eq!(
            put(&page, "slice", "new\n"),
            "# Title\n\n<!-- slice -->\nnew\n<!-- /slice -->\n\n<!-- router -->\ntheirs\n<!-- /router -->\n"
        );
    }

    #[test]
    fn what_was_put_is_what_one_gets() {
        assert_eq!(get(&put("# Title\n", "slice", "one\ntwo\n"), "slice"), Some("one\ntwo\n"));
        assert_eq!(get("# Title\n", "slice"), None);
        assert_eq!(get("<!-- slice -->\nwithout an end\n", "slice"), None);
    }
}
