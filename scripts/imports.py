"""Which files of a crate import names from which others, and the circles that they form.

Read are `use` declarations, and paths that begin with `crate`, `super` or a module; re-exports (`pub use`) are followed to
the file that defines the name, and count as no import themselves. Test modules, comments and strings are left out.
"""

import re
from collections import defaultdict

USE = re.compile(r"(?P<exported>pub(?:\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]+);")
PATH = re.compile(r"(?<![\w:])((?:crate|super|self|[a-z_]\w*)(?:::\w+)+)")
DEFINITION = r"\b(?:struct|enum|trait|fn|const|static|type)\s+{}\b"


def without_noise(source):
    """Source without comments, strings and the tests at its end."""
    source = re.sub(r"//[^\n]*", "", source)
    source = re.sub(r'"(?:\\.|[^"\\])*"', '""', source, flags=re.DOTALL)
    return source.split("#[cfg(test)]\nmod tests {")[0]


def leaves(prefix, tree):
    """The paths of a `use` tree, each as a list of segments, with the name that it gets."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = (part.strip() for part in tree.partition(" as "))
        segments = prefix + [segment.strip() for segment in path.split("::") if segment.strip()]
        if segments:
            yield segments, alias or segments[-1]
        return
    head = prefix + [segment.strip() for segment in tree[:brace].split("::") if segment.strip()]
    depth, start, inner = 0, 0, tree[brace + 1 : tree.rindex("}")]
    for at, letter in enumerate(inner + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield from leaves(head, inner[start:at])
            start = at + 1


class Crate:
    """The modules of a crate below `root`, by their paths as tuples; the root module is the empty tuple."""

    def __init__(self, root):
        self.sources = {}
        for path in sorted(root.rglob("*.rs")):
            parts = path.relative_to(root).with_suffix("").parts
            if "tests" in parts:
                continue
            module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
            self.sources[module] = without_noise(path.read_text(encoding="utf-8"))
        self.exports = {module: {} for module in self.sources}
        self.globs = defaultdict(list)
        self.paths = {module: self._paths_of(module) for module in self.sources}

    def _paths_of(self, module):
        """The absolute paths that a module names; its re-exports are put down for `_resolved`."""
        found = []
        for use in USE.finditer(self.sources[module]):
            for segments, alias in leaves([], use["tree"]):
                path = self._absolute(module, segments)
                if path is None:
                    continue
                if not use["exported"]:
                    found.append(path)
                elif alias == "*":
                    self.globs[module].append(tuple(path[:-1]))
                else:
                    self.exports[module][alias] = path
        for path in PATH.findall(USE.sub("", self.sources[module])):
            absolute = self._absolute(module, path.split("::"))
            if absolute is not None:
                found.append(absolute)
        return found

    def _absolute(self, module, segments):
        """A path from the crate's root; None if it leads to another crate."""
        base, rest = list(module), list(segments)
        if rest[0] == "crate":
            return rest[1:]
        if rest[0] not in ("super", "self"):
            return base + rest if module + (rest[0],) in self.sources else None
        while rest and rest[0] in ("super", "self"):
            base = base[:-1] if rest[0] == "super" else base
            rest = rest[1:]
        return base + rest

    def _resolved(self, path, depth=0):
        """The module that defines what a path names; None for a module as such."""
        for length in range(len(path), -1, -1):
            module = tuple(path[:length])
            if module not in self.sources:
                continue
            if length == len(path):
                return None
            name = path[length]
            if name in self.exports[module] and depth < 9:
                return self._resolved(self.exports[module][name] + path[length + 1 :], depth + 1)
            for other in self.globs[module]:
                if re.search(DEFINITION.format(re.escape(name)), self.sources.get(other, "")):
                    return other
            return module
        return None

    def arrows(self):
        """For each module the modules that it imports from."""
        arrows = {module: set() for module in self.sources}
        for module, paths in self.paths.items():
            targets = {self._resolved(path) for path in paths}
            arrows[module] = targets - {None, module}
        return arrows

    def circles(self):
        """Sets of two or more modules that import each other, the largest first (Tarjan's algorithm)."""
        arrows, order, low, stack, circles = self.arrows(), {}, {}, [], []

        def visit(module):
            order[module] = low[module] = len(order)
            stack.append(module)
            for target in sorted(arrows[module]):
                if target not in order:
                    visit(target)
                    low[module] = min(low[module], low[target])
                elif target in stack:
                    low[module] = min(low[module], order[target])
            if low[module] == order[module]:
                at = stack.index(module)
                circles.append(frozenset(stack[at:]))
                del stack[at:]

        for module in self.sources:
            if module not in order:
                visit(module)
        return sorted((circle for circle in circles if len(circle) > 1), key=len, reverse=True)


def shown(module):
    """A module as a path."""
    return "/".join(module) or "lib"
