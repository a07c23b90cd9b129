//! An answer as it came over a socket, taken apart as far as measurements need it.

use super::http::is_ok;

/// Everything that was read of an answer until its connection was closed.
#[derive(Debug)]
pub(crate) struct Answer {
    text: String,
    /// Bytes of status line and headers; none where they did not come to their end.
    head_bytes: usize,
}

impl Answer {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let head_bytes = text.find("\r\n\r\n").map_or(0, |end| end + 4);
        Self { text, head_bytes }
    }

    /// Whether its status is 200.
    pub(crate) fn is_ok(&self) -> bool {
        is_ok(&self.text)
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.text[..self.head_bytes].lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The body, with the framing of its chunks if it has any.
    pub(crate) fn body(&self) -> &str {
        &self.text[self.head_bytes..]
    }

    /// Whether it came to its end, by its own framing.
    pub(crate) fn is_complete(&self) -> bool {
        let length = self.header("content-length").and_then(|length| length.parse::<usize>().ok());
        match length {
            _ if self.head_bytes == 0 => false,
            Some(length) => self.body().len() == length,
            None => self.body() == "0\r\n\r\n" || self.body().ends_with("\r\n0\r\n\r\n"),
        }
    }
}

/// The sum of all samples of a metric on a page in Prometheus' text format.
pub(crate) fn sum_of(page: &str, metric: &str) -> f64 {
    let samples =
        page.lines().filter(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' '])));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_only_by_its_own_framing() {
        let cases = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh", false),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", false),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n", false),
            ("", false),
        ];
        for (text, is_complete) in cases {
            assert_eq!(Answer::of(text.as_bytes()).is_complete(), is_complete, "{text:?}");
        }
    }

    #[test]
    fn a_header_is_found_whatever_its_case_and_never_in_the_body() {
        let answer = Answer::of(b"HTTP/1.1 200 OK\r\nX-Kvroute-Replica: r1\r\n\r\nx-other: no");
        assert_eq!(answer.header("x-kvroute-replica"), Some("r1"));
        assert_eq!(answer.header("x-other"), None);
    }

    #[test]
    fn samples_of_one_metric_are_summed_and_those_of_a_longer_name_are_not() {
        let page = "# TYPE a gauge\na{replica=\"x y\"} 2\na{replica=\"z\"} 3.5\na_total 100\na_b{c=\"d\"} 50\n";
        assert_eq!(sum_of(page, "a"), 5.5);
        assert_eq!(sum_of(page, "absent"), 0.0);
    }
}
