//! The report on circles: per crate, how many top modules it has, and which of them import each other.

use crate::imports::CrateImports;
use crate::tree::Tree;

/// A line for each crate of the workspace, and one for each of its circles.
pub(crate) fn report(tree: &Tree) -> String {
    let manifests = tree.files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let crates = manifests.filter(|folder| !folder.contains('/'));
    let crates = crates.filter_map(|folder| Some((folder, CrateImports::of(tree, folder)?)));
    crates.map(|(folder, imports)| lines(folder, &imports)).collect()
}

fn lines(folder: &str, imports: &CrateImports) -> String {
    let circles = imports.circles();
    let in_circles: usize = circles.iter().map(Vec::len).sum();
    let head = format!("{folder}: {} modules, {in_circles} in circles\n", imports.modules.len());
    let circles = circles.iter().map(|circle| format!("    {}: {}\n", circle.len(), circle.join(", ")));
    std::iter::once(head).chain(circles).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_each_crate_with_its_circles() {
        let tree = Tree::of([
            ("fuzz/a/Cargo.toml", ""),
            ("x/Cargo.toml", ""),
            ("x/src/lib.rs", ""),
            ("x/src/a.rs", "use crate::b;\n"),
            ("x/src/b.rs", "use crate::a;\n"),
            ("x/src/c.rs", "use crate::a;\n"),
            ("y/Cargo.toml", ""),
            ("y/src/main.rs", ""),
        ]);
        let expected = "x: 3 modules, 2 in circles\n    2: a, b\ny: 0 modules, 0 in circles\n";
        assert_eq!(report(&tree), expected);
    }
}
