//! Lines for the reader of a terminal or a CI log. A reader who left (`| head`) is no error.

/// Prints a line of progress or an error to standard error.
macro_rules! note {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}

/// Prints a line of the result to standard output.
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}

pub(crate) use {note, say};
