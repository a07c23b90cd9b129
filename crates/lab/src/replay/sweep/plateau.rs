//! The largest set of good neighbours, and its middle.

use std::collections::VecDeque;

/// Cells of a grid, the last axis running fastest.
pub(super) struct Grid<'a> {
    /// Values of each axis.
    pub(super) sizes: &'a [usize],
    /// Whether each cell is as good as the best.
    pub(super) good: &'a [bool],
    /// What is to be small.
    pub(super) costs: &'a [f64],
}

impl Grid<'_> {
    /// The cells of the largest set of good neighbours (of several as large, the one with the best cell), and the one of
    /// them that is farthest from everything that is not in it. The edge of the grid counts as half an edge: beyond it
    /// nothing is known.
    pub(super) fn plateau(&self, best: usize) -> (Vec<usize>, usize) {
        let mut seen = vec![false; self.good.len()];
        let mut largest: Vec<usize> = vec![best];
        for start in 0..self.good.len() {
            if self.good[start] && !seen[start] {
                let set = self.reachable(start, &mut seen);
                let is_larger = set.len() > largest.len() || set.len() == largest.len() && set.contains(&best);
                if is_larger {
                    largest = set;
                }
            }
        }
        let depth = self.depths(&largest);
        let middle = largest
            .iter()
            .copied()
            .max_by(|a, b| depth[*a].cmp(&depth[*b]).then(self.costs[*b].total_cmp(&self.costs[*a])).then(b.cmp(a)));
        let middle = middle.unwrap_or(best);
        (largest, middle)
    }

    fn reachable(&self, start: usize, seen: &mut [bool]) -> Vec<usize> {
        let (mut set, mut next) = (Vec::new(), VecDeque::from([start]));
        seen[start] = true;
        while let Some(cell) = next.pop_front() {
            set.push(cell);
            for neighbour in self.neighbours(cell) {
                if self.good[neighbour] && !std::mem::replace(&mut seen[neighbour], true) {
                    next.push_back(neighbour);
                }
            }
        }
        set.sort_unstable();
        set
    }

    /// Twice the steps from each cell of the set to the nearest that is not in it.
    fn depths(&self, set: &[usize]) -> Vec<usize> {
        let mut depth = vec![usize::MAX; self.good.len()];
        (0..depth.len()).filter(|cell| set.binary_search(cell).is_err()).for_each(|cell| depth[cell] = 0);
        for &cell in set {
            if self.place(cell).iter().zip(self.sizes).any(|(at, size)| *size > 1 && (*at == 0 || at + 1 == *size)) {
                depth[cell] = 1;
            }
        }
        // Grids are small, so no queue: as many rounds as there are cells would be the worst.
        loop {
            let mut is_settled = true;
            for &cell in set {
                let nearest = self.neighbours(cell).map(|neighbour| depth[neighbour]).min().unwrap_or(usize::MAX);
                let through = nearest.saturating_add(2);
                if through < depth[cell] {
                    depth[cell] = through;
                    is_settled = false;
                }
            }
            if is_settled {
                return depth;
            }
        }
    }

    fn place(&self, mut cell: usize) -> Vec<usize> {
        let mut place = vec![0; self.sizes.len()];
        for (at, size) in place.iter_mut().zip(self.sizes).rev() {
            (*at, cell) = (cell % size, cell / size);
        }
        place
    }

    fn neighbours(&self, cell: usize) -> impl Iterator<Item = usize> {
        let place = self.place(cell);
        let mut found = Vec::with_capacity(2 * self.sizes.len());
        let mut stride = 1;
        for (at, size) in place.iter().zip(self.sizes).rev() {
            if *at > 0 {
                found.push(cell - stride);
            }
            if at + 1 < *size {
                found.push(cell + stride);
            }
            stride *= size;
        }
        found.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plateau(sizes: &[usize], costs: &[f64], limit: f64) -> (Vec<usize>, usize) {
        let good: Vec<bool> = costs.iter().map(|cost| *cost <= limit).collect();
        let best = (0..costs.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap();
        Grid { sizes, good: &good, costs }.plateau(best)
    }

    #[test]
    fn the_middle_of_the_broad_good_is_taken_and_not_the_narrow_best() {
        let costs = [90.0, 500.0, 101.0, 100.0, 102.0, 103.0, 101.0, 500.0];
        assert_eq!(plateau(&[8], &costs, 105.0), (vec![2, 3, 4, 5, 6], 4));
    }

    #[test]
    fn on_a_grid_the_cell_farthest_from_the_edge_of_the_plateau_is_taken() {
        #[rustfmt::skip]
        let costs = [
            9.0, 9.0, 9.0, 9.0, 9.0,
            9.0, 1.0, 1.0, 1.0, 9.0,
            9.0, 1.0, 1.2, 0.9, 9.0,
            9.0, 1.0, 1.0, 1.0, 9.0,
            9.0, 9.0, 9.0, 9.0, 9.0,
        ];
        let (cells, middle) = plateau(&[5, 5], &costs, 1.5);
        assert_eq!((cells.len(), middle), (9, 12));
    }

    #[test]
    fn what_lies_inside_is_taken_before_what_lies_at_the_end_of_an_axis() {
        assert_eq!(plateau(&[4], &[1.0, 1.0, 1.0, 1.0], 1.0).1, 1);
        assert_eq!(plateau(&[1, 3], &[1.0, 1.0, 1.0], 1.0).1, 1);
        assert_eq!(plateau(&[1], &[1.0], 1.0), (vec![0], 0));
    }
}
