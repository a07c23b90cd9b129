//! What a run of figures says on the terminal and to programs.

use serde_json::{Value, json};

use super::figure::{Figure, Measured};
use crate::machine::Machine;

const HEADER: [&str; 6] = ["figure", "value", "unit", "bar", "holds", "measured"];

/// A table with a line for each figure.
pub(crate) fn table(measured: &[Measured]) -> String {
    let rows: Vec<[String; 6]> = std::iter::once(HEADER.map(str::to_owned)).chain(measured.iter().map(row)).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let lines = rows.iter().map(|[figure, value, unit, bar, holds, how]| {
        let [w0, w1, w2, w3, w4, _] = widths;
        format!("{figure:<w0$}  {value:>w1$}  {unit:<w2$}  {bar:<w3$}  {holds:<w4$}  {how}").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn row(measured: &Measured) -> [String; 6] {
    let Figure { name, unit, footing, .. } = measured.figure;
    let detail = measured.detail();
    let how = if detail.is_empty() { footing.as_str().to_owned() } else { format!("{}: {detail}", footing.as_str()) };
    [(*name).to_owned(), measured.value(), (*unit).to_owned(), measured.bar(), measured.verdict().to_owned(), how]
}

/// `{"machine": {...}, "date": "YYYY-MM-DD", "figures": [...]}`, indented. A figure has `name`, `group`, `value` (not
/// rounded; null where it could not be measured), `unit`, `bar` (null where nothing is promised), `holds` (likewise),
/// `measured`, `how` and `detail`.
pub(crate) fn json(measured: &[Measured], machine: &Machine) -> String {
    let figures: Vec<Value> = measured.iter().map(figure).collect();
    let machine = json!({
        "date": machine.date,
        "machine": {
            "cpu": machine.cpu, "cores": machine.cores, "memory_bytes": machine.memory_bytes, "os": machine.os,
        },
        "figures": figures,
    });
    format!("{machine:#}")
}

fn figure(measured: &Measured) -> Value {
    let Figure { name, group, unit, bar, footing, how } = measured.figure;
    json!({
        "name": name,
        "group": group,
        "value": measured.reading.as_ref().ok().map(|reading| reading.value),
        "unit": unit,
        "bar": bar.map(|bar| bar.to_string()),
        "holds": measured.holds(),
        "measured": footing.as_str(),
        "how": how,
        "detail": measured.detail(),
    })
}

/// Each group with its figures, one a line.
pub(crate) fn names(figures: impl Iterator<Item = &'static Figure>) -> String {
    figures.map(|figure| format!("  {} {}", figure.group, figure.name)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::figure::{Bar, Footing, Reading};
    use super::*;

    static MOVED: Figure = Figure {
        name: "keys_moved",
        group: "slice",
        unit: "%",
        bar: Some(Bar::AtMost(16.0)),
        footing: Footing::Exact,
        how: "keys with another home",
    };
    static HIT: Figure = Figure {
        name: "demo_cache_hit",
        group: "slice",
        unit: "%",
        bar: None,
        footing: Footing::Simulated,
        how: "what engines reused",
    };

    /// A figure that fails its bar, and one that only informs.
    pub(crate) fn two() -> [Measured; 2] {
        [
            Measured { figure: &MOVED, reading: Ok(Reading::new("keys_moved", 20.5, "2,050 keys".to_owned())) },
            Measured { figure: &HIT, reading: Ok(Reading::new("demo_cache_hit", 81.0, String::new())) },
        ]
    }

    pub(crate) fn machine() -> Machine {
        Machine {
            date: "2026-02-03".to_owned(),
            cpu: "Some CPU".to_owned(),
            cores: 2,
            memory_bytes: Some(16 << 30),
            os: "Some OS".to_owned(),
        }
    }

    #[test]
    fn the_table_is_aligned_and_a_figure_that_fails_is_plain_to_see() {
        let expected = "\
figure          value  unit  bar    holds  measured
keys_moved       20.5  %     <= 16  no     exact: 2,050 keys
demo_cache_hit     81  %                   simulated";
        assert_eq!(table(&two()), expected);
    }

    #[test]
    fn json_has_the_value_unrounded_and_null_where_nothing_is_promised() {
        let read: Value = serde_json::from_str(&json(&two(), &machine())).unwrap();
        assert_eq!(read["date"], "2026-02-03");
        assert_eq!(read["machine"]["cores"], 2);
        let [moved, hit] = [&read["figures"][0], &read["figures"][1]];
        assert_eq!((&moved["value"], &moved["bar"], &moved["holds"]), (&json!(20.5), &json!("<= 16"), &json!(false)));
        assert_eq!((&hit["bar"], &hit["holds"], &hit["measured"]), (&Value::Null, &Value::Null, &json!("simulated")));
    }
}
