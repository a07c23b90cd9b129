//! The metrics page, read.

use std::collections::BTreeSet;

/// The page at one moment.
#[derive(Debug)]
pub(crate) struct Page(pub(crate) String);

impl Page {
    /// Lines with a sample: name with labels, and value.
    fn samples(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '))
    }

    /// The sum of the samples called `name` that have all these labels (`key="value"`); 0 where there are none.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let matching = self.samples().filter(|(series, _)| {
            let (series_name, of_series) = series.split_once('{').unwrap_or((series, ""));
            series_name == name && labels.iter().all(|label| of_series.contains(label))
        });
        matching.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    }

    /// All series: names with their labels.
    pub(crate) fn series(&self) -> BTreeSet<String> {
        self.samples().map(|(series, _)| series.to_owned()).collect()
    }

    /// All families with their types.
    pub(crate) fn families(&self) -> BTreeSet<(String, String)> {
        let types = self.0.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.map(|line| line.split_once(' ').unwrap()).map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
    }
}
